//! A policer: a token bucket in front of the queue, as an operator limits a customer's rate. Plain data.

use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;

use super::named::{NamedValues, parse};
use super::range::RATE_RANGE;
use shared::units::{BitsPerSec, Bytes, ParseError, serde_as_text};

/// Largest burst, bytes.
const BURST_MAX: Bytes = Bytes(150_000_000);

/// Longest time that a burst may take at the rate.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Packets above the rate are dropped, except for bursts. No packet waits.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("rate={},burst={burst}", rate.exact())]
pub struct Policer {
    /// Of whole IP packets.
    pub rate: BitsPerSec,
    /// What may pass at once after a pause.
    pub burst: Bytes,
}

impl Policer {
    /// How long the burst takes at the rate.
    pub fn burst_time(&self) -> Duration {
        Duration::from_secs_f64(self.burst.0 as f64 * 8.0 / self.rate.0 as f64)
    }
}

impl FromStr for Policer {
    type Err = ParseError;

    /// Reads `rate=5mbit,burst=50kB`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        read(text).map_err(|why| ParseError::because(text, why))
    }
}

fn read(text: &str) -> Result<Policer, String> {
    let named = NamedValues::split(text, ["rate", "burst"])?;
    let rate: BitsPerSec = named.required("rate", "rate=5mbit", parse)?;
    let burst: Bytes = named.required("burst", "burst=50kB", parse)?;
    let [slowest, fastest] = RATE_RANGE;
    if !(slowest..=fastest).contains(&rate) {
        return Err(format!("rate = \"{}\": outside {slowest}..{fastest}", rate.exact()));
    }
    if burst > BURST_MAX {
        return Err(format!("burst = \"{burst}\": expected at most {BURST_MAX}"));
    }
    let policer = Policer { rate, burst };
    if policer.burst_time() > LONGEST {
        let most = LONGEST.as_secs();
        return Err(format!("burst = \"{burst}\": takes more than {most} s at this rate"));
    }
    Ok(policer)
}

serde_as_text!(Policer => ToString::to_string);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policer_is_read_printed_and_refused_by_name() {
        let policer: Policer = "burst=50kB,rate=5mbit".parse().unwrap();
        assert_eq!(policer.to_string(), "rate=5mbit,burst=50000B");
        assert_eq!(policer.burst_time(), Duration::from_millis(80));
        let refused = |text: &str| text.parse::<Policer>().unwrap_err().expected;
        assert_eq!(refused("rate=5mbit"), "burst is missing, such as burst=50kB");
        assert_eq!(refused("rate=20gbit,burst=1kB"), "rate = \"20gbit\": outside 1kbit..10gbit");
        assert_eq!(refused("rate=5mbit,burst=1GB"), "burst = \"1000000000B\": expected at most 150000000B");
        assert_eq!(refused("rate=1kbit,burst=150MB"), "burst = \"150000000B\": takes more than 86400 s at this rate");
        assert!(refused("rate=5mbit,burst=5").starts_with("burst = \"5\": expected a number with B"));
        assert_eq!(refused("5mbit"), "\"5mbit\": expected name=value");
    }
}
