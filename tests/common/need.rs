//! The needs of privileged tests, each probed by doing the thing in a throw-away namespace where that is possible.

use std::ffi::{CString, c_int, c_short};
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use procfs::process::Process;
use tccc::lab::busy::BusyWatch;

use super::netlink;

/// Met, or why not.
pub type Probe = Result<(), String>;
/// The name of a need and how it is probed.
pub type Need = (&'static str, fn() -> Probe);

/// Whether the test that asks must return; says and records why.
///
/// Panics: when a missing need is listed in `TCCC_REQUIRE`.
pub fn must_skip(marker: &str, needs: &[Need]) -> bool {
    let test = test_name(marker);
    let Some((need, why)) = needs.iter().find_map(|(need, probe)| Some((need, probe().err()?))) else {
        return false;
    };
    let why = match *need == "netem" {
        false => why,
        true => match in_the_guest(test) {
            Ok(()) => return true,
            Err(lacking) => format!("{why}, and {lacking}"),
        },
    };
    record_skip(test, need, &why);
    true
}

/// Says and records that a test is skipped.
///
/// Panics: when the need is listed in `TCCC_REQUIRE`.
fn record_skip(test: &str, need: &str, why: &str) {
    let line = format!("skipped: {test}: needs {need}: {why}");
    let required = std::env::var("TCCC_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name.trim() == need), "{line}, and TCCC_REQUIRE demands it");
    eprintln!("{line}");
    if let Some(log) = std::env::var_os("TCCC_SKIP_LOG") {
        let mut log = OpenOptions::new().create(true).append(true).open(log).expect("skip log can be written");
        log.write_all(format!("{line}\n").as_bytes()).expect("skip log can be written");
    }
}

/// The first of some attempts at an experiment that other work on this host neither delays nor disturbs. None: each was;
/// the running test is recorded as skipped, and must return.
///
/// Panics: each attempt was late although nobody else used the processors.
pub fn quiet_attempt(attempts: u32, attempt: impl Fn() -> Output) -> Option<Output> {
    const DELAYED: [&str; 2] = ["could not be measured", "the path is not what the scenario asks"];
    let watch = BusyWatch::begin().unwrap();
    let mut said = String::new();
    for _ in 0..attempts {
        let output = attempt();
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !DELAYED.iter().any(|words| said.contains(words)) {
            return Some(output);
        }
    }
    let others = watch.others().unwrap();
    assert!(others.disturb(), "late in {attempts} attempts on a quiet host ({others}): {said}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    record_skip(&test, "an idler host", &format!("{attempts} attempts were delayed: {others}"));
    None
}

/// Runs the test in the guest of virtual time, whose kernel has netem.
///
/// Errors: why it cannot run there: there is no guest, or this kernel is one; or the guest lacks another need.
fn in_the_guest(test: &str) -> Result<(), String> {
    if std::env::var_os(super::guest::INSIDE).is_some() {
        return Err("this is the guest of virtual time".to_owned());
    }
    let (_, name) = test.split_once("::").unwrap_or(("", test));
    match super::guest::run(name) {
        Ok(None) => Ok(()),
        Ok(Some(lacking)) => {
            let (_, need) = lacking.trim().split_once(": needs ").unwrap_or(("", lacking.trim()));
            Err(format!("the guest of virtual time, which has it, has no {need}"))
        }
        Err(error) => Err(format!("there is no guest of virtual time: {error:#}")),
    }
}

/// `kernel_load::pins::load_twice_is_refused::this_test` to `kernel_load::pins::load_twice_is_refused`.
fn test_name(marker: &str) -> &str {
    marker.rsplit_once("::").map_or(marker, |(test, _)| test)
}

/// User 0 with the capabilities that loading programs and building networks take.
pub fn root() -> Probe {
    const WANTED: [(u32, &str); 3] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN"), (39, "CAP_BPF")];
    if !nix::unistd::geteuid().is_root() {
        return Err(format!("user {} runs the tests, not root", nix::unistd::geteuid()));
    }
    let status = Process::myself().and_then(|process| process.status()).map_err(|error| error.to_string())?;
    match WANTED.iter().find(|(bit, _)| status.capeff & (1 << bit) == 0) {
        Some((_, name)) => Err(format!("{name} is missing from the effective capabilities")),
        None => Ok(()),
    }
}

/// Type information of the running kernel.
pub fn btf() -> Probe {
    File::open("/sys/kernel/btf/vmlinux").map(drop).map_err(|error| format!("/sys/kernel/btf/vmlinux: {error}"))
}

/// Congestion control as BPF struct_ops.
///
/// Not by libbpf's own probe: it fills a field that kernels before 6.9 do not know, and takes their answer, that the
/// request is too long, for a refusal.
pub fn struct_ops() -> Probe {
    const VALUE_TYPE: &[u8] = b"\0bpf_struct_ops_tcp_congestion_ops\0";
    /// The kernel's own error, unknown to user space: it has struct_ops maps, but none for the type that was named.
    const NOT_SUPPORTED: i32 = -524;
    /// The first type of every kernel, which is none that a struct_ops map can hold.
    const OTHER_TYPE: u32 = 1;
    btf()?;
    let types = fs::read("/sys/kernel/btf/vmlinux").map_err(|error| error.to_string())?;
    if !types.windows(VALUE_TYPE.len()).any(|window| window == VALUE_TYPE) {
        return Err("this kernel's type information has no struct_ops for tcp_congestion_ops".into());
    }
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        btf_vmlinux_value_type_id: OTHER_TYPE,
        ..Default::default()
    };
    let (kind, name) = (libbpf_sys::BPF_MAP_TYPE_STRUCT_OPS, std::ptr::null());
    // SAFETY: no name is allowed, and the options outlive the call; the other arguments are plain values.
    let answer = unsafe { libbpf_sys::bpf_map_create(kind, name, 4, 4, 1, &options) };
    if answer == NOT_SUPPORTED { Ok(()) } else { Err(format!("the kernel refuses struct_ops maps: error {answer}")) }
}

/// A TUN device can be created.
pub fn tun() -> Probe {
    in_new_netns(|| super::tun::open("").map(drop).map_err(|error| format!("the kernel refuses a TUN device: {error}")))
}

/// The kernel's netem queueing discipline.
pub fn netem() -> Probe {
    in_new_netns(|| netlink::add_netem_to_loopback().map_err(|error| format!("the kernel refuses the qdisc: {error}")))
}

/// A BPF file system can be mounted (or is).
pub fn bpffs() -> Probe {
    let place = scratch_directory("bpffs").map_err(|error| error.to_string())?;
    let target = place.clone();
    let answer = on_a_thread(move || {
        const NONE: Option<&str> = None;
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace: {error}"))?;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).map_err(|error| error.to_string())?;
        mount(Some("bpf"), &target, Some("bpf"), MsFlags::empty(), NONE)
            .map_err(|error| format!("the kernel refuses to mount one: {error}"))
    });
    let _ = fs::remove_dir(place);
    answer
}

/// A writable cgroup2 hierarchy.
pub fn cgroup2() -> Probe {
    let root = super::state::mounted("cgroup2").ok_or("no cgroup2 file system is mounted")?;
    let place =
        root.join(format!("need-{}-{:?}", std::process::id(), std::thread::current().id()).replace(['(', ')'], ""));
    fs::create_dir(&place).and_then(|()| fs::remove_dir(&place)).map_err(|error| format!("{}: {error}", root.display()))
}

/// The traffic generator.
pub fn iperf3() -> Probe {
    runs("iperf3", "--version")
}

/// The compiler of the BPF programs and of the host ring.
pub fn clang() -> Probe {
    runs("clang", "--version")
}

/// The compiler of the guest's modules.
pub fn gcc() -> Probe {
    runs("gcc", "--version")
}

/// The kernel's own tool for BPF.
pub fn bpftool() -> Probe {
    runs("bpftool", "version")
}

/// What applies patches.
pub fn patch() -> Probe {
    runs("patch", "--version")
}

/// The guest of virtual time.
pub fn guest() -> Probe {
    tccc::virtual_time::guest::Guest::find().map(drop).map_err(|error| format!("{error:#}"))
}

/// What holds a guest's process to its folder.
pub fn landlock() -> Probe {
    match tccc::virtual_time::is_caged() {
        true => Ok(()),
        false => Err("this kernel has no Landlock, or one before Linux 6.2".to_owned()),
    }
}

/// Clocks of one's own for the time since boot (Linux 5.6).
pub fn time_namespace() -> Probe {
    match std::path::Path::new("/proc/self/timens_offsets").exists() {
        true => Ok(()),
        false => Err("this kernel has no time namespaces".to_owned()),
    }
}

/// What tells how far a unit of systemd is exposed.
pub fn systemd_analyze() -> Probe {
    runs("systemd-analyze", "--version")
}

/// Mininet as Debian's own Python sees it, and what its hosts get their addresses by.
pub fn mininet() -> Probe {
    runs("/usr/bin/python3", "-cimport mininet.net, shutil, sys; sys.exit(shutil.which('ifconfig') is None)")
}

/// The server that scrapes metrics, and its tool.
pub fn prometheus() -> Probe {
    runs("promtool", "--version").and_then(|()| runs("prometheus", "--version"))
}

/// The port scanner.
pub fn nmap() -> Probe {
    runs("nmap", "--version")
}

/// The simulator: a program of another name may be called so too.
pub fn ns2() -> Probe {
    let output = Command::new("ns").arg("/dev/stdin").stdin(Stdio::null()).output();
    output.map(drop).map_err(|error| format!("`ns`: {error}"))
}

fn runs(program: &str, argument: &str) -> Probe {
    let status =
        Command::new(program).arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{program} {argument}` ended with {status}")),
        Err(error) => Err(format!("`{program} {argument}`: {error}")),
    }
}

fn in_new_netns(probe: impl FnOnce() -> Probe + Send + 'static) -> Probe {
    on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))?;
        probe()
    })
}

/// Namespaces are left per thread, so a thread of its own keeps the test's namespaces as they are.
fn on_a_thread(probe: impl FnOnce() -> Probe + Send + 'static) -> Probe {
    std::thread::spawn(probe).join().unwrap_or_else(|_| Err("the probe panicked".into()))
}

fn scratch_directory(purpose: &str) -> std::io::Result<PathBuf> {
    let kept = tempfile::Builder::new().prefix(&format!("need-{purpose}-")).tempdir()?.keep();
    Ok(kept)
}
