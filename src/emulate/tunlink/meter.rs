//! What one direction carried, dropped and how late it was: kept by the engine's thread, copied out on request.

use hdrhistogram::Histogram;

use super::moments::MomentsRecord;
use crate::model::run::{Lateness, LinkCounters};

/// Longest lateness told apart, nanoseconds; later counts as this.
const LATENESS_MAX: u64 = 60_000_000_000;
/// Significant digits of a lateness: one part in a thousand.
const LATENESS_DIGITS: u8 = 3;
const NANOS_PER_MICRO: f64 = 1e3;

/// Counters of one direction.
#[derive(Debug, Clone)]
pub struct Meter {
    /// All but what is only known when they are asked for.
    pub counts: LinkCounters,
    pub reordered_pkts: u64,
    lateness: Histogram<u64>,
    moments: MomentsRecord,
}

impl Meter {
    pub fn new() -> Self {
        let lateness = Histogram::new_with_bounds(1, LATENESS_MAX, LATENESS_DIGITS);
        let lateness = lateness.expect("the bounds are constants that the histogram accepts");
        Meter { counts: LinkCounters::default(), reordered_pkts: 0, lateness, moments: MomentsRecord::default() }
    }

    /// Counts a packet that left at a moment, nanoseconds after another at which it was due.
    pub fn sent(&mut self, bytes: u32, left_at: u64, due: u64) {
        self.counts.sent_pkts += 1;
        self.counts.sent_bytes += u64::from(bytes);
        self.lateness.saturating_record(left_at - due);
        self.moments.sent(left_at, left_at - due);
    }

    /// Counts a packet that found the queue full at a moment.
    pub fn overflowed(&mut self, at: u64) {
        self.counts.overflow_pkts += 1;
        self.moments.overflowed(at);
    }

    /// Starts all counters at zero.
    pub fn restart(&mut self) {
        let Meter { mut lateness, moments, .. } = std::mem::replace(self, Meter::new());
        lateness.reset();
        (self.lateness, self.moments) = (lateness, moments.restarted());
    }

    /// The counters as a run records them.
    pub fn counters(&self, max_queue_pkts: u64) -> LinkCounters {
        LinkCounters {
            reordered_pkts: Some(self.reordered_pkts),
            max_queue_pkts: Some(max_queue_pkts),
            lateness_us: self.lateness_us(),
            moments: self.moments.moments(),
            ..self.counts.clone()
        }
    }

    /// None: before the first packet left.
    fn lateness_us(&self) -> Option<Lateness> {
        let at = |quantile| self.lateness.value_at_quantile(quantile) as f64 / NANOS_PER_MICRO;
        (self.counts.sent_pkts > 0).then(|| Lateness {
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: self.lateness.max() as f64 / NANOS_PER_MICRO,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_is_given_as_percentiles_in_microseconds() {
        let mut meter = Meter::new();
        assert_eq!(meter.counters(0).lateness_us, None);
        (1..=1_000).for_each(|n| meter.sent(100, n * 1_000, 0));
        let counters = meter.counters(4);
        let lateness = counters.lateness_us.unwrap();
        for (value, expected) in [(lateness.p50, 500.0), (lateness.p99, 990.0), (lateness.max, 1_000.0)] {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} for {expected}");
        }
        assert_eq!((counters.sent_pkts, counters.sent_bytes, counters.max_queue_pkts), (1_000, 100_000, Some(4)));
        meter.restart();
        assert_eq!(meter.counters(0), Meter::new().counters(0));
    }
}
