//! Benchmark: the cost of an algorithm per ACK, and its effect on a transfer that only the processors limit.
//!
//! Three measurements over a veth pair whose ends share one processor:
//! 1. BPF time per callback by the kernel's statistics, minus that of an empty program;
//! 2. processor time in congestion control per ACK, by sampling, also for the kernel's own reno, cubic and bbr;
//! 3. goodput relative to the kernel's own cubic, in pairs of transfers whose order alternates.
//!
//! The first two keep the window small, so that the kernel processes every ACK on its own. In the third the window grows,
//! the kernel merges ACKs that arrive while it sends, and an algorithm runs a few thousand times per second.
//!
//! `cargo xtask bench callbacks` prints the results. With `--against FOLDER`, it compares the first measurement with the
//! objects of another build.

mod lab;

use lab::samples::PerfSampling;
use lab::{TransferCounts, VethPath, WindowGrowth};
use libbpf_rs::query::ProgInfoIter;
use tccc::catalog;
use tccc::catalog::Algorithm;
use tccc::kernel::probe::Features;
use tccc::loader::{Registration, Request, register};
use tccc::report::interval::median_interval;

use super::*;
use crate::pairs;

const MARK: &str = "bcall";
const BASELINE: &str = "cubic";
/// Pairs of transfers, unless `TCCC_PAIRS` is set. The width of the interval falls with the square root of the number.
const PAIRS: usize = 40;
const STRETCH: Duration = Duration::from_millis(250);
/// Sampling time per candidate and round. Short rounds spread disturbances over all candidates.
const SAMPLED: Duration = Duration::from_secs(1);
const ROUNDS: usize = 4;
/// The requirements: at most three times the cost of bpf_cubic, and at least 98 % of the goodput of the kernel's cubic.
const COST_LIMIT: f64 = 3.0;
const COST_REFERENCE: &str = "bpf_cubic";
const GOODPUT_LIMIT: f64 = 0.98;

/// A variable that names a folder with `ID.bpf.o` of another build.
const AGAINST: &str = "TCCC_AGAINST";
/// Pairs that compare two builds, unless `TCCC_PAIRS` is set, and the length of their transfers.
const PAIRS_AGAINST: usize = 20;
const STRETCH_AGAINST: Duration = Duration::from_millis(50);
/// The requirement on a change: at most this ratio of the other build's time per ACK, or this many nanoseconds more. An
/// algorithm of 3 ns changes by half a nanosecond when the kernel places its code elsewhere.
const CHANGE_LIMIT: f64 = 1.05;
const CHANGE_LIMIT_NS: f64 = 0.5;

