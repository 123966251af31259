//! Requests, and reports and events as a guest writes them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use zerocopy::FromBytes as _;

use super::*;
use crate::scenario::Scenario;
use shared::model::live::samples::sample;
use shared::model::run::Engine;

const HEAD: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"10s\"\nruns=2\nseed=1\n";
const LINK: &str = "[[link]]\nends=[\"s\",\"r\"]\nrate=\"20mbit\"\ndelay=\"20ms\"\n";

fn plan(head: &str, flows: &[&str]) -> Plan {
    let flow = |(number, rest): (usize, &&str)| format!("[[flow]]\nname=\"f{number}\"\nfrom=\"s\"\nto=\"r\"\n{rest}\n");
    let flows: String = flows.iter().enumerate().map(flow).collect();
    let scenario = Scenario::parse("t.toml", &format!("{HEAD}{head}{LINK}{flows}")).unwrap();
    Plan::new(&scenario, &crate::plan::Choices { engine: Engine::Virtual, ..Default::default() }).unwrap()
}

fn flows_of(plan: &Plan, run: usize) -> Vec<GuestFlow<'_>> {
    let run = &plan.runs[run];
    let names = plan.cells[run.cell].flows.iter().map(|flow| flow.algorithm.clone());
    flows(plan, run, &plan.layout(run), names).unwrap()
}

/// Without other flows, a flow once had the start and the ports of the first of them.
#[test]
fn flow_has_the_same_start_and_ports_without_others() {
    let transfers = "algorithm=\"reno\"\nsize=\"9kB\"\ncount=3\ninterval=\"1s\"";
    let bulk = "algorithm=\"reno\"";
    let variants = "variant={solo={without=[\"f0\",\"f1\"]},both={}}\n";
    let plan = plan(variants, &[transfers, "protocol=\"udp\"\nrate=\"1mbit\"", bulk, bulk]);
    let starts = |variant: &str| {
        let is_of = |run: &&PlannedRun| plan.cells[run.cell].at["variant"] == variant && run.repeat == 1;
        let index = plan.runs.iter().position(|run| is_of(&run)).unwrap();
        let requests = flows_of(&plan, index).into_iter().map(|flow| flow.request);
        requests.map(|one| (one.start_ns, one.first, one.to_port)).collect::<Vec<_>>()
    };
    assert_eq!(starts("solo"), starts("both")[2..]);
    assert_eq!(starts("solo")[0].1, 4);
}

/// The report of a flow that is done.
fn done(algorithm: &str) -> FlowReport {
    let algorithm = name_of(algorithm).unwrap();
    FlowReport { is_done: 1, mss_bytes: 1460, algorithm, ..FlowReport::default() }
}

#[test]
fn both_ends_get_the_same_request() {
    let plan = plan("", &["algorithm=\"reno\"\nwindow_cap=50\ninitial_cwnd=2\nstart=\"1s\""]);
    let flow = &flows_of(&plan, 0)[0];
    let [(to, received), (from, sent)] = flow.requests();
    assert_eq!((from, to), (0, 1), "s is the first node of the layout, r the second");
    let read = |bytes: &[u8]| FlowRequest::read_from_bytes(bytes).unwrap();
    let (received, sent) = (read(&received), read(&sent));
    assert_eq!([received.end, sent.end], [FlowEnd::TCCC_END_RECEIVES.0, FlowEnd::TCCC_END_SENDS.0]);
    assert_eq!(FlowRequest { end: sent.end, ..received }, sent);
    assert_eq!(
        (sent.sends, sent.count, sent.length_ns, sent.netns),
        (SendsKind::TCCC_SENDS_BULK.0, 1, 9_000_000_000, 1)
    );
    assert_eq!(sent.from_start, 0, "iperf3 counts from the first data");
    assert_eq!((sent.window_cap, sent.initial_cwnd, sent.initial_ssthresh), (50, 2, 0));
    assert_eq!((sent.from_address, sent.to_address), ([198, 18, 0, 1], [198, 18, 0, 2]));
    assert_eq!((sent.first, sent.to_port, sent.algorithm), (0, 5201, name_of("reno").unwrap()));
}

