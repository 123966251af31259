//! A mount namespace of one thread, where tccc can pin and record without touching the host's own files.

use std::cell::RefCell;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use procfs::FromRead;
use procfs::process::MountInfos;
use serde_json::Value;
use tccc::catalog;
use tccc::kernel::probe::Features;
use tccc::loader::Request;

use super::keeper;
use crate::common::HostSnapshot;
use crate::common::state::algorithms;
use crate::common::{CommandOutput, SOON, check, poll_until, run};

const NONE: Option<&str> = None;
/// Part of the names of all algorithms that these tests load.
pub const NAMES: &str = "ldk";

thread_local! {
    /// Algorithms registered before the sandbox began. Other tests on this host may have registered some.
    static EARLIER: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// A mount namespace of the test's thread, with its own `/run` and BPF file system.
///
/// When dropped, the thread returns to the host's namespace. Panics: the test left a record, a pin or a registration, or
/// changed the host.
pub struct Sandbox {
    host: fs::File,
    _before: HostSnapshot,
}

impl Sandbox {
    pub fn enter() -> Self {
        let sandbox = Self::without_bpffs();
        mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), NONE).expect("a BPF file system");
        sandbox
    }

    pub fn without_bpffs() -> Self {
        keeper::start();
        let before = HostSnapshot::take(&[NAMES]);
        let host = fs::File::open("/proc/thread-self/ns/mnt").unwrap();
        EARLIER.set(algorithms());
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        keeper::note_mount_namespace();
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).expect("private mounts");
        mount(Some("none"), "/run", Some("tmpfs"), MsFlags::empty(), NONE).expect("an own /run");
        // The host may have BPF file systems.
        let mounts = MountInfos::from_file("/proc/thread-self/mountinfo").unwrap();
        for mount in mounts.into_iter().filter(|mount| mount.fs_type == "bpf") {
            nix::mount::umount(&mount.mount_point).expect("the host's BPF file system can be unmounted");
        }
        Sandbox { host, _before: before }
    }
}

/// Makes this thread's mount namespace look like that of process 1, so that tccc mounts a BPF file system in it.
pub fn pose_as_process_1() {
    let [own, first] = ["/proc/thread-self/mountinfo", "/proc/1/mountinfo"];
    mount(Some(own), first, NONE, MsFlags::MS_BIND, NONE).expect("other mounts of process 1");
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_nothing_left();
            // The kernel refuses it while an ending thread still shares the working directory.
            let is_back = || setns(&self.host, CloneFlags::CLONE_NEWNS).is_ok();
            poll_until(SOON, "the return to the host's mount namespace", is_back);
        }
    }
}

pub const BALLAST: &str = "/run/ballast";

/// Gives the sandbox's `/run` this size and fills it up.
pub fn fill_run(size: &str) {
    resize_run(size);
    let mut file = fs::OpenOptions::new().create(true).append(true).open(BALLAST).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}

pub fn resize_run(size: &str) {
    mount(NONE, "/run", NONE, MsFlags::MS_REMOUNT, Some(format!("size={size}").as_str())).unwrap();
}

/// Asserts that there is no record, no pin, no folder for them, and no registration.
pub fn assert_nothing_left() {
    for place in ["/run/tccc", "/sys/fs/bpf/tccc"] {
        assert!(!Path::new(place).exists(), "{place} was left: {:?}", fs::read_dir(place).unwrap().collect::<Vec<_>>());
    }
    let listed = registered();
    assert!(listed.is_empty(), "still registered: {listed:?}");
}

/// Algorithms that this sandbox registered and that are still registered.
pub fn registered() -> Vec<String> {
    let is_of_this_test =
        |name: &String| name.contains(NAMES) && EARLIER.with_borrow(|earlier| !earlier.contains(name));
    let mut names: Vec<String> = algorithms().into_iter().filter(is_of_this_test).collect();
    names.sort();
    names
}

pub fn is_available(name: &str) -> bool {
    algorithms().iter().any(|it| it == name)
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
pub fn without(capabilities: &'static [i32], code: i32, command: &mut Command) -> CommandOutput {
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

/// The instances in `tccc status -o json`.
pub fn status() -> Vec<Value> {
    let document = run(0, "status -o json").json();
    assert_eq!(document["schema"], 1);
    document["instances"].as_array().unwrap().clone()
}

#[track_caller]
pub fn instance(name: &str) -> Value {
    let found = status().into_iter().find(|instance| instance["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is listed"))
}

/// The differences between an instance and its record, as `tccc status` lists them.
#[track_caller]
pub fn drift(name: &str) -> Vec<String> {
    serde_json::from_value(instance(name)["drift"].clone()).unwrap()
}

/// The generation of an instance and the value of its tunable `keep_avoidance`, if set.
#[track_caller]
pub fn generation(name: &str) -> (Option<u64>, Option<i64>) {
    let instance = instance(name);
    (instance["generation"].as_u64(), instance["tunables"]["keep_avoidance"].as_i64())
}

pub fn dtcp_as(name: &str) -> Request<'_> {
    Request { name, ..Request::of(catalog::find("dtcp").unwrap()) }
}

/// The features of a kernel before 6.4, which has no links for struct_ops.
pub fn without_links() -> Features {
    Features { links: false, link_update: false, ..Features::probe().unwrap() }
}
