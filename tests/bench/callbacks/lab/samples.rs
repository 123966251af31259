//! Processor time by function, sampled by `perf` with its software clock. This also works for the kernel's own algorithms.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::common::{poll_until, signal};

const SAMPLES_PER_SECOND: u32 = 20_000;
/// Kernel functions of congestion control: the kernel's algorithms, entry to and exit from BPF programs of an ops table,
/// and shared functions that grow the window.
const OF_CONGESTION_CONTROL: [&str; 9] = [
    "cubictcp_",
    "bbr_",
    "minmax_running_",
    "tcp_reno_",
    "tcp_slow_start",
    "tcp_cong_avoid_ai",
    "bpf__tcp_congestion_ops",
    "__bpf_prog_enter",
    "__bpf_prog_exit",
];

/// Samples all processors until it is stopped.
pub struct PerfSampling {
    perf: Child,
    folder: tempfile::TempDir,
    begin: Instant,
}

pub struct Samples {
    pub hits: u64,
    /// Processor time per sample.
    pub period_ns: f64,
}

impl PerfSampling {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("samples");
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "-e", "cpu-clock", "-a", "-F"]).arg(SAMPLES_PER_SECOND.to_string());
        perf.arg("-o").arg(&data).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let perf = perf.spawn().expect("`perf` starts; `cargo xtask setup --for bench` installs it");
        poll_until(Duration::from_secs(10), "perf samples", || {
            std::fs::metadata(&data).is_ok_and(|file| file.len() > 0)
        });
        PerfSampling { perf, folder, begin: Instant::now() }
    }

    /// Counts the samples in congestion control and, if the algorithm is one of BPF, in BPF programs. Those that a callback
    /// calls have symbols of their own, and no other BPF program runs for these packets.
    pub fn stop(mut self, is_bpf: bool) -> Samples {
        let seconds = self.begin.elapsed().as_secs_f64();
        signal(self.perf.id(), Signal::SIGINT);
        self.perf.wait().unwrap();
        let mut script = Command::new("perf");
        script.args(["script", "-F", "ip,sym", "-i"]).arg(self.folder.path().join("samples"));
        let output = script.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let symbols = || text.lines().filter_map(|line| line.split_whitespace().nth(1));
        let all = text.lines().count();
        assert!(all > 0, "perf took samples");
        let is_ours = |symbol: &str| is_bpf && symbol.starts_with("bpf_prog_");
        let is_shared = |symbol: &str| OF_CONGESTION_CONTROL.iter().any(|prefix| symbol.starts_with(prefix));
        let is_hit = |symbol: &&str| is_ours(symbol) || is_shared(symbol);
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        Samples { hits: symbols().filter(is_hit).count() as u64, period_ns: seconds * processors * 1e9 / all as f64 }
    }
}
