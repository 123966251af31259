//! The ports of the kernel's own algorithms beside the originals: same seeded path, same losses, same window.
//!
//! A port is a catalogue algorithm `bpf_NAME`; one whose original this kernel lacks is not compared here. Windows are
//! compared by packets delivered, because the path's losses are numbered by packet: over time two runs of the same
//! algorithm drift apart as soon as one packet waits for a processor. The queue is long for the same reason: which
//! packet would find it full is a matter of microseconds. The original runs twice: the table shows how far apart its
//! own runs are, and the port is compared with the nearer one.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use common::{HostSnapshot, needs, tccc};
use tccc::catalog;
use tccc::kernel::congestion;
use tccc::kernel::probe::has_netem;
use tccc::model::run::{RunRecord, RunStatus};
use tccc::trace::event::{CaState, Event, EventKind};

const REPEATS: usize = 3;
/// RMS of the difference over the mean window of the original, and of those on whose core others are built.
const LIMIT: f64 = 0.05;
const LIMIT_OF_CORES: f64 = 0.02;
const CORES: [&str; 2] = ["bpf_reno", "bpf_cubic"];
/// Ports that on this path leave out what their original rounds or gets wrong: the `Differs` of their headers says what.
const DIFFER_BY_DESIGN: [&str; 2] = ["bpf_htcp", "bpf_hybla"];
const LIMIT_BY_DESIGN: f64 = 0.1;
/// Tunables by which a port rounds as its original does: a jiffy is 4 ms at HZ = 250.
const TUNABLES: [(&str, &str); 1] = [("bpf_westwood", "rtt_tick_us = 4000")];
/// Ports, and their originals, whose threshold at a loss is Reno's: what they decide is the window after the recovery.
const DECIDE_AT_THE_END: [&str; 1] = ["bpf_westwood"];
/// Packets between two points at which windows are compared.
const STEP_PKTS: u32 = 10;

/// How far apart, in packets delivered, two runs may enter the same recovery.
const SAME_LOSS_PKTS: u32 = 20;
/// How much two decisions at the same loss may differ: share of the window kept, beside a packet of rounding.
const SAME_DECISION: f64 = 0.05;
/// Of the decisions that both runs took, so many must be the same.
const SAME_DECISIONS: f64 = 0.9;
/// The same where the decisions rest on the numbers that differ by design.
const SAME_DECISIONS_BY_DESIGN: f64 = 0.8;

/// What one run did, over packets delivered.
#[derive(Default)]
struct Curve {
    /// Packets delivered, window.
    windows: Vec<(u32, u32)>,
    /// Every reduction for a loss.
    cuts: Vec<Cut>,
}

/// A reduction: when, from which window, to which threshold, or to which window where that is decided at its end.
#[derive(Debug, Clone, Copy)]
struct Cut {
    delivered: u32,
    from: u32,
    to: u32,
}

fn scenario(original: &str, port: &str) -> String {
    let tunables = TUNABLES.iter().find(|(of, _)| *of == port).map_or("", |(_, tunables)| *tunables);
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
queue = "64bdp"
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
tunables = {{ {tunables} }}

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
    println!("port             repeat  RMS to the original  original to itself  losses decided alike");
    let differing: Vec<String> = twins.iter().filter_map(|(original, port)| difference(original, port)).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    before.assert_unchanged();
}

