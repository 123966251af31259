//! How a direction of a link loses packets by itself, apart from its queue: the models, as text and as numbers. Pure.

use std::str::FromStr;
use std::sync::Arc;

use derive_more::Display;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::named::{Named, needed};
use super::trace_file;
use crate::plain::shown;
use crate::units::{ParseError, Share};

/// What decides whether a packet that enters a direction is lost.
#[derive(Debug, Clone, PartialEq, Display, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LossModel {
    /// Every packet with this probability, whatever became of the others.
    Independent(Share),
    /// A good and a bad state with a probability each.
    Gilbert(Gilbert),
    /// Runs of losses with a share and a mean length.
    Bursts(Bursts),
    /// The packets with these numbers.
    #[display("{}", shown(&_0.name))]
    Positions(LossPositions),
}

/// The model of Gilbert and Elliott, with the parameters and the order of tc-netem's `gemodel`: a packet is lost by the
/// probability of the state it meets, then the state changes. The first packet meets the good one.
///
/// Source: E. Gilbert, "Capacity of a burst-noise channel", 1960; E. Elliott, "Estimates of error rates for codes on
/// burst-noise channels", 1963; tc-netem(8).
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("gilbert:p={},r={},1-h={},1-k={}", to_bad.exact(), to_good.exact(), bad_loss.exact(), good_loss.exact())]
pub struct Gilbert {
    /// `p`: from good to bad.
    pub to_bad: Share,
    /// `r`: from bad to good.
    pub to_good: Share,
    /// `1-h`: loss in the bad state.
    pub bad_loss: Share,
    /// `1-k`: loss in the good state.
    pub good_loss: Share,
}

/// Runs of losses: each run's length is geometric with this mean, and so is the way to the next.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("bursts:loss={},mean={mean_pkts}", loss.exact())]
pub struct Bursts {
    /// Share of all packets that is lost.
    pub loss: Share,
    /// Mean packets of a run, from 1.
    pub mean_pkts: f64,
}

/// Numbers of the packets that are lost, counted from 1 over everything that enters the direction in a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LossPositions {
    /// As it was written: `trace:losses.txt`.
    pub name: String,
    pub count: usize,
    /// SHA-256 of the numbers: a plan keeps this in their place.
    pub sha256: String,
    /// Ascending; empty where only the plan was read.
    #[serde(skip)]
    pub positions: Arc<[u64]>,
}

impl PartialEq for LossPositions {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.sha256) == (&other.name, &other.sha256)
    }
}

/// A loss model as it is written: complete, or in a file that is still to be read.
#[derive(Debug, Clone, PartialEq)]
pub enum LossText {
    Model(LossModel),
    /// Positions in the file of this name.
    File(String),
}

/// The names of [`Gilbert`], as tc-netem has them.
const GILBERT_NAMES: [&str; 4] = ["p", "r", "1-h", "1-k"];
/// The names of [`Bursts`].
const BURSTS_NAMES: [&str; 2] = ["loss", "mean"];
/// Longest mean of a run.
const MEAN_MAX: f64 = 1e6;
/// Prefix of a file's name.
pub(crate) const FILE_PREFIX: &str = "trace:";
const EXPECTED: &str = "a share such as 1%, gilbert:p=1%,r=25%,1-h=100%,1-k=0%, bursts:loss=1%,mean=4, \
                        positions:3,17 or trace:FILE";

impl FromStr for LossText {
    type Err = ParseError;

    /// Reads `1%`, `gilbert:p=1%,r=25%`, `bursts:loss=1%,mean=4`, `positions:3,17` or `trace:FILE`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let named = |why: String| ParseError::because(text, why);
        let model = match text.split_once(':') {
            None => {
                let share = text.parse().map(LossModel::Independent);
                let expected = if text.trim() == "1" { ONE } else { EXPECTED };
                share.map_err(|_| ParseError::new(text, expected))
            }
            Some(("gilbert", rest)) => rest.parse().map(LossModel::Gilbert).map_err(named),
            Some(("bursts", rest)) => rest.parse().map(LossModel::Bursts).map_err(named),
            Some(("positions", rest)) => positions_in(rest).map(LossModel::Positions).map_err(named),
            Some(("trace", file)) if !file.is_empty() => return Ok(LossText::File(file.to_owned())),
            Some(_) => Err(ParseError::new(text, EXPECTED)),
        };
        model.map(LossText::Model)
    }
}

