//! A rate that follows a trace: a list of times at which a packet can be delivered, in mahimahi's format. Pure.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use derive_more::Display;
use serde::{Deserialize, Serialize};

use super::cellular::Cellular;
use super::trace_file;
use shared::sanitize::shown;
use shared::units::{BitsPerSec, ParseError};

/// Bytes of IP packets that one opportunity delivers.
///
/// Source: R. Netravali et al., "Mahimahi: accurate record-and-replay for HTTP", 2015; the manual page of mm-link.
pub(crate) const OPPORTUNITY_BYTES: u32 = 1500;
/// Latest time in a trace, milliseconds: a day.
const LAST_MAX: u64 = 86_400_000;
const EXPECTED: &str = "a rate with bit, kbit, mbit or gbit, such as 10mbit, trace:FILE or \
                        cellular:mean=10mbit,seed=1";

/// Opportunities: times at which up to 1500 bytes are delivered. An unused opportunity is lost. The trace repeats after
/// its last time.
#[derive(Debug, Clone, Display, Serialize, Deserialize)]
#[display("{}", shown(name))]
pub struct RateTrace {
    /// As it was written: `trace:lte.trace`.
    pub name: String,
    pub opportunities: usize,
    pub length_ms: u32,
    /// SHA-256 of the times. A plan has this instead of the times.
    pub sha256: String,
    /// Milliseconds from the start, ascending. Empty if the trace was read from a plan.
    #[serde(skip)]
    pub times_ms: Arc<[u32]>,
}

impl PartialEq for RateTrace {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.sha256) == (&other.name, &other.sha256)
    }
}

impl RateTrace {
    /// `times_ms` are ascending.
    ///
    /// # Errors
    /// No time is above 0, so the trace has no length.
    pub fn new(name: String, times_ms: Vec<u32>) -> Result<Self, String> {
        let length_ms = times_ms.last().copied().filter(|last| *last > 0);
        let length_ms = length_ms.ok_or_else(|| "expected at least one time above 0".to_owned())?;
        let sha256 = trace_file::digest(times_ms.iter().map(|time| u64::from(*time)));
        Ok(RateTrace { name, opportunities: times_ms.len(), length_ms, sha256, times_ms: times_ms.into() })
    }

    /// Reads mahimahi's format: one opportunity per line, with its time in milliseconds.
    ///
    /// # Errors
    /// Those of [`trace_file::numbers`] and [`RateTrace::new`].
    pub fn read(name: String, text: &str) -> Result<Self, String> {
        let numbers = trace_file::numbers(text, 0..=LAST_MAX, (u64::le, "times in order"))?;
        RateTrace::new(name, numbers.into_iter().map(|number| number as u32).collect())
    }

    /// Mean rate if every opportunity is used.
    pub fn mean(&self) -> BitsPerSec {
        let bits = self.opportunities as f64 * f64::from(8 * OPPORTUNITY_BYTES);
        BitsPerSec((bits / f64::from(self.length_ms) * 1e3).round() as u64)
    }

    /// Bits delivered up to this time if every opportunity is used.
    pub fn bits_by(&self, time: Duration) -> f64 {
        let millis = time.as_millis() as u64;
        let (rounds, rest) = (millis / u64::from(self.length_ms), (millis % u64::from(self.length_ms)) as u32);
        let part = self.times_ms.partition_point(|at| *at <= rest && rest > 0);
        let opportunities = rounds * self.opportunities as u64 + part as u64;
        opportunities as f64 * f64::from(8 * OPPORTUNITY_BYTES)
    }

    /// Longest time without an opportunity, also across a repetition.
    pub fn longest_gap(&self) -> Duration {
        let within = self.times_ms.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let between = self.times_ms.first().copied().unwrap_or(0); // the trace ends with its last opportunity
        Duration::from_millis(within.max(between).into())
    }

    /// Upper bound for the opportunities in any interval of this length.
    pub fn most_within(&self, time: Duration) -> u64 {
        let millis = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let rounds = u64::from(millis / self.length_ms);
        let rest = millis % self.length_ms;
        let mut first = 0;
        let mut most = 0;
        for (last, at) in self.times_ms.iter().enumerate() {
            while at - self.times_ms[first] > rest {
                first += 1;
            }
            most = most.max(last - first + 1);
        }
        // An interval across a repetition holds at most twice as many.
        rounds * self.opportunities as u64 + 2 * most as u64
    }
}

