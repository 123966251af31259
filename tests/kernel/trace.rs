//! The tracer on this kernel: events of real transfers between namespaces, filters, drops, sweeps, cleanup.

mod command;

use std::collections::BTreeMap;
use std::os::fd::AsRawFd as _;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn, connect, socket};
use tccc::kernel::netlink::{add_address, set_up};
use tccc::trace::event::{CaState, Event, EventKind};
use tccc::trace::filter::Filter;
use tccc::trace::live::{RING_BYTES, RING_BYTES_MIN, Sampling, Tracer};
use tccc::trace::snapshot;

use super::*;
use crate::common::tun;
use crate::lab::socket::path_of;
use crate::lab::trace::{LossyPath, Observed, only, programs_of, transfer};

/// The tracer's program samples this many packets of a new connection, whatever the interval.
const OPENING_PKTS: usize = 8;

#[test]
fn transfer_has_open_sample_and_close_events() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut observed = Observed::start(&only(&netns), Duration::from_millis(1), RING_BYTES);
    let client = transfer(&netns, "reno", 64 << 20);
    observed.until_closed(client);
    let events = observed.of(client);
    assert_eq!((events[0].kind, events[0].tcp_state, events[0].netns), (EventKind::Open, 1, netns.inode()));
    let samples: Vec<&&Event> = events.iter().filter(|event| event.kind == EventKind::Sample).collect();
    assert!(samples.len() > 1, "{} samples", samples.len());
    assert!(samples.windows(2).all(|pair| pair[0].delivered_pkts <= pair[1].delivered_pkts));
    let later = samples.get(OPENING_PKTS - 1..).unwrap_or_default();
    assert!(later.windows(2).all(|pair| pair[1].time_ns - pair[0].time_ns >= 1_000_000), "samples come too often");
    let first = &samples[..OPENING_PKTS.min(samples.len())];
    assert!(first.windows(2).all(|pair| pair[1].delivered_pkts - pair[0].delivered_pkts <= 64), "each packet is seen");
    assert!(samples.last().unwrap().delivered_pkts > samples[0].delivered_pkts);
    assert!(samples.iter().any(|sample| sample.srtt_us.is_some() && sample.min_rtt_us <= sample.srtt_us));
    assert_eq!(events.last().unwrap().kind, EventKind::Close);
    assert!(events.iter().all(|event| event.algorithm == "reno" && event.socket == events[0].socket));
    assert_eq!(observed.tracer.watcher().dropped(), 0);
}

#[test]
fn close_has_the_final_counts_of_the_kernel() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut observed = Observed::start(&only(&netns), Duration::from_millis(100), RING_BYTES);
    let mut connection = HeldConnection::open(&netns, "cubic");
    connection.send(8 << 20);
    let client = connection.client.local_addr().unwrap();
    connection.client.shutdown(Shutdown::Write).unwrap();
    connection.server.shutdown(Shutdown::Write).unwrap();
    observed.until_closed(client);
    let info = tcp_info(&connection.client);
    let close = *observed.of(client).last().unwrap();
    assert_eq!((close.delivered_pkts, close.retrans_pkts), (info.tcpi_delivered, info.tcpi_total_retrans));
    assert_eq!((close.bytes_acked, close.mss_bytes), (info.tcpi_bytes_acked, info.tcpi_snd_mss));
    assert_eq!((close.cwnd_pkts, close.rto_us), (info.tcpi_snd_cwnd, info.tcpi_rto));
    assert_eq!((close.srtt_us, close.min_rtt_us), (Some(info.tcpi_rtt), Some(info.tcpi_min_rtt)));
    assert_eq!((close.local, close.remote), (client, connection.address));
}

#[test]
fn all_losses_and_state_changes_of_a_lossy_path_are_reported() {
    needs!(root, btf, tun);
    let path = LossyPath::build();
    for sampling in [Sampling::ByPacket, Sampling::ByClock] {
        let tracer = Tracer::start(&only(path.sender()), sampling(Duration::from_millis(100)), RING_BYTES).unwrap();
        let mut observed = Observed { tracer, events: Vec::new() };
        let client = path.transfer(3 << 20);
        observed.until_closed(client);
        assert_losses_and_states_are_whole(&observed.of(client));
    }
}