#[test]
fn every_kind_of_flow_has_its_request() {
    let transfers = "algorithm=\"reno\"\nsize=\"100kB\"\ncount=3\ninterval=\"1s\"";
    let messages = "algorithm=\"reno\"\nsize=\"10kB\"\ncount=4\ninterval=\"2s\"\nkeep_alive=1";
    let datagrams = "protocol=\"udp\"\nrate=\"8mbit\"\npacket=\"1000B\"";
    let plan = plan("", &[transfers, messages, datagrams]);
    let requests: Vec<FlowRequest> = flows_of(&plan, 0).iter().map(|flow| flow.request).collect();
    let told: Vec<_> = requests.iter().map(|one| (one.sends, one.bytes, one.count, one.interval_ns)).collect();
    let seconds = |count: u64| count * 1_000_000_000;
    let expected = [
        (SendsKind::TCCC_SENDS_TRANSFERS.0, 0, 3, 0),
        (SendsKind::TCCC_SENDS_MESSAGES.0, 10_000, 4, seconds(2)),
        (SendsKind::TCCC_SENDS_DATAGRAMS.0, 0, 1, 1_000_000),
    ];
    assert_eq!(told, expected);
    let frame = FlowFrame { pkts: 1, bytes: 972, last_bytes: 972 };
    assert_eq!((requests[2].frames, requests[2].every, requests[2].deadline_ns), ([frame; 2], 1, 150_000_000));
    let numbers: Vec<(u32, u32)> = requests.iter().map(|one| (one.first, one.to_port)).collect();
    assert_eq!(numbers, [(0, 5201), (3, 5202), (4, 5203)], "a transfer has a connection of its own");
    assert_eq!(
        (requests[0].settle_ns, requests[2].settle_ns),
        (0, 340_600_000),
        "300 ms, the round trip, and the host delay"
    );
    assert_eq!(requests[2].algorithm, [0; 16]);
}

#[test]
fn receiving_end_gets_the_transfers() {
    let load = "algorithm=\"reno\"\nsize=\"pareto:shape=1.2,least=2kB,most=1MB\"\narrivals=\"poisson:mean=100ms\"";
    let plan = plan("", &[load, "algorithm=\"reno\"\nsize=\"9kB\"\ncount=2\ninterval=\"3s\"", load]);
    let told = |run: usize| -> Vec<Vec<(u64, u64)>> {
        let of = |flow: &GuestFlow<'_>| {
            let [(_, received), (_, sent)] = flow.requests();
            assert_eq!(sent.len(), size_of::<FlowRequest>());
            let (request, mut rest) = FlowRequest::read_from_prefix(&received).unwrap();
            let transfers: Vec<TransferRequest> = take_all(&mut rest, request.count).unwrap();
            assert!(rest.is_empty(), "{} bytes more", rest.len());
            transfers.iter().map(|one| (one.start_ns, one.bytes)).collect()
        };
        flows_of(&plan, run).iter().map(of).collect()
    };
    let first = told(0);
    assert_eq!(first[1], [(0, 9000), (3_000_000_000, 9000)]);
    assert!((60..140).contains(&first[0].len()) && first[0].is_sorted_by_key(|one| one.0), "{first:?}");
    assert_ne!(first[0], first[2], "each flow draws its own");
    assert_eq!(first, told(0));
    assert_ne!(first, told(1), "repeats have seeds of their own");
    let numbers: Vec<u32> = flows_of(&plan, 0).iter().map(|flow| flow.request.first).collect();
    assert_eq!(numbers, [2, 0, 2 + first[0].len() as u32], "loads come last");
}

