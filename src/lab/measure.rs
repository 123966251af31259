//! Computes a flow's record from its events and the report of its ends. Pure.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::scenario::{FlowSpec, Sends};
use crate::traffic::report::{Datagrams, TrafficReport, TransferReport, Transferred};
use shared::event::{Event, EventKind};
use shared::model::run::{Completion, FlowRecord};
use shared::units::nanos;

/// Packets delivered before the first data: the SYN, and iperf3's cookie or our opening.
const OPENING_PKTS: u32 = 2;
/// Acknowledged bytes of these packets: 1 for the SYN, 37 for the cookie.
const OPENING_BYTES: u64 = 38;

/// The time of a run or of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Time {
    /// Time 0 of the links' timed changes, on the clock of the events.
    pub links_start_ns: u64,
    pub length: Duration,
}

/// Computes a flow's record. `names` are the kernel's name of the algorithm and its label in comparisons.
///
/// Shape: `events` are those of the senders' sockets, in order of time.
///
/// # Errors
/// The events end before the flow, or are missing, and would count too little.
pub fn flow_record(
    flow: &FlowSpec,
    names: [String; 2],
    report: &TrafficReport,
    events: &[&Event],
    run: Time,
) -> Result<FlowRecord> {
    let [algorithm, variant] = names;
    let length = match &flow.sends {
        Sends::Load(load) => flow.length(run.length).saturating_sub(load.first_start()), // from the first transfer
        _ => flow.length(run.length),
    };
    let time = Time { length, ..run };
    let blank = blank(flow, algorithm, variant);
    match report {
        TrafficReport::Bulk(report) => bulk_record(blank, report, events, time),
        TrafficReport::Transfers(transfers) => {
            let has_sizes = matches!(flow.sends, Sends::Load(_));
            transfers_record(blank, (transfers, has_sizes), events, time)
        }
        TrafficReport::Datagrams(counted) => Ok(datagrams_record(blank, flow, counted)),
    }
}

/// A flow's record without measurements. `algorithm` is the name by which it ran, `variant` the label in comparisons.
pub fn blank(flow: &FlowSpec, algorithm: String, variant: String) -> FlowRecord {
    FlowRecord {
        name: flow.name.clone(),
        algorithm,
        variant,
        compared: flow.compared,
        tcp_sack: flow.uses_sack(),
        ..FlowRecord::default()
    }
}

/// `delivered_pkts` counts for exactly `length` from the flow's beginning, or from its first data, by interpolation
/// between two samples. iperf3 itself stops a little later, when the receiver learns of the end. `goodput_bps` is over
/// the time in which the receiver counted.
fn bulk_record(blank: FlowRecord, report: &TransferReport, events: &[&Event], time: Time) -> Result<FlowRecord> {
    let Some(first) = events.iter().position(|event| event.delivered_pkts > OPENING_PKTS) else {
        return silent_record(blank, report, events, time);
    };
    let begin_ns = report.begun_ns.unwrap_or_else(|| first_data_ns(events, first));
    let end_ns = begin_ns + nanos(time.length);
    let beyond = events.partition_point(|event| event.time_ns <= end_ns);
    let is_seen_to_its_end = beyond < events.len() || events.last().is_some_and(|last| last.kind == EventKind::Close);
    ensure!(is_seen_to_its_end, "the tracer did not see the end of flow \"{}\"", blank.name);
    // A starved flow's first packet may arrive after its end.
    let is_counted = report.receiver_s > 0.0 || report.received_bytes == 0;
    ensure!(is_counted, "the receiver of flow \"{}\" counted for no time", blank.name);
    let last = events[beyond.max(first + 1) - 1];
    let grows = events.windows(2).rfind(|pair| pair[1].delivered_pkts > pair[0].delivered_pkts);
    let grown_ns = grows.map_or(begin_ns, |pair| pair[1].time_ns);
    Ok(FlowRecord {
        socket: Some(last.socket),
        delivered_pkts: delivered(last, events.get(beyond), end_ns, blank.tcp_sack).round() as u64,
        received_bytes: report.received_bytes,
        goodput_bps: goodput_bps(report.received_bytes as f64, report.receiver_s),
        retrans_pkts: u64::from(last.retrans_pkts),
        lost_pkts: u64::from(last.lost_pkts),
        mss_bytes: last.mss_bytes,
        begin_s: Some(time.seconds_to(begin_ns)),
        active_s: grown_ns.saturating_sub(begin_ns) as f64 / 1e9,
        ..blank
    })
}

