//! What the open sockets of each algorithm do at one moment.

use std::collections::BTreeMap;

use super::Live;
use super::algorithm::LiveAlgorithm;
use super::histogram::Histogram;
use super::meter::retrans_ratio;
use super::socket::Socket;

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
    fn begin(name: &'a str, algorithm: &'a LiveAlgorithm) -> Self {
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
        self.ca_states[socket.latest.ca_state as usize] += 1;
        self.goodput_bps += socket.goodput_bps(now_ns).unwrap_or(0.0);
        self.received_bps += socket.received_bps(now_ns).unwrap_or(0.0);
    }
}
