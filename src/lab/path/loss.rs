//! Models of packet loss that is not caused by a full queue. Pure.

use std::str::FromStr;
use std::sync::Arc;

use derive_more::Display;
use serde::{Deserialize, Serialize};

use super::named::{NamedValues, parse};
use super::trace_file;
use shared::sanitize::shown;
use shared::units::{ParseError, Share, serde_as_text};

#[derive(Debug, Clone, PartialEq, Display, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LossModel {
    /// Every packet is lost with this probability, independently of the others.
    Independent(Share),
    Gilbert(Gilbert),
    Bursts(Bursts),
    #[display("{}", shown(&_0.name))]
    Positions(LossPositions),
}

/// The model of Gilbert and Elliott as in tc-netem's `gemodel`. It has a good and a bad state, and begins in the good
/// one. Each packet is lost with the probability of the state, which may then change.
///
/// Source: E. Gilbert, "Capacity of a burst-noise channel", 1960; E. Elliott, "Estimates of error rates for codes on
/// burst-noise channels", 1963; tc-netem(8).
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("gilbert:p={},r={},1-h={},1-k={}", to_bad.exact(), to_good.exact(), bad_loss.exact(), good_loss.exact())]
pub struct Gilbert {
    /// `p`: probability to go from good to bad.
    pub to_bad: Share,
    /// `r`: probability to go from bad to good.
    pub to_good: Share,
    /// `1-h`: loss probability in the bad state.
    pub bad_loss: Share,
    /// `1-k`: loss probability in the good state.
    pub good_loss: Share,
}

/// Runs of consecutive losses. The lengths of runs, and of the gaps between them, have geometric distributions.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("bursts:loss={},mean={mean_pkts}", loss.exact())]
pub struct Bursts {
    /// Share of all packets that are lost.
    pub loss: Share,
    /// Mean length of a run, at least 1.
    pub mean_pkts: f64,
}

/// Numbers of the lost packets, counted from 1 over all packets that enter the direction in a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LossPositions {
    /// As it was written: `trace:losses.txt`.
    pub name: String,
    pub count: usize,
    /// SHA-256 of the numbers. A plan has this instead of the numbers.
    pub sha256: String,
    /// Ascending. Empty if it was read from a plan.
    #[serde(skip)]
    pub positions: Arc<[u64]>,
}

impl PartialEq for LossPositions {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.sha256) == (&other.name, &other.sha256)
    }
}

/// A loss model as it is written. A file is not yet read.
#[derive(Debug, Clone, PartialEq)]
pub enum LossText {
    Model(LossModel),
    /// Name of a file with positions.
    File(String),
}

/// Largest mean length of a run.
const MEAN_MAX: f64 = 1e6;
/// Marks the name of a file.
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
            Some(("gilbert", _)) => text.parse().map(LossModel::Gilbert).map_err(named),
            Some(("bursts", _)) => text.parse().map(LossModel::Bursts).map_err(named),
            Some(("positions", rest)) => positions_in(rest).map(LossModel::Positions).map_err(named),
            Some(("trace", file)) if !file.is_empty() => return Ok(LossText::File(file.to_owned())),
            Some(_) => Err(ParseError::new(text, EXPECTED)),
        };
        model.map(LossText::Model)
    }
}

const ONE: &str = "a unit: write 1% or 100%";
/// What is expected of packet numbers.
const ORDER: &str = "each packet number once, in order";

fn positions_in(list: &str) -> Result<LossPositions, String> {
    let number = |text: &str| {
        text.trim().parse::<u64>().map_err(|_| format!("\"{}\": expected packet numbers from 1", shown(text)))
    };
    LossPositions::new(format!("positions:{list}"), list.split(',').map(number).collect::<Result<_, _>>()?)
}

impl LossPositions {
    /// # Errors
    /// No number, a 0, or numbers that are not ascending.
    pub fn new(name: String, positions: Vec<u64>) -> Result<Self, String> {
        if positions.is_empty() {
            return Err("expected at least one packet number".to_owned());
        }
        if positions[0] == 0 {
            return Err("0: the first packet is 1".to_owned());
        }
        if let Some(pair) = positions.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(format!("{} after {}: expected {ORDER}", pair[1], pair[0]));
        }
        let sha256 = trace_file::digest(positions.iter().copied());
        Ok(LossPositions { name, count: positions.len(), sha256, positions: positions.into() })
    }

    /// Reads a file with one number per line.
    ///
    /// # Errors
    /// Those of [`trace_file::numbers`] and [`LossPositions::new`].
    pub fn read(file: &str, text: &str) -> Result<Self, String> {
        let numbers = trace_file::numbers(text, 1..=u64::MAX, (u64::lt, ORDER))?;
        LossPositions::new(format!("{FILE_PREFIX}{file}"), numbers)
    }
}

