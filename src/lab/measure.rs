//! From a flow's events and what its ends report to its record: pure.

use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};

use crate::lab::traffic::report::{Datagrams, Report, TransferReport, Transferred};
use crate::model::run::{Completion, FlowRecord};
use crate::scenario::{FlowSpec, Sends};
use crate::trace::event::{Event, EventKind};

/// Packets that are delivered before the first of the data: the SYN and iperf3's cookie.
const OPENING_PKTS: u32 = 2;
/// The same in acknowledged bytes: the SYN counts one, the cookie has 37.
const OPENING_BYTES: u64 = 38;

/// When something counts.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// The moment 0 of what the links do by time, on the clock of the events.
    pub links_start_ns: u64,
    /// How long it counts.
    pub length: Duration,
}

/// What one flow did.
///
/// `names` are the kernel's name of its algorithm and its label in comparisons; `run` is the time of the run.
///
/// Shape: `events` are those of the senders' sockets, in order of time.
/// Errors: no events, or none with data; events that end before the flow does, which would count too little.
pub fn flow_record(
    flow: &FlowSpec,
    names: [String; 2],
    report: &Report,
    events: &[&Event],
    run: Time,
) -> Result<FlowRecord> {
    let [algorithm, variant] = names;
    let time = Time { length: flow.length(run.length), ..run };
    let blank = blank(flow, algorithm, variant);
    match report {
        Report::Bulk(report) => bulk_record(blank, report, events, time),
        Report::Transfers(transfers) => transfers_record(blank, transfers, events, time),
        Report::Datagrams(counted) => Ok(datagrams_record(blank, flow, counted)),
    }
}

/// The record of a flow of which nothing is known; `algorithm` is its name where it ran, `variant` that in comparisons.
pub fn blank(flow: &FlowSpec, algorithm: String, variant: String) -> FlowRecord {
    FlowRecord {
        name: flow.name.clone(),
        algorithm,
        variant,
        compared: flow.compared,
        tcp_sack: flow.tcp_sack,
        ..FlowRecord::default()
    }
}

/// `delivered_pkts` counts from the first data packet to exactly `length` later, between two samples by
/// interpolation: iperf3 itself stops a moment later, when the receiver has heard of the end.
/// `goodput_bps` is over the time in which iperf3's receiver counted.
fn bulk_record(blank: FlowRecord, report: &TransferReport, events: &[&Event], time: Time) -> Result<FlowRecord> {
    let lacking = || {
        let advice = "if others fill its queue before its connections are made, let it start before them";
        anyhow!("the tracer saw no data of flow \"{}\": {advice}", blank.name)
    };
    let window = Window::of(events, time.length).ok_or_else(lacking)?;
    ensure!(window.is_seen_to_its_end(), "the tracer did not see the end of flow \"{}\"", blank.name);
    ensure!(report.receiver_s > 0.0, "the receiver of flow \"{}\" counted for no time", blank.name);
    let last = window.last_inside();
    Ok(FlowRecord {
        socket: Some(last.socket),
        delivered_pkts: window.delivered(blank.tcp_sack).round() as u64,
        received_bytes: report.received_bytes,
        goodput_bps: 8.0 * report.received_bytes as f64 / report.receiver_s,
        retrans_pkts: u64::from(last.retrans_pkts),
        lost_pkts: u64::from(last.lost_pkts),
        mss_bytes: last.mss_bytes,
        begin_s: Some(time.seconds_to(window.begin_ns)),
        active_s: window.active_s(),
        ..blank
    })
}

/// Counts are summed over the connections; `delivered_pkts` are the packets that carry what arrived, and
/// `goodput_bps` is from the start of the first connection to the last byte that arrived.
fn transfers_record(blank: FlowRecord, transfers: &[Transferred], events: &[&Event], time: Time) -> Result<FlowRecord> {
    let begun_ns = transfers.first().map_or(0, |first| first.begun_ns);
    let end_ns = begun_ns + time.length.as_nanos() as u64;
    let last_of = |port: u16| events.iter().rfind(|event| event.local.port() == port).copied();
    let mut record = blank;
    let mut last_ns = begun_ns;
    for (number, one) in transfers.iter().enumerate() {
        let took_ns = one.done_ns.unwrap_or(end_ns).saturating_sub(one.begun_ns);
        let start_s = (one.begun_ns - begun_ns) as f64 / 1e9;
        record.completions.push(Completion { start_s, took_s: took_ns as f64 / 1e9, done: one.done_ns.is_some() });
        last_ns = last_ns.max(one.last_ns.unwrap_or(begun_ns));
        let Some(last) = last_of(one.port) else {
            bail!("the tracer saw nothing of a transfer of flow \"{}\"", record.name)
        };
        let is_of_it = |other: &Transferred| other.port == one.port;
        record.socket = Some(last.socket).filter(|_| transfers.iter().all(is_of_it));
        record.mss_bytes = last.mss_bytes;
        record.received_bytes += one.received_bytes;
        record.delivered_pkts += one.received_bytes.div_ceil(u64::from(last.mss_bytes.max(1)));
        // Of messages over one connection the first stands for all.
        let is_counted = transfers[..number].iter().any(is_of_it);
        record.retrans_pkts += if is_counted { 0 } else { u64::from(last.retrans_pkts) };
        record.lost_pkts += if is_counted { 0 } else { u64::from(last.lost_pkts) };
    }
    record.begin_s = transfers.first().map(|first| time.seconds_to(first.begun_ns));
    record.active_s = (last_ns - begun_ns) as f64 / 1e9;
    let is_any = record.active_s > 0.0;
    record.goodput_bps = if is_any { 8.0 * record.received_bytes as f64 / record.active_s } else { 0.0 };
    Ok(record)
}

