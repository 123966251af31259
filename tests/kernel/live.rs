//! The live source on this kernel: sockets that send nothing, who holds them, what their algorithm keeps in them.

use std::net::{Shutdown, TcpListener};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::common::{inhabit, needs, poll_until, tccc};
use crate::lab::trace::{Connection, loopback_netns, only, tcp_info};
use nix::libc;
use nix::sys::socket::{SockaddrStorage, connect};
use tccc::model::live::Live;
use tccc::trace::arrival::Fact;
use tccc::trace::event::{Event, EventKind};
use tccc::trace::gather::Layouts;
use tccc::trace::live::RING_BYTES;
use tccc::trace::record::Tail;
use tccc::trace::record::read::{BlockContent, Damage, RecordingReader, Want};
use tccc::trace::source::EventSource;
use tccc::trace::totals::GroupTotals;
use tccc::trace::watch::{Watch, WatchSettings};

const SOON: Duration = Duration::from_secs(30);

fn watch(netns: &tccc::kernel::netns::Netns) -> Watch {
    let find = |name: &str| {
        let kernel = std::fs::read("/sys/kernel/btf/vmlinux").ok()?;
        tccc::catalog::StateLayout::of_kernel(name, &kernel, None)
    };
    let layouts = Layouts { find: Box::new(find), arms: Box::new(|| Ok(None)) };
    Watch::start(WatchSettings { filter: only(netns), interval: Duration::ZERO, ring_bytes: RING_BYTES, layouts })
        .unwrap()
}

/// Follows until the state is as wanted.
fn follow(watch: &mut Watch, live: &mut Live, what: &str, is_so: impl Fn(&Live) -> bool) {
    poll_until(SOON, what, || {
        watch.poll(Duration::from_millis(50), &mut |arrival| live.apply(arrival)).unwrap();
        live.advance(watch.now_ns());
        is_so(live)
    });
}

/// Everything that can be read of a recording, and its last block.
type Recorded = (Vec<Event>, Vec<Fact>, Damage, Option<Tail>);

fn recorded(file: &Path) -> Option<Recorded> {
    let mut reader = RecordingReader::open(file).ok()?;
    let (mut events, mut facts) = (Vec::new(), Vec::new());
    while let Some(content) = reader.next(Want::All).unwrap() {
        match content {
            BlockContent::Events(more) => events.extend(more),
            BlockContent::Facts(more) => facts.extend(more),
        }
    }
    Some((events, facts, reader.damage(), reader.tail()))
}

#[test]
fn recording_of_a_killed_process_has_the_counts_of_the_kernel() {
    needs!(root, btf);
    let netns = loopback_netns();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("killed");
    let mut connection = Connection::open(&netns, "cubic");
    let client = connection.client.local_addr().unwrap();
    let port = client.port().to_string();
    let mut recorder = tccc();
    recorder.args(["--quiet", "trace", "--interval", "10ms", "--port", &port, "--record"]).arg(&file);
    let mut recorder = recorder.stderr(Stdio::piped()).spawn().unwrap();
    let ours = |events: &[Event]| events.iter().rfind(|event| event.local == client).cloned();
    poll_until(SOON, "the recording begins", || {
        connection.send(1 << 20);
        recorded(&file).is_some_and(|(events, ..)| ours(&events).is_some())
    });
    connection.client.shutdown(Shutdown::Write).unwrap();
    connection.server.shutdown(Shutdown::Write).unwrap();
    let has_layout = |facts: &[Fact]| {
        facts.iter().any(|fact| matches!(fact, Fact::Layout { algorithm, .. } if algorithm == "cubic"))
    };
    // What else is known of the connection is gathered beside the events, and may come after the last of them.
    poll_until(SOON, "the end of the connection and the layout are in the file", || {
        let ends = |events: &[Event]| ours(events).is_some_and(|it| it.kind == EventKind::Close);
        recorded(&file).is_some_and(|(events, facts, ..)| ends(&events) && has_layout(&facts))
    });
    recorder.kill().unwrap();
    let said = recorder.wait_with_output().unwrap().stderr;
    assert_eq!(String::from_utf8_lossy(&said), "", "samples were taken as asked, and not by packet instead");
    let info = tcp_info(&connection.client);
    let (events, _, damage, tail) = recorded(&file).unwrap();
    let last = ours(&events).unwrap();
    assert_eq!((last.delivered_pkts, last.retrans_pkts), (info.delivered_pkts, info.retrans_pkts));
    assert_eq!((damage, tail), (Damage::default(), None));
    let replayed = tccc().args(["trace", "-o", "jsonl", "--replay"]).arg(&file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&replayed.stdout).lines().count(), events.len());
    assert!(String::from_utf8_lossy(&replayed.stderr).contains("the recording was cut: 0 bytes after"));
}