impl FromStr for Gilbert {
    type Err = String;

    /// Reads `gilbert:p=1%,r=25%,1-h=100%,1-k=0%`. The defaults are those of tc-netem: `r` is 1-p, `1-h` is 100 %, and
    /// `1-k` is 0 %.
    fn from_str(text: &str) -> Result<Self, String> {
        let values = text.strip_prefix("gilbert:").ok_or("another model")?;
        let named = NamedValues::split(values, ["p", "r", "1-h", "1-k"])?;
        let to_bad: Share = named.required("p", "p=1%", parse)?;
        let model = Gilbert {
            to_bad,
            to_good: named.optional("r", parse)?.unwrap_or(Share(1.0 - to_bad.0)),
            bad_loss: named.optional("1-h", parse)?.unwrap_or(Share(1.0)),
            good_loss: named.optional("1-k", parse)?.unwrap_or(Share(0.0)),
        };
        let is_stuck = model.to_bad.0 > 0.0 && model.to_good.0 == 0.0;
        if is_stuck { Err("r = 0%: expected more: nothing leads out of the bad state".to_owned()) } else { Ok(model) }
    }
}

impl FromStr for Bursts {
    type Err = String;

    /// Reads `bursts:loss=1%,mean=4`.
    fn from_str(text: &str) -> Result<Self, String> {
        let values = text.strip_prefix("bursts:").ok_or("another model")?;
        let named = NamedValues::split(values, ["loss", "mean"])?;
        let loss: Share = named.required("loss", "loss=1%", parse)?;
        let in_range = |text: &str| {
            let number = text.parse().ok().filter(|number| (1.0..=MEAN_MAX).contains(number));
            number.ok_or_else(|| format!("\"{}\": expected packets from 1 to {MEAN_MAX}", shown(text)))
        };
        let mean_pkts: f64 = named.required("mean", "mean=4", in_range)?;
        // At least one packet between two runs is not lost.
        let most = mean_pkts / (mean_pkts + 1.0);
        if loss.0 > most {
            return Err(format!("loss = {loss}: expected at most {} for runs of {mean_pkts}", Share(most)));
        }
        Ok(Bursts { loss, mean_pkts })
    }
}

impl Bursts {
    /// The equivalent model with two states.
    pub(crate) fn gilbert(&self) -> Gilbert {
        let to_good = 1.0 / self.mean_pkts;
        // loss = p / (p + r)
        let to_bad = (self.loss.0 * to_good / (1.0 - self.loss.0)).min(1.0);
        Gilbert { to_bad: Share(to_bad), to_good: Share(to_good), bad_loss: Share(1.0), good_loss: Share(0.0) }
    }
}

serde_as_text!(Gilbert => ToString::to_string, Bursts => ToString::to_string);

impl From<Share> for LossModel {
    fn from(share: Share) -> Self {
        LossModel::Independent(share)
    }
}

/// No loss.
impl Default for LossModel {
    fn default() -> Self {
        LossModel::Independent(Share::default())
    }
}

/// Moments of the number of lost packets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedLosses {
    pub mean: f64,
    pub variance: f64,
}

impl LossModel {
    /// None: losses depend on each other.
    pub fn independent(&self) -> Option<Share> {
        match self {
            LossModel::Independent(share) => Some(*share),
            _ => None,
        }
    }

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

    /// The equivalent model with two states.
    ///
    /// None: losses are independent, or positions are given.
    pub(crate) fn gilbert(&self) -> Option<Gilbert> {
        match self {
            LossModel::Gilbert(model) => Some(*model),
            LossModel::Bursts(model) => Some(model.gilbert()),
            LossModel::Independent(_) | LossModel::Positions(_) => None,
        }
    }

    /// Share of packets that are lost in the long run. With given positions, the share up to the last position.
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

    /// Losses among the first `packets`.
    ///
    /// Source: for two states, sums of the correlation (1-p-r)^n between the states that are n packets apart.
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
    /// Share of packets in the bad state: p / (p + r).
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
        // 1 - decay is p + r, which is above 0 if the bad state is ever reached.
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