/// `goodput_bps` is over the time from the first arrival to the last, in which one packet more than gaps arrives.
fn datagrams_record(blank: FlowRecord, flow: &FlowSpec, counted: &Datagrams) -> FlowRecord {
    let gaps = counted.received_pkts.saturating_sub(1) as f64;
    let payload = counted.received_bytes as f64 / counted.received_pkts.max(1) as f64;
    let is_any = counted.active_s > 0.0;
    FlowRecord {
        compared: false,
        datagrams: true,
        delivered_pkts: counted.received_pkts,
        received_bytes: counted.received_bytes,
        goodput_bps: if is_any { 8.0 * payload * gaps / counted.active_s } else { 0.0 },
        lost_pkts: counted.lost_pkts,
        mss_bytes: match flow.sends {
            Sends::Datagrams { packet_bytes, .. } => packet_bytes,
            _ => 0,
        },
        begin_s: Some(flow.start.as_secs_f64()),
        active_s: counted.active_s,
        ..blank
    }
}

impl Time {
    /// Seconds from the start of the links to a moment, which is not before it.
    fn seconds_to(&self, moment_ns: u64) -> f64 {
        moment_ns.saturating_sub(self.links_start_ns) as f64 / 1e9
    }
}

/// A flow's events and the time in which it counts.
struct Window<'a> {
    events: &'a [&'a Event],
    /// Index of the first event with data.
    first: usize,
    begin_ns: u64,
    end_ns: u64,
}

