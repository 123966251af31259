//! The needs of privileged tests. Each probe uses what it probes, in a throw-away namespace if possible.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::sockopt::TcpUlp;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, setsockopt, socket};
use procfs::process::Process;
use tccc::catalog::{self, Algorithm};
use tccc::kernel::probe::has_accurate_ecn;
use tccc::lab::busy::BusyWatch;
use tccc::scenario::GuestKernel;
use tccc::virtual_time::guest::Guest;

use super::{CommandOutput, netlink};

/// `Err` says why the need is not met.
pub type Probe = Result<(), String>;
pub type Need = (&'static str, fn() -> Probe);

/// Whether a need is missing, so that the test must return. Prints and records which one.
///
/// Panics: `TCCC_REQUIRE` lists the missing need.
pub fn must_skip(marker: &str, needs: &[Need]) -> bool {
    let test = test_name(marker);
    let Some((need, why)) = needs.iter().find_map(|(need, probe)| Some((need, probe().err()?))) else {
        return false;
    };
    let kernel = match *need {
        "netem" => Some(GuestKernel::Linux6),
        "dualpi2" => Some(GuestKernel::Linux7),
        _ => None,
    };
    let why = match kernel.map(|kernel| in_the_guest(test, kernel)) {
        None => why,
        Some(Ok(())) => return true,
        Some(Err(lacking)) => format!("{why}, and {lacking}"),
    };
    record_skip(test, need, &why);
    true
}

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

/// The algorithms of the catalogue that this kernel can run. The others are recorded as skipped, with what they need.
pub fn loadable(marker: &str) -> Vec<&'static Algorithm> {
    let can_run = |algorithm: &&Algorithm| match algorithm.check_kernel(has_accurate_ecn) {
        Ok(()) => true,
        Err(unmet) => {
            record_skip(&format!("{} of {marker}", algorithm.id), "accurate_ecn", &unmet.what);
            false
        }
    };
    catalog::all().iter().filter(can_run).collect()
}

/// Accurate ECN (RFC 9768): Linux 7.0 and newer.
pub fn accurate_ecn() -> Probe {
    has_accurate_ecn().then_some(()).ok_or("this kernel has none: it came with Linux 7.0".into())
}

/// The first attempt at an experiment that other work on this host neither delays nor disturbs.
///
/// None: all attempts were disturbed. The running test is recorded as skipped and must return.
/// Panics: all attempts were late although nobody else used the processors, or an undisturbed attempt fails.
pub fn quiet_attempt(attempts: u32, attempt: impl Fn() -> Output) -> Option<CommandOutput> {
    const DELAYED: [&str; 2] = ["could not be measured", "the path does not match the scenario"];
    let watch = BusyWatch::begin().unwrap();
    let mut said = String::new();
    for _ in 0..attempts {
        let output = attempt();
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !DELAYED.iter().any(|words| said.contains(words)) {
            return Some(CommandOutput::of(0, "an undisturbed attempt".to_owned(), output));
        }
    }
    let others = watch.others().unwrap();
    assert!(others.disturb(), "late in {attempts} attempts on a quiet host ({others}): {said}");
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    record_skip(&test, "a less busy host", &format!("{attempts} attempts were delayed: {others}"));
    None
}

/// Runs the test in a guest of virtual time, whose kernel has netem.
///
/// Errors: there is no guest, this kernel is the guest, or the guest lacks another need.
fn in_the_guest(test: &str, kernel: GuestKernel) -> Result<(), String> {
    if std::env::var_os(super::guest::INSIDE).is_some() {
        return Err("this is the guest of virtual time".to_owned());
    }
    let (_, name) = test.split_once("::").unwrap_or(("", test));
    match super::guest::run(name, kernel) {
        Ok(None) => Ok(()),
        Ok(Some(lacking)) => {
            let (_, need) = lacking.trim().split_once(": needs ").unwrap_or(("", lacking.trim()));
            Err(format!("the guest of virtual time, which has it, has no {need}"))
        }
        Err(error) => Err(format!("there is no guest of virtual time: {error:#}")),
    }
}

/// Turns `kernel::load::pins::a_test::this_test` into `kernel::load::pins::a_test`.
fn test_name(marker: &str) -> &str {
    marker.rsplit_once("::").map_or(marker, |(test, _)| test)
}

