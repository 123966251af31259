//! What changes about a direction of a link while it runs: plain data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::link::Direction;
use super::loss::LossModel;
use super::range::{DELAY_MAX, RATE_RANGE};
use crate::units::{BitsPerSec, ParseError, duration_text, format_duration, some_duration_text};

/// Most changes of a direction.
pub(crate) const CHANGES_MAX: usize = 10_000;

/// A change at a moment; what is none stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// When, from the start of the run.
    #[serde(with = "duration_text")]
    pub at: Duration,
    /// Rate from then on: a packet that is being serialised goes on at it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitsPerSec>,
    /// Delay of packets that leave the serialiser from then on; a shorter one does not reorder.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "some_duration_text")]
    pub delay: Option<Duration>,
    /// Losses of packets that enter from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<LossModel>,
    /// Whether packets that enter from then on are carried; those in the queue and on their way are in any case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<bool>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        self.rate.is_none() && self.delay.is_none() && self.loss.is_none() && self.up.is_none()
    }
}

impl Direction {
    /// What a change does that is not allowed: its place among the changes, the field, its value and what is allowed.
    pub(crate) fn wrong_change(&self) -> Option<(usize, &'static str, ParseError)> {
        if self.changes.len() > CHANGES_MAX {
            let wrong = ParseError::because(self.changes.len(), format!("expected at most {CHANGES_MAX} changes"));
            return Some((CHANGES_MAX, "at", wrong));
        }
        let mut before: Option<Duration> = None;
        for (index, change) in self.changes.iter().enumerate() {
            if let Some((field, what)) = self.wrong(change, before) {
                return Some((index, field, what));
            }
            before = Some(change.at);
        }
        None
    }

    fn wrong(&self, change: &Change, before: Option<Duration>) -> Option<(&'static str, ParseError)> {
        if let Some(before) = before.filter(|before| *before >= change.at) {
            let why = format!("after {}: expected the changes in order", format_duration(before));
            return Some(("at", ParseError::because(format_duration(change.at), why)));
        }
        let [slowest, fastest] = RATE_RANGE;
        match change.rate {
            Some(rate) if !(slowest..=fastest).contains(&rate) => {
                return Some(("rate", ParseError::because(rate, format!("outside {slowest}..{fastest}"))));
            }
            Some(rate) if self.trace.is_some() => {
                return Some(("rate", ParseError::because(rate, "the rate of this link is a trace")));
            }
            _ => {}
        }
        if let Some(delay) = change.delay.filter(|delay| *delay > DELAY_MAX) {
            let why = format!("outside 0us..{}", format_duration(DELAY_MAX));
            return Some(("delay", ParseError::because(format_duration(delay), why)));
        }
        let loss = change.loss.as_ref();
        loss.and_then(LossModel::out_of_range).map(|wrong| ("loss", wrong))
    }

    /// The fastest rate it ever has; none is unlimited.
    pub(crate) fn fastest_rate(&self) -> Option<BitsPerSec> {
        let changed = self.changes.iter().filter_map(|change| change.rate);
        self.rate.map(|rate| changed.fold(rate, BitsPerSec::max))
    }

    /// The shortest and the longest delay it ever has, without jitter.
    pub fn delays(&self) -> [Duration; 2] {
        let changed = || self.changes.iter().filter_map(|change| change.delay);
        [changed().fold(self.delay, Duration::min), changed().fold(self.delay, Duration::max)]
    }

    /// Whether what it can carry depends on the moment.
    pub(crate) fn varies(&self) -> bool {
        self.trace.is_some() || self.changes.iter().any(|change| change.rate.is_some() || change.up.is_some())
    }

    /// Bits per second that it can carry on average from one moment after its start to a later one; none is unlimited.
    pub(crate) fn mean_rate(&self, [from, to]: [Duration; 2]) -> Option<f64> {
        let rate = self.rate?;
        Some((self.bits_by(to, rate) - self.bits_by(from, rate)) / (to - from).as_secs_f64())
    }

