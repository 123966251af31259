//! The models of starts and sizes as scenarios write them.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};

use super::{normal, uniform};
use crate::path::loss::FILE_PREFIX;
use crate::path::named::{NamedValues, parse};
use shared::sanitize::shown;
use shared::units::{Bytes, ParseError, parse_duration, serde_as_text};

/// Ranges of the parameters.
const SIGMA: [f64; 2] = [0.01, 4.0];
const SHAPE: [f64; 2] = [0.1, 10.0];
const LOAD: [f64; 2] = [0.001, 10.0];
/// Smallest and largest size that is drawn.
const SIZE: [Bytes; 2] = [Bytes(1), Bytes(1_000_000_000_000)];

const ARRIVALS: &str = "poisson:mean=50ms, poisson:load=60% or trace:FILE";
const SIZES: &str = "a number with B, kB, MB, GB, KiB, MiB or GiB, such as 10MB, or a model such as \
                     lognormal:median=20kB,sigma=1.5 or pareto:shape=1.2,least=2kB,most=10MB";

/// `arrivals` as it is written.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrivals {
    Poisson(Poisson),
    /// Name of a file with starts and sizes.
    File(String),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poisson {
    pub rate: StartRate,
    /// Flows with the same number draw the same gaps and sizes.
    pub stream: Option<u32>,
}

/// How often transfers start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StartRate {
    /// The mean time between two starts.
    Mean(Duration),
    /// The payload per second as a share of the slowest link on the flow's path; may be above 1.
    Load(f64),
}

impl StartRate {
    /// The mean time between two starts of transfers with this mean size. `bps` is the rate of the slowest link.
    pub fn mean(self, bytes: f64, bps: f64) -> Option<Duration> {
        match self {
            StartRate::Mean(mean) => Some(mean),
            StartRate::Load(load) => Duration::try_from_secs_f64(8.0 * bytes / (load * bps)).ok(),
        }
    }
}

impl FromStr for Arrivals {
    type Err = ParseError;

    /// Reads `poisson:mean=50ms`, `poisson:load=60%`, either with `,stream=1`, or `trace:FILE`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(':') {
            Some(("poisson", rest)) => {
                poisson(rest).map(Arrivals::Poisson).map_err(|why| ParseError::because(text, why))
            }
            Some(_) => match text.strip_prefix(FILE_PREFIX).filter(|file| !file.is_empty()) {
                Some(file) => Ok(Arrivals::File(file.to_owned())),
                None => Err(ParseError::new(text, ARRIVALS)),
            },
            None => Err(ParseError::new(text, ARRIVALS)),
        }
    }
}

fn poisson(text: &str) -> Result<Poisson, String> {
    let named = NamedValues::split(text, ["mean", "load", "stream"])?;
    let mean = named.optional("mean", |text| match parse_duration(text)? {
        Duration::ZERO => Err(format!("\"{text}\": expected more than 0us")),
        mean => Ok(mean),
    })?;
    let load = named.optional("load", percent)?;
    let rate = match (mean, load) {
        (Some(mean), None) => StartRate::Mean(mean),
        (None, Some(load)) => StartRate::Load(load),
        (None, None) => return Err("mean or load is missing, such as mean=50ms or load=60%".to_owned()),
        (Some(_), Some(_)) => return Err("expected either mean or load".to_owned()),
    };
    let number = |text: &str| text.parse().map_err(|_| format!("\"{}\": expected a whole number", shown(text)));
    Ok(Poisson { rate, stream: named.optional("stream", number)? })
}

/// A share that may be above 1, so it needs its unit.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|number| number / 100.0).filter(|share| (LOAD[0]..=LOAD[1]).contains(share));
    let [low, high] = LOAD.map(|share| 100.0 * share);
    share.ok_or_else(|| format!("\"{}\": expected {low}% to {high}%", shown(text)))
}

/// The size of each transfer.
#[derive(Debug, Clone, Copy, PartialEq, Display, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sizes {
    Fixed(Bytes),
    Lognormal(Lognormal),
    Pareto(Pareto),
}

/// The logarithm of the size has a normal distribution.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("lognormal:median={median},sigma={sigma}")]
pub struct Lognormal {
    pub median: Bytes,
    /// Standard deviation of the natural logarithm.
    pub sigma: f64,
}

/// Pareto's distribution between two sizes: the probability of more than x is that of Pareto, given at most `most`.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("pareto:shape={shape},least={least},most={most}")]
pub struct Pareto {
    pub shape: f64,
    pub least: Bytes,
    pub most: Bytes,
}