/// User 0 with the capabilities to load programs and build networks.
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

pub fn btf() -> Probe {
    File::open("/sys/kernel/btf/vmlinux").map(drop).map_err(|error| format!("/sys/kernel/btf/vmlinux: {error}"))
}

/// libbpf's own probe fills a field that kernels before 6.9 do not know. They answer that the request is too long, which
/// libbpf takes for a refusal.
pub fn struct_ops() -> Probe {
    const VALUE_TYPE: &[u8] = b"\0bpf_struct_ops_tcp_congestion_ops\0";
    /// The kernel's ENOTSUPP, which libc lacks: the kernel has struct_ops maps, but none for this type.
    const NOT_SUPPORTED: i32 = -524;
    /// The first type of every kernel. No struct_ops map can hold it.
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

pub fn tun() -> Probe {
    in_new_netns(|| super::tun::open("").map(drop).map_err(|error| format!("the kernel refuses a TUN device: {error}")))
}

pub fn netem() -> Probe {
    has_qdisc("netem", netlink::NETEM)
}

/// Netem, and the queue discipline of RFC 9332.
pub fn dualpi2() -> Probe {
    netem().and_then(|()| has_qdisc("dualpi2", netlink::DEFAULTS))
}

fn has_qdisc(kind: &'static str, options: &'static [u32]) -> Probe {
    in_new_netns(move || {
        netlink::add_to_loopback(kind, options).map_err(|error| format!("the kernel refuses the qdisc {kind}: {error}"))
    })
}

/// A BPF file system can be mounted, in a mount namespace of its own over a folder that every host has.
pub fn bpffs() -> Probe {
    on_a_thread(|| {
        const NONE: Option<&str> = None;
        unshare(CloneFlags::CLONE_NEWNS).map_err(|error| format!("no mount namespace: {error}"))?;
        mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE).map_err(|error| error.to_string())?;
        mount(Some("bpf"), "/tmp", Some("bpf"), MsFlags::empty(), NONE)
            .map_err(|error| format!("the kernel refuses to mount one: {error}"))
    })
}

pub fn cgroup2() -> Probe {
    let root = super::state::mounted("cgroup2").ok_or("no cgroup2 file system is mounted")?;
    let group = tempfile::Builder::new().prefix("need-").tempdir_in(&root);
    group.and_then(|group| fs::remove_dir(group.keep())).map_err(|error| format!("{}: {error}", root.display()))
}

pub fn iperf3() -> Probe {
    runs("iperf3", "--version")
}

pub fn clang() -> Probe {
    runs("clang", "--version")
}

pub fn gcc() -> Probe {
    runs("gcc", "--version")
}

pub fn bpftool() -> Probe {
    runs("bpftool", "version")
}

pub fn patch() -> Probe {
    runs("patch", "--version")
}

pub fn guest() -> Probe {
    guest_of(GuestKernel::Linux6)
}

/// The guest with Linux 7.3.
pub fn guest7() -> Probe {
    guest_of(GuestKernel::Linux7)
}

fn guest_of(kernel: GuestKernel) -> Probe {
    Guest::find(kernel).map(drop).map_err(|error| format!("{error:#}"))
}

pub fn landlock() -> Probe {
    tccc::virtual_time::is_caged().then_some(()).ok_or("this kernel has no Landlock, or one before Linux 6.2".into())
}

/// A namespace with its own clock for the time since boot (Linux 5.6).
pub fn time_namespace() -> Probe {
    let exists = Path::new("/proc/self/timens_offsets").exists();
    exists.then_some(()).ok_or("this kernel has no time namespaces".into())
}

pub fn systemd_analyze() -> Probe {
    runs("systemd-analyze", "--version")
}

/// Mininet as Debian's own Python imports it, and `ifconfig`, which its hosts need to get addresses.
pub fn mininet() -> Probe {
    runs("/usr/bin/python3", "-cimport mininet.net, shutil, sys; sys.exit(shutil.which('ifconfig') is None)")
}

pub fn prometheus() -> Probe {
    runs("promtool", "--version").and_then(|()| runs("prometheus", "--version"))
}

