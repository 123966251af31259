//! The words that `tc` knows for each queue discipline, what follows them, and what they set in the kernel.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use super::DisciplineKind;
use crate::path::range::{RATE_RANGE, some_delay};
use shared::sanitize::shown;
use shared::units::{BitsPerSec, Bytes, Share, format_duration};

/// A word of `tc`.
#[derive(Debug, PartialEq)]
pub struct Word {
    pub name: &'static str,
    pub follows: Follows,
    /// Number of the attribute in linux/pkt_sched.h. Words that exclude each other set the same.
    pub sets: u16,
}

/// What follows a word, and in which unit it is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Follows {
    /// Nothing: the word itself sets this number.
    Nothing(u64),
    /// A time, microseconds.
    Time,
    /// A whole number from the first to the second.
    Number([u64; 2]),
    /// A size, bytes, from the first to the second.
    Size([u64; 2]),
    /// A rate, bits per second.
    Rate,
    /// A share of packets, in parts of 2^32.
    Part,
}
use Follows::{Nothing, Number, Part, Rate, Size, Time};

/// Packets of a flow per round of the flow queues, bytes.
const QUANTUM: Follows = Size([256, 1 << 20]);
const FLOWS: Follows = Number([1, 65_536]);
/// tc-pie(8): "alpha and beta are in Hz and must be between 0 and 32".
const UP_TO_32: Follows = Number([0, 32]);
const WHOLE: f64 = (1u64 << 32) as f64;

const fn word(name: &'static str, sets: u16, follows: Follows) -> Word {
    Word { name, follows, sets }
}

const CODEL: &[Word] = &[
    word("target", 1, Time),
    word("interval", 3, Time),
    word("ecn", 4, Nothing(1)),
    word("noecn", 4, Nothing(0)),
    word("ce_threshold", 5, Time),
];
const FQ_CODEL: &[Word] = &[
    word("target", 1, Time),
    word("interval", 3, Time),
    word("ecn", 4, Nothing(1)),
    word("noecn", 4, Nothing(0)),
    word("flows", 5, FLOWS),
    word("quantum", 6, QUANTUM),
    word("ce_threshold", 7, Time),
    word("drop_batch", 8, Number([1, 1024])),
    word("memory_limit", 9, Size([1 << 12, 1 << 31])),
];
const PIE: &[Word] = &[
    word("target", 1, Time),
    word("tupdate", 3, Time),
    word("alpha", 4, UP_TO_32),
    word("beta", 5, UP_TO_32),
    word("ecn", 6, Nothing(1)),
    word("noecn", 6, Nothing(0)),
    word("bytemode", 7, Nothing(1)),
    word("nobytemode", 7, Nothing(0)),
    word("dq_rate_estimator", 8, Nothing(1)),
    word("no_dq_rate_estimator", 8, Nothing(0)),
];
const FQ_PIE: &[Word] = &[
    word("flows", 2, FLOWS),
    word("target", 3, Time),
    word("tupdate", 4, Time),
    word("alpha", 5, UP_TO_32),
    word("beta", 6, UP_TO_32),
    word("quantum", 7, QUANTUM),
    word("memory_limit", 8, Size([1 << 12, 1 << 31])),
    word("ecn_prob", 9, Number([0, 100])),
    word("ecn", 10, Nothing(1)),
    word("noecn", 10, Nothing(0)),
    word("bytemode", 11, Nothing(1)),
    word("nobytemode", 11, Nothing(0)),
    word("dq_rate_estimator", 12, Nothing(1)),
    word("no_dq_rate_estimator", 12, Nothing(0)),
];
/// A word of tc-red(8), not the algorithm of that name.
pub const RED_ADAPTIVE: &str = stringify!(adaptive);
/// These are no attributes: [`attributes`](super::attributes) computes the kernel's values from them, as tc-red(8) does.
const RED: &[Word] = &[
    word("min", 1, Size([1, 1 << 30])),
    word("max", 2, Size([1, 1 << 30])),
    word("avpkt", 3, Size([1, 1 << 16])),
    word("burst", 4, Number([1, 100_000])),
    word("probability", 5, Part),
    word("ecn", 6, Nothing(1)),
    word("harddrop", 7, Nothing(1)),
    word(RED_ADAPTIVE, 8, Nothing(1)),
];
const CAKE: &[Word] = &[
    word("bandwidth", 2, Rate),
    word("diffserv3", 3, Nothing(0)),
    word("diffserv4", 3, Nothing(1)),
    word("diffserv8", 3, Nothing(2)),
    word("besteffort", 3, Nothing(3)),
    word("precedence", 3, Nothing(4)),
    word("flowblind", 5, Nothing(0)),
    word("srchost", 5, Nothing(1)),
    word("dsthost", 5, Nothing(2)),
    word("hosts", 5, Nothing(3)),
    word("flows", 5, Nothing(4)),
    word("dual-srchost", 5, Nothing(5)),
    word("dual-dsthost", 5, Nothing(6)),
    word("triple-isolate", 5, Nothing(7)),
    word("rtt", 7, Time),
    word("memlimit", 10, Size([1 << 12, 1 << 31])),
    word("wash", 13, Nothing(1)),
    word("nowash", 13, Nothing(0)),
    word("no-ack-filter", 16, Nothing(0)),
    word("ack-filter", 16, Nothing(1)),
    word("ack-filter-aggressive", 16, Nothing(2)),
];
const FQ: &[Word] = &[
    word("flow_limit", 2, Number([1, 1 << 20])),
    word("quantum", 3, QUANTUM),
    word("initial_quantum", 4, QUANTUM),
    word("maxrate", 7, Rate),
    word("ce_threshold", 12, Time),
];

