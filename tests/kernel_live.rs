//! The live source on this kernel: sockets that send nothing, who holds them, what their algorithm keeps in them.

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
mod trace_lab;

use std::time::Duration;

use common::{needs, poll_until};
use tccc::model::live::Live;
use tccc::trace::source::Source;
use tccc::trace::watch::{Settings, Watch};
use trace_lab::{Connection, loopback_netns, only};

const SOON: Duration = Duration::from_secs(30);

fn watch(netns: &tccc::kernel::netns::Netns) -> Watch {
    let layouts = Box::new(|name: &str| {
        let kernel = std::fs::read("/sys/kernel/btf/vmlinux").ok()?;
        tccc::catalog::StateLayout::of_kernel(name, &kernel, None)
    });
    let settings = Settings { filter: only(netns), ..Settings::new(Duration::ZERO, layouts) };
    Watch::start(settings).unwrap()
}

/// A thread that lives in a namespace, so that a sweep of the host finds it; ends when the sender is dropped.
fn inhabit(netns: &tccc::kernel::netns::Netns) -> std::sync::mpsc::Sender<()> {
    let (inside, (stay, until)) = (netns.try_clone().unwrap(), std::sync::mpsc::channel());
    let (tell, entered) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        inside.enter_for_good().unwrap();
        tell.send(()).unwrap();
        until.recv().unwrap_err();
    });
    entered.recv().unwrap();
    stay
}

/// Follows until the state is as wanted.
fn follow(watch: &mut Watch, live: &mut Live, what: &str, is_so: impl Fn(&Live) -> bool) {
    poll_until(SOON, what, || {
        watch.poll(Duration::from_millis(50), &mut |arrival| live.apply(arrival)).unwrap();
        live.advance(watch.now_ns());
        is_so(live)
    });
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