/// Compares one port; says how it differs when it does by more than is allowed.
fn difference(original: &str, port: &str) -> Option<String> {
    let curves = run(original, port);
    let (mut differences, mut decisions): (Vec<(f64, f64)>, _) = (Vec::new(), (0, 0));
    for (repeat, of) in &curves {
        // The path may go two ways, of which the original takes either: the nearer of its runs is the one to compare with.
        let [first, again, port_s] = ["original", "again", "port"].map(|variant| &of[variant]);
        let nearer = if rms(again, port_s) < rms(first, port_s) { again } else { first };
        let difference = (rms(nearer, port_s), rms(first, again));
        let (same, all) = same_decisions(port, &nearer.cuts, &port_s.cuts);
        let [of_it, of_itself] = [difference.0 * 100.0, difference.1 * 100.0];
        println!("{port:15}  {repeat:6}  {of_it:17.2} %  {of_itself:16.2} %  {same:5} of {all}");
        differences.push(difference);
        decisions = (decisions.0 + same, decisions.1 + all);
    }
    // One run in which the path went another way says nothing of the port, nor of the original.
    let (median, own) = (median(differences.iter().map(|it| it.0)), median(differences.iter().map(|it| it.1)));
    let (limit, least_same) = match port {
        port if CORES.contains(&port) => (LIMIT_OF_CORES, SAME_DECISIONS),
        port if DIFFER_BY_DESIGN.contains(&port) => (LIMIT_BY_DESIGN, SAME_DECISIONS_BY_DESIGN),
        _ => (LIMIT, SAME_DECISIONS),
    };
    let (same, all) = decisions;
    println!("twin: {original} {port} {:.2} {:.2} {} {same} {all}", median * 100.0, own * 100.0, limit * 100.0);
    assert!(all > 0, "{original} and {port} met no loss in common");
    let differs = median > limit || f64::from(same) < least_same * f64::from(all);
    differs.then(|| {
        format!("{port} differs by {median} from {original}, which differs by {own} from itself; {same} of {all} alike")
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How many of the losses that both met were decided alike, and how many both met.
fn same_decisions(port: &str, original: &[Cut], other: &[Cut]) -> (u32, u32) {
    let (mut same, mut all) = (0, 0);
    for cut in original {
        let Some(its) = other.iter().find(|its| its.delivered.abs_diff(cut.delivered) <= SAME_LOSS_PKTS) else {
            continue;
        };
        let kept = |cut: &Cut| f64::from(cut.to) / f64::from(cut.from);
        let rounding = 1.0 / f64::from(cut.from.min(its.from));
        let is_same = (kept(cut) - kept(its)).abs() <= SAME_DECISION.max(rounding);
        if !is_same {
            println!("{port:15}  decided differently: the original {cut:?}, the port {its:?}");
        }
        (same, all) = (same + u32::from(is_same), all + 1);
    }
    (same, all)
}

/// Runs all three variants; their curves by repeat and variant.
fn run(original: &str, port: &str) -> BTreeMap<u32, BTreeMap<String, Curve>> {
    let place = tempfile::tempdir().unwrap();
    let (file, out) = (place.path().join("twins.toml"), place.path().join("results"));
    fs::write(&file, scenario(original, port)).unwrap();
    let link = if has_netem() { "netem" } else { "tunlink" };
    let output = tccc().arg("run").arg(&file).arg("--out").arg(&out).args(["--link", link]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut curves: BTreeMap<u32, BTreeMap<String, Curve>> = BTreeMap::new();
    for folder in fs::read_dir(out.join("runs")).unwrap() {
        let folder = folder.unwrap().path();
        let Ok(record) = fs::read_to_string(folder.join("run.json")) else { continue };
        let record: RunRecord = serde_json::from_str(&record).unwrap();
        if record.status == RunStatus::Done {
            let variant = record.at["variant"].clone();
            let curve = curve(&folder, &record, DECIDE_AT_THE_END.contains(&port));
            curves.entry(record.repeat).or_default().insert(variant, curve);
        }
    }
    assert_eq!(curves.values().map(BTreeMap::len).collect::<Vec<_>>(), [3; REPEATS], "every run came to its end");
    curves
}

fn curve(folder: &Path, record: &RunRecord, decides_at_end: bool) -> Curve {
    let text = fs::read_to_string(folder.join("events.jsonl")).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
    let flow = &record.flows[0];
    let (mut curve, mut has_ended) = (Curve::default(), false);
    for event in events.filter(|event| Some(event.socket) == flow.socket && event.algorithm == flow.algorithm) {
        if let (true, Some(cut)) = (has_ended, curve.cuts.last_mut()) {
            cut.to = event.cwnd_pkts;
        }
        let is_reduced = [CaState::Recovery, CaState::Loss, CaState::Cwr].contains(&event.ca_state);
        let was_open = [CaState::Open, CaState::Disorder].contains(&event.prior_ca_state);
        if let (EventKind::State, true, true, Some(to)) = (event.kind, is_reduced, was_open, event.ssthresh_pkts) {
            let from = curve.windows.last().map_or(event.cwnd_pkts, |(_, cwnd)| *cwnd);
            curve.cuts.push(Cut { delivered: event.delivered_pkts, from, to });
        }
        // What this event says is of before the end.
        has_ended = decides_at_end && event.kind == EventKind::State && is_end_of_recovery(&event);
        curve.windows.push((event.delivered_pkts, event.cwnd_pkts));
    }
    curve
}

fn is_end_of_recovery(event: &Event) -> bool {
    let was_reduced = [CaState::Recovery, CaState::Cwr].contains(&event.prior_ca_state);
    was_reduced && [CaState::Open, CaState::Disorder].contains(&event.ca_state)
}

/// Root mean square of the difference of two step functions over their common range, relative to the first one's mean.
fn rms(original: &Curve, other: &Curve) -> f64 {
    let last = |curve: &Curve| curve.windows.last().expect("a run has events").0;
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
    let after = curve.windows.partition_point(|point| point.0 <= delivered);
    f64::from(curve.windows[after.saturating_sub(1)].1)
}
