//! Benchmark: what tracing every socket costs a transfer at full speed.
//!
//! Paired runs, traced and not traced in turn, over a veth pair between two namespaces; then the kernel's own figure
//! for one call of the tracer's programs. `cargo xtask bench trace` prints it. The requirement: under 2 % of goodput.

mod common;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{HostSnapshot, needs, poll_until, tccc};
use libbpf_rs::query::ProgInfoIter;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tccc::kernel::netlink::{VethEnd, add_address, create_veth, set_up};
use tccc::kernel::netns::Netns;
use tccc::model::stats::paired_ratio;

const PAIRS: usize = 100;
const TRANSFER_SECONDS: u32 = 1;
const MTU: u32 = 1500;
const REQUIREMENT: f64 = 0.98;
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 1));
const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 2));

#[test]
#[ignore = "a benchmark: `cargo xtask bench trace`"]
fn tracing_costs_little_goodput() {
    needs!(root, btf, iperf3);
    let before = HostSnapshot::take(&["btrace"]);
    let namespaces = joined_namespaces();
    goodput_bps(&namespaces);
    let mut pairs = Vec::new();
    println!("pair  traced Mbit/s  untraced Mbit/s  ratio");
    for pair in 0..PAIRS {
        // The order changes from pair to pair, so that a drift of the machine cancels.
        let is_traced_first = pair % 2 == 0;
        let first = measure(&namespaces, is_traced_first);
        let second = measure(&namespaces, !is_traced_first);
        let (traced, untraced) = if is_traced_first { (first, second) } else { (second, first) };
        println!("{pair:4}  {:13.0}  {:15.0}  {:.4}", traced / 1e6, untraced / 1e6, traced / untraced);
        pairs.push((traced, untraced));
    }
    show_ratio(&pairs);
    show_cost_per_call(&namespaces);
    drop(namespaces);
    before.assert_unchanged();
}

fn show_ratio(pairs: &[(f64, f64)]) {
    let ratio = paired_ratio(pairs).unwrap();
    let [low, high] = ratio.ci95.unwrap();
    let n = pairs.len();
    println!("goodput traced / not traced: {:.4} (95 % interval {low:.4} to {high:.4}, n = {n} pairs)", ratio.ratio);
    let verdict = match REQUIREMENT {
        _ if low > 1.0 => {
            "not decided: traced transfers were faster, so something else than tracing made the difference"
        }
        limit if low >= limit => "holds",
        limit if high < limit => "does not hold",
        _ => "not decided: it lies inside the interval; more pairs or a quieter machine would decide",
    };
    println!("cost under 2 %: {verdict}");
}

/// Mean time of one call of each program of the tracer, by the kernel's statistics, and calls per traced transfer.
fn show_cost_per_call(namespaces: &[Netns; 2]) {
    // SAFETY: the call takes a plain number; the descriptor it returns is nobody else's.
    let statistics = unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        assert!(fd >= 0, "the kernel's run statistics can be switched on");
        OwnedFd::from_raw_fd(fd)
    };
    let tracer = Tracer::start();
    let bps = goodput_bps(namespaces);
    println!("program           calls in {TRANSFER_SECONDS} s  ns per call  of one CPU  (at {:.0} Mbit/s)", bps / 1e6);
    for program in ProgInfoIter::default().filter(|program| tracer.programs.contains_key(&program.id)) {
        let name = program.name.to_string_lossy().into_owned();
        let mean_ns = program.run_time_ns as f64 / program.run_cnt.max(1) as f64;
        let share_percent = program.run_time_ns as f64 / (f64::from(TRANSFER_SECONDS) * 1e9) * 100.0;
        println!("{name:16} {:13}  {mean_ns:11.1}  {share_percent:8.3} %", program.run_cnt);
    }
    tracer.stop();
    drop(statistics);
}