#[test]
fn idle_connection_is_found_with_its_owner_cgroup_and_state() {
    needs!(root, btf);
    let netns = loopback_netns();
    let _inhabitant = inhabit(&netns);
    let mut connection = Connection::open(&netns, "cubic");
    let client = connection.client.local_addr().unwrap();
    let (mut watch, mut live) = (watch(&netns), Live::default());
    let own = std::process::id();
    follow(&mut watch, &mut live, "both ends with owner and state", |live| {
        let named = live.sockets().filter(|socket| live.owner(socket).is_some_and(|owner| owner.pid == own));
        let has_state = |live: &Live| live.sockets().any(|it| !live.private_state(it).is_empty());
        named.count() == 2 && has_state(live)
    });
    let ours = |live: &Live| live.sockets().find(|socket| socket.latest.local == client).unwrap().clone();
    assert_eq!(ours(&live).goodput_bps(live.now_ns()), None, "nothing is said about a rate of one moment");
    if tccc::kernel::cgroup::mount_point().is_ok() {
        assert!(live.cgroup(&ours(&live)).is_some_and(|path| path.starts_with('/')));
    }
    connection.send(1 << 20);
    follow(&mut watch, &mut live, "the transfer", |live| ours(live).latest.bytes_acked > 0);
    drop(connection);
    follow(&mut watch, &mut live, "the end", |live| live.open_sockets() == 0);
    assert_eq!((live.counts().dropped, live.counts().hidden), (0, 0));
}

/// Ends the client's connection and begins another with the same socket, whose counts the kernel begins anew.
fn connect_again(connection: &mut Connection, listener: &TcpListener) {
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    let client = connection.client.as_raw_fd();
    // SAFETY: the descriptor is open, and the address is as long as said and lives as long as the call.
    let ended = unsafe { libc::connect(client, &nowhere, size_of_val(&nowhere) as libc::socklen_t) };
    assert_eq!(ended, 0, "{}", std::io::Error::last_os_error());
    connect(client, &SockaddrStorage::from(connection.address)).unwrap();
    connection.server = listener.accept().unwrap().0;
}

/// The sums fell by what the first connection had done: a 64-bit count that shrank was subtracted.
#[test]
fn sums_of_a_socket_that_connects_again_go_on() {
    const BYTES: [usize; 2] = [1 << 20, 1000];
    needs!(root, btf);
    let netns = loopback_netns();
    let _inhabitant = inhabit(&netns);
    let mut totals = GroupTotals::start(only(&netns), Box::new(|| None)).unwrap();
    let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
    let mut connection = Connection::between(&netns, listener.try_clone().unwrap(), "cubic");
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
fn a_flow_that_is_looked_at_opens_when_its_socket_connects_again() {
    needs!(root, btf);
    let netns = loopback_netns();
    let listener = netns.run(|| Ok(TcpListener::bind("127.0.0.1:0")?)).unwrap();
    let mut connection = Connection::between(&netns, listener.try_clone().unwrap(), "reno");
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
