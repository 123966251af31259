//! The values of one series: the last hour in a fixed number of places.

use super::sums::Sums;
use crate::trace::totals::RttCounts;

/// Values that are kept, the one that grows included: an hour of ten seconds each.
pub(crate) const SLOTS: usize = 361;
/// Stands for a number that is not known.
const UNKNOWN: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    goodput_bps: f32,
    retrans_ratio: f32,
    rtt_us: [u32; 2],
    sockets: u32,
}

impl Figures {
    const NONE: Figures =
        Figures { goodput_bps: f32::NAN, retrans_ratio: f32::NAN, rtt_us: [UNKNOWN; 2], sockets: UNKNOWN };

    /// Payload acknowledged per second, bits.
    pub(super) fn goodput_bps(&self) -> Option<u64> {
        (!self.goodput_bps.is_nan()).then_some(self.goodput_bps as u64)
    }

    /// Share of what was sent that was retransmitted; none: nothing was sent.
    pub(super) fn retrans_ratio(&self) -> Option<f32> {
        (!self.retrans_ratio.is_nan()).then_some(self.retrans_ratio)
    }

    /// Median of the smoothed RTTs, microseconds; none: nothing was delivered.
    pub(super) fn rtt_p50_us(&self) -> Option<u32> {
        known(self.rtt_us[0])
    }

    /// 95th percentile of the smoothed RTTs, microseconds.
    pub(super) fn rtt_p95_us(&self) -> Option<u32> {
        known(self.rtt_us[1])
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

/// The values, and what the newest is made of.
#[derive(Debug)]
pub(super) struct Ring {
    values: Box<[Figures]>,
    newest: u64,
    growing: Sums,
    growing_ns: u64,
}

impl Ring {
    /// Nothing is known of the value of this number, and of all before it.
    pub(super) fn new(newest: u64) -> Ring {
        let values = vec![Figures::NONE; SLOTS].into_boxed_slice();
        Ring { values, newest, growing: Sums::default(), growing_ns: 0 }
    }

    /// Adds what happened in the time that ended just now, in the step of this number; 0: nothing was counted yet.
    ///
    /// A time that is longer than a step is its mean in each.
    pub(super) fn add(&mut self, slot: u64, growth: &Sums, length_ns: u64) {
        let first = (self.newest + 1).max((slot + 1).saturating_sub(SLOTS as u64));
        if slot > self.newest {
            (self.growing, self.growing_ns, self.newest) = (Sums::default(), 0, slot);
        }
        self.growing.add(growth);
        self.growing.sockets = growth.sockets;
        self.growing_ns += length_ns;
        let figures = self.figures();
        for between in first.min(slot)..=slot {
            self.values[place(between)] = figures;
        }
    }

    fn figures(&self) -> Figures {
        let Ring { growing, growing_ns, .. } = self;
        let sockets = growing.sockets.min(u64::from(UNKNOWN - 1)) as u32;
        if *growing_ns == 0 {
            return Figures { sockets, ..Figures::NONE };
        }
        let rtt: &RttCounts = &growing.rtt;
        let percentile = |share| rtt.percentile_us(share).unwrap_or(UNKNOWN);
        let sent = growing.sent_pkts as f32;
        Figures {
            goodput_bps: (growing.bytes_acked as f64 * 8e9 / *growing_ns as f64) as f32,
            retrans_ratio: if sent > 0.0 { (growing.retrans_pkts as f32 / sent).min(1.0) } else { f32::NAN },
            rtt_us: [percentile(0.5), percentile(0.95)],
            sockets,
        }
    }

    /// The values up to this number, oldest first.
    pub(super) fn newest(&self, newest: u64, values: usize) -> impl Iterator<Item = &Figures> {
        (newest + 1 - values as u64..=newest).map(|slot| &self.values[place(slot)])
    }

    /// Whether there was a connection in the last hour.
    pub(super) fn is_active(&self) -> bool {
        self.values.iter().any(Figures::is_active)
    }

    /// Bytes of the values and of what the newest is made of.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.values) + size_of::<RttCounts>() + size_of::<Ring>()
    }
}

fn place(slot: u64) -> usize {
    (slot % SLOTS as u64) as usize
}
