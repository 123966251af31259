//! Counts of one direction, its lateness, and the times of its stalls and of its full queue, kept by the engine's
//! thread.

use hdrhistogram::Histogram;

use shared::model::run::{Lateness, LinkCounters, LinkMoments, STALL_MIN_NS, Stall};

/// Lateness above this, nanoseconds, counts as this.
const LATENESS_MAX: u64 = 60_000_000_000;
/// Significant digits of a lateness: one part in a thousand.
const LATENESS_DIGITS: u8 = 3;
const NANOS_PER_MICRO: f64 = 1e3;
/// Nanoseconds; closer moments count as one.
const RESOLUTION: u64 = 1_000_000;
/// Most moments of each kind: two minutes of a queue that is always full, or of stalls.
const KEPT: usize = 1 << 17;

#[derive(Debug, Clone)]
pub struct Meter {
    /// Complete only in the result of [`Meter::counters`].
    pub counts: LinkCounters,
    pub reordered_pkts: u64,
    lateness: Histogram<u64>,
    moments: LinkMoments,
    /// Whether there were too many moments to keep.
    lacks_moments: bool,
}

impl Meter {
    pub fn new() -> Self {
        let lateness = Histogram::new_with_bounds(1, LATENESS_MAX, LATENESS_DIGITS);
        let lateness = lateness.expect("the bounds are constants that the histogram accepts");
        let (counts, moments) = (LinkCounters::default(), LinkMoments::default());
        Meter { counts, reordered_pkts: 0, lateness, moments, lacks_moments: false }
    }

    /// Counts a packet that left at or after the time when it was due.
    pub fn sent(&mut self, bytes: u32, left_at: u64, due: u64) {
        let late_by = left_at - due;
        self.counts.sent_pkts += 1;
        self.counts.sent_bytes += u64::from(bytes);
        self.lateness.saturating_record(late_by);
        if late_by < STALL_MIN_NS {
            return;
        }
        let stalls = &mut self.moments.stalls;
        if let Some(last) = stalls.last_mut().filter(|last| left_at - last.end_ns < RESOLUTION) {
            *last = Stall { end_ns: left_at, length_ns: last.length_ns.max(late_by) };
        } else if stalls.len() < KEPT {
            stalls.push(Stall { end_ns: left_at, length_ns: late_by });
        } else {
            self.lacks_moments = true;
        }
    }

    /// Counts a packet that found the queue full.
    pub fn overflowed(&mut self, at: u64) {
        self.counts.overflow_pkts += 1;
        let overflows = &mut self.moments.overflows_ns;
        match overflows.last() {
            Some(last) if at.saturating_sub(*last) < RESOLUTION => {}
            _ if overflows.len() < KEPT => overflows.push(at),
            _ => self.lacks_moments = true,
        }
    }

    /// Sets all counters to zero, and keeps their memory.
    pub fn restart(&mut self) {
        (self.counts, self.reordered_pkts, self.lacks_moments) = (LinkCounters::default(), 0, false);
        self.lateness.reset();
        self.moments.stalls.clear();
        self.moments.overflows_ns.clear();
    }

    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            reordered_pkts: Some(self.reordered_pkts),
            lateness_us: self.lateness_us(),
            moments: (!self.lacks_moments).then(|| self.moments.clone()),
            ..self.counts.clone()
        }
    }

    /// `None` before the first packet left.
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
        assert_eq!(meter.counters().lateness_us, None);
        (1..=1_000).for_each(|n| meter.sent(100, n * 1_000, 0));
        let counters = meter.counters();
        let lateness = counters.lateness_us.unwrap();
        for (value, expected) in [(lateness.p50, 500.0), (lateness.p99, 990.0), (lateness.max, 1_000.0)] {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} for {expected}");
        }
        assert_eq!((counters.sent_pkts, counters.sent_bytes), (1_000, 100_000));
        meter.restart();
        assert_eq!(meter.counters(), Meter::new().counters());
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn packets_that_one_stall_delayed_are_one_stall() {
        let mut meter = Meter::new();
        for (left_at, late_by) in [(10 * MS, 100_000), (50 * MS, 9 * MS), (50 * MS + 20_000, 8 * MS), (60 * MS, 2 * MS)]
        {
            meter.sent(100, left_at, left_at - late_by);
        }
        [5 * MS, 5 * MS + 1, 7 * MS].into_iter().for_each(|at| meter.overflowed(at));
        let stall = |end_ns, length_ns| Stall { end_ns, length_ns };
        let stalls = vec![stall(50 * MS + 20_000, 9 * MS), stall(60 * MS, 2 * MS)];
        assert_eq!(meter.counters().moments, Some(LinkMoments { stalls, overflows_ns: vec![5 * MS, 7 * MS] }));
    }

    #[test]
    fn more_moments_than_can_be_kept_are_none() {
        let mut meter = Meter::new();
        (0..=KEPT as u64).for_each(|number| meter.overflowed(number * MS));
        assert_eq!(meter.counters().moments, None);
        meter.restart();
        assert_eq!(meter.counters(), Meter::new().counters());
    }
}