#[test]
fn receiving_end_gets_the_bursts() {
    let bulk = "algorithm=\"reno\"\nbursts=\"on=4s,off=2s\"";
    let plan = plan("", &[bulk, "algorithm=\"reno\"\nrate=\"1mbit\"\nbursts=\"on=4s,off=2s\"\nstart=\"5s\""]);
    let flows = flows_of(&plan, 0);
    let [(_, received), (_, sent)] = flows[0].requests();
    let (request, mut rest) = FlowRequest::read_from_prefix(&received).unwrap();
    let bursts: Vec<GuestBurst> = take_all(&mut rest, request.bursts).unwrap();
    let times: Vec<[u64; 2]> =
        bursts.iter().map(|one| [one.start_ns, one.before_ns].map(|ns| ns / 1_000_000)).collect();
    assert_eq!(
        (times, rest.len(), sent.len()),
        (vec![[0, 0], [6000, 4000], [12_000, 8000]], 0, size_of::<FlowRequest>())
    );
    assert_eq!((request.from_start, flows[1].request.count), (1, 400), "its time begins with its start");
}

/// A port comes again after 45,000 connections, with another server.
#[test]
fn more_connections_than_ports_are_told_apart() {
    let many = "algorithm=\"reno\"\nsize=\"100B\"\ncount=100000\ninterval=\"90us\"";
    let plan = plan("", &["algorithm=\"reno\"", many, "algorithm=\"reno\"\nstart=\"1s\""]);
    let flows = flows_of(&plan, 0);
    assert_eq!(flows[2].connections(), 100_001..100_002);
    let event = |flow: &GuestFlow<'_>, number: u32| {
        let [local, remote] = ports(number, flow.request.to_port);
        let at = |port| SocketAddr::from(([198, 18, 0, 1], port));
        Event { local: at(local), remote: at(remote), ..sample(u64::from(number), 0) }
    };
    let numbers = [(0, 0), (1, 1), (1, 1000), (1, 1001), (1, 44_999), (1, 45_000), (1, 100_000), (2, 100_001)];
    let events: Vec<Event> = numbers.iter().map(|(flow, number)| event(&flows[*flow], *number)).collect();
    let ports: Vec<(u16, u16)> = events.iter().map(|event| (event.local.port(), event.remote.port())).collect();
    assert_eq!(ports[4..], [(65_000, 5202), (20_001, 5458), (30_001, 5714), (30_002, 5715)]);
    let own = |flow: usize| flows[flow].events(&events).iter().map(|event| event.socket).collect::<Vec<_>>();
    assert_eq!((own(0), own(1).len(), own(2)), (vec![0], 6, vec![100_001]));
    let traced: Vec<u64> = traced(&flows, events).iter().map(|event| event.socket).collect();
    assert_eq!(traced, [0, 1, 1000, 100_001], "a thousand connections of a flow have events");
}

#[test]
fn start_moments_are_seeded_and_within_the_spread() {
    let flow = "algorithm=\"reno\"\nstart=\"1s\"";
    let spread = plan("[virtual]\nstart_spread=\"5ms\"\n", &[flow; 40]);
    let starts = |run| flows_of(&spread, run).iter().map(|flow| flow.request.start_ns).collect::<Vec<u64>>();
    assert_eq!(starts(0), starts(0));
    assert_ne!(starts(0), starts(1), "repeats have seeds of their own");
    let starts = starts(0);
    assert!(starts.iter().all(|start| (1_000_000_000..=1_005_000_000).contains(start)), "{starts:?}");
    assert!(starts.iter().collect::<BTreeSet<_>>().len() > 30, "{starts:?}");
    let none = plan("[virtual]\nstart_spread=\"0s\"\n", &[flow]);
    assert_eq!(flows_of(&none, 0)[0].request.start_ns, 1_000_000_000);
    assert_eq!(run_ns(&flows_of(&none, 0)), [10_000_000_000, 65_000_000_000]);
}

