//! What the open sockets of each algorithm do at one moment.

use std::collections::BTreeMap;

use super::Live;
use super::histogram::Histogram;
use super::meter::retrans_ratio;

#[derive(Debug, Clone, PartialEq)]
pub struct Summary<'a> {
    pub algorithm: &'a str,
    pub sockets: usize,
    /// Sockets in each congestion state: Open, Disorder, CWR, Recovery, Loss.
    pub ca_states: [usize; 5],
    /// Payload acknowledged per second, over all sockets.
    pub goodput_bps: f64,
    /// Payload received per second, over all sockets.
    pub received_bps: f64,
    /// Share of retransmissions since the source began; `None` if nothing was sent.
    pub retrans_ratio: Option<f64>,
    /// Round-trip times of the last 30 to 60 seconds.
    pub rtt: Histogram,
    /// Nanoseconds per call over all callbacks; `None` while the kernel's BPF statistics are off.
    pub ns_per_call: Option<f64>,
    pub callback_ns: Vec<(&'a str, f64)>,
}

impl Live {
    /// Summarises each algorithm.
    ///
    /// Shape: most sockets first, then by name; algorithms without an open socket come last.
    pub fn summaries(&self) -> Vec<Summary<'_>> {
        let idle = self.algorithms().map(|(name, algorithm)| {
            let summary = Summary {
                algorithm: name,
                sockets: 0,
                ca_states: [0; 5],
                goodput_bps: 0.0,
                received_bps: 0.0,
                retrans_ratio: retrans_ratio(algorithm.delivered_pkts, algorithm.retrans_pkts),
                rtt: algorithm.recent_rtt(),
                ns_per_call: algorithm.ns_per_call(),
                callback_ns: algorithm.callback_ns().collect(),
            };
            (name, summary)
        });
        let mut summaries: BTreeMap<&str, Summary<'_>> = idle.collect();
        for socket in self.sockets().filter(|socket| socket.closed_ns.is_none()) {
            if let Some(summary) = summaries.get_mut(socket.latest.algorithm.as_str()) {
                summary.sockets += 1;
                summary.ca_states[socket.latest.ca_state as usize] += 1;
                summary.goodput_bps += socket.goodput_bps(self.now_ns()).unwrap_or(0.0);
                summary.received_bps += socket.received_bps(self.now_ns()).unwrap_or(0.0);
            }
        }
        let mut summaries: Vec<Summary<'_>> = summaries.into_values().collect();
        summaries.sort_by_key(|summary| usize::MAX - summary.sockets);
        summaries
    }
}