/// The record of a bulk flow without delivered data: other flows filled its queue whenever it sent.
///
/// `socket` is `None` if it never connected, because a connection that is never made has no events.
fn silent_record(blank: FlowRecord, report: &TransferReport, events: &[&Event], time: Time) -> Result<FlowRecord> {
    let (name, received_bytes) = (&blank.name, report.received_bytes);
    let begin_s = report.begun_ns.map(|begun_ns| time.seconds_to(begun_ns));
    let Some(last) = events.last() else {
        ensure!(
            received_bytes == 0,
            "the tracer saw nothing of flow \"{name}\", whose receiver got {received_bytes} bytes"
        );
        return Ok(FlowRecord { begin_s, ..blank });
    };
    ensure!(last.kind == EventKind::Close, "the tracer did not see the end of flow \"{name}\"");
    Ok(FlowRecord {
        socket: Some(last.socket),
        received_bytes,
        goodput_bps: goodput_bps(received_bytes as f64, report.receiver_s),
        retrans_pkts: u64::from(last.retrans_pkts),
        lost_pkts: u64::from(last.lost_pkts),
        mss_bytes: last.mss_bytes,
        begin_s,
        ..blank
    })
}

/// The first data left one round trip before its acknowledgement.
///
/// The tracer takes a sample when a packet arrives, before the packet is counted. So the last sample without data is
/// the arrival of the acknowledgement, and the next sample has the round-trip time.
fn first_data_ns(events: &[&Event], first: usize) -> u64 {
    let is_acknowledgement = |event: &&&Event| event.kind == EventKind::Sample && event.delivered_pkts == OPENING_PKTS;
    let acknowledged = events[..first].last().filter(is_acknowledgement).unwrap_or(&events[first]);
    let round_trip_ns = u64::from(events[first].rtt_us.or(events[first].srtt_us).unwrap_or(0)) * 1000;
    acknowledged.time_ns.saturating_sub(round_trip_ns)
}

/// Packets delivered at a moment between two events: by the kernel's count, or by cumulative acknowledgements.
fn delivered(before: &Event, after: Option<&&Event>, at_ns: u64, by_count: bool) -> f64 {
    let count = |event: &Event| match by_count {
        true => f64::from(event.delivered_pkts.saturating_sub(OPENING_PKTS)),
        false => event.bytes_acked.saturating_sub(OPENING_BYTES) as f64 / f64::from(event.mss_bytes.max(1)),
    };
    let Some(after) = after.filter(|after| after.time_ns > before.time_ns) else { return count(before) };
    let share = at_ns.saturating_sub(before.time_ns) as f64 / (after.time_ns - before.time_ns) as f64;
    count(before) + share * (count(after) - count(before)).max(0.0)
}

/// Counts are sums over the connections. `delivered_pkts` is computed from the bytes that arrived. `goodput_bps` is
/// from the start of the first connection to the last byte that arrived, or to the end of the flow if a transfer is not
/// done by then: it had all that time. A connection that was never made has no events.
/// `has_sizes`: they may differ in size, so each has its own in the record.
fn transfers_record(
    blank: FlowRecord,
    (transfers, has_sizes): (&[Transferred], bool),
    events: &[&Event],
    time: Time,
) -> Result<FlowRecord> {
    let begun_ns = transfers.first().map_or(0, |first| first.opened_ns);
    let end_ns = begun_ns + nanos(time.length);
    let ports = |one: &Transferred| [one.port, one.to_port];
    let last_of: HashMap<[u16; 2], &Event> =
        events.iter().map(|event| ([event.local.port(), event.remote.port()], *event)).collect();
    let is_one = transfers.windows(2).all(|pair| ports(&pair[0]) == ports(&pair[1]));
    let mut counted = HashSet::new();
    let mut record = blank;
    let mut last_ns = begun_ns;
    for one in transfers {
        let took_ns = one.done_ns.unwrap_or(end_ns).saturating_sub(one.begun_ns);
        let start_s = one.begun_ns.saturating_sub(begun_ns) as f64 / 1e9;
        let (took_s, done) = (took_ns as f64 / 1e9, one.done_ns.is_some());
        let size_bytes = has_sizes.then_some(one.bytes);
        record.completions.push(Completion { start_s, took_s, done, size_bytes });
        last_ns = last_ns.max(one.done_ns.unwrap_or(end_ns));
        let Some(last) = last_of.get(&ports(one)) else {
            ensure!(one.received_bytes == 0, "the tracer saw nothing of a transfer of flow \"{}\"", record.name);
            continue;
        };
        record.socket = Some(last.socket).filter(|_| is_one);
        record.mss_bytes = last.mss_bytes;
        record.received_bytes += one.received_bytes;
        record.delivered_pkts += one.received_bytes.div_ceil(u64::from(last.mss_bytes.max(1)));
        // Messages share one connection, whose counts belong to the first.
        if counted.insert(ports(one)) {
            record.retrans_pkts += u64::from(last.retrans_pkts);
            record.lost_pkts += u64::from(last.lost_pkts);
        }
    }
    // A lost packet may delay a request behind those of later connections.
    record.completions.sort_by(|one, other| one.start_s.total_cmp(&other.start_s));
    record.begin_s = transfers.first().map(|first| time.seconds_to(first.opened_ns));
    record.active_s = (last_ns - begun_ns) as f64 / 1e9;
    record.goodput_bps = goodput_bps(record.received_bytes as f64, record.active_s);
    Ok(record)
}

