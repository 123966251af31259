//! Benchmark: what tracing every socket, sampled every 10 ms, costs a transfer at full speed.
//!
//! Paired stretches of one transfer over a veth pair between two namespaces, traced and not traced in turn. Both ends
//! and the tracer share one processor: whatever the tracer costs is missing from the transfer, and no thread wanders,
//! which alone makes more than 2 %. CUBIC, because pacing by timers (BBR) would add waiting to what is measured.
//! Then the kernel's own figure for one call of the tracer's programs, and so per packet: none runs at a packet while
//! samples are taken at intervals. `cargo xtask bench trace` prints it. The requirement: at least 0.99 of the goodput.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{HostSnapshot, needs, poll_until, tccc};
use libbpf_rs::query::ProgInfoIter;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tccc::kernel::netlink::{VethEnd, add_address, create_veth, set_up};
use tccc::kernel::netns::Netns;
use tccc::model::stats::paired_ratio;

const PAIRS: usize = 120;
const STRETCH: Duration = Duration::from_secs(1);
/// Lines of a tracer that is past its start: the head, and the flow's first samples.
const LINES_WHEN_STEADY: usize = 5;
/// Longer than all stretches; the transfer is ended by its owner.
const TRANSFER_SECONDS: &str = "3600";
const MTU: u32 = 1500;
const REQUIREMENT: f64 = 0.99;
const INTERVAL: &str = "10ms";
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 1));
const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 79, 0, 2));

#[test]
#[ignore = "a benchmark: `cargo xtask bench trace`"]
fn tracing_costs_little_goodput() {
    needs!(root, btf, iperf3);
    let before = HostSnapshot::take(&["btrace"]);
    let namespaces = joined_namespaces();
    let transfer = Transfer::start(&namespaces);
    transfer.goodput_bps();
    let mut pairs = Vec::new();
    println!("pair  traced Mbit/s  untraced Mbit/s  ratio");
    for pair in 0..PAIRS {
        // The order changes from pair to pair, so that a drift of the machine cancels.
        let is_traced_first = pair % 2 == 0;
        let first = measure(&transfer, is_traced_first);
        let second = measure(&transfer, !is_traced_first);
        let (traced, untraced) = if is_traced_first { (first, second) } else { (second, first) };
        println!("{pair:4}  {:13.0}  {:15.0}  {:.4}", traced / 1e6, untraced / 1e6, traced / untraced);
        pairs.push((traced, untraced));
    }
    show_ratio(&pairs);
    show_cost_per_call(&transfer);
    drop(transfer);
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
    println!("at least {REQUIREMENT} of the goodput: {verdict}");
}

/// Mean time of one call of each program of the tracer, by the kernel's statistics, and calls a second.
fn show_cost_per_call(transfer: &Transfer) {
    // SAFETY: the call takes a plain number; the descriptor it returns is nobody else's.
    let statistics = unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        assert!(fd >= 0, "the kernel's run statistics can be switched on");
        OwnedFd::from_raw_fd(fd)
    };
    let tracer = Tracer::start();
    let attached = Instant::now();
    let bps = transfer.goodput_bps();
    let elapsed = attached.elapsed();
    println!("program             calls/s  ns per call  of one CPU  (at {:.0} Mbit/s)", bps / 1e6);
    for program in ProgInfoIter::default().filter(|program| tracer.programs.contains_key(&program.id)) {
        let name = program.name.to_string_lossy().into_owned();
        let mean_ns = program.run_time_ns as f64 / program.run_cnt.max(1) as f64;
        let calls = program.run_cnt as f64 / elapsed.as_secs_f64();
        let share_percent = program.run_time_ns as f64 / elapsed.as_nanos() as f64 * 100.0;
        println!("{name:16} {calls:10.0}  {mean_ns:11.1}  {share_percent:8.3} %");
    }
    tracer.stop();
    drop(statistics);
}

/// One stretch; without tracing, the tracer is started and stopped before it, so that all else is the same.
fn measure(transfer: &Transfer, is_traced: bool) -> f64 {
    let mut tracer = Some(Tracer::start());
    if !is_traced && let Some(tracer) = tracer.take() {
        tracer.stop();
    }
    let bps = transfer.goodput_bps();
    if let Some(tracer) = tracer {
        tracer.stop();
    }
    bps
}

