//! What the engine's thread counts itself: packets that left, their lateness, and the times of stalls and of a full queue.

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
    sent_pkts: u64,
    sent_bytes: u64,
    /// Packets that a port could not receive or send.
    pub failed_pkts: u64,
    /// Packets longer than the link's MTU, which do not enter the link.
    pub oversized_pkts: u64,
    lateness: Histogram<u64>,
    moments: LinkMoments,
    /// Whether there were too many moments to keep.
    lacks_moments: bool,
}

impl Meter {
    pub fn new() -> Self {
        let lateness = Histogram::new_with_bounds(1, LATENESS_MAX, LATENESS_DIGITS);
        let lateness = lateness.expect("the bounds are constants that the histogram accepts");
        let [sent_pkts, sent_bytes, failed_pkts, oversized_pkts] = [0; 4];
        let (moments, lacks_moments) = (LinkMoments::default(), false);
        Meter { sent_pkts, sent_bytes, failed_pkts, oversized_pkts, lateness, moments, lacks_moments }
    }

    /// Counts a packet that left at or after the time when it was due.
    pub fn sent(&mut self, bytes: u32, left_at: u64, due: u64) {
        let late_by = left_at - due;
        self.sent_pkts += 1;
        self.sent_bytes += u64::from(bytes);
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

    /// Notes when a packet found the queue full.
    pub fn overflowed(&mut self, at: u64) {
        let overflows = &mut self.moments.overflows_ns;
        match overflows.last() {
            Some(last) if at.saturating_sub(*last) < RESOLUTION => {}
            _ if overflows.len() < KEPT => overflows.push(at),
            _ => self.lacks_moments = true,
        }
    }

    /// Sets all counters to zero, and keeps their memory.
    pub fn restart(&mut self) {
        [self.sent_pkts, self.sent_bytes, self.failed_pkts, self.oversized_pkts] = [0; 4];
        self.lacks_moments = false;
        self.lateness.reset();
        self.moments.stalls.clear();
        self.moments.overflows_ns.clear();
    }

    /// Adds its counts to those of the link.
    pub fn counters(&self, link: LinkCounters) -> LinkCounters {
        LinkCounters {
            received_pkts: link.received_pkts + self.oversized_pkts,
            failed_pkts: link.failed_pkts + self.failed_pkts + self.oversized_pkts,
            sent_pkts: self.sent_pkts,
            sent_bytes: self.sent_bytes,
            lateness_us: self.lateness_us(),
            moments: (!self.lacks_moments).then(|| self.moments.clone()),
            ..link
        }
    }

    /// `None` before the first packet left.
    fn lateness_us(&self) -> Option<Lateness> {
        let at = |quantile| self.lateness.value_at_quantile(quantile) as f64 / NANOS_PER_MICRO;
        (self.sent_pkts > 0).then(|| Lateness {
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

    fn counters(meter: &Meter) -> LinkCounters {
        meter.counters(LinkCounters::default())
    }

    #[test]
    fn lateness_is_given_as_percentiles_in_microseconds() {
        let mut meter = Meter::new();
        assert_eq!(counters(&meter).lateness_us, None);
        (1..=1_000).for_each(|n| meter.sent(100, n * 1_000, 0));
        let counted = counters(&meter);
        let lateness = counted.lateness_us.unwrap();
        for (value, expected) in [(lateness.p50, 500.0), (lateness.p99, 990.0), (lateness.max, 1_000.0)] {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} for {expected}");
        }
        assert_eq!((counted.sent_pkts, counted.sent_bytes), (1_000, 100_000));
        meter.restart();
        assert_eq!(counters(&meter), counters(&Meter::new()));
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
        assert_eq!(counters(&meter).moments, Some(LinkMoments { stalls, overflows_ns: vec![5 * MS, 7 * MS] }));
    }

    #[test]
    fn more_moments_than_can_be_kept_are_none() {
        let mut meter = Meter::new();
        (0..=KEPT as u64).for_each(|number| meter.overflowed(number * MS));
        assert_eq!(counters(&meter).moments, None);
        meter.restart();
        assert_eq!(counters(&meter), counters(&Meter::new()));
    }
}