    /// Bits that it can carry up to a moment.
    fn bits_by(&self, moment: Duration, rate: BitsPerSec) -> f64 {
        let (mut rate, mut is_up, mut since, mut bits) = (rate.0 as f64, true, Duration::ZERO, 0.0);
        let trace = self.trace.as_ref().filter(|trace| !trace.times_ms.is_empty());
        let carried = |rate: f64, from: Duration, to: Duration| match trace {
            Some(trace) => trace.bits_by(to) - trace.bits_by(from),
            None => rate * (to - from).as_secs_f64(),
        };
        for change in self.changes.iter().filter(|change| change.at < moment) {
            bits += if is_up { carried(rate, since, change.at) } else { 0.0 };
            rate = change.rate.map_or(rate, |rate| rate.0 as f64);
            (is_up, since) = (change.up.unwrap_or(is_up), change.at);
        }
        bits + if is_up { carried(rate, since, moment) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::rate_trace::RateTrace;

    fn at(seconds: u64) -> Change {
        Change { at: Duration::from_secs(seconds), ..Change::default() }
    }

    fn mbit(rate: u64) -> Option<BitsPerSec> {
        Some(BitsPerSec(rate * 1_000_000))
    }

    #[test]
    fn capacity_of_a_run_follows_the_changes() {
        let changes = vec![
            Change { rate: mbit(5), ..at(2) },
            Change { up: Some(false), ..at(4) },
            Change { up: Some(true), rate: mbit(20), ..at(6) },
            Change { rate: mbit(1), ..at(99) },
        ];
        let direction = Direction { rate: mbit(10), changes, ..Direction::default() };
        let mean = |direction: &Direction, span: [u64; 2]| direction.mean_rate(span.map(Duration::from_millis));
        // 2 s at 10, 2 s at 5, 2 s down, 4 s at 20
        assert_eq!(mean(&direction, [0, 10_000]), Some(11e6));
        assert_eq!(mean(&direction, [0, 2000]), Some(10e6));
        assert_eq!(mean(&direction, [1000, 3000]), Some(7.5e6));
        assert_eq!(mean(&direction, [6000, 12_000]), Some(20e6));
        assert_eq!(direction.fastest_rate(), mbit(20));
        assert_eq!(mean(&Direction::default(), [0, 1000]), None);
        let trace = RateTrace::new("x".into(), vec![10, 10, 20]).unwrap();
        let mut traced = Direction { rate: Some(trace.mean()), trace: Some(trace), ..Direction::default() };
        assert_eq!(mean(&traced, [0, 10]), Some(2.0 * 12_000.0 / 0.01));
        assert_eq!(mean(&traced, [10, 30]), Some(3.0 * 12_000.0 / 0.02));
        traced.changes = vec![Change { up: Some(false), at: Duration::from_millis(15), ..at(0) }];
        assert_eq!(mean(&traced, [0, 30]), Some(2.0 * 12_000.0 / 0.03), "nothing while it is down");
        assert!(traced.varies() && direction.varies() && !Direction::default().varies());
    }

    #[test]
    fn changes_out_of_order_or_range_are_named() {
        let wrong = |changes: Vec<Change>| {
            let wrong = Direction { rate: mbit(10), changes, ..Direction::default() }.wrong_change().unwrap();
            (wrong.0, wrong.1, wrong.2.to_string())
        };
        let late = Change { up: Some(true), ..at(3) };
        assert_eq!(
            wrong(vec![late.clone(), late.clone()]),
            (1, "at", "\"3s\": after 3s: expected the changes in order".into())
        );
        let fast = wrong(vec![late.clone(), Change { rate: mbit(20_000), ..at(4) }]);
        assert_eq!(fast, (1, "rate", "\"20gbit\": outside 1kbit..10gbit".into()));
        let far = wrong(vec![Change { delay: Some(Duration::from_secs(11)), ..at(4) }]);
        assert_eq!(far, (0, "delay", "\"11s\": outside 0us..10s".into()));
        assert!(at(1).is_empty() && !late.is_empty());
    }

    #[test]
    fn change_survives_a_plan() {
        let change = Change { rate: mbit(5), delay: Some(Duration::from_micros(1_234_567)), up: Some(false), ..at(90) };
        let text = serde_json::to_string(&change).unwrap();
        assert_eq!(text, r#"{"at":"90s","rate":"5mbit","delay":"1.234567s","up":false}"#);
        assert_eq!(serde_json::from_str::<Change>(&text).unwrap(), change);
    }
}