fn assert_losses_and_states_are_whole(events: &[&Event]) {
    let mut state = CaState::Open;
    for event in events.iter().filter(|event| event.kind == EventKind::State) {
        assert_eq!(event.prior_ca_state, state, "a change of state is missing");
        assert_ne!(event.ca_state, state);
        state = event.ca_state;
    }
    let losses: Vec<&&Event> = events.iter().filter(|event| event.kind == EventKind::Loss).collect();
    assert!(!losses.is_empty(), "a path that loses packets shows no loss");
    assert!(losses.windows(2).all(|pair| {
        pair[1].lost_pkts + pair[1].retrans_pkts > pair[0].lost_pkts + pair[0].retrans_pkts
            && pair[1].time_ns - pair[0].time_ns >= 10_000_000
    }));
    let close = events.last().unwrap();
    assert!(close.retrans_pkts > 0 && close.retrans_pkts >= losses.last().unwrap().retrans_pkts);
    assert!(events.iter().any(|event| event.ca_state == CaState::Recovery && event.ssthresh_pkts.is_some()));
}

/// Sampling by clock includes connections that were open before, excludes idle ones, and runs no program per packet.
#[test]
fn clock_samples_active_connections_without_a_program_per_packet() {
    needs!(root, btf);
    let netns = loopback_netns();
    let inside = netns.try_clone().unwrap();
    let (mut talking, resting) = (HeldConnection::open(&netns, "reno"), HeldConnection::open(&netns, "reno"));
    // The clock looks at sockets with these ports in every namespace.
    let ports = [&talking, &resting].map(|one| one.client.local_addr().unwrap().port());
    let filter = Filter { ports: ports.into(), ..only(&netns) };
    // A sweep finds a namespace by the threads in it.
    let start = || Tracer::start(&filter, Sampling::ByClock(Duration::from_millis(10)), RING_BYTES);
    let others = programs_of(std::process::id());
    let mut observed = Observed { tracer: inside.run(start).unwrap(), events: Vec::new() };
    let (talker, rester) = (talking.client.local_addr().unwrap(), resting.client.local_addr().unwrap());
    poll_until(SOON, "samples of both ends", || {
        talking.send(1 << 20);
        let events = observed.poll();
        let samples = |end| events.iter().filter(|it| it.kind == EventKind::Sample && it.local == end).count();
        samples(talker) >= 5 && samples(talking.address) >= 5
    });
    assert!(observed.of(rester).is_empty());
    // The kernel reports losses and states itself, and a busy host delays ACKs until the sender probes for a loss.
    let samples = observed.of(talker).into_iter().filter(|it| it.kind == EventKind::Sample);
    let counts: Vec<_> = samples.map(|it| (it.delivered_pkts, it.bytes_acked)).collect();
    assert!(counts.is_sorted_by(|a, b| a < b), "a sample of an idle connection: {counts:?}");
    let own = &programs_of(std::process::id()) - &others;
    let names = libbpf_rs::query::ProgInfoIter::default().filter(|program| own.contains(&program.id));
    let names: Vec<String> = names.map(|program| program.name.to_string_lossy().into_owned()).collect();
    assert!(
        names.iter().any(|name| name == "tccc_retransmit") && names.iter().all(|name| name != "tccc_packet"),
        "{names:?}"
    );
    drop((talking, resting));
    observed.until_closed(talker);
    // Closed connections are not looked at. With them, each tick would look at four ends.
    let before = observed.tracer.clock_cost().unwrap();
    poll_until(SOON, "fewer looks than at four ends a tick", || {
        let now = observed.tracer.clock_cost().unwrap();
        let ticks = now.ticks - before.ticks;
        ticks > 5 && now.looks - before.looks < 4 * ticks
    });
    assert_eq!(observed.tracer.watcher().dropped(), 0);
}

