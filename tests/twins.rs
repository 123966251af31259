//! The ports of the kernel's own algorithms beside the originals: same seeded path, same losses, same window.
//!
//! A port is a catalogue algorithm `bpf_NAME`; one whose original this kernel lacks is not compared here. Windows are
//! compared by packets delivered, because the path's losses are numbered by packet: over time two runs of the same
//! algorithm drift apart as soon as one packet waits for a processor. The original runs twice, so that the table shows
//! what is the host's own difference.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{HostSnapshot, needs, tccc};
use tccc::catalog;
use tccc::kernel::congestion;
use tccc::model::run::{RunRecord, RunStatus};
use tccc::trace::event::Event;

const REPEATS: usize = 3;
/// RMS of the difference over the mean window of the original, and of those on whose core others are built.
const LIMIT: f64 = 0.05;
const LIMIT_OF_CORES: f64 = 0.02;
const CORES: [&str; 2] = ["bpf_reno", "bpf_cubic"];
/// Packets between two points at which windows are compared.
const STEP_PKTS: u32 = 10;

/// Window over packets delivered, of one run.
type Curve = Vec<(u32, u32)>;

fn scenario(original: &str, port: &str) -> String {
    format!(
        r#"
title = "{port} beside {original}"
claim = "They are the same."
profile = "paper"
duration = "8s"
runs = {REPEATS}
seed = 793
sample = "2ms"

[[link]]
ends = ["a", "b"]
rate = "20mbit"
delay = "20ms"
queue = "1bdp"
loss = "0.2%"

[[flow]]
name = "data"
from = "a"
to = "b"
initial_cwnd = 10

[variant.original]
algorithm = "{original}"

[variant.again]
algorithm = "{original}"

[variant.port]
algorithm = "{port}"

[report]
baseline = "original"
metrics = ["delivered_pkts"]
"#
    )
}

#[test]
fn ports_have_the_window_of_the_kernels_originals() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let before = HostSnapshot::take(&[]);
    let available = congestion::available().unwrap();
    let ports = catalog::all().iter().filter_map(|one| Some((one.id.strip_prefix("bpf_")?, one.id.as_str())));
    let wanted = std::env::var("TCCC_ALGORITHMS").unwrap_or_default();
    let is_wanted = |port: &str| wanted.is_empty() || wanted.split_whitespace().any(|one| one == port);
    let twins: Vec<(&str, &str)> =
        ports.filter(|(original, port)| is_wanted(port) && available.iter().any(|one| one == original)).collect();
    assert!(!twins.is_empty(), "this kernel has none of the originals");
    println!("port             repeat  RMS to the original  original to itself");
    let differing: Vec<String> = twins.iter().filter_map(|(original, port)| difference(original, port)).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    before.assert_unchanged();
}

/// Compares one port; says how it differs when it does by more than is allowed.
fn difference(original: &str, port: &str) -> Option<String> {
    let curves = run(original, port);
    let mut differences: Vec<(f64, f64)> = Vec::new();
    for (repeat, of) in &curves {
        let difference = (rms(&of["original"], &of["port"]), rms(&of["original"], &of["again"]));
        println!("{port:15}  {repeat:6}  {:17.2} %  {:16.2} %", difference.0 * 100.0, difference.1 * 100.0);
        differences.push(difference);
    }
    // A stall of the host in one run says nothing of the port.
    differences.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (median, own) = differences[REPEATS / 2];
    let limit = if CORES.contains(&port) { LIMIT_OF_CORES } else { LIMIT };
    println!("twin: {original} {port} {:.2} {:.2} {}", median * 100.0, own * 100.0, limit * 100.0);
    (median > limit).then(|| format!("{port} differs by {median} from {original}, which differs by {own} from itself"))
}

/// Runs all three variants; their curves by repeat and variant.
fn run(original: &str, port: &str) -> BTreeMap<u32, BTreeMap<String, Curve>> {
    let place = tempfile::tempdir().unwrap();
    let (file, out) = (place.path().join("twins.toml"), place.path().join("results"));
    fs::write(&file, scenario(original, port)).unwrap();
    let output = tccc().arg("run").arg(&file).arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut curves: BTreeMap<u32, BTreeMap<String, Curve>> = BTreeMap::new();
    for folder in fs::read_dir(out.join("runs")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(record) = fs::read_to_string(folder.join("run.json")) else { continue };
        let record: RunRecord = serde_json::from_str(&record).unwrap();
        if record.status == RunStatus::Done {
            let variant = record.at["variant"].clone();
            curves.entry(record.repeat).or_default().insert(variant, curve(&folder, &record));
        }
    }
    assert_eq!(curves.values().map(BTreeMap::len).collect::<Vec<_>>(), [3; REPEATS], "every run came to its end");
    curves
}

fn curve(folder: &Path, record: &RunRecord) -> Curve {
    let text = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
    let own = events.filter(|event| Some(event.socket) == record.flows[0].socket);
    own.filter(|event| event.algorithm == record.flows[0].algorithm)
        .map(|event| (event.delivered_pkts, event.cwnd_pkts))
        .collect()
}

/// Root mean square of the difference of two step functions over their common range, relative to the first one's mean.
fn rms(original: &Curve, other: &Curve) -> f64 {
    let last = |curve: &Curve| curve.last().expect("a run has events").0;
    let points: Vec<(f64, f64)> = (STEP_PKTS..last(original).min(last(other)))
        .step_by(STEP_PKTS as usize)
        .map(|delivered| (window_at(original, delivered), window_at(other, delivered)))
        .collect();
    assert!(points.len() > 100, "{} points are too few to compare", points.len());
    let mean = points.iter().map(|(a, _)| a).sum::<f64>() / points.len() as f64;
    (points.iter().map(|(a, b)| (a - b).powi(2)).sum::<f64>() / points.len() as f64).sqrt() / mean
}

/// The window in force when so many packets were delivered.
fn window_at(curve: &Curve, delivered: u32) -> f64 {
    let after = curve.partition_point(|point| point.0 <= delivered);
    f64::from(curve[after.saturating_sub(1)].1)
}