impl FromStr for Sizes {
    type Err = ParseError;

    /// Reads `10MB`, `lognormal:median=20kB,sigma=1.5` or `pareto:shape=1.2,least=2kB,most=10MB`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let named = |why: String| ParseError::because(text, why);
        match text.split_once(':') {
            None => text
                .parse()
                .map(Sizes::Fixed)
                .map_err(|error: ParseError| ParseError { meant: error.meant, ..ParseError::new(text, SIZES) }),
            Some(("lognormal", _)) => text.parse().map(Sizes::Lognormal).map_err(named),
            Some(("pareto", _)) => text.parse().map(Sizes::Pareto).map_err(named),
            Some(_) => Err(ParseError::new(text, SIZES)),
        }
    }
}

impl FromStr for Lognormal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values = text.strip_prefix("lognormal:").ok_or("another model")?;
        let named = NamedValues::split(values, ["median", "sigma"])?;
        Ok(Lognormal {
            median: named.required("median", "median=20kB", size)?,
            sigma: named.required("sigma", "sigma=1.5", |text| number(text, SIGMA))?,
        })
    }
}

impl FromStr for Pareto {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let values = text.strip_prefix("pareto:").ok_or("another model")?;
        let named = NamedValues::split(values, ["shape", "least", "most"])?;
        let pareto = Pareto {
            shape: named.required("shape", "shape=1.2", |text| number(text, SHAPE))?,
            least: named.required("least", "least=2kB", size)?,
            most: named.required("most", "most=10MB", size)?,
        };
        let Pareto { least, most, .. } = pareto;
        if least < most { Ok(pareto) } else { Err(format!("most = \"{most}\": expected more than least, {least}")) }
    }
}

serde_as_text!(Lognormal => ToString::to_string, Pareto => ToString::to_string);

fn size(text: &str) -> Result<Bytes, String> {
    let [least, most] = SIZE;
    let size: Bytes = parse(text)?;
    (least..=most).contains(&size).then_some(size).ok_or_else(|| format!("\"{text}\": expected {least} to {most}"))
}

fn number(text: &str, [low, high]: [f64; 2]) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (low..=high).contains(number));
    number.ok_or_else(|| format!("\"{}\": expected a number from {low} to {high}", shown(text)))
}

impl Sizes {
    pub fn mean(&self) -> f64 {
        match *self {
            Sizes::Fixed(Bytes(size)) => size as f64,
            Sizes::Lognormal(Lognormal { median, sigma }) => median.0 as f64 * libm::exp(sigma * sigma / 2.0),
            Sizes::Pareto(pareto) => pareto.mean(),
        }
    }

    pub fn largest(&self) -> u64 {
        match *self {
            Sizes::Fixed(size) => size.0,
            Sizes::Lognormal(_) => SIZE[1].0,
            Sizes::Pareto(Pareto { most, .. }) => most.0,
        }
    }

    /// Draws a size. A size that does not vary takes no random number.
    pub(super) fn draw(&self, draws: &mut Pcg64) -> u64 {
        let drawn = match self {
            Sizes::Fixed(size) => return size.0,
            Sizes::Lognormal(Lognormal { median, sigma }) => median.0 as f64 * libm::exp(sigma * normal(draws)),
            Sizes::Pareto(pareto) => pareto.quantile(1.0 - uniform(draws)),
        };
        (drawn.round() as u64).clamp(SIZE[0].0, SIZE[1].0)
    }
}

impl Pareto {
    /// The probability that Pareto's distribution without a bound gives at most `most`.
    fn inside(&self) -> f64 {
        1.0 - libm::pow(self.least.0 as f64 / self.most.0 as f64, self.shape)
    }

    /// The inverse of the distribution function, for a probability below 1.
    fn quantile(&self, probability: f64) -> f64 {
        let drawn = self.least.0 as f64 * libm::pow(1.0 - probability * self.inside(), -1.0 / self.shape);
        drawn.min(self.most.0 as f64)
    }

    fn mean(&self) -> f64 {
        let Pareto { shape, least, most } = *self;
        let (least, most) = (least.0 as f64, most.0 as f64);
        let ratio = most / least;
        // The integral of x^-shape from 1 to the ratio, in units of the least size.
        let integral =
            if shape == 1.0 { libm::log(ratio) } else { (1.0 - libm::pow(ratio, 1.0 - shape)) / (shape - 1.0) };
        shape * least * integral / self.inside()
    }
}