/// One transfer; without tracing, the tracer is started and stopped before it, so that all else is the same.
fn measure(namespaces: &[Netns; 2], is_traced: bool) -> f64 {
    let mut tracer = Some(Tracer::start());
    if !is_traced && let Some(tracer) = tracer.take() {
        tracer.stop();
    }
    let bps = goodput_bps(namespaces);
    if let Some(tracer) = tracer {
        tracer.stop();
    }
    bps
}

/// A running `tccc trace` over every socket of the host.
struct Tracer {
    process: Child,
    programs: BTreeMap<u32, String>,
}

impl Tracer {
    /// Starts it and waits until its programs are in the kernel and attached.
    fn start() -> Self {
        let before = programs();
        let output = tempfile::NamedTempFile::new().unwrap();
        let process = tccc()
            .args(["trace", "-o", "csv"])
            .stdin(Stdio::null())
            .stdout(File::create(output.path()).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let folder = format!("/proc/{}/fdinfo", process.id());
        poll_until(Duration::from_secs(10), "`tccc trace` attached its programs", || links(&folder) > 0);
        let mut programs = programs();
        programs.retain(|id, _| !before.contains_key(id));
        Tracer { process, programs }
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.process.id() as i32), Signal::SIGINT).unwrap();
        assert!(self.process.wait().unwrap().success(), "`tccc trace` ends well at Ctrl-C");
    }
}

/// Attached BPF links that a process holds.
fn links(fdinfo: &str) -> usize {
    let entries = std::fs::read_dir(fdinfo).into_iter().flatten().flatten();
    entries.filter(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|info| info.contains("link_type:"))).count()
}

/// Every BPF program in the kernel.
fn programs() -> BTreeMap<u32, String> {
    ProgInfoIter::default().map(|program| (program.id, program.name.to_string_lossy().into_owned())).collect()
}

/// Two namespaces joined by the pair "btracea" and "btraceb".
fn joined_namespaces() -> [Netns; 2] {
    let namespaces = [Netns::create().unwrap(), Netns::create().unwrap()];
    let end = |index: usize, name| VethEnd { netns: &namespaces[index], name, mac: None, arp: true };
    create_veth(&end(0, "btracea"), &end(1, "btraceb"), MTU).unwrap();
    for (netns, name, address) in [(&namespaces[0], "btracea", SENDER), (&namespaces[1], "btraceb", RECEIVER)] {
        set_up(netns, name).unwrap();
        add_address(netns, name, address, 24).unwrap();
    }
    namespaces
}

/// One transfer; what the receiver got, bits per second.
fn goodput_bps(namespaces: &[Netns; 2]) -> f64 {
    let receiver = RECEIVER.to_string();
    let mut server = iperf3(&namespaces[1], &["-s", "-1"]).stdout(Stdio::null()).spawn().unwrap();
    poll_until(Duration::from_secs(10), "iperf3 listens", || is_listening(&namespaces[1]));
    let seconds = TRANSFER_SECONDS.to_string();
    let output = iperf3(&namespaces[0], &["-c", &receiver, "-t", &seconds, "-J"]).output().unwrap();
    assert!(server.wait().unwrap().success(), "the iperf3 server ends well");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    report["end"]["sum_received"]["bits_per_second"].as_f64().expect("iperf3 reports what was received")
}

fn iperf3(netns: &Netns, arguments: &[&str]) -> Command {
    let netns = netns.try_clone().unwrap();
    let mut command = Command::new("iperf3");
    command.args(arguments).stdin(Stdio::null());
    // SAFETY: between fork and exec only `setns` is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || netns.enter_for_good()) };
    command
}

/// Whether iperf3's port is open; /proc/thread-self/net shows the namespace of the reading thread.
fn is_listening(netns: &Netns) -> bool {
    const PORT_IN_LISTEN_STATE: &str = ":1451 00000000000000000000000000000000:0000 0A";
    let sockets = netns.run(|| Ok(std::fs::read_to_string("/proc/thread-self/net/tcp6")?)).unwrap();
    sockets.contains(PORT_IN_LISTEN_STATE)
}
