//! The default of each network namespace points to code. An upgrade repoints the defaults that it may change.

use std::ffi::OsString;
use std::fs;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use tccc::kernel::netns::Netns;

use super::*;
use crate::upgrade::by_generation;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

fn allowed() -> Vec<String> {
    fs::read_to_string(ALLOWED).unwrap().split_whitespace().map(str::to_owned).collect()
}

fn plain(netns: &Netns) -> SocketPair {
    netns.run(|| Ok(SocketPair::open(&Endpoints::loopback()))).unwrap()
}

/// A namespace with `ldk_def` as its default, which is no longer the host's, and the names that were allowed before.
fn inherited_default() -> (Netns, Vec<String>) {
    let (before, may) = (default(), allowed());
    run(0, "load dtcp --as ldk_def --default");
    let child = named_netns("ldk_child");
    fs::write(DEFAULT, &before).unwrap();
    (child, may)
}

#[test]
fn default_of_the_host_follows_for_connections_and_listeners() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    let (before, host) = (default(), Netns::current().unwrap());
    run(0, "load dtcp --as ldk_def --default");
    let first = plain(&host);
    run(0, "upgrade ldk_def").stdout_has("\nthe default of 1 network namespace follows: ");
    let second = plain(&host);
    assert_eq!(by_generation("ldk_def"), [(1, 2), (2, 2)]);
    run(0, "rollback ldk_def");
    let third = plain(&host);
    assert_eq!(by_generation("ldk_def"), [(1, 4), (2, 2)]);
    drop((first, second, third));
    run(0, "unload ldk_def");
    assert_eq!(default(), before);

    // After an upgrade, a listener that chose nothing once counted as having chosen the algorithm.
    run(0, "load dtcp --as ldk_def --default");
    let listener = listen_at(address("127.0.0.1"), false, None);
    let accepted = || algorithm_of(&join(address("127.0.0.1"), &listener).server);
    assert_eq!(accepted(), "ldk_def");
    run(0, "upgrade ldk_def").stdout_lacks("listening sockets");
    assert_eq!(accepted(), "ldk_def");
    run(0, "unload ldk_def");
    assert_eq!(accepted(), default());
}

/// A namespace inherits the default when it is created. Later it may not choose the algorithm if the host forbids it.
#[test]
fn default_of_a_namespace_that_may_not_choose_it_is_reported() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    let (child, may) = inherited_default();
    fs::write(ALLOWED, may.join(" ")).unwrap(); // the kernel allows everybody a former default
    let first = plain(&child);
    assert_eq!(first.algorithms(), ["ldk_def", "ldk_def"]);
    let told = format!("network namespace {} has \"ldk_def\" as its default and keeps the old code", child.inode());
    for verb in ["upgrade", "rollback", "upgrade"] {
        let output = run(0, &format!("{verb} ldk_def"));
        output.stderr_has(&told);
    }
    // The same from inside the namespace.
    let output = child.run(|| Ok(run(0, "rollback ldk_def"))).unwrap();
    output.stderr_has(&told);
    run(0, "upgrade ldk_def");
    let second = plain(&child);
    assert_eq!(by_generation("ldk_def"), [(1, 4), (4, 0)]);
    assert!(!allowed().contains(&"ldk_def".to_owned()));
    drop((first, second));
    run(0, "unload ldk_def");
    fs::write(ALLOWED, may.join(" ")).unwrap();
}

#[test]
fn default_of_a_namespace_that_may_choose_it_follows_and_stays_allowed() {
    let _lab = &enter!(PolicyLab; root, struct_ops, bpffs);
    let (child, may) = inherited_default();
    fs::write(ALLOWED, format!("{} ldk_def", may.join(" "))).unwrap();
    let mut pairs = vec![plain(&child)];
    for (verb, expected) in [("upgrade", [(1, 2), (2, 2)]), ("rollback", [(1, 4), (2, 2)])] {
        let output = run(0, &format!("{verb} ldk_def"));
        output.stdout_has("\nthe default of 1 network namespace follows: ldk_child\n");
        assert!(allowed().contains(&"ldk_def".to_owned()), "{:?}", allowed());
        pairs.push(plain(&child));
        assert_eq!(by_generation("ldk_def"), expected);
        assert!(can_choose_without_rights("ldk_def"), "after {verb}");
    }
    // A rollback does not restore the permission.
    fs::write(ALLOWED, may.join(" ")).unwrap();
    run(0, "rollback ldk_def");
    assert!(!allowed().contains(&"ldk_def".to_owned()), "{:?}", allowed());
    assert!(!can_choose_without_rights("ldk_def"));
    drop(pairs);
    run(0, "unload ldk_def");
    assert_eq!(allowed(), may);
}

fn can_choose_without_rights(name: &str) -> bool {
    const NOBODY: libc::uid_t = 65_534;
    let choose = || {
        // SAFETY: the system call changes this thread alone, unlike the C library's function of that name.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) };
        assert_eq!(changed, 0);
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        setsockopt(&socket, TcpCongestion, &OsString::from(name)).is_ok()
    };
    std::thread::scope(|scope| scope.spawn(choose).join().unwrap())
}