#[test]
fn reports_are_read_in_the_order_of_the_flows() {
    let transfers = "algorithm=\"reno\"\nsize=\"1kB\"\ncount=2\ninterval=\"1s\"";
    let plan = plan("", &["algorithm=\"reno\"", transfers]);
    let flows = flows_of(&plan, 0);
    let bulk = FlowReport { received_bytes: 500, counted_ns: 2_000_000_000, ..done("reno") };
    let one =
        c_types::TransferReport { begun_ns: 5, last_ns: 9, received_bytes: 1000, connection: 1, ..Default::default() };
    let other = c_types::TransferReport { last_ns: 0, received_bytes: 0, connection: 2, error: -110, ..one };
    let second = FlowReport { flow: 1, transfers: 2, ..done("reno") };
    let bytes = [bulk.as_bytes(), second.as_bytes(), one.as_bytes(), other.as_bytes()].concat();
    let read = reports(&bytes, &flows).unwrap();
    let TrafficReport::Bulk(report) = &read[0].traffic else { panic!("{read:?}") };
    assert_eq!((report.received_bytes, report.receiver_s), (500, 2.0));
    let TrafficReport::Transfers(transfers) = &read[1].traffic else { panic!("{read:?}") };
    assert_eq!((transfers[0].done_ns, transfers[0].port), (Some(9), 20002));
    assert_eq!((transfers[1].last_ns, transfers[1].done_ns), (None, None));
    assert!(reports(&bytes[..bytes.len() - 1], &flows).is_err());
    assert!(reports(&bytes, &flows[..1]).is_err());
}

#[test]
fn flow_that_failed_is_an_error_with_its_name() {
    let plan = plan("", &["algorithm=\"reno\""]);
    let flows = flows_of(&plan, 0);
    let told = |report: FlowReport| format!("{:#}", reports(report.as_bytes(), &flows).unwrap_err());
    let failed = FlowReport { error: -104, ..done("reno") };
    assert_eq!(told(failed), "send flow \"f0\": Connection reset by peer");
    let late = FlowReport { is_done: 0, ..done("reno") };
    assert_eq!(told(late), "send flow \"f0\": it had not finished at the end of the run");
    let reset = FlowReport { is_done: 0, error: -104, ..done("reno") };
    assert_eq!(told(reset), "send flow \"f0\": it had not finished at the end of the run");
    assert_eq!(told(done("cubic")), "send flow \"f0\": it ran \"cubic\" instead of \"reno\"");
}

/// A link that was down at the end once failed every run.
#[test]
fn bulk_flow_whose_connection_timed_out_counts_what_arrived() {
    let plan = plan("", &["algorithm=\"reno\"\nsender=\"tccc\""]);
    let read = |report: FlowReport| {
        let read = reports(report.as_bytes(), &flows_of(&plan, 0)).unwrap();
        let TrafficReport::Bulk(report) = &read[0].traffic else { panic!("{read:?}") };
        (report.received_bytes, report.receiver_s, report.begun_ns, read[0].given_up)
    };
    let timed_out = FlowReport { error: -110, ..done("reno") };
    assert_eq!(read(timed_out), (0, 0.0, None, false), "it never connected");
    let given_up = FlowReport { is_done: 0, received_bytes: 9, counted_ns: 1_000_000_000, first_ns: 5, ..timed_out };
    assert_eq!(read(given_up), (9, 1.0, Some(5), true));
}

#[test]
fn events_are_read_after_their_header() {
    let head = |version| WatchReport { dropped: 7, version, event_bytes: EVENT_BYTES as u32 }.as_bytes().to_vec();
    assert_eq!(events(&head(EVENT_VERSION)).unwrap(), Traced { events: Vec::new(), dropped: 7 });
    assert!(events(&head(EVENT_VERSION + 1)).unwrap_err().to_string().contains("version"));
    assert!(events(&[head(EVENT_VERSION), vec![0; 9]].concat()).is_err());
    assert!(events(&[1]).is_err());
    let run = RunReport { begin_ns: 4, ..RunReport::default() };
    assert_eq!(begin_ns(run.as_bytes()).unwrap(), 4);
    assert!(begin_ns(RunReport::default().as_bytes()).is_err());
}

#[test]
fn datagrams_beyond_what_a_guest_counts_are_refused() {
    let many = plan("", &["protocol=\"udp\"\nrate=\"10gbit\"\npacket=\"36B\""]);
    let (flow, field, why) = uncountable(&many.cells[0]).unwrap();
    assert_eq!((flow.name.as_str(), field), ("f0", "rate"));
    assert!(why.what.starts_with("it sends "), "{why}");
    assert!(uncountable(&plan("", &["protocol=\"udp\"\nrate=\"1gbit\"\npacket=\"1500B\""]).cells[0]).is_none());
}