/// `goodput_bps` is from the first arrival to the last. N packets have N - 1 gaps, so it leaves out one packet.
fn datagrams_record(blank: FlowRecord, flow: &FlowSpec, counted: &Datagrams) -> FlowRecord {
    let gaps = counted.received_pkts.saturating_sub(1) as f64;
    let payload = counted.received_bytes as f64 / counted.received_pkts.max(1) as f64;
    FlowRecord {
        compared: false,
        datagrams: true,
        delivered_pkts: counted.received_pkts,
        received_bytes: counted.received_bytes,
        goodput_bps: goodput_bps(payload * gaps, counted.active_s),
        lost_pkts: counted.lost_pkts,
        mss_bytes: match flow.sends {
            Sends::Datagrams(spec) => spec.packet_bytes,
            _ => 0,
        },
        begin_s: Some(flow.start.as_secs_f64()),
        active_s: counted.active_s,
        delay_us: counted.delay_us,
        frames: counted.frames,
        ..blank
    }
}

/// 0 if the flow was never active.
pub fn goodput_bps(bytes: f64, active_s: f64) -> f64 {
    if active_s > 0.0 { 8.0 * bytes / active_s } else { 0.0 }
}

impl Time {
    /// Seconds from the start of the links to a later moment.
    fn seconds_to(&self, moment_ns: u64) -> f64 {
        moment_ns.saturating_sub(self.links_start_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::scenario::DatagramSpec;
    use crate::scenario::tests::{self, RENO};
    use shared::model::live::samples::sample;
    use shared::model::run::{Delays, Frames};
    use shared::units::{BitsPerSec, Bytes};

    const REPORT: TransferReport = TransferReport { received_bytes: 1000, receiver_s: 2.0, begun_ns: None };

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

    fn record_of(flow: &FlowSpec, report: &TrafficReport, events: &[Event]) -> Result<FlowRecord> {
        let events: Vec<&Event> = events.iter().collect();
        let run = Time { links_start_ns: 50_000_000, length: Duration::from_secs(1) };
        flow_record(flow, ["reno".into(), "reno".into()], report, &events, run)
    }

    #[test]
    fn transfers_are_summed_and_each_is_timed() {
        let begun = |port, at_ms: u64, last_ms: Option<u64>, received_bytes| Transferred {
            port,
            to_port: event(0, 0).remote.port(),
            opened_ns: at_ms * 1_000_000,
            begun_ns: at_ms * 1_000_000,
            last_ns: last_ms.map(|at| at * 1_000_000),
            done_ns: last_ms.filter(|_| received_bytes == 4000).map(|at| at * 1_000_000),
            received_bytes,
            bytes: 4000,
        };
        let at_port = |port, event: Event| Event { local: SocketAddr::new(event.local.ip(), port), ..event };
        let events = [at_port(7, event(200, 20)), at_port(8, event(300, 30))];
        let report = TrafficReport::Transfers(vec![begun(7, 100, Some(300), 4000), begun(8, 200, Some(600), 1500)]);
        let size = Bytes(4000);
        let sends = Sends::Transfers { size, count: 2, interval: Duration::from_millis(100) };
        let record = record_of(&flow(sends.clone()), &report, &events).unwrap();
        let told: Vec<(f64, f64, bool)> = record.completions.iter().map(|c| (c.start_s, c.took_s, c.done)).collect();
        assert_eq!(told, [(0.0, 0.2, true), (0.1, 0.9, false)]);
        assert_eq!((record.delivered_pkts, record.lost_pkts, record.socket), (4, 5, None));
        assert_eq!((record.received_bytes, record.goodput_bps), (5500, 44_000.0), "it had a second");
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
            delay_us: Some(Delays { p95: 40_000.0, ..Delays::default() }),
            frames: Some(Frames { sent: 11, in_time: 9 }),
        };
        let (rate, deadline) = (BitsPerSec(80_000), Duration::from_millis(150));
        let sends = Sends::Datagrams(DatagramSpec { rate, packet_bytes: 1000, frames: None, deadline });
        let record = record_of(&flow(sends), &TrafficReport::Datagrams(counted), &[]).unwrap();
        assert!(record.datagrams && !record.compared && record.socket.is_none());
        assert_eq!((record.delivered_pkts, record.lost_pkts, record.mss_bytes), (9, 2, 1000));
        assert!((record.goodput_bps - 8.0 * 972.0 * 10.0).abs() < 1e-6);
        assert_eq!((record.delay_us, record.frames), (counted.delay_us, counted.frames));
    }

    fn close(time_ms: u64, delivered_pkts: u32) -> Event {
        Event { kind: EventKind::Close, ..event(time_ms, delivered_pkts) }
    }

    #[test]
    fn delivered_is_counted_from_the_first_data_for_the_length_asked() {
        // The first data is acknowledged at 500 ms and left at 400 ms, so the window ends at 1400 ms,
        // half-way between two samples; the handshake and the cookie do not count.
        let events = [event(100, 1), event(500, 2), event(600, 4), event(1300, 82), event(1500, 102), event(1700, 200)];
        let record = record_of(&flow(Sends::Bulk), &TrafficReport::Bulk(REPORT), &events).unwrap();
        assert_eq!((record.lost_pkts, record.mss_bytes, record.socket), (8, 1500, Some(7)));
        assert_eq!((record.delivered_pkts, record.goodput_bps, record.begin_s), (90, 4000.0, Some(0.35)));
    }

    #[test]
    fn sender_sack_and_end_decide_what_counts() {
        let acked = |time_ms, delivered, packets: u64| Event {
            bytes_acked: OPENING_BYTES + packets * 1500,
            ..event(time_ms, delivered)
        };
        let own = TransferReport { begun_ns: Some(50_000_000), receiver_s: 1.0, ..REPORT };
        let without_sack = FlowSpec { tcp_sack: false, ..flow(Sends::Bulk) };
        for (flow, report, events, delivered_pkts, active_s) in [
            // Our own sender's flow begins when the scenario says: the connection took 400 ms of its second.
            (&flow(Sends::Bulk), own, vec![event(500, 2), event(600, 4), event(1040, 52), close(1050, 60)], 58, 1.0),
            // A flow that ends early counts what it delivered.
            (&flow(Sends::Bulk), REPORT, vec![event(100, 1), event(500, 4), close(900, 52)], 50, 0.5),
            // Without SACK, acknowledged bytes count.
            (
                &without_sack,
                REPORT,
                vec![acked(100, 1, 0), acked(500, 4, 2), acked(1300, 900, 40), acked(1500, 990, 60)],
                50,
                1.1,
            ),
        ] {
            let record = record_of(flow, &TrafficReport::Bulk(report), &events).unwrap();
            assert_eq!(record.delivered_pkts, delivered_pkts);
            assert!((record.active_s - active_s).abs() < 1e-9, "{}", record.active_s);
        }
    }

    /// The run failed if one of 64 flows was starved.
    #[test]
    fn flow_that_delivered_nothing_is_a_result() {
        let report = TrafficReport::Bulk(TransferReport { received_bytes: 0, receiver_s: 0.0, begun_ns: None });
        let record = |events: &[Event]| record_of(&flow(Sends::Bulk), &report, events).unwrap();
        let unconnected = record(&[]);
        assert!(unconnected.is_silent() && unconnected.never_connected());
        assert_eq!((unconnected.goodput_bps, unconnected.active_s, unconnected.begin_s), (0.0, 0.0, None));
        let late = record(&[event(100, 1), event(300, 2), close(900, 3)]);
        assert_eq!((late.is_silent(), late.goodput_bps), (false, 0.0), "its first packet arrives after its end");
        let last = Event { lost_pkts: 12, retrans_pkts: 7, ..close(900, 2) };
        let starved = record(&[event(100, 1), event(300, 2), last]);
        assert!(starved.is_silent() && !starved.never_connected());
        assert_eq!((starved.socket, starved.lost_pkts, starved.retrans_pkts), (Some(7), 12, 7));
        let sends = Sends::Transfers { size: Bytes(4000), count: 1, interval: Duration::ZERO };
        let one = Transferred {
            port: 7,
            to_port: 8,
            opened_ns: 0,
            begun_ns: 0,
            last_ns: None,
            done_ns: None,
            received_bytes: 0,
            bytes: 4000,
        };
        let transfer = record_of(&flow(sends), &TrafficReport::Transfers(vec![one]), &[]).unwrap();
        assert!(!transfer.completions[0].done && transfer.socket.is_none());
    }

    #[test]
    fn flow_whose_data_or_end_was_not_seen_is_an_error() {
        let bulk = |events: &[Event]| record_of(&flow(Sends::Bulk), &TrafficReport::Bulk(REPORT), events);
        let unended = bulk(&[event(100, 1), event(500, 4), event(900, 52)]).unwrap_err().to_string();
        assert_eq!(unended, "the tracer did not see the end of flow \"data\"");
        let silent = bulk(&[event(100, 1), event(300, 2)]).unwrap_err().to_string();
        assert_eq!(silent, unended);
        let unseen = bulk(&[]).unwrap_err().to_string();
        assert_eq!(unseen, "the tracer saw nothing of flow \"data\", whose receiver got 1000 bytes");
    }
}