/// A rate as it is written. A trace is not yet read or generated.
#[derive(Debug, Clone, PartialEq)]
pub enum RateText {
    Rate(BitsPerSec),
    /// Name of a trace file.
    File(String),
    Cellular(Cellular),
}

impl FromStr for RateText {
    type Err = ParseError;

    /// Reads `10mbit`, `trace:lte.trace` or `cellular:mean=10mbit,seed=1`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.split_once(':') {
            None => text
                .parse()
                .map(RateText::Rate)
                .map_err(|error: ParseError| ParseError { meant: error.meant, ..ParseError::new(text, EXPECTED) }),
            Some(("trace", file)) if !file.is_empty() => Ok(RateText::File(file.to_owned())),
            Some(("cellular", rest)) => {
                rest.parse().map(RateText::Cellular).map_err(|why: String| ParseError::because(text, why))
            }
            Some(_) => Err(ParseError::new(text, EXPECTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn trace(text: &str) -> RateTrace {
        RateTrace::read("x".into(), text).unwrap()
    }

    #[test]
    fn trace_is_read_as_mahimahi_reads_it() {
        let trace = trace("0\n5\n5\n20\n");
        assert_eq!((&trace.times_ms[..], trace.length_ms), (&[0, 5, 5, 20][..], 20));
        assert_eq!(trace.mean(), BitsPerSec(4 * 12_000 * 50));
        let refused = |text: &str| RateTrace::read("x".into(), text).unwrap_err();
        assert_eq!(refused("5\n3\n"), "line 2: 3 after 5: expected times in order");
        assert_eq!(refused("0\n0\n"), "expected at least one time above 0");
        assert_eq!(refused(""), "expected at least one time above 0");
        assert_eq!(refused("1\n1.5\n"), "line 2: \"1.5\": expected a whole number from 0 to 86400000");
    }

    #[test]
    fn longest_gap_may_be_across_a_repetition() {
        let gap = |text: &str| trace(text).longest_gap().as_millis();
        assert_eq!([gap("0\n5\n5\n20\n"), gap("30\n35\n"), gap("7\n")], [15, 30, 7]);
    }

    #[test]
    fn bits_by_a_time_count_every_opportunity_so_far() {
        let trace = trace("5\n10\n");
        let opportunities = |millis| trace.bits_by(Duration::from_millis(millis)) / 12_000.0;
        assert_eq!([4, 5, 10, 14, 15, 10_000].map(opportunities), [0.0, 1.0, 2.0, 2.0, 3.0, 2000.0]);
    }

    #[test]
    fn rates_are_read_or_refused_with_what_is_allowed() {
        assert_eq!("10mbit".parse(), Ok(RateText::Rate(BitsPerSec(10_000_000))));
        assert_eq!("trace:a.trace".parse(), Ok(RateText::File("a.trace".into())));
        let refused = |text: &str| text.parse::<RateText>().unwrap_err().to_string();
        assert!(refused("10").starts_with("\"10\": expected a rate with bit, kbit, mbit or gbit"));
        assert!(refused("trace:").contains("trace:FILE"));
        assert!(refused("cellular:mean=1").contains("mean = \"1\": expected a rate"));
    }

    #[test]
    fn trace_survives_a_plan_without_its_times() {
        let whole = trace("5\n10\n");
        let read: RateTrace = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
        assert_eq!((read == whole, read.times_ms.len()), (true, 0));
        assert_ne!(read, trace("5\n11\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-0-9a-z#. \n]{0,200}") {
            if let Ok(trace) = RateTrace::read("x".into(), &text) {
                prop_assert!(trace.times_ms.is_sorted() && trace.length_ms > 0);
            }
        }

        #[test]
        fn no_window_holds_more_than_told(times in prop::collection::vec(0u32..50, 1..40), width in 0u32..120, from in 0u32..200) {
            let mut times = times;
            times.sort_unstable();
            times.push(50);
            let trace = RateTrace::new("x".into(), times).unwrap();
            let rounds = (0..10).flat_map(|round| trace.times_ms.iter().map(move |at| round * 50 + at));
            let inside = rounds.filter(|at| (from..=from + width).contains(at)).count() as u64;
            prop_assert!(inside <= trace.most_within(Duration::from_millis(width.into())));
        }
    }
}