pub fn nmap() -> Probe {
    runs("nmap", "--version")
}

pub fn nginx() -> Probe {
    runs("nginx", "-v")
}

pub fn wrk() -> Probe {
    finds("wrk")
}

pub fn haproxy() -> Probe {
    runs("haproxy", "-v")
}

pub fn redis() -> Probe {
    runs("redis-server", "--version")
}

/// The server, which must be started by an absolute path, and the client.
pub fn sshd() -> Probe {
    runs(SSHD, "-V").and_then(|()| runs("ssh", "-V"))
}

pub const SSHD: &str = "/usr/sbin/sshd";

pub fn postgresql() -> Probe {
    let folder = postgresql_folder().ok_or("no folder /usr/lib/postgresql/*/bin has `postgres`")?;
    ["initdb", "postgres", "psql"].iter().try_for_each(|program| runs(&format!("{folder}/{program}"), "--version"))
}

/// The programs of the newest PostgreSQL, where Debian installs them.
pub fn postgresql_folder() -> Option<String> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let newest = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let folders = newest.map(|version| (version, format!("/usr/lib/postgresql/{version}/bin")));
    folders.filter(|(_, folder)| Path::new(folder).join("postgres").exists()).max().map(|(_, folder)| folder)
}

pub fn systemd_socket_activate() -> Probe {
    runs("systemd-socket-activate", "--version")
}

pub fn mptcp() -> Probe {
    in_new_netns(|| {
        // SAFETY: only numbers are passed.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP) };
        if socket < 0 {
            return Err(format!("the kernel refuses an MPTCP socket: {}", std::io::Error::last_os_error()));
        }
        // SAFETY: nothing else owns the descriptor.
        drop(unsafe { OwnedFd::from_raw_fd(socket) });
        Ok(())
    })
}

pub fn mptcpize() -> Probe {
    runs("mptcpize", "--version")
}

/// TLS records that the kernel encrypts.
pub fn ktls() -> Probe {
    in_new_netns(|| {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        let socket = socket.map_err(|error| error.to_string())?;
        match setsockopt(&socket, TcpUlp::default(), b"tls") {
            // The kernel has it, and misses a connection.
            Ok(()) | Err(Errno::ENOTCONN) => Ok(()),
            Err(error) => Err(format!("the kernel refuses TLS for a socket: {error}")),
        }
    })
}

/// Whether `ns` runs a script of ns-2. Another program may have the same name.
pub fn ns2() -> Probe {
    let output = Command::new("ns").arg("/dev/stdin").stdin(Stdio::null()).output();
    output.map(drop).map_err(|error| format!("`ns`: {error}"))
}

/// pandas, polars and DuckDB, which pip installs once into a folder of the build.
pub fn data_tools() -> Probe {
    data_tools_python().map(drop)
}

/// The Python that has them.
///
/// Errors: no Python with `venv`, or pip cannot install them, for example without a network.
pub fn data_tools_python() -> Result<PathBuf, String> {
    static ONLY_ONCE: Mutex<()> = Mutex::new(());
    let _held = ONLY_ONCE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("data-tools");
    let python = folder.join("bin/python");
    let has_all = || runs(&python.to_string_lossy(), "-cimport duckdb, pandas, polars, pyarrow");
    if has_all().is_err() {
        let quietly = |command: &mut Command| {
            let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
            let said = String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_owned();
            if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said}")) }
        };
        quietly(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        quietly(Command::new(&python).args(pip).args(["duckdb", "pandas", "polars", "pyarrow"]))?;
        has_all()?;
    }
    Ok(python)
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

fn finds(program: &str) -> Probe {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    is_there.then_some(()).ok_or(format!("no folder of PATH has `{program}`"))
}

fn in_new_netns(probe: impl FnOnce() -> Probe + Send + 'static) -> Probe {
    on_a_thread(|| {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|error| format!("no network namespace: {error}"))?;
        probe()
    })
}

/// A thread has namespaces of its own, so the probe does not change the test's.
fn on_a_thread(probe: impl FnOnce() -> Probe + Send + 'static) -> Probe {
    std::thread::spawn(probe).join().unwrap_or_else(|_| Err("the probe panicked".into()))
}
