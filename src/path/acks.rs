//! What a link does to pure acknowledgements beside carrying them: it holds them and lets them go together. Plain data.
//!
//! Wi-Fi and receive offload aggregate ACKs, access networks thin them, and queues compress them (RFC 3449, RFC 2760).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::named::{Named, needed};
use super::range::DELAY_MAX;
use crate::plain::shown;
use crate::units::{ParseError, Share, format_duration, parse_duration, serde_as_text};

/// Most ACKs that a link holds, and the number where none is given.
pub const HELD_MAX: u32 = 1_000;
/// A single ACK is not held.
const HELD_MIN: u32 = 2;

/// Why and how a link holds pure ACKs at its end, after the delay.
///
/// The first ACK of a batch is held for `time`. Every ACK that comes meanwhile waits with it. They leave back to back
/// when the time is over, when `pkts` have come, or when any other packet comes, which leaves behind them: order is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AckHold {
    /// Which of the three it is.
    pub kind: AckKind,
    /// Longest that an ACK is held.
    pub time: Duration,
    /// Number of ACKs at which the batch leaves without waiting any longer.
    pub pkts: u32,
    /// Share of the ACKs that are not held which begin a batch.
    pub share: Share,
}

/// What the batches are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckKind {
    /// Every ACK is held, and all of a batch leave.
    Aggregated,
    /// Every ACK is held, and only the newest one of each flow leaves.
    Thinned,
    /// Some ACKs begin a batch, and all of it leave.
    Compressed,
}

const EXPECTED: &str = "aggregated:time=5ms,pkts=16, thinned:time=5ms,pkts=4 or compressed:time=20ms,share=1%";

impl FromStr for AckHold {
    type Err = ParseError;

    /// Reads `aggregated:time=5ms,pkts=16`, `thinned:time=5ms,pkts=4` or `compressed:time=20ms,share=1%`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        let read = match kind {
            "aggregated" => gathered(AckKind::Aggregated, values),
            "thinned" => gathered(AckKind::Thinned, values),
            "compressed" => compressed(values),
            _ => return Err(ParseError::new(text, EXPECTED)),
        };
        read.map_err(|why| ParseError::because(text, why))
    }
}

fn gathered(kind: AckKind, values: &str) -> Result<AckHold, String> {
    let named = Named::split(values, ["time", "pkts"])?;
    let time = needed(named.with("time", time)?, "time", "time=5ms")?;
    let pkts = named.with("pkts", pkts)?.unwrap_or(HELD_MAX);
    Ok(AckHold { kind, time, pkts, share: Share(1.0) })
}

fn compressed(values: &str) -> Result<AckHold, String> {
    let named = Named::split(values, ["time", "share"])?;
    let time = needed(named.with("time", time)?, "time", "time=20ms")?;
    let share: Share = needed(named.value("share")?, "share", "share=1%")?;
    if share.0 <= 0.0 {
        return Err(format!("share = \"{}\": expected more than 0%", share.exact()));
    }
    Ok(AckHold { kind: AckKind::Compressed, time, pkts: HELD_MAX, share })
}

fn time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    let is_allowed = !time.is_zero() && time <= DELAY_MAX;
    let expected = || format!("\"{text}\": expected more than 0us and at most {}", format_duration(DELAY_MAX));
    is_allowed.then_some(time).ok_or_else(expected)
}

fn pkts(text: &str) -> Result<u32, String> {
    let pkts = text.parse().ok().filter(|pkts| (HELD_MIN..=HELD_MAX).contains(pkts));
    pkts.ok_or_else(|| format!("\"{}\": expected a number from {HELD_MIN} to {HELD_MAX}", shown(text)))
}

impl fmt::Display for AckHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, pkts) = (format_duration(self.time), self.pkts);
        match self.kind {
            AckKind::Aggregated => write!(f, "aggregated:time={time},pkts={pkts}"),
            AckKind::Thinned => write!(f, "thinned:time={time},pkts={pkts}"),
            AckKind::Compressed => write!(f, "compressed:time={time},share={}", self.share.exact()),
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