/// A running `tccc trace` over every socket of the host, past its start.
struct Tracer {
    process: Child,
    programs: BTreeMap<u32, String>,
}

impl Tracer {
    /// Starts it and waits until the transfer's samples come out.
    fn start() -> Self {
        let before = programs();
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut command = tccc();
        command.args(["trace", "-o", "csv", "--interval", INTERVAL]).stdin(Stdio::null()).stderr(Stdio::null());
        let process = on_one_processor(command.stdout(File::create(output.path()).unwrap())).spawn().unwrap();
        let lines = || std::fs::read_to_string(output.path()).unwrap().lines().count();
        poll_until(Duration::from_secs(10), "`tccc trace` shows samples", || lines() >= LINES_WHEN_STEADY);
        let mut programs = programs();
        programs.retain(|id, _| !before.contains_key(id));
        Tracer { process, programs }
    }

    fn stop(mut self) {
        kill(Pid::from_raw(self.process.id() as i32), Signal::SIGINT).unwrap();
        assert!(self.process.wait().unwrap().success(), "`tccc trace` ends well at Ctrl-C");
    }
}

/// Lets the child run on the processor of all measured processes only.
fn on_one_processor(command: &mut Command) -> &mut Command {
    let mut processors = CpuSet::new();
    let last = std::thread::available_parallelism().unwrap().get() - 1;
    processors.set(last).unwrap();
    // SAFETY: between fork and exec only `sched_setaffinity` is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || Ok(sched_setaffinity(Pid::from_raw(0), &processors)?)) }
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

/// An iperf3 transfer at full speed from the first namespace to the second; ended when dropped.
struct Transfer<'a> {
    namespaces: &'a [Netns; 2],
    server: Child,
    client: Child,
}

impl<'a> Transfer<'a> {
    fn start(namespaces: &'a [Netns; 2]) -> Self {
        let server = iperf3(&namespaces[1], &["-s", "-1"]).stdout(Stdio::null()).spawn().unwrap();
        poll_until(Duration::from_secs(10), "iperf3 listens", || is_listening(&namespaces[1]));
        let receiver = RECEIVER.to_string();
        let mut client = iperf3(&namespaces[0], &["-c", &receiver, "-C", "cubic", "-t", TRANSFER_SECONDS]);
        let transfer = Transfer { namespaces, server, client: client.stdout(Stdio::null()).spawn().unwrap() };
        poll_until(Duration::from_secs(10), "data arrives", || transfer.received_bytes() > 1 << 30);
        transfer
    }

    /// What arrives in one stretch, bits per second.
    fn goodput_bps(&self) -> f64 {
        let (begin, before) = (Instant::now(), self.received_bytes());
        // What is measured is what arrives while time passes.
        std::thread::sleep(STRETCH);
        let arrived = self.received_bytes() - before;
        arrived as f64 * 8.0 / begin.elapsed().as_secs_f64()
    }

    /// Bytes that the receiver's interface has counted; its headers are the same share in every stretch.
    fn received_bytes(&self) -> u64 {
        let devices = self.namespaces[1].run(|| Ok(std::fs::read_to_string("/proc/thread-self/net/dev")?)).unwrap();
        let counts = devices.lines().find_map(|line| line.trim_start().strip_prefix("btraceb:"));
        counts.and_then(|counts| counts.split_whitespace().next()?.parse().ok()).expect("the interface has counts")
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        for process in [&mut self.client, &mut self.server] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn iperf3(netns: &Netns, arguments: &[&str]) -> Command {
    let netns = netns.try_clone().unwrap();
    let mut command = Command::new("iperf3");
    command.args(arguments).stdin(Stdio::null());
    // SAFETY: between fork and exec only `setns` is called, which is async-signal-safe.
    unsafe { command.pre_exec(move || netns.enter_for_good()) };
    on_one_processor(&mut command);
    command
}

/// Whether iperf3's port is open; /proc/thread-self/net shows the namespace of the reading thread.
fn is_listening(netns: &Netns) -> bool {
    const PORT_IN_LISTEN_STATE: &str = ":1451 00000000000000000000000000000000:0000 0A";
    let sockets = netns.run(|| Ok(std::fs::read_to_string("/proc/thread-self/net/tcp6")?)).unwrap();
    sockets.contains(PORT_IN_LISTEN_STATE)
}