/// A host may have a hundred thousand other connections.
#[test]
fn clock_looks_only_at_connections_that_the_filter_selects() {
    needs!(root, btf);
    const INTERVAL: Duration = Duration::from_millis(10);
    let netns = loopback_netns();
    let _others: Vec<HeldConnection> = (0..50).map(|_| HeldConnection::open(&netns, "reno")).collect();
    let mut wanted = HeldConnection::open(&netns, "reno");
    let client = wanted.client.local_addr().unwrap();
    let filter = Filter { ports: [client.port()].into(), ..only(&netns) };
    let start = || Tracer::start(&filter, Sampling::ByClock(INTERVAL), RING_BYTES);
    let begin = Instant::now();
    let mut observed = Observed { tracer: netns.run(start).unwrap(), events: Vec::new() };
    let _opened_later: Vec<HeldConnection> = (0..50).map(|_| HeldConnection::open(&netns, "reno")).collect();
    poll_until(SOON, "samples of the selected connection", || {
        wanted.send(1 << 20);
        let is_sample = |event: &&Event| event.kind == EventKind::Sample && event.local == client;
        observed.poll().iter().filter(is_sample).count() >= 20
    });
    let cost = observed.tracer.clock_cost().unwrap();
    let most = begin.elapsed().div_duration_f64(INTERVAL).ceil() as u64;
    assert!((20..=most).contains(&cost.ticks), "{cost:?} in {most} intervals");
    // Each tick looks at both ends, and perhaps at sockets with the same port in other namespaces, not at two hundred.
    assert!((20..=20 * most).contains(&cost.looks), "{cost:?} in {most} intervals");
    assert!(observed.events.iter().all(|event| event.local == client || event.remote == client));
}

#[test]
fn filters_select_by_port_address_and_algorithm() {
    needs!(root, btf);
    let netns = loopback_netns();
    let wanted = HeldConnection::open(&netns, "reno");
    let other = HeldConnection::open_at(&netns, "cubic", "127.0.0.2:0");
    let port = wanted.client.local_addr().unwrap().port();
    let filters = [
        Filter { ports: BTreeSet::from([port]), ..only(&netns) },
        Filter { addresses: BTreeSet::from(["127.0.0.1/32".parse().unwrap()]), ports: [port].into(), ..only(&netns) },
        Filter { algorithms: BTreeSet::from(["reno".to_owned()]), ..only(&netns) },
    ];
    let selected = |filter: &Filter| -> BTreeSet<_> {
        let sweep = netns.run(|| snapshot::sweep(filter)).unwrap();
        sweep.sockets.iter().map(|socket| socket.local).collect()
    };
    let both_ends = BTreeSet::from([wanted.client.local_addr().unwrap(), wanted.address]);
    for filter in &filters[..2] {
        assert_eq!(selected(filter), both_ends, "{filter:?}");
    }
    assert!(selected(&filters[2]).contains(&wanted.client.local_addr().unwrap()));
    assert!(!selected(&filters[2]).contains(&other.client.local_addr().unwrap()));
    let second = Filter { addresses: BTreeSet::from(["127.0.0.2".parse().unwrap()]), ..only(&netns) };
    assert!(selected(&second).contains(&other.address) && !selected(&second).contains(&wanted.address));
    let none = Filter { algorithms: BTreeSet::from(["nobody".to_owned()]), ..only(&netns) };
    assert!(selected(&none).is_empty());
    live_filter_passes_only(&netns, &filters[2], (wanted, other));
}

/// The filter selects the same connections in the stream of events.
fn live_filter_passes_only(netns: &Netns, filter: &Filter, (mut wanted, mut other): (HeldConnection, HeldConnection)) {
    let mut observed = Observed::start(filter, Duration::from_millis(1), RING_BYTES);
    other.send(1 << 20);
    wanted.send(1 << 20);
    let (client, unwanted) = (wanted.client.local_addr().unwrap(), other.client.local_addr().unwrap());
    drop((wanted, other));
    observed.until_closed(client);
    let last = transfer(netns, "reno", 1000);
    observed.until_closed(last);
    assert!(observed.of(unwanted).is_empty(), "the filter let another algorithm pass");
}

