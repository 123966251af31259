//! Holding packets, or pure ACKs alone, at the end of a link, so that they leave together. Plain data.
//!
//! Wi-Fi and receive offload aggregate packets, access networks thin ACKs, and queues compress them (RFC 3449, RFC 2760).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use derive_more::Display;
use strum::EnumString;

use super::named::{NamedValues, parse};
use super::range::some_delay;
use shared::sanitize::shown;
use shared::units::{ParseError, Share, format_duration, serde_as_text};

/// Most packets that a link holds, and the default of `pkts`.
pub const HELD_MAX: u32 = 1_000;
const HELD_MIN: u32 = 2;

/// Batches of pure ACKs or of all packets at the end of a link, after the delay.
///
/// The first packet of a batch is held for `time`, and every later one waits with it. They leave back to back when the
/// time is over or when `pkts` wait. Held ACKs also leave when any other packet arrives, which then leaves behind them.
/// So the order stays the same.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hold {
    pub kind: HoldKind,
    /// Longest time that a packet is held.
    pub time: Duration,
    /// Number of packets at which a batch leaves before its time.
    pub pkts: u32,
    /// Probability that a packet outside a batch begins one.
    pub share: Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, EnumString)]
#[strum(serialize_all = "snake_case")]
pub enum HoldKind {
    /// Every packet is held, and all of a batch leave.
    Aggregated,
    /// Every ACK is held, and only the newest of each flow leaves.
    Thinned,
    /// Some packets begin a batch, and all of a batch leave.
    Compressed,
}

const EXPECTED: &str = "aggregated:time=5ms,pkts=16, thinned:time=5ms,pkts=4 or compressed:time=20ms,share=1%";

impl FromStr for Hold {
    type Err = ParseError;

    /// Reads `aggregated:time=5ms,pkts=16`, `thinned:time=5ms,pkts=4` or `compressed:time=20ms,share=1%`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        let kind = kind.parse().map_err(|_| ParseError::new(text, EXPECTED))?;
        read(kind, values).map_err(|why| ParseError::because(text, why))
    }
}

fn read(kind: HoldKind, values: &str) -> Result<Hold, String> {
    let is_compressed = kind == HoldKind::Compressed;
    let named = NamedValues::split(values, ["time", if is_compressed { "share" } else { "pkts" }])?;
    let time = named.required("time", "time=5ms", some_delay)?;
    let pkts = named.optional("pkts", pkts)?.unwrap_or(HELD_MAX);
    let share = if is_compressed { named.required("share", "share=1%", parse)? } else { Share(1.0) };
    if share.0 <= 0.0 {
        return Err(format!("share = \"{}\": expected more than 0%", share.exact()));
    }
    Ok(Hold { kind, time, pkts, share })
}

fn pkts(text: &str) -> Result<u32, String> {
    let pkts = text.parse().ok().filter(|pkts| (HELD_MIN..=HELD_MAX).contains(pkts));
    pkts.ok_or_else(|| format!("\"{}\": expected a number from {HELD_MIN} to {HELD_MAX}", shown(text)))
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:time={},", self.kind, format_duration(self.time))?;
        match self.kind {
            HoldKind::Compressed => write!(f, "share={}", self.share.exact()),
            _ => write!(f, "pkts={}", self.pkts),
        }
    }
}

/// Batches of all packets.
#[derive(Debug, Clone, Copy, PartialEq, Display)]
#[display("{_0}")]
pub struct PacketHold(pub Hold);

const EXPECTED_OF_PACKETS: &str = "aggregated:time=5ms,pkts=32 or compressed:time=40ms,share=0.1%";

impl FromStr for PacketHold {
    type Err = ParseError;

    /// Reads `aggregated:time=5ms,pkts=32` or `compressed:time=40ms,share=0.1%`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (kind, values) = text.split_once(':').unwrap_or((text, ""));
        let kind = kind.parse().map_err(|_| ParseError::new(text, EXPECTED_OF_PACKETS))?;
        if kind == HoldKind::Thinned {
            let why =
                format!("only `acks` drops packets that a newer one makes redundant: expected {EXPECTED_OF_PACKETS}");
            return Err(ParseError::because(text, why));
        }
        read(kind, values).map(PacketHold).map_err(|why| ParseError::because(text, why))
    }
}

serde_as_text!(Hold => ToString::to_string, PacketHold => ToString::to_string);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_read_and_printed() {
        for text in ["aggregated:time=5ms,pkts=16", "thinned:time=250us,pkts=4", "compressed:time=20ms,share=1%"] {
            assert_eq!(text.parse::<Hold>().unwrap().to_string(), text);
        }
        let unbounded: Hold = "thinned:time=5ms".parse().unwrap();
        assert_eq!((unbounded.pkts, unbounded.share, unbounded.kind), (HELD_MAX, Share(1.0), HoldKind::Thinned));
    }

    #[test]
    fn mistakes_name_the_value_and_what_is_allowed() {
        let check = |text: &str, expected: &str| {
            let refused = text.parse::<Hold>().unwrap_err();
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

    #[test]
    fn batches_of_all_packets_have_no_redundant_ones() {
        for text in ["aggregated:time=5ms,pkts=32", "compressed:time=40ms,share=0.1%"] {
            assert_eq!(text.parse::<PacketHold>().unwrap().to_string(), text);
        }
        let check = |text: &str, expected: &str| {
            let refused = text.parse::<PacketHold>().unwrap_err();
            assert_eq!(refused.to_string(), format!("\"{text}\": {expected}"));
        };
        let only =
            format!("only `acks` drops packets that a newer one makes redundant: expected {EXPECTED_OF_PACKETS}");
        check("thinned:time=5ms,pkts=4", &only);
        check("5ms", &format!("expected {EXPECTED_OF_PACKETS}"));
        check("aggregated:time=5ms,pkts=1001", "pkts = \"1001\": expected a number from 2 to 1000");
    }
}
