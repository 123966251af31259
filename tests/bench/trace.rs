//! Benchmark: the effect of tracing every socket every 10 ms on a transfer at full speed.
//!
//! Measures stretches of one transfer over a veth pair, with and without a tracer in turn. Both ends and the tracer share
//! one processor, so the transfer loses the tracer's processor time, and no thread migrates, which alone would change the
//! goodput by more than 2 %. The algorithm is CUBIC, because BBR's timers would add waiting time. Also prints the kernel's
//! statistics of the tracer's programs. None of them runs per packet while a clock takes the samples.
//! `cargo xtask bench trace` prints the results. The requirement: at least 0.99 of the goodput.

use std::collections::BTreeMap;

use libbpf_rs::query::ProgInfoIter;
use nix::sys::signal::Signal;

use super::*;
use crate::common::{Owned, begin_quietly, signal};
use crate::namespaces::{ENDS, joined, start_in, start_on_last_processor};
use crate::pairs;

const PAIRS: usize = 120;
const STRETCH: Duration = Duration::from_secs(1);
/// Lines of a tracer that has started: the header and the flow's first samples.
const LINES_WHEN_STEADY: usize = 5;
/// Longer than all stretches. The transfer is killed when dropped.
const TRANSFER_SECONDS: &str = "3600";
const REQUIREMENT: f64 = 0.99;
const INTERVAL: &str = "10ms";
const SENDING: &str = "btracea";
const RECEIVING: &str = "btraceb";

#[test]
#[ignore = "a benchmark: `cargo xtask bench trace`"]
fn tracing_costs_little_goodput() {
    needs!(root, btf, iperf3);
    let _host = HostSnapshot::take(&["btrace"]);
    let namespaces = joined([SENDING, RECEIVING]);
    let transfer = Iperf3Transfer::start(&namespaces);
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
}

fn show_cost_per_call(transfer: &Iperf3Transfer) {
    let statistics = Statistics::begin().unwrap();
    let tracer = TracerProcess::start();
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

/// Measures one stretch. Without tracing, the tracer is started and stopped before it, so that nothing else differs.
fn measure(transfer: &Iperf3Transfer, is_traced: bool) -> f64 {
    let mut tracer = Some(TracerProcess::start());
    if !is_traced && let Some(tracer) = tracer.take() {
        tracer.stop();
    }
    let bps = transfer.goodput_bps();
    if let Some(tracer) = tracer {
        tracer.stop();
    }
    bps
}

struct TracerProcess {
    process: Child,
    programs: BTreeMap<u32, String>,
}

impl TracerProcess {
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
        TracerProcess { process, programs }
    }

    fn stop(mut self) {
        signal(self.process.id(), Signal::SIGINT);
        assert!(self.process.wait().unwrap().success(), "`tccc trace` succeeds after Ctrl-C");
    }
}

fn programs() -> BTreeMap<u32, String> {
    ProgInfoIter::default().map(|program| (program.id, program.name.to_string_lossy().into_owned())).collect()
}

/// An iperf3 transfer at full speed from the first namespace to the second. It is killed when dropped.
struct Iperf3Transfer<'a> {
    namespaces: &'a [Netns; 2],
    _server: Owned,
    _client: Owned,
}

impl<'a> Iperf3Transfer<'a> {
    fn start(namespaces: &'a [Netns; 2]) -> Self {
        let server = begin_quietly(&mut iperf3(&namespaces[1], &["-s", "-1"]));
        poll_until(Duration::from_secs(10), "iperf3 listens", || is_listening(&namespaces[1]));
        let receiver = ENDS[1].to_string();
        let mut client = iperf3(&namespaces[0], &["-c", &receiver, "-C", "cubic", "-t", TRANSFER_SECONDS]);
        let transfer = Iperf3Transfer { namespaces, _server: server, _client: begin_quietly(&mut client) };
        poll_until(Duration::from_secs(10), "data arrives", || transfer.received_bytes() > 1 << 30);
        transfer
    }

    /// Goodput of one stretch, bits per second.
    fn goodput_bps(&self) -> f64 {
        let (begin, before) = (Instant::now(), self.received_bytes());
        // Measures what arrives during this time.
        std::thread::sleep(STRETCH);
        let arrived = self.received_bytes() - before;
        arrived as f64 * 8.0 / begin.elapsed().as_secs_f64()
    }

    /// Bytes that the receiver's interface has counted. The share of headers is the same in every stretch.
    fn received_bytes(&self) -> u64 {
        let devices = self.namespaces[1].run(|| Ok(std::fs::read_to_string("/proc/thread-self/net/dev")?)).unwrap();
        let counts = devices.lines().find_map(|line| line.trim_start().strip_prefix(RECEIVING)?.strip_prefix(':'));
        counts.and_then(|counts| counts.split_whitespace().next()?.parse().ok()).expect("the interface has counts")
    }
}

fn iperf3(netns: &Netns, arguments: &[&str]) -> Command {
    let mut command = Command::new("iperf3");
    start_in(netns, command.args(arguments).stdin(Stdio::null()));
    start_on_last_processor(&mut command);
    command
}

/// Whether iperf3 listens. /proc/thread-self/net shows the namespace of the reading thread.
fn is_listening(netns: &Netns) -> bool {
    const PORT_IN_LISTEN_STATE: &str = ":1451 00000000000000000000000000000000:0000 0A";
    let sockets = netns.run(|| Ok(std::fs::read_to_string("/proc/thread-self/net/tcp6")?)).unwrap();
    sockets.contains(PORT_IN_LISTEN_STATE)
}