#[test]
fn cgroup_filter_includes_everything_below_the_cgroup() {
    needs!(root, btf, cgroup2);
    if let Some(cgroup) = std::env::var_os("TCCC_TRACE_CGROUP") {
        group::join(cgroup.as_ref());
        transfer(&loopback_netns(), "reno", 1 << 20);
        return;
    }
    let _host = HostSnapshot::take(&["tccc-trace"]);
    let inner = TestCgroup::create(&format!("/tccc-trace-{}/inner", std::process::id()));
    let id = tccc::kernel::cgroup::find(inner.path().parent().unwrap()).unwrap();
    let filter = Filter { cgroups: BTreeSet::from([id]), ..Filter::default() };
    let mut observed = Observed::start(&filter, Duration::from_millis(1), RING_BYTES);
    let mut test = test_alone(module_path!(), "cgroup_filter_includes_everything_below_the_cgroup");
    check(0, test.env("TCCC_TRACE_CGROUP", inner.path()));
    transfer(&loopback_netns(), "reno", 1 << 20);
    poll_until(SOON, "both ends close", || observed.poll().iter().filter(|e| e.kind == EventKind::Close).count() == 2);
    let cgroups: BTreeSet<u64> = observed.events.iter().map(|event| event.cgroup).collect();
    assert_eq!(cgroups, BTreeSet::from([inner.id()]));
}

#[test]
fn namespaces_are_added_and_removed_while_tracing() {
    needs!(root, btf);
    let (first, second) = (loopback_netns(), loopback_netns());
    let filter = Filter { netns: Some(BTreeSet::new()), ..Filter::default() };
    let mut observed = Observed::start(&filter, Duration::from_millis(1), RING_BYTES);
    let unseen = transfer(&first, "reno", 1 << 20);
    let mut early = HeldConnection::open(&second, "reno");
    observed.tracer.watcher().watch_netns(first.inode()).unwrap();
    let seen = transfer(&first, "reno", 1 << 20);
    observed.until_closed(seen);
    let watcher = observed.tracer.watcher().clone();
    let inode = second.inode();
    std::thread::spawn(move || watcher.watch_netns(inode).unwrap()).join().unwrap();
    observed.tracer.watcher().unwatch_netns(first.inode()).unwrap();
    observed.tracer.watcher().unwatch_netns(first.inode()).unwrap();
    let gone = transfer(&first, "reno", 1 << 20);
    early.send(1 << 20);
    let early_client = early.client.local_addr().unwrap();
    drop(early);
    observed.until_closed(early_client);
    assert!(observed.events.iter().all(|event| event.local != unseen || event.netns != first.inode()));
    assert!(observed.events.iter().all(|event| event.local != gone || event.netns != first.inode()));
    let everything = Tracer::start(&Filter::default(), Sampling::ByPacket(SOON), RING_BYTES).unwrap();
    assert!(everything.watcher().watch_netns(1).is_err());
}

#[test]
fn ring_overflow_is_counted() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut observed = Observed::start(&only(&netns), Duration::ZERO, RING_BYTES_MIN);
    transfer(&netns, "reno", 8 << 20);
    assert!(observed.tracer.watcher().dropped() > 0);
    let in_ring = observed.poll().len();
    assert!((1..=RING_BYTES_MIN as usize / 272).contains(&in_ring), "{in_ring} events of a full ring");
}

#[test]
fn interval_of_zero_samples_every_packet() {
    needs!(root, btf);
    let netns = loopback_netns();
    let mut closest_ns = BTreeMap::new();
    for interval in [Duration::ZERO, Duration::from_millis(50)] {
        let mut observed = Observed::start(&only(&netns), interval, 64 << 20);
        let client = transfer(&netns, "reno", 32 << 20);
        observed.until_closed(client);
        let events = observed.of(client);
        let length_ns = events.last().unwrap().time_ns - events[0].time_ns;
        let samples: Vec<u64> = events.iter().filter(|e| e.kind == EventKind::Sample).map(|e| e.time_ns).collect();
        if let Some(limit) = length_ns.checked_div(interval.as_nanos() as u64) {
            let most = limit + 1 + OPENING_PKTS as u64;
            assert!(samples.len() as u64 <= most, "{} samples in {length_ns} ns", samples.len());
        }
        closest_ns.insert(interval, samples.windows(2).map(|pair| pair[1] - pair[0]).min());
    }
    assert!(closest_ns[&Duration::ZERO].unwrap() < 1_000_000, "{closest_ns:?}");
}