const ONE: &str = "a unit: write 1% or 100%";

fn positions_in(list: &str) -> Result<LossPositions, String> {
    let number = |text: &str| {
        text.trim().parse::<u64>().map_err(|_| format!("\"{}\": expected packet numbers from 1", shown(text)))
    };
    LossPositions::new(format!("positions:{list}"), list.split(',').map(number).collect::<Result<_, _>>()?)
}

impl LossPositions {
    /// The numbers under a name.
    ///
    /// Errors: none, 0, or one that is not larger than the one before.
    pub fn new(name: String, positions: Vec<u64>) -> Result<Self, String> {
        if positions.is_empty() {
            return Err("expected at least one packet number".to_owned());
        }
        if positions[0] == 0 {
            return Err("0: the first packet is 1".to_owned());
        }
        if let Some(pair) = positions.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("{} after {}: expected each packet number once, in order", pair[1], pair[0]));
        }
        let sha256 = trace_file::digest(positions.iter().copied());
        Ok(LossPositions { name, count: positions.len(), sha256, positions: positions.into() })
    }

    /// Reads the text of a file of them, one a line.
    ///
    /// Errors: those of [`trace_file::numbers`] and [`LossPositions::new`].
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let numbers = trace_file::numbers(text, 1..=u64::MAX)?;
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0].1 >= pair[1].1) {
            let [(_, before), (line, number)] = [pair[0], pair[1]];
            return Err(format!("line {line}: {number} after {before}: expected each packet number once, in order"));
        }
        LossPositions::new(format!("{FILE_PREFIX}{file}"), numbers.into_iter().map(|(_, number)| number).collect())
    }
}

impl FromStr for Gilbert {
    type Err = String;

    /// Reads `p=1%,r=25%,1-h=100%,1-k=0%`; without `r` it is 1-p, without the others a bad packet is lost and a good
    /// one is not, as in tc-netem.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Named::split(text, GILBERT_NAMES)?;
        let to_bad: Share = needed(named.value("p")?, "p", "p=1%")?;
        let model = Gilbert {
            to_bad,
            to_good: named.value("r")?.unwrap_or(Share(1.0 - to_bad.0)),
            bad_loss: named.value("1-h")?.unwrap_or(Share(1.0)),
            good_loss: named.value("1-k")?.unwrap_or(Share(0.0)),
        };
        let is_stuck = model.to_bad.0 > 0.0 && model.to_good.0 == 0.0;
        if is_stuck { Err("r = 0%: expected more: nothing leads out of the bad state".to_owned()) } else { Ok(model) }
    }
}

impl FromStr for Bursts {
    type Err = String;

    /// Reads `loss=1%,mean=4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Named::split(text, BURSTS_NAMES)?;
        let loss: Share = needed(named.value("loss")?, "loss", "loss=1%")?;
        let in_range = |text: &str| {
            let number = text.parse().ok().filter(|number| (1.0..=MEAN_MAX).contains(number));
            number.ok_or_else(|| format!("\"{}\": expected packets from 1 to {MEAN_MAX}", shown(text)))
        };
        let mean_pkts: f64 = needed(named.with("mean", in_range)?, "mean", "mean=4")?;
        // At least one packet passes between two runs.
        let most = mean_pkts / (mean_pkts + 1.0);
        if loss.0 > most {
            return Err(format!("loss = {loss}: expected at most {} for runs of {mean_pkts}", Share(most)));
        }
        Ok(Bursts { loss, mean_pkts })
    }
}

impl Bursts {
    /// The same as a model of two states.
    pub(crate) fn gilbert(&self) -> Gilbert {
        let to_good = 1.0 / self.mean_pkts;
        // loss = p / (p + r)
        let to_bad = (self.loss.0 * to_good / (1.0 - self.loss.0)).min(1.0);
        Gilbert { to_bad: Share(to_bad), to_good: Share(to_good), bad_loss: Share(1.0), good_loss: Share(0.0) }
    }
}