/// An algorithm of the catalogue under a name of its own, or one of the kernel's.
struct CallbackCandidate {
    shown: String,
    name: String,
    /// `None` for the kernel's own algorithms.
    registered: Option<(Registration, BTreeSet<u32>)>,
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench callbacks`"]
fn callbacks_cost_little() {
    needs!(root, struct_ops, clang);
    let _host = HostSnapshot::take(&[MARK]);
    let candidates = candidates();
    let small = VethPath::with_small_window(WindowGrowth::Avoidance);
    show_callbacks(&small, &candidates, empty_program_ns(&small));
    show_per_ack(&small, &candidates);
    drop(small);
    show_goodput(&VethPath::new(), &candidates);
}

/// Compares BPF time per ACK with another build.
///
/// The connections of a pair run at once on one processor, together with one of an algorithm that does nothing. So
/// other load affects all three. Each pair loads the objects again, because the location of the code changes the time
/// by a few percent.
#[test]
#[ignore = "a benchmark: `cargo xtask bench callbacks --against FOLDER`"]
fn callbacks_cost_no_more_than_in_another_build() {
    needs!(root, struct_ops, clang);
    let folder = std::env::var_os(AGAINST).expect("TCCC_AGAINST names a folder with objects of another build");
    let _host = HostSnapshot::take(&[MARK]);
    for (growth, name) in [(WindowGrowth::SlowStart, "slow start"), (WindowGrowth::Avoidance, "congestion avoidance")] {
        show_against(&VethPath::with_small_window(growth), name, std::path::Path::new(&folder));
    }
}

fn show_against(path: &VethPath, growth: &str, folder: &std::path::Path) {
    println!("\nBPF in {growth}, by the kernel's statistics, minus the time of an empty program");
    println!(
        "algorithm        ns per ACK  other build   ratio  95 % interval      at most {CHANGE_LIMIT}, or {CHANGE_LIMIT_NS} ns more"
    );
    let empty = catalog::from_bytes(empty_algorithm()).unwrap();
    for algorithm in chosen() {
        let file = folder.join(format!("{}.bpf.o", algorithm.id));
        let Ok(other) = catalog::open(&file) else {
            println!("{:16} not in the other build", algorithm.id);
            continue;
        };
        let pairs: Vec<(f64, f64)> =
            (0..pairs_or(PAIRS_AGAINST)).map(|index| pair(path, [algorithm, &other, &empty], index)).collect();
        println!("{:16} {}", algorithm.id, change(&pairs));
    }
}

/// Nanoseconds per ACK of this build and the other one. The order of loading alternates from pair to pair.
fn pair(path: &VethPath, algorithms: [&Algorithm; 3], index: usize) -> (f64, f64) {
    let mut candidates = [0, 1, 2].map(|at| {
        let at = if index.is_multiple_of(2) { at } else { 2 - at };
        (at, load(algorithms[at], &format!("{MARK}{at}")))
    });
    let statistics = Statistics::begin().unwrap();
    std::thread::scope(|scope| {
        for (_, candidate) in &candidates {
            scope.spawn(|| path.transfer(&candidate.name, STRETCH_AGAINST));
        }
    });
    drop(statistics);
    candidates.sort_by_key(|(at, _)| *at);
    let [ours, other, empty] = candidates.map(|(_, candidate)| ran(&candidate));
    let empty_ns = empty.ns / empty.calls;
    let per_ack = |ran: &Ran| (ran.ns - ran.calls * empty_ns) / ran.acks;
    (per_ack(&ours), per_ack(&other))
}

struct Ran {
    calls: f64,
    ns: f64,
    /// Calls of the most frequent callback, which runs about once per ACK.
    acks: f64,
}

fn ran(candidate: &CallbackCandidate) -> Ran {
    let rows = statistics_of(candidate);
    let sum = |of: fn(&(String, u64, u64)) -> u64| rows.iter().map(of).sum::<u64>() as f64;
    let acks = rows.iter().map(|row| row.1).max().expect("callbacks were called") as f64;
    Ran { calls: sum(|row| row.1), ns: sum(|row| row.2), acks }
}

/// The row of one algorithm: median times, median ratio with interval, verdict.
///
/// `pairs`: nanoseconds of this build and the other one. Medians, because an interrupt or a cold cache makes single pairs
/// many times longer.
fn change(pairs: &[(f64, f64)]) -> String {
    let of = |value: fn(&(f64, f64)) -> f64| pairs.iter().map(value).collect::<Vec<_>>();
    let ratios = of(|pair| pair.0 / pair.1);
    let [ours, other, ratio] = [of(|pair| pair.0), of(|pair| pair.1), ratios.clone()].map(|all| median(&all).unwrap());
    let [low, high] = median_interval(&ratios).expect("five pairs or more give an interval");
    let limit = CHANGE_LIMIT.max(1.0 + CHANGE_LIMIT_NS / other);
    let verdict = pairs::at_least(-limit, [-high, -low]);
    format!("{ours:10.1}  {other:11.1}  {ratio:.4}  {low:.4} to {high:.4}   {verdict}")
}

fn pairs_or(count: usize) -> usize {
    std::env::var("TCCC_PAIRS").map_or(count, |count| count.parse().expect("a number of pairs"))
}

/// The kernel's reno and cubic, then the chosen algorithms of the catalogue.
fn candidates() -> Vec<CallbackCandidate> {
    let offered = crate::common::state::algorithms();
    let own = ["reno", BASELINE, "bbr"].into_iter().filter(|name| offered.iter().any(|it| it == name));
    let own = own.map(|name| CallbackCandidate { shown: name.into(), name: name.into(), registered: None });
    own.chain(chosen().into_iter().enumerate().map(|(index, algorithm)| load(algorithm, &format!("{MARK}{index}"))))
        .collect()
}

/// All algorithms, or those that `TCCC_ALGORITHMS` names.
fn chosen() -> Vec<&'static Algorithm> {
    let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split_whitespace().collect();
    let is_wanted = |algorithm: &&Algorithm| wanted.is_empty() || wanted.contains(&algorithm.id.as_str());
    crate::common::need::loadable("costs").into_iter().filter(is_wanted).collect()
}

fn load(algorithm: &Algorithm, name: &str) -> CallbackCandidate {
    let before = programs();
    let features = Features::probe().unwrap();
    let registered = register(&Request { name, ..Request::of(algorithm) }, &features).unwrap();
    let is_ours = |program: &str| algorithm.callbacks.iter().any(|callback| callback.program.starts_with(program));
    let programs = ProgInfoIter::default().filter(|program| !before.contains(&program.id));
    let ids = programs.filter(|program| is_ours(&program.name.to_string_lossy())).map(|program| program.id).collect();
    CallbackCandidate { shown: algorithm.id.clone(), name: name.into(), registered: Some((registered, ids)) }
}

fn programs() -> BTreeSet<u32> {
    ProgInfoIter::default().map(|program| program.id).collect()
}

fn run_statistics(path: &VethPath, candidate: &CallbackCandidate) -> (Vec<(String, u64, u64)>, TransferCounts) {
    let statistics = Statistics::begin().unwrap();
    let transfer = path.transfer(&candidate.name, STRETCH);
    drop(statistics);
    (statistics_of(candidate), transfer)
}

/// Name, calls and nanoseconds of each program of a candidate that was called.
fn statistics_of(candidate: &CallbackCandidate) -> Vec<(String, u64, u64)> {
    let (_, ids) = candidate.registered.as_ref().expect("BPF programs have statistics");
    let programs = ProgInfoIter::default().filter(|program| ids.contains(&program.id) && program.run_cnt > 0);
    let row = |program: libbpf_rs::query::ProgramInfo| {
        (program.name.to_string_lossy().into_owned(), program.run_cnt, program.run_time_ns)
    };
    programs.map(row).collect()
}

/// Nanoseconds per call of a program that does nothing, which is the cost of the statistics themselves.
fn empty_program_ns(path: &VethPath) -> f64 {
    let algorithm = catalog::from_bytes(empty_algorithm()).unwrap();
    let candidate = load(&algorithm, &format!("{MARK}_empty"));
    let (rows, _) = run_statistics(path, &candidate);
    let (calls, ns) = rows.iter().fold((0, 0), |(calls, ns), row| (calls + row.1, ns + row.2));
    assert!(calls > 0, "the empty callbacks were called");
    ns as f64 / calls as f64
}

fn empty_algorithm() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("empty.bpf.o");
    let mut clang = std::process::Command::new("clang");
    clang.args(["-target", "bpf", "-g", "-O2", "-c", "-o"]).arg(&object);
    clang.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/empty.bpf.c"));
    assert!(clang.status().unwrap().success(), "the empty algorithm compiles");
    std::fs::read(object).unwrap()
}

fn show_callbacks(path: &VethPath, candidates: &[CallbackCandidate], empty_ns: f64) {
    println!("1. per callback, by the kernel's statistics, minus {empty_ns:.0} ns of an empty program");
    println!("algorithm        callback          calls per ACK  ns per call  ns per ACK");
    for candidate in candidates.iter().filter(|candidate| candidate.registered.is_some()) {
        let (rows, transfer) = run_statistics(path, candidate);
        let (shown, acks) = (&candidate.shown, transfer.acks as f64);
        let mut total_ns = 0.0;
        for (callback, calls, ns) in rows {
            let (calls, ns_per_call) = (calls as f64 / acks, ns as f64 / calls as f64 - empty_ns);
            total_ns += calls * ns_per_call;
            println!("{shown:16} {callback:16} {calls:14.3}  {ns_per_call:11.1}  {:10.1}", calls * ns_per_call);
        }
        println!("{shown:16} {:16} {:14}  {:11}  {total_ns:10.1}", "all", "", "");
    }
}

/// Processor time in congestion control, and the packets of that time.
#[derive(Default)]
struct SampledCost {
    ns: f64,
    samples: u64,
    acks: u64,
    retransmitted: u64,
}

impl SampledCost {
    fn add(&mut self, path: &VethPath, candidate: &CallbackCandidate) {
        let sampling = PerfSampling::start();
        let transfer = path.transfer(&candidate.name, SAMPLED);
        let samples = sampling.stop(candidate.registered.is_some());
        self.ns += samples.hits as f64 * samples.period_ns;
        self.samples += samples.hits;
        self.acks += transfer.acks;
        self.retransmitted += transfer.retransmitted;
    }

    /// Mean, and half the width of the 95 % interval of a Poisson count. Differences between rounds are not included.
    fn ns_per_ack(&self) -> (f64, f64) {
        let mean = self.ns / self.acks.max(1) as f64;
        (mean, 1.96 * mean / (self.samples.max(1) as f64).sqrt())
    }
}

fn show_per_ack(path: &VethPath, candidates: &[CallbackCandidate]) {
    println!("\n2. all of congestion control, by sampling, including entry to BPF and growth of the window");
    println!("algorithm           ACKs  retransmit  ns per ACK  95 % interval   relative to {COST_REFERENCE}");
    let mut costs: Vec<SampledCost> = candidates.iter().map(|_| SampledCost::default()).collect();
    for _ in 0..ROUNDS {
        costs.iter_mut().zip(candidates).for_each(|(cost, candidate)| cost.add(path, candidate));
    }
    let reference = candidates.iter().position(|candidate| candidate.shown == COST_REFERENCE);
    let reference = reference.map(|at| costs[at].ns_per_ack().0);
    for (candidate, cost) in candidates.iter().zip(&costs) {
        let (ns, margin_ns) = cost.ns_per_ack();
        let verdict = reference.map_or(String::new(), |reference| {
            let word = if ns / reference <= COST_LIMIT { "holds" } else { "does not hold" };
            format!("{:6.2} (at most {COST_LIMIT}: {word})", ns / reference)
        });
        let SampledCost { acks, retransmitted, .. } = cost;
        println!("{:16} {acks:7}  {retransmitted:10}  {ns:10.1}  ± {margin_ns:11.1}   {verdict}", candidate.shown);
    }
}

fn show_goodput(path: &VethPath, candidates: &[CallbackCandidate]) {
    let count = pairs_or(PAIRS);
    println!(
        "\n3. goodput relative to the kernel's {BASELINE}: {count} pairs of new connections of {} ms",
        STRETCH.as_millis()
    );
    println!("algorithm           Gbit/s   ratio  95 % interval      at least {GOODPUT_LIMIT}");
    let goodput = |name: &str| path.transfer(name, STRETCH).goodput_bps;
    for candidate in candidates {
        let pairs = pairs::alternating(count, || goodput(&candidate.name), || goodput(BASELINE));
        let pairs: Vec<_> = pairs.collect();
        let ratio = paired_ratio(&pairs).unwrap();
        let [low, high] = ratio.ci95.unwrap();
        let verdict = pairs::at_least(GOODPUT_LIMIT, [low, high]);
        let mean = pairs.iter().map(|(above, _)| above).sum::<f64>() / count as f64 / 1e9;
        println!("{:16} {mean:9.2}  {:.4}  {low:.4} to {high:.4}   {verdict}", candidate.shown, ratio.ratio);
    }
}
