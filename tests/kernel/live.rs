//! The live source on this kernel: idle sockets, their owners, and the private state of their algorithm.

use std::os::fd::AsRawFd;

use nix::sys::socket::{SockaddrStorage, connect};
use tccc::model::live::Live;
use tccc::trace::arrival::Fact;
use tccc::trace::event::EventKind;
use tccc::trace::gather::Layouts;
use tccc::trace::live::RING_BYTES;
use tccc::trace::record::read::Damage;
use tccc::trace::source::EventSource;
use tccc::trace::totals::GroupTotals;
use tccc::trace::watch::{Watch, WatchSettings};

use super::*;
use crate::lab::record::RecordingContent;
use crate::lab::trace::only;

fn watch(netns: &tccc::kernel::netns::Netns) -> Watch {
    let find = |name: &str| {
        let kernel = std::fs::read("/sys/kernel/btf/vmlinux").ok()?;
        tccc::catalog::StateLayout::of_kernel(name, &kernel, None)
    };
    let layouts = Layouts { find: Box::new(find), arms: Box::new(|| Ok(None)) };
    Watch::start(WatchSettings { filter: only(netns), interval: Duration::ZERO, ring_bytes: RING_BYTES, layouts })
        .unwrap()
}

fn follow(watch: &mut Watch, live: &mut Live, what: &str, is_so: impl Fn(&Live) -> bool) {
    poll_until(SOON, what, || {
        watch.poll(Duration::from_millis(50), &mut |arrival| live.apply(arrival)).unwrap();
        live.advance(watch.now_ns());
        is_so(live)
    });
}

#[test]
fn recording_of_a_killed_process_has_the_counts_of_the_kernel() {
    needs!(root, btf);
    let netns = loopback_netns();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed");
    let mut connection = HeldConnection::open(&netns, "cubic");
    let client = connection.client.local_addr().unwrap();
    let port = client.port().to_string();
    let mut recorder = tccc();
    recorder.args(["--quiet", "trace", "--interval", "10ms", "--port", &port, "--record"]).arg(&file);
    let mut recorder = begin(&mut recorder);
    let recorded = || RecordingContent::of(&file);
    let ours = |content: &RecordingContent| content.events.iter().rfind(|event| event.local == client).cloned();
    poll_until(SOON, "the recording begins", || {
        connection.send(1 << 20);
        recorded().is_some_and(|content| ours(&content).is_some())
    });
    connection.client.shutdown(Shutdown::Write).unwrap();
    connection.server.shutdown(Shutdown::Write).unwrap();
    // Facts about the connection are gathered in parallel with the events, and may be written after its last event.
    poll_until(SOON, "the end of the connection and the layout are in the file", || {
        let is_layout = |fact: &Fact| matches!(fact, Fact::Layout { algorithm, .. } if algorithm == "cubic");
        recorded().is_some_and(|content| {
            ours(&content).is_some_and(|it| it.kind == EventKind::Close) && content.facts.iter().any(is_layout)
        })
    });
    recorder.kill().unwrap();
    assert_eq!(stderr(&recorder.output()), "", "samples are taken by the timer, not per packet");
    let info = tcp_info(&connection.client);
    let content = recorded().unwrap();
    let last = ours(&content).unwrap();
    assert_eq!((last.delivered_pkts, last.retrans_pkts), (info.tcpi_delivered, info.tcpi_total_retrans));
    assert_eq!((content.damage, &content.tail), (Damage::default(), &None));
    let replayed = check(0, tccc().args(["trace", "-o", "jsonl", "--replay"]).arg(&file));
    assert_eq!(replayed.stdout().lines().count(), content.events.len());
    replayed.stderr_has("the recording was cut: 0 bytes after");
}

