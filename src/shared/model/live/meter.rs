//! Rates from cumulative counts: their growth over a recent window.

use crate::event::Event;

/// The kernel's cumulative counts of a socket at one moment. Packet counts wrap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    pub time_ns: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub delivered_pkts: u32,
    pub retrans_pkts: u32,
    pub lost_pkts: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Growth {
    pub length_s: f64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub delivered_pkts: u32,
    pub retrans_pkts: u32,
    pub lost_pkts: u32,
    /// RTT sample of the later moment.
    pub rtt_us: Option<u32>,
}

impl From<&Event> for Moment {
    fn from(event: &Event) -> Self {
        Moment {
            time_ns: event.time_ns,
            bytes_acked: event.bytes_acked,
            bytes_received: event.bytes_received,
            delivered_pkts: event.delivered_pkts,
            retrans_pkts: event.retrans_pkts,
            lost_pkts: event.lost_pkts,
        }
    }
}

impl Moment {
    /// Growth since an earlier moment. A count that seems to shrink has not grown.
    pub fn since(&self, earlier: &Moment) -> Growth {
        Growth {
            length_s: self.time_ns.saturating_sub(earlier.time_ns) as f64 / 1e9,
            bytes_acked: self.bytes_acked.saturating_sub(earlier.bytes_acked),
            bytes_received: self.bytes_received.saturating_sub(earlier.bytes_received),
            delivered_pkts: grown(self.delivered_pkts, earlier.delivered_pkts),
            retrans_pkts: grown(self.retrans_pkts, earlier.retrans_pkts),
            lost_pkts: grown(self.lost_pkts, earlier.lost_pkts),
            rtt_us: None,
        }
    }
}

/// The kernel's counts have 32 bits and wrap. A difference of more than half the range is a step back.
fn grown(later: u32, earlier: u32) -> u32 {
    let difference = later.wrapping_sub(earlier);
    if difference > u32::MAX / 2 { 0 } else { difference }
}

/// Measures growth over a sliding window of between one and two times `window_ns`.
#[derive(Debug, Clone, Copy)]
pub struct GrowthMeter {
    window_ns: u64,
    older: Moment,
    newer: Moment,
}

impl GrowthMeter {
    pub fn begin(window_ns: u64, at: Moment) -> Self {
        GrowthMeter { window_ns, older: at, newer: at }
    }

    pub fn note(&mut self, at: Moment) {
        if at.time_ns.saturating_sub(self.newer.time_ns) >= self.window_ns {
            self.older = self.newer;
            self.newer = at;
        }
    }

    /// Growth from the start of the window to the latest moment.
    pub fn growth(&self, latest: &Moment) -> Growth {
        latest.since(&self.older)
    }
}

impl Growth {
    /// Payload acknowledged per second: goodput, as far as the sender knows. `None` if no time passed.
    pub fn goodput_bps(&self) -> Option<f64> {
        self.bits_per_second(self.bytes_acked)
    }

    /// Payload received per second. `None` if no time passed.
    pub fn received_bps(&self) -> Option<f64> {
        self.bits_per_second(self.bytes_received)
    }

    fn bits_per_second(&self, bytes: u64) -> Option<f64> {
        (self.length_s > 0.0).then(|| bytes as f64 * 8.0 / self.length_s)
    }
}

/// Retransmitted packets over packets delivered and retransmitted. `None` if both are 0.
pub fn retrans_ratio(delivered_pkts: u64, retrans_pkts: u64) -> Option<f64> {
    let all = delivered_pkts.saturating_add(retrans_pkts);
    (all > 0).then(|| retrans_pkts as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: u64, bytes_acked: u64) -> Moment {
        Moment { time_ns: time_s * 1_000_000_000, bytes_acked, ..Moment::default() }
    }

    #[test]
    fn rate_is_of_the_window_and_not_of_the_whole_life() {
        let mut meter = GrowthMeter::begin(1_000_000_000, at(0, 0));
        for second in 1..=10 {
            meter.note(at(second, second * 1000));
        }
        for second in 11..=14 {
            meter.note(at(second, 10_000 + (second - 10) * 5000));
        }
        assert_eq!(meter.growth(&at(14, 30_000)).goodput_bps(), Some(40_000.0));
        assert_eq!(meter.growth(&at(13, 25_000)).length_s, 0.0, "no time lies between a moment and itself");
    }

    #[test]
    fn counts_that_wrap_grow_and_counts_that_shrink_do_not() {
        let before = Moment { delivered_pkts: u32::MAX - 1, retrans_pkts: 7, ..Moment::default() };
        let after = Moment { delivered_pkts: 2, retrans_pkts: 5, time_ns: 5, ..Moment::default() };
        let growth = after.since(&before);
        assert_eq!((growth.delivered_pkts, growth.retrans_pkts), (4, 0));
        assert_eq!(retrans_ratio(0, 0), None);
    }
}