#[test]
fn sweep_finds_sockets_of_every_namespace() {
    needs!(root, btf);
    let netns = loopback_netns();
    let connection = HeldConnection::open(&netns, "cubic");
    let (client, server) = (connection.client.local_addr().unwrap(), connection.address);
    let found = || -> BTreeSet<_> {
        let sweep = snapshot::sweep(&Filter::default()).unwrap();
        let here = sweep.sockets.into_iter().filter(|socket| socket.netns == netns.inode());
        here.map(|socket| (socket.local, socket.remote, socket.algorithm)).collect()
    };
    // A sweep finds a namespace by the threads in it.
    let rows = netns.run(|| Ok(found())).unwrap();
    let own = (client, server, "cubic".to_owned());
    assert!(rows.contains(&own), "{rows:?}");
    assert_eq!(rows.len(), 2, "the listener has no window: {rows:?}");
    drop(connection);
    assert!(netns.run(|| Ok(found())).unwrap().is_empty());
}

#[test]
fn private_state_is_named_for_renamed_algorithms() {
    needs!(root, btf, struct_ops);
    let _host = HostSnapshot::take(&["trace_dtcp"]);
    let registered = loader::register(&dtcp_as("trace_dtcp"), &Features::probe().unwrap()).unwrap();
    let netns = loopback_netns();
    let connection = HeldConnection::open(&netns, "trace_dtcp");
    let document = sockets_of(&netns, "trace_dtcp");
    let sockets = document["sockets"].as_array().unwrap();
    assert_eq!((document["schema"].as_u64(), sockets.len()), (Some(1), 1));
    assert_eq!(sockets[0]["local"], connection.client.local_addr().unwrap().to_string().as_str());
    assert_eq!((&sockets[0]["phase"], &sockets[0]["tcp_state"]), (&"slow_start".into(), &"ESTABLISHED".into()));
    assert_eq!((&sockets[0]["state"]["losses_ss"], &sockets[0]["state"]["rtos"]), (&0.into(), &0.into()));
    drop(connection);
    registered.unregister().unwrap();
}

#[test]
fn private_state_is_named_for_kernel_algorithms() {
    needs!(root, btf);
    let netns = loopback_netns();
    let _connection = HeldConnection::open(&netns, "cubic");
    let document = sockets_of(&netns, "cubic");
    let sockets = document["sockets"].as_array().unwrap();
    let fields = sockets[0]["state"].as_object().unwrap_or_else(|| panic!("{document}"));
    assert!(fields.contains_key("last_max_cwnd") && fields.contains_key("bic_K"), "{fields:?}");
    assert_eq!(sockets[0]["phase"], serde_json::Value::Null);
}

#[test]
fn connection_that_is_never_established_has_no_events() {
    needs!(root, btf, tun);
    let netns = loopback_netns();
    let mut observed = Observed::start(&only(&netns), Duration::from_millis(1), RING_BYTES);
    // Nobody reads the TUN device, so the SYN is not answered.
    let _device = netns.run(|| Ok(tun::open("trc0")?)).unwrap();
    set_up(&netns, "trc0").unwrap();
    add_address(&netns, "trc0", [10, 78, 0, 1].into(), 24).unwrap();
    let open = || Ok(socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_NONBLOCK, None)?);
    let client: TcpStream = netns.run(open).unwrap().into();
    assert_eq!(connect(client.as_raw_fd(), &SockaddrIn::new(10, 78, 0, 2, 1)), Err(Errno::EINPROGRESS));
    let unanswered = client.local_addr().unwrap();
    // The tracer sees the socket at the first retransmission and could report a loss at the second.
    poll_until(SOON, "the kernel retransmits the SYN", || tcp_info(&client).tcpi_total_retrans > 1);
    drop(client);
    let last = transfer(&netns, "reno", 1000);
    observed.until_closed(last);
    assert!(observed.of(unanswered).is_empty(), "{:?}", observed.of(unanswered));
}

fn sockets_of(netns: &Netns, algorithm: &str) -> serde_json::Value {
    let place = path_of(netns);
    let arguments = ["sockets", "--netns", &place, "--algorithm", algorithm, "-o", "json"];
    // A sweep finds a namespace by the threads in it.
    netns.run(|| Ok(check(0, tccc().args(arguments)))).unwrap().json()
}