impl<'a> Window<'a> {
    /// The first data left one round trip before its acknowledgement.
    ///
    /// A sample is taken as a packet arrives, before it counts: the last that does not know of the data is the moment
    /// at which its acknowledgement came, and the next knows the round trip.
    fn of(events: &'a [&'a Event], length: Duration) -> Option<Self> {
        let first = events.iter().position(|event| event.delivered_pkts > OPENING_PKTS)?;
        let is_acknowledgement =
            |event: &&&Event| event.kind == EventKind::Sample && event.delivered_pkts == OPENING_PKTS;
        let acknowledged = events[..first].last().filter(is_acknowledgement).unwrap_or(&events[first]);
        let round_trip_ns = u64::from(events[first].rtt_us.or(events[first].srtt_us).unwrap_or(0)) * 1000;
        let begin_ns = acknowledged.time_ns.saturating_sub(round_trip_ns);
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
        self.events[self.beyond().max(self.first + 1) - 1]
    }

    /// Packets delivered at the end of the window: by the kernel's count, or of what is acknowledged without a gap.
    fn delivered(&self, by_count: bool) -> f64 {
        let count = |event: &Event| match by_count {
            true => f64::from(event.delivered_pkts.saturating_sub(OPENING_PKTS)),
            false => event.bytes_acked.saturating_sub(OPENING_BYTES) as f64 / f64::from(event.mss_bytes.max(1)),
        };
        let before = self.last_inside();
        let Some(after) = self.events.get(self.beyond()).filter(|after| after.time_ns > before.time_ns) else {
            return count(before);
        };
        let share = (self.end_ns.saturating_sub(before.time_ns)) as f64 / (after.time_ns - before.time_ns) as f64;
        count(before) + share * (count(after) - count(before)).max(0.0)
    }

    fn active_s(&self) -> f64 {
        let grows = |pair: &&[&Event]| pair[1].delivered_pkts > pair[0].delivered_pkts;
        let last = self.events.windows(2).rfind(grows).map_or(self.begin_ns, |pair| pair[1].time_ns);
        last.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::model::live::samples::sample;
    use crate::scenario::tests::{self, RENO};
    use crate::units::{BitsPerSec, Bytes};

    fn event(time_ms: u64, delivered_pkts: u32) -> Event {
        Event {
            local: "198.18.0.1:20001".parse().unwrap(),
            rtt_us: Some(100_000),
            delivered_pkts,
            lost_pkts: delivered_pkts / 10,
            retrans_pkts: delivered_pkts / 10,
            mss_bytes: 1500,
            ..sample(7, time_ms * 1_000_000)
        }
    }

    fn flow(sends: Sends) -> FlowSpec {
        let cell = tests::cell(&(tests::link(["s", "r"], "") + &tests::flow("data", ["s", "r"], RENO)));
        FlowSpec { sends, ..cell.flows[0].clone() }
    }

    fn record_of(flow: &FlowSpec, report: &Report, events: &[Event]) -> Result<FlowRecord> {
        let events: Vec<&Event> = events.iter().collect();
        let run = Time { links_start_ns: 50_000_000, length: Duration::from_secs(1) };
        flow_record(flow, ["reno".into(), "reno".into()], report, &events, run)
    }

    fn record(events: &[Event]) -> Result<FlowRecord> {
        let report = TransferReport {
            algorithm: "reno".into(),
            received_bytes: 1000,
            receiver_s: 2.0,
            retrans_pkts: 0,
            mss_bytes: 1500,
        };
        record_of(&flow(Sends::Bulk), &Report::Bulk(report), events)
    }

    #[test]
    fn transfers_are_summed_and_each_is_timed() {
        let begun = |port, at_ms: u64, last_ms: Option<u64>, received_bytes| Transferred {
            port,
            begun_ns: at_ms * 1_000_000,
            last_ns: last_ms.map(|at| at * 1_000_000),
            done_ns: last_ms.filter(|_| received_bytes == 4000).map(|at| at * 1_000_000),
            received_bytes,
        };
        let at_port = |port, event: Event| Event { local: SocketAddr::new(event.local.ip(), port), ..event };
        let events = [at_port(7, event(200, 20)), at_port(8, event(300, 30))];
        let report = Report::Transfers(vec![begun(7, 100, Some(300), 4000), begun(8, 200, Some(600), 1500)]);
        let size = Bytes(4000);
        let sends = Sends::Transfers { size, count: 2, interval: Duration::from_millis(100) };
        let record = record_of(&flow(sends.clone()), &report, &events).unwrap();
        let told: Vec<(f64, f64, bool)> = record.completions.iter().map(|c| (c.start_s, c.took_s, c.done)).collect();
        assert_eq!(told, [(0.0, 0.2, true), (0.1, 0.9, false)]);
        assert_eq!((record.delivered_pkts, record.lost_pkts, record.socket), (4, 5, None));
        assert_eq!((record.received_bytes, record.goodput_bps), (5500, 88_000.0));
        assert_eq!(record.begin_s, Some(0.05), "the links began at 50 ms, the first transfer at 100 ms");
        assert!(record_of(&flow(sends), &report, &events[..1]).unwrap_err().to_string().contains("saw nothing"));
    }

    #[test]
    fn datagrams_are_counted_and_never_compared() {
        let counted = Datagrams {
            latest: Duration::ZERO,
            lost_pkts: 2,
            received_pkts: 9,
            received_bytes: 9 * 972,
            active_s: 0.8,
        };
        let sends = Sends::Datagrams { rate: BitsPerSec(80_000), packet_bytes: 1000 };
        let record = record_of(&flow(sends), &Report::Datagrams(counted), &[]).unwrap();
        assert!(record.datagrams && !record.compared && record.socket.is_none());
        assert_eq!((record.delivered_pkts, record.lost_pkts, record.mss_bytes), (9, 2, 1000));
        assert!((record.goodput_bps - 8.0 * 972.0 * 10.0).abs() < 1e-6);
    }

    #[test]
    fn delivered_is_counted_from_the_first_data_for_the_length_asked() {
        // The first data is acknowledged at 500 ms and left at 400 ms, so the window ends at 1400 ms,
        // half-way between two samples; the handshake and the cookie do not count.
        let events = [event(100, 1), event(500, 2), event(600, 4), event(1300, 82), event(1500, 102), event(1700, 200)];
        let record = record(&events).unwrap();
        assert_eq!(record.delivered_pkts, 90);
        assert_eq!((record.lost_pkts, record.mss_bytes, record.socket), (8, 1500, Some(7)));
        assert_eq!((record.goodput_bps, record.begin_s), (4000.0, Some(0.35)));
    }

    #[test]
    fn flow_without_selective_acknowledgements_counts_what_was_acknowledged() {
        let acked = |time_ms, delivered, packets: u64| Event {
            bytes_acked: OPENING_BYTES + packets * 1500,
            ..event(time_ms, delivered)
        };
        let events = [acked(100, 1, 0), acked(500, 4, 2), acked(1300, 900, 40), acked(1500, 990, 60)];
        let report = Report::Bulk(TransferReport {
            algorithm: "reno".into(),
            received_bytes: 1000,
            receiver_s: 2.0,
            retrans_pkts: 0,
            mss_bytes: 1500,
        });
        let flow = FlowSpec { tcp_sack: false, ..flow(Sends::Bulk) };
        assert_eq!(record_of(&flow, &report, &events).unwrap().delivered_pkts, 50);
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
        assert!(error.starts_with("the tracer saw no data of flow \"data\": "), "{error}");
    }
}
