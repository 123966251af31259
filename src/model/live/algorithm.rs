//! What all sockets of one algorithm did together: counts, round-trip times, cost of its callbacks.

use std::collections::BTreeMap;

use super::histogram::Histogram;
use super::meter::{Growth, retrans_ratio};
use super::{Live, Socket};
use crate::catalog::StateLayout;
use crate::trace::event::CaState;

/// The recent histogram covers between one and two of these.
const RECENT_NS: u64 = 30_000_000_000;
/// Callbacks an ops table can have, generously.
const CALLBACKS_MAX: usize = 32;

#[derive(Debug, Clone, Default)]
pub struct Algorithm {
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

impl Algorithm {
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

/// What the open sockets of one algorithm do at this moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary<'a> {
    pub algorithm: &'a str,
    pub sockets: usize,
    /// Sockets in each congestion state: Open, Disorder, CWR, Recovery, Loss.
    pub ca_states: [usize; 5],
    /// Payload acknowledged per second, bits, over all of them.
    pub goodput_bps: f64,
    /// Payload received per second, bits, over all of them.
    pub received_bps: f64,
    /// Share of what was sent since the source began that was retransmitted; none when nothing was.
    pub retrans_ratio: Option<f64>,
    /// Round-trip times of the last 30 to 60 seconds.
    pub rtt: Histogram,
    /// Nanoseconds per call over all callbacks; none while the kernel does not count.
    pub ns_per_call: Option<f64>,
    /// The same, for each callback.
    pub callback_ns: Vec<(&'a str, f64)>,
}

/// Place of a congestion state in [`Summary::ca_states`].
fn place(state: CaState) -> usize {
    match state {
        CaState::Open => 0,
        CaState::Disorder => 1,
        CaState::Cwr => 2,
        CaState::Recovery => 3,
        CaState::Loss => 4,
    }
}

impl Live {
    /// What the sockets of each algorithm do at this moment.
    ///
    /// Shape: most sockets first, then by name; algorithms that were met but have no open socket come last.
    pub fn summaries(&self) -> Vec<Summary<'_>> {
        let mut summaries: BTreeMap<&str, Summary<'_>> =
            self.algorithms().map(|(name, algorithm)| (name, Summary::begin(name, algorithm))).collect();
        for socket in self.sockets().filter(|socket| socket.closed_ns.is_none()) {
            if let Some(summary) = summaries.get_mut(socket.latest.algorithm.as_str()) {
                summary.add(socket, self.now_ns());
            }
        }
        let mut summaries: Vec<Summary<'_>> = summaries.into_values().collect();
        summaries.sort_by_key(|summary| usize::MAX - summary.sockets);
        summaries
    }
}

impl<'a> Summary<'a> {
    fn begin(name: &'a str, algorithm: &'a Algorithm) -> Self {
        Summary {
            algorithm: name,
            sockets: 0,
            ca_states: [0; 5],
            goodput_bps: 0.0,
            received_bps: 0.0,
            retrans_ratio: retrans_ratio(algorithm.totals.delivered_pkts, algorithm.totals.retrans_pkts),
            rtt: algorithm.recent_rtt(),
            ns_per_call: algorithm.ns_per_call(),
            callback_ns: algorithm.callback_ns().collect(),
        }
    }

    fn add(&mut self, socket: &Socket, now_ns: u64) {
        self.sockets += 1;
        self.ca_states[place(socket.latest.ca_state)] += 1;
        self.goodput_bps += socket.goodput_bps(now_ns).unwrap_or(0.0);
        self.received_bps += socket.received_bps(now_ns).unwrap_or(0.0);
    }
}
