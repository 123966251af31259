//! Defaults are pointers to code, one in each network namespace: those that can be pointed to the new code are.

use std::ffi::OsString;
use std::fs;

use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};
use tccc::kernel::netns::Netns;

use crate::common::{host_has, inhabit};
use crate::lab::policy::pair::{address, algorithm_of, join, listen_at};
use crate::lab::policy::{Ends, Pair, named_netns, with_lab};
use crate::lab::sandbox::{default, run, stderr, stdout};
use crate::upgrade::by_generation;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

fn allowed() -> Vec<String> {
    fs::read_to_string(ALLOWED).unwrap().split_whitespace().map(str::to_owned).collect()
}

/// A connection of a namespace that chooses nothing.
fn plain(netns: &Netns) -> Pair {
    netns.run(|| Ok(Pair::open(&Ends::new("127.0.0.1", "127.0.0.2")))).unwrap()
}

#[test]
fn default_of_the_host_follows() {
    with_lab(host_has!(root, struct_ops, bpffs), |_| {
        let (before, host) = (default(), Netns::current().unwrap());
        run(0, "load dtcp --as ldk_def --default");
        let first = plain(&host);
        run(0, "upgrade ldk_def").stdout_has("\nthe default of 1 network namespace follows\n");
        let second = plain(&host);
        assert_eq!(by_generation("ldk_def"), [(1, 2), (2, 2)]);
        run(0, "rollback ldk_def");
        let third = plain(&host);
        assert_eq!(by_generation("ldk_def"), [(1, 4), (2, 2)]);
        drop((first, second, third));
        run(0, "unload ldk_def");
        assert_eq!(default(), before);
    });
}

/// A listener that chose nothing gives the default. It once counted as having chosen it after an upgrade, and gave the
/// unloaded algorithm to whatever it accepted.
#[test]
fn listener_that_chose_nothing_follows_the_default_after_an_upgrade() {
    with_lab(host_has!(root, struct_ops, bpffs), |_| {
        run(0, "load dtcp --as ldk_def --default");
        let listener = listen_at(address("127.0.0.1"), false, None);
        let accepted = || algorithm_of(&join(address("127.0.0.1"), &listener).server);
        assert_eq!(accepted(), "ldk_def");
        run(0, "upgrade ldk_def").stdout_lacks("listening sockets");
        assert_eq!(accepted(), "ldk_def");
        run(0, "unload ldk_def");
        assert_eq!(accepted(), default());
    });
}

/// A namespace that was made while it was the default has it, and may not choose it again once the host forbids that.
#[test]
fn default_of_a_namespace_that_may_not_choose_it_is_told() {
    with_lab(host_has!(root, struct_ops, bpffs), |_| {
        let (before, may) = (default(), allowed());
        run(0, "load dtcp --as ldk_def --default");
        let child = named_netns("ldk_child");
        fs::write(DEFAULT, &before).unwrap();
        fs::write(ALLOWED, may.join(" ")).unwrap(); // the kernel allows everybody what was a default once
        let first = plain(&child);
        assert_eq!(first.algorithms(), ["ldk_def", "ldk_def"]);
        let told = format!("network namespace {} has \"ldk_def\" as its default and keeps the old code", child.inode());
        for verb in ["upgrade", "rollback", "upgrade"] {
            let output = inhabited(&child, || run(0, &format!("{verb} ldk_def")));
            assert!(stderr(&output).contains(&told), "{}", stderr(&output));
        }
        // The same from inside of it, where the first namespace is another.
        let output = inhabited(&child, || child.run(|| Ok(run(0, "rollback ldk_def"))).unwrap());
        assert!(stderr(&output).contains(&told), "{}", stderr(&output));
        run(0, "upgrade ldk_def");
        let second = plain(&child);
        assert_eq!(by_generation("ldk_def"), [(1, 4), (4, 0)]);
        assert!(!allowed().contains(&"ldk_def".to_owned()));
        drop((first, second));
        run(0, "unload ldk_def");
        fs::write(ALLOWED, may.join(" ")).unwrap();
    });
}

#[test]
fn default_of_a_namespace_that_may_choose_it_follows_and_stays_allowed() {
    with_lab(host_has!(root, struct_ops, bpffs), |_| {
        let (before, may) = (default(), allowed());
        run(0, "load dtcp --as ldk_def --default");
        let child = named_netns("ldk_child");
        fs::write(DEFAULT, &before).unwrap();
        fs::write(ALLOWED, format!("{} ldk_def", may.join(" "))).unwrap();
        let mut pairs = vec![plain(&child)];
        for (verb, expected) in [("upgrade", [(1, 2), (2, 2)]), ("rollback", [(1, 4), (2, 2)])] {
            let output = inhabited(&child, || run(0, &format!("{verb} ldk_def")));
            assert!(stdout(&output).contains("\nthe default of 1 network namespace follows\n"), "{}", stdout(&output));
            assert!(allowed().contains(&"ldk_def".to_owned()), "{:?}", allowed());
            pairs.push(plain(&child));
            assert_eq!(by_generation("ldk_def"), expected);
            assert!(can_choose_without_rights("ldk_def"), "after {verb}");
        }
        // Who may choose it does not come back with the code.
        fs::write(ALLOWED, may.join(" ")).unwrap();
        run(0, "rollback ldk_def");
        assert!(!allowed().contains(&"ldk_def".to_owned()), "{:?}", allowed());
        assert!(!can_choose_without_rights("ldk_def"));
        drop(pairs);
        run(0, "unload ldk_def");
        assert_eq!(allowed(), may);
    });
}

/// Whether a thread without any capability may choose a name.
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

/// Works while a thread lives in a namespace: only such a one is looked for.
fn inhabited<T>(netns: &Netns, work: impl FnOnce() -> T) -> T {
    let _inhabitant = inhabit(netns);
    work()
}
