//! Benchmark: speed of virtual time relative to real time on one processor, and the start of a guest.
//!
//! `cargo xtask bench virtual` prints medians of `TCCC_BENCH_RUNS` runs of the whole program. The rows take turns. Targets
//! are compared with the processor time (user and system) of tccc and its guest, because other load hardly changes it.

use nix::sys::time::TimeValLike;
use serde_json::Value;

use super::*;

/// Runs of each row, unless `TCCC_BENCH_RUNS` is set.
const RUNS: usize = 5;

struct BenchmarkRow {
    name: &'static str,
    scenario: String,
    only: &'static [&'static str],
    virtual_s: f64,
    /// The target: processor time of the run, seconds.
    target_s: f64,
}

#[derive(Clone, Copy)]
struct RunCost {
    real_s: f64,
    processor_s: f64,
    goodput_mbit: f64,
}

/// Bulk flows of the kernel's cubic.
///
/// With profile `paper`, receivers acknowledge every packet, and their window never limits a flow. With `native`, they
/// acknowledge every second packet, and a flow has at most 3 MB in flight.
fn scenario(profile: &str, seconds: u32, links: &str, copies: u32) -> String {
    format!(
        "title = \"benchmark\"\nclaim = \"none\"\nprofile = \"{profile}\"\nduration = \"{seconds}s\"\nruns = 1\nseed = 1\n\
         {links}[[flow]]\nname = \"bulk\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"cubic\"\ncopies = {copies}\n"
    )
}

fn link(ends: &str, rate: &str, delay: &str, queue_pkts: u32) -> String {
    format!("[[link]]\nends = [{ends}]\nrate = \"{rate}\"\ndelay = \"{delay}\"\nqueue = \"{queue_pkts}pkts\"\n")
}

fn rows() -> Vec<BenchmarkRow> {
    let row = |name, scenario, virtual_s, ratio: f64| {
        let target_s = virtual_s / ratio;
        BenchmarkRow { name, scenario, only: &[], virtual_s, target_s }
    };
    let from_a_to_b = |rate, delay, queue_pkts| link("\"a\", \"b\"", rate, delay, queue_pkts);
    let table = fs::read_to_string("scenarios/dtcp-2018/table-2.toml").unwrap();
    let slow = scenario("paper", 1, &from_a_to_b("1mbit", "10ms", 10), 1);
    let long = scenario("paper", 20, &from_a_to_b("500mbit", "40ms", 3333), 1);
    let fast = |profile, copies| scenario(profile, 2, &from_a_to_b("10gbit", "5ms", 8333), copies);
    let dumbbell = link("\"a\", \"n\"", "1gbit", "1ms", 1000)
        + &link("\"n\", \"m\"", "100mbit", "18ms", 333)
        + &link("\"m\", \"b\"", "1gbit", "1ms", 1000);
    let one =
        BenchmarkRow { only: &["variant=DTCP", "loss=0.001"], ..row("table 2 of DTCP, one run", table, 100.0, 1.0) };
    vec![
        BenchmarkRow { target_s: 0.1, ..row("start, with 1 s at 1 Mbit/s", slow, 1.0, 1.0) },
        BenchmarkRow { target_s: 0.35, ..one },
        row("500 Mbit/s, 80 ms", long, 20.0, 12.0),
        row("10 Gbit/s, 10 ms", fast("paper", 1), 2.0, 1.0),
        row("the same, native, 4 flows", fast("native", 4), 2.0, 1.0),
        row("64 flows, 100 Mbit/s, 40 ms", scenario("paper", 20, &dumbbell, 64), 20.0, 20.0),
    ]
}

fn children_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
}

fn goodput_mbit(out: &Path) -> f64 {
    let run = fs::read_dir(out.join("runs")).unwrap().next().unwrap().unwrap().path().join("run.json");
    let record: Value = serde_json::from_slice(&fs::read(run).unwrap()).unwrap();
    record["flows"].as_array().unwrap().iter().filter_map(|flow| flow["goodput_bps"].as_f64()).sum::<f64>() / 1e6
}

fn run(row: &BenchmarkRow) -> RunCost {
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("bench.toml"), folder.path().join("out"));
    fs::write(&file, &row.scenario).unwrap();
    let mut command = tccc();
    command.args(["run", "--quiet", "--engine", "virtual", "--runs", "1", "--jobs", "1"]).arg(&file);
    command.arg("--out").arg(&out).args(row.only.iter().flat_map(|only| ["--only", only]));
    let (begin, before_s) = (Instant::now(), children_s());
    check(0, &mut command);
    let (real_s, processor_s) = (begin.elapsed().as_secs_f64(), children_s() - before_s);
    RunCost { real_s, processor_s, goodput_mbit: goodput_mbit(&out) }
}

fn print(row: &BenchmarkRow, costs: &[RunCost]) {
    let middle = |value: fn(&RunCost) -> f64| median(&costs.iter().map(value).collect::<Vec<_>>()).unwrap();
    let processor_s = middle(|cost| cost.processor_s);
    println!(
        "{:28} {:>9.0} {:>8.3} {:>11.3} {:>7.1} {:>8.3} {:>9.1}  {}",
        row.name,
        row.virtual_s,
        middle(|cost| cost.real_s),
        processor_s,
        row.virtual_s / processor_s,
        row.target_s,
        middle(|cost| cost.goodput_mbit),
        if processor_s <= row.target_s { "met" } else { "missed" }
    );
}

#[test]
#[ignore = "a benchmark: `cargo xtask bench virtual`"]
fn virtual_time_is_compared_with_real_time() {
    needs!(guest);
    let runs = std::env::var("TCCC_BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let rows = rows();
    for row in &rows {
        run(row); // builds the modules and the image
    }
    let mut costs = vec![Vec::new(); rows.len()];
    for _ in 0..runs {
        for (row, costs) in rows.iter().zip(&mut costs) {
            costs.push(run(row));
        }
    }
    println!("tccc and its guest on one processor; ratio by processor time (n = {runs}, taking turns)");
    println!("what                         virtual s   real s  processor s   ratio target s    Mbit/s");
    rows.iter().zip(&costs).for_each(|(row, costs)| print(row, costs));
}
