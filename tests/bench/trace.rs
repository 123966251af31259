//! Benchmark: what tracing every socket, sampled every 10 ms, costs a transfer at full speed.
//!
//! Paired stretches of one transfer over a veth pair between two namespaces, traced and not traced in turn. Both ends
//! and the tracer share one processor: whatever the tracer costs is missing from the transfer, and no thread wanders,
//! which alone makes more than 2 %. CUBIC, because pacing by timers (BBR) would add waiting to what is measured.
//! Then the kernel's own figure for one call of the tracer's programs, and so per packet: none runs at a packet while
//! samples are taken at intervals. `cargo xtask bench trace` prints it. The requirement: at least 0.99 of the goodput.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{HostSnapshot, needs, poll_until, tccc};
use crate::namespaces::{ENDS, joined, start_in, start_on_last_processor};
use crate::pairs;
use libbpf_rs::query::ProgInfoIter;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tccc::kernel::netns::Netns;
use tccc::kernel::struct_ops::Statistics;

const PAIRS: usize = 120;
const STRETCH: Duration = Duration::from_secs(1);
/// Lines of a tracer that is past its start: the head, and the flow's first samples.
const LINES_WHEN_STEADY: usize = 5;
/// Longer than all stretches; the transfer is ended by its owner.
const TRANSFER_SECONDS: &str = "3600";
const REQUIREMENT: f64 = 0.99;
const INTERVAL: &str = "10ms";
/// Interfaces of the namespaces.
const SENDING: &str = "btracea";
const RECEIVING: &str = "btraceb";

#[test]
#[ignore = "a benchmark: `cargo xtask bench trace`"]
fn tracing_costs_little_goodput() {
    needs!(root, btf, iperf3);
    let before = HostSnapshot::take(&["btrace"]);
    let namespaces = joined([SENDING, RECEIVING]);
    let transfer = Transfer::start(&namespaces);
    transfer.goodput_bps();
    println!("traced Mbit/s  untraced Mbit/s  ratio");
    let pairs = pairs::alternating(PAIRS, || measure(&transfer, true), || measure(&transfer, false));
    let pairs = pairs.inspect(|(traced, untraced)| {
        println!("{:13.0}  {:15.0}  {:.4}", traced / 1e6, untraced / 1e6, traced / untraced);
    });
    let interval = pairs::show_ratio("goodput traced / not traced", &pairs.collect::<Vec<_>>());
    let verdict = match interval {
        [low, _] if low > 1.0 => {
            "not decided: traced transfers were faster, so something else than tracing made the difference"
        }
        _ => pairs::at_least(REQUIREMENT, interval),
    };
    println!("at least {REQUIREMENT} of the goodput: {verdict}");
    show_cost_per_call(&transfer);
    drop(transfer);
    drop(namespaces);
    before.assert_unchanged();
}

/// Mean time of one call of each program of the tracer, by the kernel's statistics, and calls a second.
fn show_cost_per_call(transfer: &Transfer) {
    let statistics = Statistics::begin().unwrap();
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
        let process = start_on_last_processor(command.stdout(File::create(output.path()).unwrap())).spawn().unwrap();
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

/// Every BPF program in the kernel.
fn programs() -> BTreeMap<u32, String> {
    ProgInfoIter::default().map(|program| (program.id, program.name.to_string_lossy().into_owned())).collect()
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
        let receiver = ENDS[1].to_string();
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
        let counts = devices.lines().find_map(|line| line.trim_start().strip_prefix(RECEIVING)?.strip_prefix(':'));
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
    let mut command = Command::new("iperf3");
    start_in(netns, command.args(arguments).stdin(Stdio::null()));
    start_on_last_processor(&mut command);
    command
}

/// Whether iperf3's port is open; /proc/thread-self/net shows the namespace of the reading thread.
fn is_listening(netns: &Netns) -> bool {
    const PORT_IN_LISTEN_STATE: &str = ":1451 00000000000000000000000000000000:0000 0A";
    let sockets = netns.run(|| Ok(std::fs::read_to_string("/proc/thread-self/net/tcp6")?)).unwrap();
    sockets.contains(PORT_IN_LISTEN_STATE)
}
