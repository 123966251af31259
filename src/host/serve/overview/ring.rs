//! The values of one series: a ring buffer with the last hour.

use super::sums::LineSums;
use crate::trace::totals::RttCounts;

/// One hour of values for ten seconds each, and the one that still grows.
pub(crate) const SLOTS: usize = 361;
const UNKNOWN: u32 = u32::MAX;

/// Takes twenty bytes, because an unknown value is NaN or [`UNKNOWN`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LineFigures {
    goodput_bps: f32,
    retrans_ratio: f32,
    rtt_us: [u32; 2],
    sockets: u32,
}

impl LineFigures {
    const NONE: LineFigures =
        LineFigures { goodput_bps: f32::NAN, retrans_ratio: f32::NAN, rtt_us: [UNKNOWN; 2], sockets: UNKNOWN };

    /// Payload acknowledged per second, bits.
    pub(super) fn goodput_bps(&self) -> Option<u64> {
        (!self.goodput_bps.is_nan()).then_some(self.goodput_bps as u64)
    }

    /// Retransmitted share of the packets sent, 0 to 1.
    pub(super) fn retrans_ratio(&self) -> Option<f32> {
        (!self.retrans_ratio.is_nan()).then_some(self.retrans_ratio)
    }

    /// Median and 95th percentile of the smoothed RTTs, microseconds.
    pub(super) fn rtt_us(&self) -> [Option<u32>; 2] {
        self.rtt_us.map(known)
    }

    pub(super) fn sockets(&self) -> Option<u32> {
        known(self.sockets)
    }

    fn is_active(&self) -> bool {
        known(self.sockets).is_some_and(|count| count > 0) || self.goodput_bps > 0.0 || !self.retrans_ratio.is_nan()
    }
}

fn known(value: u32) -> Option<u32> {
    (value != UNKNOWN).then_some(value)
}

#[derive(Debug)]
pub(super) struct HourRing {
    values: Box<[LineFigures]>,
    newest: u64,
    /// The sums behind the newest value.
    growing: LineSums,
    growing_ns: u64,
}

impl HourRing {
    /// All values up to number `newest` are unknown.
    pub(super) fn new(newest: u64) -> HourRing {
        let values = vec![LineFigures::NONE; SLOTS].into_boxed_slice();
        HourRing { values, newest, growing: LineSums::default(), growing_ns: 0 }
    }

    /// Adds the growth of the last `length_ns`, which ended in step `slot`. Length 0: nothing was counted yet.
    ///
    /// If steps were skipped, each gets the mean.
    pub(super) fn add(&mut self, slot: u64, growth: &LineSums, length_ns: u64) {
        let first = (self.newest + 1).max((slot + 1).saturating_sub(SLOTS as u64));
        if slot > self.newest {
            (self.growing, self.growing_ns, self.newest) = (LineSums::default(), 0, slot);
        }
        self.growing.add(growth);
        self.growing.sockets = growth.sockets;
        self.growing_ns += length_ns;
        let figures = self.figures();
        for between in first.min(slot)..=slot {
            self.values[place(between)] = figures;
        }
    }

    fn figures(&self) -> LineFigures {
        let HourRing { growing, growing_ns, .. } = self;
        let sockets = growing.sockets.min(u64::from(UNKNOWN - 1)) as u32;
        if *growing_ns == 0 {
            return LineFigures { sockets, ..LineFigures::NONE };
        }
        let rtt: &RttCounts = &growing.rtt;
        let percentile = |share| rtt.percentile_us(share).unwrap_or(UNKNOWN);
        let sent = growing.sent_pkts as f32;
        LineFigures {
            goodput_bps: (growing.bytes_acked as f64 * 8e9 / *growing_ns as f64) as f32,
            retrans_ratio: if sent > 0.0 { (growing.retrans_pkts as f32 / sent).min(1.0) } else { f32::NAN },
            rtt_us: [percentile(0.5), percentile(0.95)],
            sockets,
        }
    }

    /// The last values up to number `newest`, oldest first.
    pub(super) fn newest(&self, newest: u64, values: usize) -> impl Iterator<Item = &LineFigures> {
        (newest + 1 - values as u64..=newest).map(|slot| &self.values[place(slot)])
    }

    /// Whether there was a connection in the last hour.
    pub(super) fn is_active(&self) -> bool {
        self.values.iter().any(LineFigures::is_active)
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of::<RttCounts>() + size_of::<HourRing>()
    }
}

fn place(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}
