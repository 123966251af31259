//! A place where tccc can pin and record without touching the host's own: a mount namespace of one thread.

use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use procfs::FromRead;
use procfs::process::MountInfos;
use serde_json::Value;

use crate::common::HostSnapshot;
pub use crate::common::{Said, check, run, stderr, stdout};
pub use crate::lab::trace::loopback_netns as network;

const NONE: Option<&str> = None;
/// Words in the names of all algorithms that these tests load.
pub const NAMES: &str = "ldk";

thread_local! {
    /// Algorithms that were registered before the sandbox: another test on this host may have its own.
    static EARLIER: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What is mounted where pins go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bpffs {
    Writable,
    ReadOnly,
    Absent,
}

/// Runs a test in a mount namespace of its own with a BPF file system, unless the host lacks what it needs.
pub fn in_sandbox(host_has_needs: bool, test: impl FnOnce() + Send) {
    in_sandbox_with(host_has_needs, Bpffs::Writable, test);
}

/// The same with another BPF file system, or none; checks that the host is as before.
pub fn in_sandbox_with(host_has_needs: bool, bpffs: Bpffs, test: impl FnOnce() + Send) {
    if !host_has_needs {
        return;
    }
    let before = HostSnapshot::take(&[NAMES]);
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            EARLIER.set(available());
            unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
            mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).expect("private mounts");
            mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), NONE).expect("an own /run");
            hide_bpffs();
            let flags = if bpffs == Bpffs::ReadOnly { MsFlags::MS_RDONLY } else { MsFlags::empty() };
            if bpffs != Bpffs::Absent {
                mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), flags, NONE).expect("a BPF file system");
            }
            test();
            assert_nothing_left();
        });
        inside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    before.assert_unchanged();
}

/// A host may have one mounted; the test decides whether it is there.
fn hide_bpffs() {
    let mounts = MountInfos::from_file("/proc/thread-self/mountinfo").unwrap();
    for mount in mounts.into_iter().filter(|mount| mount.fs_type == "bpf") {
        nix::mount::umount(&mount.mount_point).expect("the host's BPF file system can be left out");
    }
}

/// What [`fill_run`] fills `/run` with.
pub const BALLAST: &str = "/run/ballast";

/// Gives the sandbox's `/run` this size, and leaves no byte of it free.
pub fn fill_run(size: &str) {
    mount(NONE, "/run", NONE, MsFlags::MS_REMOUNT, Some(format!("size={size}").as_str())).unwrap();
    let mut file = fs::OpenOptions::new().create(true).append(true).open(BALLAST).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}

/// No record, no pin, no folder for either.
pub fn assert_nothing_left() {
    for place in ["/run/tccc", "/sys/fs/bpf/tccc"] {
        assert!(!Path::new(place).exists(), "{place} was left: {:?}", fs::read_dir(place).unwrap().collect::<Vec<_>>());
    }
    let listed = registered();
    assert!(listed.is_empty(), "still registered: {listed:?}");
}

/// Algorithms that were registered in this sandbox and still are.
pub fn registered() -> Vec<String> {
    let is_of_this_test =
        |name: &String| name.contains(NAMES) && EARLIER.with_borrow(|earlier| !earlier.contains(name));
    available().into_iter().filter(is_of_this_test).collect()
}

pub fn available() -> Vec<String> {
    let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    names.split_whitespace().map(str::to_owned).collect()
}

pub fn default() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap().trim().to_owned()
}

pub const NET_ADMIN: i32 = 12;
pub const SYS_ADMIN: i32 = 21;
pub const PERFMON: i32 = 38;
pub const BPF: i32 = 39;

/// Runs a command without these capabilities; the test fails unless it ends with `code`.
#[track_caller]
pub fn without(capabilities: &'static [i32], code: i32, command: &mut Command) -> Said {
    // SAFETY: prctl is a plain system call, safe between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for &capability in capabilities {
                libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
            }
            Ok(())
        });
    }
    check(code, command)
}

/// `tccc status -o json`: its instances.
pub fn status() -> Vec<Value> {
    let document = run(0, "status -o json").json();
    assert_eq!(document["schema"], 1);
    document["instances"].as_array().unwrap().clone()
}

/// What `tccc status` says of a name.
#[track_caller]
pub fn instance(name: &str) -> Value {
    let found = status().into_iter().find(|instance| instance["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is listed"))
}
