//! The user-space link beside the kernel's netem: the same scenario over both carries the same.
//!
//! Their random numbers differ, so the same seed loses other packets: what agrees is the distribution, and what is
//! compared are the 95 % intervals of the mean goodput over repeats.

mod common;

use std::fs;
use std::path::Path;

use common::{HostSnapshot, needs, tccc};
use serde_json::Value;

const REPEATS: usize = 5;
/// What each algorithm does with random loss and with a queue that overflows differs most between these.
const ALGORITHMS: [&str; 3] = ["reno", "cubic", "dtcp"];
/// How far the means may be apart although the intervals do not meet: repeats of one cell can agree by chance.
const ALLOWANCE: f64 = 0.1;

fn scenario() -> String {
    format!(
        r#"
title = "One path, two emulators"
claim = "They carry the same."
profile = "paper"
duration = "10s"
runs = {REPEATS}
seed = 411
sample = "50ms"

[sweep]
algorithm = {ALGORITHMS:?}
loss = ["0%", "1%"]

[[link]]
ends = ["a", "b"]
rate = "10mbit"
delay = "15ms"
queue = "1bdp"
loss = "$loss"

[[flow]]
name = "data"
from = "a"
to = "b"
algorithm = "$algorithm"
initial_cwnd = 10

[report]
baseline = "reno"
metrics = ["goodput_bps"]
"#
    )
}

/// Mean and interval of one cell.
#[derive(Debug, Clone, Copy)]
struct Goodput {
    mean: f64,
    interval: [f64; 2],
}

impl Goodput {
    fn agrees_with(&self, other: &Goodput) -> bool {
        let meets = self.interval[0] <= other.interval[1] && other.interval[0] <= self.interval[1];
        meets || (self.mean / other.mean - 1.0).abs() <= ALLOWANCE
    }
}

#[test]
fn emulators_carry_the_same() {
    needs!(root, struct_ops, cgroup2, iperf3, tun, netem);
    let before = HostSnapshot::take(&["tccc_ss"]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("emulators.toml");
    fs::write(&file, scenario()).unwrap();
    let [tunlink, netem] = ["tunlink", "netem"].map(|link| measured(&file, &place.path().join(link), link));
    assert_eq!((tunlink.len(), netem.len()), (6, 6));
    println!("cell                           tunlink, Mbit/s           netem, Mbit/s");
    for ((cell, ours), (_, theirs)) in tunlink.iter().zip(&netem) {
        println!("emulators: {cell:20} {}  {}", shown(ours), shown(theirs));
    }
    let apart: Vec<&String> =
        tunlink.iter().zip(&netem).filter(|(a, b)| !a.1.agrees_with(&b.1)).map(|(a, _)| &a.0).collect();
    assert!(apart.is_empty(), "the emulators differ at {apart:?}");
    before.assert_unchanged();
}

fn shown(goodput: &Goodput) -> String {
    let [low, high] = goodput.interval;
    format!("{:6.3} ({:6.3} .. {:6.3})", goodput.mean / 1e6, low / 1e6, high / 1e6)
}

/// Runs the scenario over one emulator; its cells by name, sorted.
fn measured(file: &Path, out: &Path, link: &str) -> Vec<(String, Goodput)> {
    let run = tccc().arg("run").arg(file).arg("--out").arg(out).args(["--link", link]).output().unwrap();
    assert!(run.status.success(), "{link}: {}", String::from_utf8_lossy(&run.stderr));
    let report = tccc().arg("report").arg(out).args(["-o", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let reports = if report["cells"].is_array() { vec![report] } else { report.as_array().unwrap().clone() };
    let cells = reports.iter().flat_map(|report| report["cells"].as_array().unwrap());
    let mut goodputs: Vec<(String, Goodput)> =
        cells.filter(|cell| cell["metric"] == "goodput_bps").map(goodput).collect();
    goodputs.sort_by(|a, b| a.0.cmp(&b.0));
    goodputs
}

fn goodput(cell: &Value) -> (String, Goodput) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("no number in {cell}"));
    let name = format!("{} {}", cell["at"]["algorithm"].as_str().unwrap(), cell["at"]["loss"].as_str().unwrap());
    let measured = &cell["measured"];
    let interval = [0, 1].map(|end| number(&measured["ci95"][end]));
    (name, Goodput { mean: number(&measured["mean"]), interval })
}