macro_rules! serde_as_text {
    ($($name:ident $prefix:literal),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let rest = text.strip_prefix($prefix).ok_or_else(|| serde::de::Error::custom("another model"))?;
                rest.parse().map_err(serde::de::Error::custom)
            }
        }
    )*};
}
serde_as_text!(Gilbert "gilbert:", Bursts "bursts:");

impl From<Share> for LossModel {
    fn from(share: Share) -> Self {
        LossModel::Independent(share)
    }
}

/// No loss.
impl Default for LossModel {
    fn default() -> Self {
        LossModel::Independent(Share(0.0))
    }
}

/// How many of a number of packets a model loses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedLosses {
    pub mean: f64,
    pub variance: f64,
}

impl LossModel {
    /// The loss probability of a model whose losses do not depend on each other; none for the others.
    pub fn independent(&self) -> Option<Share> {
        match self {
            LossModel::Independent(share) => Some(*share),
            _ => None,
        }
    }

    /// What is wrong with its numbers; none when nothing is.
    pub(crate) fn out_of_range(&self) -> Option<ParseError> {
        match self {
            LossModel::Independent(loss) if !(0.0..=1.0).contains(&loss.0) => {
                Some(ParseError::because(loss.0, "outside 0..1"))
            }
            LossModel::Positions(trace) if trace.positions.is_empty() => {
                Some(ParseError::because(&trace.name, "its packet numbers were not read"))
            }
            _ => None,
        }
    }

    /// The model of two states that loses as this one does; none for independent losses and given ones.
    pub(crate) fn gilbert(&self) -> Option<Gilbert> {
        match self {
            LossModel::Gilbert(model) => Some(*model),
            LossModel::Bursts(model) => Some(model.gilbert()),
            LossModel::Independent(_) | LossModel::Positions(_) => None,
        }
    }

    /// Share of packets that is lost in the long run; of given positions, up to the last.
    pub(crate) fn long_run(&self) -> Share {
        match self {
            LossModel::Independent(share) => *share,
            LossModel::Gilbert(model) => Share(model.long_run()),
            LossModel::Bursts(model) => model.loss,
            LossModel::Positions(trace) => {
                Share(trace.positions.last().map_or(0.0, |last| trace.count as f64 / *last as f64))
            }
        }
    }

    /// How many of the first packets are lost.
    ///
    /// Source: for two states, sums of the geometric decay (1-p-r)^n of what one packet's state says about a later one.
    pub fn expected(&self, packets: u64) -> ExpectedLosses {
        let n = packets as f64;
        match (self, self.gilbert()) {
            (_, Some(model)) => model.expected(n),
            (LossModel::Positions(trace), _) => {
                let mean = trace.positions.partition_point(|&position| position <= packets) as f64;
                ExpectedLosses { mean, variance: 0.0 }
            }
            _ => {
                let share = self.long_run().0;
                ExpectedLosses { mean: n * share, variance: n * share * (1.0 - share) }
            }
        }
    }
}

impl Gilbert {
    /// Share of packets that meets the bad state: p / (p + r).
    fn bad(&self) -> f64 {
        if self.to_bad.0 == 0.0 { 0.0 } else { self.to_bad.0 / (self.to_bad.0 + self.to_good.0) }
    }

    fn long_run(&self) -> f64 {
        self.bad() * self.bad_loss.0 + (1.0 - self.bad()) * self.good_loss.0
    }

    fn expected(&self, n: f64) -> ExpectedLosses {
        let (bad, loss) = (self.bad(), self.long_run());
        let apart = self.bad_loss.0 - self.good_loss.0;
        let decay = 1.0 - self.to_bad.0 - self.to_good.0;
        // 1 - decay is p + r, above 0 wherever the bad state is ever met.
        let (head, tail) = match self.to_bad.0 > 0.0 {
            true => ((1.0 - decay.powf(n).max(-1.0)) / (1.0 - decay), decay / (1.0 - decay)),
            false => (0.0, 0.0),
        };
        let mean = n * loss - apart * bad * head;
        let variance = n * loss * (1.0 - loss) + 2.0 * n * apart * apart * bad * (1.0 - bad) * tail;
        ExpectedLosses { mean, variance: variance.max(0.0) }
    }
}

#[cfg(test)]
mod tests;