#[test]
fn idle_connection_is_found_with_its_owner_cgroup_and_state() {
    needs!(root, btf);
    let netns = loopback_netns();
    let _inhabitant = inhabit(&netns);
    let mut connection = HeldConnection::open(&netns, "cubic");
    let client = connection.client.local_addr().unwrap();
    let (mut watch, mut live) = (watch(&netns), Live::default());
    let own = std::process::id();
    follow(&mut watch, &mut live, "both ends with owner and state", |live| {
        let named = live.sockets().filter(|socket| live.owner(socket).is_some_and(|owner| owner.pid == own));
        let has_state = |live: &Live| live.sockets().any(|it| !live.private_state(it).is_empty());
        named.count() == 2 && has_state(live)
    });
    let ours = |live: &Live| live.sockets().find(|socket| socket.latest.local == client).unwrap().clone();
    assert_eq!(ours(&live).goodput_bps(live.now_ns()), None, "one sample gives no rate");
    if tccc::kernel::cgroup::mount_point().is_ok() {
        assert!(live.cgroup(&ours(&live)).is_some_and(|path| path.starts_with('/')));
    }
    connection.send(1 << 20);
    follow(&mut watch, &mut live, "the transfer", |live| ours(live).latest.bytes_acked > 0);
    drop(connection);
    follow(&mut watch, &mut live, "the end", |live| live.open_sockets() == 0);
    assert_eq!((live.counts().dropped, live.counts().hidden), (0, 0));
}

/// Ends the client's connection and starts another with the same socket. The kernel resets its counts.
fn connect_again(connection: &mut HeldConnection, listener: &TcpListener) {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    let client = connection.client.as_raw_fd();
    // SAFETY: the descriptor is open, and the address is as long as said and lives as long as the call.
    let ended = unsafe { libc::connect(client, &nowhere, size_of_val(&nowhere) as libc::socklen_t) };
    assert_eq!(ended, 0, "{}", std::io::Error::last_os_error());
    connect(client, &SockaddrStorage::from(connection.address)).unwrap();
    connection.server = listener.accept().unwrap().0;
}

/// The sums once fell by the counts of the first connection, because the smaller new count was subtracted.
#[test]
fn sums_of_a_socket_that_connects_again_never_fall() {
    const BYTES: [usize; 2] = [1 << 20, 1000];
    needs!(root, btf);
    let netns = loopback_netns();
    let _inhabitant = inhabit(&netns);
    let mut totals = GroupTotals::start(only(&netns), Box::new(|| None)).unwrap();
    let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
    let mut connection = HeldConnection::between(&netns, listener.try_clone().unwrap(), "cubic");
    let mut before = 0;
    let mut until = |what: &str, bytes: usize| {
        poll_until(SOON, what, || {
            let groups = totals.count().unwrap().groups;
            let ours = groups.iter().filter(|group| group.algorithm == "cubic");
            let now = ours.map(|group| group.bytes_acked).sum::<u64>();
            assert!(now >= before, "{what}: {now} bytes after {before}");
            before = now;
            now == bytes as u64
        });
    };
    connection.send(BYTES[0]);
    until("the first connection", BYTES[0]);
    connect_again(&mut connection, &listener);
    connection.send(BYTES[1]);
    until("the second connection", BYTES[0] + BYTES[1]);
}

#[test]
fn held_flow_opens_again_when_its_socket_connects_again() {
    needs!(root, btf);
    let netns = loopback_netns();
    let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
    let mut connection = HeldConnection::between(&netns, listener.try_clone().unwrap(), "reno");
    let (mut watch, mut live) = (watch(&netns), Live::default());
    connection.send(1 << 20);
    let client = connection.client.local_addr().unwrap();
    let find = |live: &Live| live.sockets().find(|it| it.latest.local == client).map(|it| it.latest.socket);
    follow(&mut watch, &mut live, "the first connection", |live| find(live).is_some());
    let held = find(&live).unwrap();
    live.hold(Some(held));
    connect_again(&mut connection, &listener);
    follow(&mut watch, &mut live, "its end and the next", |live| {
        let socket = live.socket(held).unwrap();
        live.counts().closed >= 1 && socket.closed_ns.is_none() && socket.latest.local != client
    });
    connection.send(1 << 20);
    follow(&mut watch, &mut live, "its rate", |live| {
        live.socket(held).unwrap().goodput_bps(live.now_ns()).is_some_and(|rate| rate > 0.0)
    });
}
