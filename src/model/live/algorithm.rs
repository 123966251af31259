//! What all sockets of one algorithm did together: counts, round-trip times, cost of its callbacks.

use std::collections::BTreeMap;

use super::histogram::Histogram;
use super::meter::Growth;
use crate::catalog::StateLayout;

/// The recent histogram covers between one and two of these.
const RECENT_NS: u64 = 30_000_000_000;
/// Callbacks an ops table can have, generously.
const CALLBACKS_MAX: usize = 32;

#[derive(Debug, Clone, Default)]
pub struct LiveAlgorithm {
    /// What it keeps in a socket; none when nobody knows.
    pub layout: Option<StateLayout>,
    /// What its sockets did since the source began, closed ones included.
    pub totals: Totals,
    /// Round-trip times of all samples since the source began.
    pub rtt: Histogram,
    recent: [Histogram; 2],
    recent_since_ns: u64,
    costs: BTreeMap<String, Cost>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub delivered_pkts: u64,
    pub retrans_pkts: u64,
    pub lost_pkts: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    first: (u64, u64),
    last: (u64, u64),
}

impl LiveAlgorithm {
    pub(super) fn note(&mut self, growth: &Growth) {
        let totals = &mut self.totals;
        totals.delivered_pkts += u64::from(growth.delivered_pkts);
        totals.retrans_pkts += u64::from(growth.retrans_pkts);
        totals.lost_pkts += u64::from(growth.lost_pkts);
        totals.bytes_acked = totals.bytes_acked.saturating_add(growth.bytes_acked);
        totals.bytes_received = totals.bytes_received.saturating_add(growth.bytes_received);
        if let Some(rtt_us) = growth.rtt_us {
            self.rtt.add(rtt_us);
            self.recent[0].add(rtt_us);
        }
    }

    pub(super) fn note_cost(&mut self, callback: String, calls: u64, nanoseconds: u64) {
        if let Some(cost) = self.costs.get_mut(&callback) {
            let was_reloaded = calls < cost.last.0;
            cost.first = if was_reloaded { (0, 0) } else { cost.first };
            cost.last = (calls, nanoseconds);
        } else if self.costs.len() < CALLBACKS_MAX {
            self.costs.insert(callback, Cost { first: (calls, nanoseconds), last: (calls, nanoseconds) });
        }
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.recent_since_ns) >= RECENT_NS {
            self.recent = [Histogram::default(), self.recent[0]];
            self.recent_since_ns = now_ns;
        }
    }

    /// Round-trip times of the samples of the last 30 to 60 seconds.
    pub fn recent_rtt(&self) -> Histogram {
        self.recent[0].with(&self.recent[1])
    }

    /// Nanoseconds per call of each callback that was called while somebody looked.
    ///
    /// Shape: ascending name; empty while the kernel's BPF statistics are off.
    pub fn callback_ns(&self) -> impl Iterator<Item = (&str, f64)> {
        self.costs.iter().filter_map(|(name, cost)| Some((name.as_str(), mean(*cost)?)))
    }

    /// Nanoseconds per call over all callbacks.
    ///
    /// None: none was called, or the kernel's BPF statistics are off.
    pub fn ns_per_call(&self) -> Option<f64> {
        let sum = |cost: Cost, each: fn((u64, u64)) -> u64| each(cost.last).saturating_sub(each(cost.first));
        let calls: u64 = self.costs.values().map(|cost| sum(*cost, |it| it.0)).sum();
        let nanoseconds: u64 = self.costs.values().map(|cost| sum(*cost, |it| it.1)).sum();
        (calls > 0).then(|| nanoseconds as f64 / calls as f64)
    }
}

fn mean(cost: Cost) -> Option<f64> {
    let calls = cost.last.0.saturating_sub(cost.first.0);
    (calls > 0).then(|| cost.last.1.saturating_sub(cost.first.1) as f64 / calls as f64)
}
