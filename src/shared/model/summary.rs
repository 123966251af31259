//! Sums up a recording in one line per connection, event by event, in bounded memory.

use std::collections::BTreeMap;

use serde::Serialize;

use super::live::histogram::Histogram;
use super::live::meter::Moment;
use crate::event::{CaState, Event, EventKind};

/// Connections that are kept; events of further connections are only counted.
const FLOWS_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub struct RecordingSummary {
    flows: BTreeMap<u64, FlowTotals>,
    /// Events of connections beyond the first 100,000.
    pub untracked: u64,
}

#[derive(Debug)]
struct FlowTotals {
    first: Moment,
    last: Event,
    events: u64,
    timeouts: u32,
    cwnd_seconds: f64,
    srtt: Histogram,
}

/// The summary of one connection.
///
/// Units: as in the names. Goodput and mean cwnd are over the recorded time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowSummary {
    pub socket: u64,
    pub local: String,
    pub remote: String,
    pub algorithm: String,
    pub events: u64,
    pub length_s: f64,
    pub goodput_bps: Option<f64>,
    /// This count and the next two cover the whole life of the connection, as counted by the kernel at its last event.
    pub delivered_pkts: u32,
    pub retrans_pkts: u32,
    pub lost_pkts: u32,
    pub timeouts: u32,
    pub mean_cwnd_pkts: Option<f64>,
    /// The upper bound of the histogram bin.
    pub srtt_p50_us: Option<u32>,
    pub srtt_p95_us: Option<u32>,
    pub min_rtt_us: Option<u32>,
    pub closed: bool,
}

impl RecordingSummary {
    /// Shape: the events of one connection sorted by time.
    pub fn add(&mut self, event: Event) {
        let is_full = self.flows.len() >= FLOWS_MAX;
        match self.flows.get_mut(&event.socket) {
            Some(flow) => flow.add(event),
            None if is_full => self.untracked += 1,
            None => drop(self.flows.insert(event.socket, FlowTotals::begin(event))),
        }
    }

    /// One line per connection, most delivered packets first.
    pub fn flows(&self) -> Vec<FlowSummary> {
        let mut flows: Vec<FlowSummary> = self.flows.values().map(FlowTotals::summary).collect();
        flows.sort_by_key(|flow| (u32::MAX - flow.delivered_pkts, flow.socket));
        flows
    }
}

impl FlowTotals {
    fn begin(event: Event) -> FlowTotals {
        let first = Moment::from(&event);
        let mut srtt = Histogram::default();
        event.srtt_us.iter().for_each(|us| srtt.add(*us));
        FlowTotals { first, last: event, events: 1, timeouts: 0, cwnd_seconds: 0.0, srtt }
    }

    fn add(&mut self, event: Event) {
        self.events += 1;
        if event.time_ns < self.last.time_ns {
            return; // a row of a sweep that was read late
        }
        self.cwnd_seconds += f64::from(self.last.cwnd_pkts) * (event.time_ns - self.last.time_ns) as f64 / 1e9;
        let is_change = event.kind == EventKind::State && event.prior_ca_state != CaState::Loss;
        self.timeouts += u32::from(is_change && event.ca_state == CaState::Loss);
        event.srtt_us.iter().for_each(|us| self.srtt.add(*us));
        self.last = event;
    }

    fn summary(&self) -> FlowSummary {
        let growth = Moment::from(&self.last).since(&self.first);
        let last = &self.last;
        FlowSummary {
            socket: last.socket,
            local: last.local.to_string(),
            remote: last.remote.to_string(),
            algorithm: last.algorithm.clone(),
            events: self.events,
            length_s: growth.length_s,
            goodput_bps: growth.goodput_bps(),
            delivered_pkts: last.delivered_pkts,
            retrans_pkts: last.retrans_pkts,
            lost_pkts: last.lost_pkts,
            timeouts: self.timeouts,
            mean_cwnd_pkts: (growth.length_s > 0.0).then(|| self.cwnd_seconds / growth.length_s),
            srtt_p50_us: self.srtt.percentile_us(0.5),
            srtt_p95_us: self.srtt.percentile_us(0.95),
            min_rtt_us: last.min_rtt_us,
            closed: last.kind == EventKind::Close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::live::samples::{SECOND, sample};

    #[test]
    fn a_connection_is_folded_into_its_rates_and_last_counts() {
        let at = |second: u64, cwnd_pkts, bytes_acked| Event { cwnd_pkts, bytes_acked, ..sample(1, second * SECOND) };
        let mut summary = RecordingSummary::default();
        summary.add(at(1, 10, 0));
        summary.add(at(4, 50, 1_000_000));
        let loss = Event { kind: EventKind::State, ca_state: CaState::Loss, retrans_pkts: 3, ..at(5, 1, 1_000_000) };
        summary.add(loss);
        summary.add(Event { delivered_pkts: 9, ..sample(2, SECOND) });
        let flows = summary.flows();
        assert_eq!(flows.iter().map(|flow| flow.socket).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((flows[1].length_s, flows[1].goodput_bps, flows[1].mean_cwnd_pkts), (4.0, Some(2e6), Some(20.0)));
        assert_eq!((flows[1].timeouts, flows[1].retrans_pkts, flows[1].events), (1, 3, 3));
        assert_eq!((flows[0].goodput_bps, flows[0].mean_cwnd_pkts), (None, None));
    }
}