/// The kernel's codepoints: ECT(1), and any of ECN.
const DUALPI2: &[Word] = &[
    word("memlimit", 2, Size([1 << 12, 1 << 31])),
    word("target", 3, Time),
    word("tupdate", 4, Time),
    word("step_thresh", 8, Time),
    word("min_qlen_step", 9, Number([0, 1 << 20])),
    word("coupling_factor", 10, Number([1, 255])),
    word("classic_protection", 13, Number([0, 100])),
    word("l4s_ect", 14, Nothing(1)),
    word("any_ect", 14, Nothing(3)),
];

/// The parameters of a discipline besides its limit.
pub fn words(kind: DisciplineKind) -> &'static [Word] {
    match kind {
        DisciplineKind::Pfifo => &[],
        DisciplineKind::Codel => CODEL,
        DisciplineKind::FqCodel => FQ_CODEL,
        DisciplineKind::Pie => PIE,
        DisciplineKind::FqPie => FQ_PIE,
        DisciplineKind::Red => RED,
        DisciplineKind::Cake => CAKE,
        DisciplineKind::Fq => FQ,
        DisciplineKind::Dualpi2 => DUALPI2,
    }
}

impl Follows {
    /// Takes what follows the word.
    pub fn read<'a>(self, rest: &mut impl Iterator<Item = &'a str>) -> Result<u64, String> {
        if let Nothing(value) = self {
            return Ok(value);
        }
        let text = rest.next().ok_or_else(|| format!("needs {}", self.wanted()))?;
        match self {
            Nothing(value) => Ok(value),
            Time => some_delay(text).and_then(microseconds),
            Number(range) => within(text, text.parse().ok(), range, |number| number.to_string()),
            Size(range) => {
                let Bytes(bytes) = parsed(text)?;
                within(text, Some(bytes), range, |bytes| Bytes(bytes).to_string())
            }
            Rate => match parsed(text)? {
                rate if (RATE_RANGE[0]..=RATE_RANGE[1]).contains(&rate) => Ok(rate.0),
                _ => Err(format!("\"{}\": outside {}..{}", shown(text), RATE_RANGE[0], RATE_RANGE[1])),
            },
            Part => match parsed(text)? {
                Share(share) if share > 0.0 && share < 1.0 => Ok((share * WHOLE) as u64),
                _ => Err(format!("\"{}\": expected more than 0% and less than 100%", shown(text))),
            },
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Nothing(_) => "nothing",
            Time => "a time, such as 5ms",
            Number(_) => "a whole number",
            Size(_) => "a size, such as 30kB",
            Rate => "a rate, such as 20mbit",
            Part => "a share, such as 2%",
        }
    }

    /// The text that [`Follows::read`] reads.
    pub fn show(self, value: u64) -> Option<String> {
        match self {
            Nothing(_) => None,
            Time => Some(format_duration(Duration::from_micros(value))),
            Number(_) => Some(value.to_string()),
            Size(_) => Some(Bytes(value).to_string()),
            Rate => Some(BitsPerSec(value).exact()),
            Part => Some((value as f64 / WHOLE).to_string()),
        }
    }
}

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// The kernel counts whole microseconds.
fn microseconds(time: Duration) -> Result<u64, String> {
    let micros = time.as_micros() as u64;
    let is_whole = Duration::from_micros(micros) == time;
    is_whole.then_some(micros).ok_or_else(|| format!("\"{}\": expected whole microseconds", format_duration(time)))
}

fn within(text: &str, value: Option<u64>, [low, high]: [u64; 2], show: impl Fn(u64) -> String) -> Result<u64, String> {
    let allowed = value.filter(|value| (low..=high).contains(value));
    allowed.ok_or_else(|| format!("\"{}\": expected {} to {}", shown(text), show(low), show(high)))
}
