//! Holding pure acknowledgements at the end of a link, so that they leave together. Plain data.
//!
//! Wi-Fi and receive offload aggregate ACKs, access networks thin them, and queues compress them (RFC 3449, RFC 2760).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use strum::{Display, EnumString};

use super::named::{NamedValues, parse};
use super::range::some_delay;
use shared::sanitize::shown;
use shared::units::{ParseError, Share, format_duration, serde_as_text};

/// Most ACKs that a link holds, and the default of `pkts`.
pub const HELD_MAX: u32 = 1_000;
const HELD_MIN: u32 = 2;

/// Batches of pure ACKs at the end of a link, after the delay.
///
/// The first ACK of a batch is held for `time`, and every later ACK waits with it. They leave back to back when the
/// time is over, when `pkts` wait, or when any other packet arrives, which then leaves behind them. So the order stays
/// the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AckHold {
    pub kind: AckKind,
    /// Longest time that an ACK is held.
    pub time: Duration,
    /// Number of ACKs at which a batch leaves before its time.
    pub pkts: u32,
    /// Probability that an ACK outside a batch begins one.
    pub share: Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum AckKind {
    /// Every ACK is held, and all ACKs of a batch leave.
    Aggregated,
    /// Every ACK is held, and only the newest of each flow leaves.
    Thinned,
    /// Some ACKs begin a batch, and all ACKs of a batch leave.
    Compressed,
}

const EXPECTED: &str = "aggregated:time=5ms,pkts=16, thinned:time=5ms,pkts=4 or compressed:time=20ms,share=1%";

impl FromStr for AckHold {
    type Err = ParseError;

    /// Reads `aggregated:time=5ms,pkts=16`, `thinned:time=5ms,pkts=4` or `compressed:time=20ms,share=1%`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        let kind = kind.parse().map_err(|_| ParseError::new(text, EXPECTED))?;
        read(kind, values).map_err(|why| ParseError::because(text, why))
    }
}

fn read(kind: AckKind, values: &str) -> Result<AckHold, String> {
    let is_compressed = kind == AckKind::Compressed;
    let named = NamedValues::split(values, ["time", if is_compressed { "share" } else { "pkts" }])?;
    let time = named.required("time", "time=5ms", some_delay)?;
    let pkts = named.optional("pkts", pkts)?.unwrap_or(HELD_MAX);
    let share = if is_compressed { named.required("share", "share=1%", parse)? } else { Share(1.0) };
    if share.0 <= 0.0 {
        return Err(format!("share = \"{}\": expected more than 0%", share.exact()));
    }
    Ok(AckHold { kind, time, pkts, share })
}

fn pkts(text: &str) -> Result<u32, String> {
    let pkts = text.parse().ok().filter(|pkts| (HELD_MIN..=HELD_MAX).contains(pkts));
    pkts.ok_or_else(|| format!("\"{}\": expected a number from {HELD_MIN} to {HELD_MAX}", shown(text)))
}

impl fmt::Display for AckHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:time={},", self.kind, format_duration(self.time))?;
        match self.kind {
            AckKind::Compressed => write!(f, "share={}", self.share.exact()),
            _ => write!(f, "pkts={}", self.pkts),
        }
    }
}

serde_as_text!(AckHold => ToString::to_string);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_printed() {
        for text in ["aggregated:time=5ms,pkts=16", "thinned:time=250us,pkts=4", "compressed:time=20ms,share=1%"] {
            assert_eq!(text.parse::<AckHold>().unwrap().to_string(), text);
        }
        let unbounded: AckHold = "thinned:time=5ms".parse().unwrap();
        assert_eq!((unbounded.pkts, unbounded.share, unbounded.kind), (HELD_MAX, Share(1.0), AckKind::Thinned));
    }

    #[test]
    fn mistakes_name_the_value_and_what_is_allowed() {
        let check = |text: &str, expected: &str| {
            let refused = text.parse::<AckHold>().unwrap_err();
            assert_eq!(refused.to_string(), format!("\"{text}\": {expected}"));
        };
        check("aggregated:pkts=4", "time is missing, such as time=5ms");
        check("aggregated:time=0ms", "time = \"0ms\": expected more than 0us and at most 10s");
        check("thinned:time=11s", "time = \"11s\": expected more than 0us and at most 10s");
        check("thinned:time=5ms,pkts=1", "pkts = \"1\": expected a number from 2 to 1000");
        check("thinned:time=5ms,share=1%", "\"share\": expected one of time, pkts");
        check("compressed:time=5ms", "share is missing, such as share=1%");
        check("compressed:time=5ms,share=0%", "share = \"0%\": expected more than 0%");
        check("5ms", &format!("expected {EXPECTED}"));
    }
}
