//! Totals over all sockets of one algorithm: counts, round-trip times, cost of its callbacks.

use std::collections::BTreeMap;

use super::histogram::Histogram;
use super::meter::Growth;
use crate::catalog::StateLayout;

/// The recent histogram covers one to two of these spans.
const RECENT_NS: u64 = 30_000_000_000;
/// More than any ops table has.
const CALLBACKS_MAX: usize = 32;

#[derive(Debug, Clone, Default)]
pub struct LiveAlgorithm {
    /// Layout of its per-socket state, if known.
    pub layout: Option<StateLayout>,
    /// Delivered by its sockets since the source began, closed ones included.
    pub delivered_pkts: u64,
    pub retrans_pkts: u64,
    recent: [Histogram; 2],
    recent_since_ns: u64,
    costs: BTreeMap<String, ObservedCost>,
}

/// Calls and nanoseconds, as the kernel counts them.
type Spent = (u64, u64);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ObservedCost {
    first: Spent,
    last: Spent,
}

impl ObservedCost {
    fn spent(self) -> Spent {
        (self.last.0.saturating_sub(self.first.0), self.last.1.saturating_sub(self.first.1))
    }
}

impl LiveAlgorithm {
    pub(super) fn note(&mut self, growth: &Growth) {
        self.delivered_pkts += u64::from(growth.delivered_pkts);
        self.retrans_pkts += u64::from(growth.retrans_pkts);
        if let Some(rtt_us) = growth.rtt_us {
            self.recent[0].add(rtt_us);
        }
    }

    pub(super) fn note_cost(&mut self, callback: String, calls: u64, nanoseconds: u64) {
        if let Some(cost) = self.costs.get_mut(&callback) {
            let was_reloaded = calls < cost.last.0;
            cost.first = if was_reloaded { (0, 0) } else { cost.first };
            cost.last = (calls, nanoseconds);
        } else if self.costs.len() < CALLBACKS_MAX {
            self.costs.insert(callback, ObservedCost { first: (calls, nanoseconds), last: (calls, nanoseconds) });
        }
    }

    pub(super) fn advance(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.recent_since_ns) >= RECENT_NS {
            self.recent = [Histogram::default(), self.recent[0]];
            self.recent_since_ns = now_ns;
        }
    }

    /// Round-trip times of the last 30 to 60 seconds.
    pub fn recent_rtt(&self) -> Histogram {
        self.recent[0].with(&self.recent[1])
    }

    /// Nanoseconds per call of each callback that was called since the source began.
    ///
    /// Shape: by name; empty while the kernel's BPF statistics are off.
    pub fn callback_ns(&self) -> impl Iterator<Item = (&str, f64)> {
        self.costs.iter().filter_map(|(name, cost)| Some((name.as_str(), per_call(cost.spent())?)))
    }

    /// Nanoseconds per call over all callbacks.
    ///
    /// None: no callback was called, or the kernel's BPF statistics are off.
    pub fn ns_per_call(&self) -> Option<f64> {
        let spent = self.costs.values().map(|cost| cost.spent());
        per_call(spent.fold((0, 0), |(calls, ns), (more_calls, more_ns)| (calls + more_calls, ns + more_ns)))
    }
}

fn per_call((calls, nanoseconds): Spent) -> Option<f64> {
    (calls > 0).then(|| nanoseconds as f64 / calls as f64)
}
