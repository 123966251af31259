//! From a flow's events and iperf3's report to its record: pure.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use crate::experiment::scenario::FlowSpec;
use crate::experiment::traffic::TransferReport;
use crate::model::run::FlowRecord;
use crate::trace::event::{Event, EventKind};

/// Packets that are delivered before the first of the data: the SYN and iperf3's cookie.
const OPENING_PKTS: u32 = 2;

/// What one flow did.
///
/// `delivered_pkts` counts from the first data packet to exactly `length` later, between two samples by
/// interpolation: iperf3 itself stops a moment later, when the receiver has heard of the end.
/// `goodput_bps` is over the time in which iperf3's receiver counted.
///
/// Shape: `events` are those of the sender's socket, in order of time.
/// Errors: no events, or none with data; events that end before the flow does, which would count too little.
pub fn flow_record(
    flow: &FlowSpec,
    label: String,
    report: &TransferReport,
    events: &[Event],
    length: Duration,
) -> Result<FlowRecord> {
    let lacking = || anyhow!("the tracer saw no data of flow \"{}\"", flow.name);
    let window = Window::of(events, length).ok_or_else(lacking)?;
    if !window.is_seen_to_its_end() {
        bail!("the tracer did not see the end of flow \"{}\"", flow.name);
    }
    if report.receiver_s <= 0.0 {
        bail!("the receiver of flow \"{}\" counted for no time", flow.name);
    }
    let last = window.last_inside();
    Ok(FlowRecord {
        name: flow.name.clone(),
        algorithm: report.algorithm.clone(),
        variant: label,
        compared: flow.compared,
        socket: Some(last.socket),
        delivered_pkts: window.delivered().round() as u64,
        received_bytes: report.received_bytes,
        goodput_bps: 8.0 * report.received_bytes as f64 / report.receiver_s,
        retrans_pkts: u64::from(last.retrans_pkts),
        lost_pkts: u64::from(last.lost_pkts),
        mss_bytes: last.mss_bytes,
        active_s: window.active_s(),
    })
}

/// A flow's events and the time in which it counts.
struct Window<'a> {
    events: &'a [Event],
    /// Index of the first event with data.
    first: usize,
    begin_ns: u64,
    end_ns: u64,
}

impl<'a> Window<'a> {
    /// The first data left one round trip before its acknowledgement.
    fn of(events: &'a [Event], length: Duration) -> Option<Self> {
        let first = events.iter().position(|event| event.delivered_pkts > OPENING_PKTS)?;
        let round_trip_ns = u64::from(events[first].rtt_us.or(events[first].srtt_us).unwrap_or(0)) * 1000;
        let begin_ns = events[first].time_ns.saturating_sub(round_trip_ns);
        Some(Window { events, first, begin_ns, end_ns: begin_ns + length.as_nanos() as u64 })
    }

    /// Whether the events reach as far as the window, or to the close of a flow that ended before.
    fn is_seen_to_its_end(&self) -> bool {
        self.beyond() < self.events.len() || self.events.last().is_some_and(|event| event.kind == EventKind::Close)
    }

    /// Index of the first event after the end.
    fn beyond(&self) -> usize {
        self.events.partition_point(|event| event.time_ns <= self.end_ns)
    }

    fn last_inside(&self) -> &'a Event {
        &self.events[self.beyond().max(self.first + 1) - 1]
    }

    /// Packets delivered at the end of the window.
    fn delivered(&self) -> f64 {
        let before = self.last_inside();
        let delivered = f64::from(before.delivered_pkts - OPENING_PKTS);
        let Some(after) = self.events.get(self.beyond()).filter(|after| after.time_ns > before.time_ns) else {
            return delivered;
        };
        let share = (self.end_ns.saturating_sub(before.time_ns)) as f64 / (after.time_ns - before.time_ns) as f64;
        delivered + share * f64::from(after.delivered_pkts.saturating_sub(before.delivered_pkts))
    }

    fn active_s(&self) -> f64 {
        let grows = |pair: &&[Event]| pair[1].delivered_pkts > pair[0].delivered_pkts;
        let last = self.events.windows(2).rfind(grows).map_or(self.begin_ns, |pair| pair[1].time_ns);
        last.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::event::CaState;
    use std::net::SocketAddr;

    fn event(time_ms: u64, delivered_pkts: u32) -> Event {
        let address: SocketAddr = "198.18.0.1:20001".parse().unwrap();
        Event {
            kind: EventKind::Sample,
            time_ns: time_ms * 1_000_000,
            socket: 7,
            cgroup: 0,
            netns: 1,
            uid: 0,
            local: address,
            remote: address,
            algorithm: "reno".into(),
            cwnd_pkts: 10,
            ssthresh_pkts: None,
            srtt_us: Some(100_000),
            min_rtt_us: Some(100_000),
            rtt_us: Some(100_000),
            rto_us: 300_000,
            inflight_pkts: 1,
            delivered_pkts,
            delivered_ce_pkts: 0,
            lost_pkts: delivered_pkts / 10,
            retrans_pkts: delivered_pkts / 10,
            bytes_acked: 0,
            bytes_received: 0,
            mss_bytes: 1500,
            pacing_rate_bps: None,
            ca_state: CaState::Open,
            prior_ca_state: CaState::Open,
            tcp_state: 1,
            app_limited: false,
            private_state: [0; 104],
        }
    }

    fn record(events: &[Event]) -> Result<FlowRecord> {
        let flow = FlowSpec {
            name: "data".into(),
            from: "s".into(),
            to: "r".into(),
            algorithm: "reno".into(),
            compared: true,
            tunables: Default::default(),
            window_cap: None,
            initial_ssthresh: None,
            initial_cwnd: None,
            start: Duration::ZERO,
            size: None,
        };
        let report = TransferReport {
            algorithm: "reno".into(),
            received_bytes: 1000,
            receiver_s: 2.0,
            retrans_pkts: 0,
            mss_bytes: 1500,
        };
        flow_record(&flow, "reno".into(), &report, events, Duration::from_secs(1))
    }

    #[test]
    fn delivered_is_counted_from_the_first_data_for_the_length_asked() {
        // The first data is acknowledged at 500 ms and left at 400 ms, so the window ends at 1400 ms,
        // half-way between two samples; the handshake and the cookie do not count.
        let events = [event(100, 1), event(300, 2), event(500, 4), event(1300, 82), event(1500, 102), event(1700, 200)];
        let record = record(&events).unwrap();
        assert_eq!(record.delivered_pkts, 90);
        assert_eq!((record.lost_pkts, record.mss_bytes, record.socket), (8, 1500, Some(7)));
        assert_eq!(record.goodput_bps, 4000.0);
    }

    #[test]
    fn flow_that_ends_early_counts_what_it_delivered() {
        let close = Event { kind: EventKind::Close, ..event(900, 52) };
        let record = record(&[event(100, 1), event(500, 4), close]).unwrap();
        assert_eq!(record.delivered_pkts, 50);
        assert!((record.active_s - 0.5).abs() < 1e-9);
    }

    #[test]
    fn flow_whose_end_was_not_seen_is_an_error() {
        let error = record(&[event(100, 1), event(500, 4), event(900, 52)]).unwrap_err().to_string();
        assert_eq!(error, "the tracer did not see the end of flow \"data\"");
    }

    #[test]
    fn flow_without_data_is_an_error() {
        let error = record(&[event(100, 1), event(300, 2)]).unwrap_err().to_string();
        assert_eq!(error, "the tracer saw no data of flow \"data\"");
    }
}
