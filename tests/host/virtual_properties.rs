//! Properties of every algorithm on the kernel's TCP stack in virtual time: limits to the harm on paths that no paper has.
//!
//! `mswift` is missing, because the guest does not support its companion, a BPF program. Its start is tested natively
//! (`algorithms/mswift.rs`), on the real kernel (`kernel/mswift.rs`), and beside others (`scenarios/compare`). Afterwards it is Reno.
//!
//! An algorithm that needs Linux 7 runs in the newer guest.
//!
//! A limit holds for all algorithms, except those in a table with the reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::experiment::finished;
use crate::common::need::guest7;
use crate::common::needs;
use crate::lab::virtual_time::Bench;
use crate::scene::{flow, link};
use serde_json::Value;
use tccc::catalog::{self, Algorithm};
use tccc::units::BitsPerSec;

/// The kernel's algorithms, for comparison.
const KERNEL: [&str; 2] = ["reno", "cubic"];

/// The algorithms that the older guest supports, and those that only the newer one does.
fn algorithms() -> [Vec<String>; 2] {
    let ours = catalog::all().iter().filter(|algorithm| algorithm.companion_of_both_ends().is_none());
    let (newer, older): (Vec<&Algorithm>, Vec<&Algorithm>) = ours.partition(|algorithm| algorithm.need.is_some());
    let ids = |all: &[&Algorithm]| all.iter().map(|algorithm| algorithm.id.clone()).collect::<Vec<String>>();
    [[ids(&older), KERNEL.map(str::to_owned).to_vec()].concat(), ids(&newer)]
}

struct PropertyRun {
    algorithm: String,
    at: BTreeMap<String, String>,
    record: Value,
    /// Samples of all sockets in order of time.
    events: Vec<Value>,
}

/// Runs a scenario for every algorithm. `head` precedes `[sweep]`, and `rest` follows it.
fn runs(head: &str, sweep: &str, rest: &[String]) -> Vec<PropertyRun> {
    let [older, newer] = algorithms();
    let mut all = runs_of(&older, &format!("kernel = '6.12'\n{head}"), sweep, rest);
    match guest7() {
        Ok(()) => all.extend(runs_of(&newer, &format!("kernel = '7.3'\n{head}"), sweep, rest)),
        Err(why) => eprintln!("skipped: {newer:?}: needs guest7: {why}"),
    }
    all
}

fn runs_of(algorithms: &[String], head: &str, sweep: &str, rest: &[String]) -> Vec<PropertyRun> {
    let head = format!("title = 'x'\nclaim = 'y'\nprofile = 'native'\n{head}\n");
    let text = format!("{head}[sweep]\nalgorithm = {algorithms:?}\n{sweep}\n{}", rest.concat());
    let out = Bench::new(&text);
    let folder = out.runs("out", "");
    let run = |(id, bytes): (String, Vec<u8>)| {
        let record: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(record["status"], "done", "{id}: {record}");
        let events = fs::read_to_string(folder.join("runs").join(&id).join("events.jsonl")).unwrap();
        let at: BTreeMap<String, String> = serde_json::from_value(record["at"].clone()).unwrap();
        let events = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        PropertyRun { algorithm: at["algorithm"].clone(), at, record, events }
    };
    finished(&folder).into_iter().map(run).collect()
}

impl PropertyRun {
    /// The samples of a flow with one connection: seconds since its first one, and a field.
    fn series(&self, flow: &str, field: &str) -> Vec<(f64, f64)> {
        let socket = &self.flow(flow)["socket"];
        let of_flow = || self.events.iter().filter(|event| event["socket"] == *socket);
        let second = |event: &Value| event["time_ns"].as_u64().unwrap() as f64 / 1e9;
        let begin = of_flow().next().map(second).unwrap_or_else(|| panic!("{}: {flow} has no samples", self.algorithm));
        of_flow().map(|event| (second(event) - begin, event[field].as_f64().unwrap())).collect()
    }

    fn flow(&self, name: &str) -> &Value {
        let flows = self.record["flows"].as_array().unwrap();
        flows.iter().find(|flow| flow["name"] == name).unwrap_or_else(|| panic!("no flow {name}"))
    }

    /// Durations of a flow's transfers, seconds; infinite for an unfinished one.
    fn took_s(&self, flow: &str) -> Vec<f64> {
        let transfers = self.flow(flow)["completions"].as_array().unwrap();
        let took = |one: &Value| if one["done"] == true { one["took_s"].as_f64().unwrap() } else { f64::INFINITY };
        transfers.iter().map(took).collect()
    }

    fn dropped(&self) -> f64 {
        self.record["links"][0]["counters"][0]["overflow_pkts"].as_f64().unwrap()
    }
}

/// Fails with the whole list, to show all algorithms at once.
fn assert_none(broken: &[String]) {
    assert!(broken.is_empty(), "{} broken:\n  {}", broken.len(), broken.join("\n  "));
}

/// Longest time in which a condition held, seconds.
fn longest(series: &[(f64, f64)], holds: impl Fn(f64) -> bool) -> f64 {
    let stays = series.chunk_by(|one, other| holds(one.1) == holds(other.1)).filter(|stay| holds(stay[0].1));
    stays.map(|stay| stay[stay.len() - 1].0 - stay[0].0).fold(0.0, f64::max)
}

/// Longest time without growth of a count, seconds.
fn longest_pause(series: &[(f64, f64)]) -> f64 {
    let (mut last, mut pause) = (series[0], 0f64);
    for one in series.iter().filter(|one| one.1 > 0.0) {
        if one.1 > last.1 {
            pause = pause.max(one.0 - last.0);
            last = *one;
        }
    }
    pause.max(series[series.len() - 1].0 - last.0)
}

#[test]
fn stays_and_pauses_are_measured_to_the_last_sample() {
    let series = [(0.0, 9.0), (1.0, 2.0), (2.5, 1.0), (3.0, 5.0), (4.0, 2.0), (5.0, 2.0)];
    assert_eq!(longest(&series, |value| value <= 2.0), 1.5);
    assert_eq!(longest(&series, |value| value > 99.0), 0.0);
    assert_eq!(longest_pause(&[(0.0, 1.0), (1.0, 2.0), (3.5, 2.0), (4.0, 3.0)]), 3.0);
    assert_eq!(longest_pause(&[(0.0, 1.0), (1.0, 2.0), (6.0, 2.0)]), 5.0, "no growth after the pause");
}

/// Longest time with a window of at most two packets, in round trips of the longer route.
const LOW_ROUNDS: f64 = 20.0;
/// Its draft takes the lowest RTT of ten minutes for that of the empty path. The longer route adds as much as its target.
const KNOWS_THE_OLD_ROUTE: &str = "ledbatpp";

/// `adaptive` once took the RTT of a longer route for a queue, and stayed at 2 packets after a few losses.
#[test]
fn longer_route_leaves_no_flow_at_two_packets() {
    needs!(guest);
    const RTT_S: f64 = 0.08;
    const CHANGE_S: f64 = 10.0;
    // 5 % of the packets of two round trips are lost every 4 s: one loss or a few at any window.
    let pulse = |second: u32| format!("{{at = '{second}s', loss = '5%'}}, {{at = '{second}200ms', loss = '0%'}}, ");
    let pulses: String = (14..60).step_by(4).map(pulse).collect();
    let change = format!("change = [{{at = '10s', delay = '40ms'}}, {pulses}]");
    let path = link(["a", "b"], &format!("rate = '10mbit'\ndelay = '10ms'\nqueue = '20pkts'\n{change}"));
    let data = flow("data", ["a", "b"], "algorithm = '$algorithm'");
    let mut broken = Vec::new();
    let runs = runs("duration = '60s'\nruns = 1\nseed = 11", "", &[path, data]);
    for run in runs.iter().filter(|run| run.algorithm != KNOWS_THE_OLD_ROUTE) {
        let cwnd = run.series("data", "cwnd_pkts");
        let (before, after): (Vec<_>, Vec<_>) = cwnd.into_iter().partition(|one| one.0 < CHANGE_S);
        let low = longest(&after, |cwnd| cwnd <= 2.0) / RTT_S;
        if low > LOW_ROUNDS {
            broken.push(format!("{}: {low:.0} round trips at 2 packets", run.algorithm));
        }
        let largest = |series: &[(f64, f64)], from: f64| {
            series.iter().filter(|one| one.0 >= from).map(|one| one.1).fold(0.0, f64::max)
        };
        let (old, new) = (largest(&before, CHANGE_S / 2.0), largest(&after, 40.0));
        if new < old / 2.0 {
            broken.push(format!("{}: {old} packets before, at most {new} from 30 s after", run.algorithm));
        }
    }
    assert_none(&broken);
}

/// Longest pause of a sender with waiting data: two of the shortest retransmission timeouts, the second doubled.
const PAUSE_MAX_S: f64 = 1.0;
/// Longest time of a request of up to 50 packets, with one timeout among its round trips.
const REQUEST_MAX_S: f64 = 2.0;

#[test]
fn no_flow_stalls_while_data_waits_whatever_happens_to_acks() {
    needs!(guest);
    let sweep = "acks = ['aggregated:time=30ms,pkts=64', 'thinned:time=30ms,pkts=64', 'compressed:time=60ms,share=2%']";
    let acks = "rate = '10mbit'\ndelay = '20ms'\nqueue = '40pkts'\nreverse = { acks = '$acks', ack_loss = '20%' }";
    // 5 to 50 packets with pauses: each over its own connection, or all over one.
    let requests = |name: &str, more: &str| {
        flow(name, ["c", "d"], &format!("algorithm = '$algorithm'\ncount = 6\ninterval = '1300ms'\n{more}"))
    };
    let rest = [
        link(["a", "b"], acks),
        link(["c", "d"], acks),
        flow("data", ["a", "b"], "algorithm = '$algorithm'"),
        requests("small", "size = '7kB'"),
        requests("large", "size = '70kB'\nstart = '400ms'"),
        requests("kept", "size = '30kB'\nstart = '800ms'\nkeep_alive = 1"),
    ];
    let mut broken = Vec::new();
    for run in runs("duration = '10s'\nruns = 1\nseed = 5", sweep, &rest) {
        let case = format!("{}, {}", run.algorithm, run.at["acks"]);
        let pause = longest_pause(&run.series("data", "delivered_pkts"));
        if pause > PAUSE_MAX_S {
            broken.push(format!("{case}: nothing was delivered for {pause:.2} s"));
        }
        for flow in ["small", "large", "kept"] {
            let slowest = run.took_s(flow).into_iter().fold(0.0, f64::max);
            if slowest > REQUEST_MAX_S {
                broken.push(format!("{case}: a request of \"{flow}\" took {slowest:.2} s"));
            }
        }
    }
    assert_none(&broken);
}

/// Part of its equal share that a Reno flow keeps beside one other flow. An algorithm may leave less if its evaluation says so.
const NEIGHBOUR_KEEPS: f64 = 0.5;
/// Two runs of 40 s may lie this far below the mean of an evaluation.
const STATED_MARGIN: f64 = 0.75;
/// The question of `scenarios/evaluate` and the value of its sweep with a path like that of this property.
const STATED: (&str, &str) = ("e10-beside-reno", "25 Mbit/s, 40 ms");

/// What a Reno flow keeps beside an algorithm, as a ratio to what it keeps beside another. None: it was not evaluated.
fn stated_by_evaluation(algorithm: &str) -> Option<f64> {
    let mean = |algorithm: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("scenarios/evaluate/figures/{algorithm}.json"));
        let document: Value = serde_json::from_str(&fs::read_to_string(file).ok()?).unwrap();
        let cells = document["questions"][STATED.0]["cells"].as_array()?;
        let is_stated = |cell: &&Value| {
            cell["metric"] == "goodput_bps" && cell["at"]["path"] == STATED.1 && cell["at"]["queue"] == "1bdp"
        };
        let values = cells.iter().find(is_stated)?["values"].as_array()?;
        Some(values.iter().filter_map(Value::as_f64).sum::<f64>() / values.len() as f64)
    };
    Some(mean(algorithm)? / mean("reno")?)
}

#[test]
fn reno_neighbour_keeps_its_stated_share() {
    needs!(guest);
    let rest = [
        link(["a", "b"], "rate = '20mbit'\ndelay = '20ms'\nqueue = '1bdp'"),
        flow("data", ["a", "b"], "algorithm = '$algorithm'"),
        flow("neighbour", ["a", "b"], "algorithm = 'reno'"),
    ];
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs("duration = '40s'\nruns = 2\nseed = 21", "", &rest) {
        let [own, other] = ["data", "neighbour"].map(|flow| run.flow(flow)["goodput_bps"].as_f64().unwrap());
        shares.entry(run.algorithm).or_default().push(2.0 * other / (own + other));
    }
    let mut broken = Vec::new();
    for (algorithm, shares) in &shares {
        let stated = stated_by_evaluation(algorithm).map_or(NEIGHBOUR_KEEPS, |ratio| ratio * STATED_MARGIN);
        let least = stated.min(NEIGHBOUR_KEEPS);
        let share = shares.iter().sum::<f64>() / shares.len() as f64;
        if share < least {
            broken
                .push(format!("{algorithm}: Reno keeps {share:.2} of its equal share, at least {least:.2} is stated"));
        }
    }
    assert_none(&broken);
}

/// Allowed drops beyond the baseline's: a share of them, and a number of packets.
const DROPS_MARGIN: (f64, f64) = (0.5, 10.0);
/// Algorithms that drop more than their baseline by design, and how many times more.
const DROPS_MORE: [(&str, f64); 5] = [
    ("bpf_bbr", 3.0),   // startup paces at 2.89 times the bandwidth until three rounds show no growth
    ("bpf_hybla", 3.0), // slow start is made as steep as that of a 25 ms path
    // A small cut at the loss keeps part of the overshoot.
    ("bpf_bic", 2.0), // the kernel's steps also grow with the packets per ACK
    ("bpf_scalable", 2.0),
    ("bpf_yeah", 2.0),
];
/// Algorithms whose baseline is CUBIC with HyStart. The others' baseline is Reno, or what the path holds if that is more:
/// slow start grows by that much before the sender learns of its first drop. Reno's bursts fill the queue earlier than
/// paced packets.
const LIKE_CUBIC: [&str; 6] = ["bpf_cubic", "cubic", "cct", "cct_lo", "cct_ss", "erfc"];
/// Queue of the path of the tests of slow start.
const QUEUE_PKTS: f64 = 66.0;

/// Runs one flow over a path per cell of the sweep `NAME = VALUES`. Fails if an algorithm drops more than its baseline and
/// the margin allow. `rate` is the rate of a run's path.
fn assert_drops(head: &str, sweep: &str, path: &str, rate: impl Fn(&PropertyRun) -> String) {
    let cell = sweep.split(' ').next().unwrap();
    let path = link(["a", "b"], &format!("delay = '40ms'\nqueue = '66pkts'\n{path}"));
    let runs = runs(head, sweep, &[path, flow("data", ["a", "b"], "algorithm = '$algorithm'")]);
    let mut dropped: BTreeMap<(&str, &str), (Vec<f64>, f64)> = BTreeMap::new();
    for run in &runs {
        // Packets in flight in 80 ms and in the queue.
        let held = rate(run).parse::<BitsPerSec>().unwrap().0 as f64 * 0.08 / 8.0 / 1500.0 + QUEUE_PKTS;
        let cell = dropped.entry((run.algorithm.as_str(), run.at[cell].as_str())).or_insert((Vec::new(), held));
        cell.0.push(run.dropped());
    }
    let mean = |key: (&str, &str)| dropped[&key].0.iter().sum::<f64>() / dropped[&key].0.len() as f64;
    let (share, pkts) = DROPS_MARGIN;
    let mut broken = Vec::new();
    for (&(algorithm, cell), &(_, held)) in &dropped {
        let (baseline, held) = if LIKE_CUBIC.contains(&algorithm) { ("cubic", 0.0) } else { ("reno", held) };
        let times = DROPS_MORE.iter().find(|(id, _)| *id == algorithm).map_or(1.0, |(_, times)| *times);
        let most = mean((baseline, cell)).max(held) * times * (1.0 + share) + pkts;
        let drops = mean((algorithm, cell));
        if drops > most {
            broken.push(format!("{algorithm} at {cell}: {drops} drops, at most {most:.0} beside {baseline}"));
        }
    }
    assert_none(&broken);
}

/// `cct_ss` once did not end slow start if ACKs formed no trains, and kept most of the overshoot.
#[test]
fn first_slow_start_drops_no_more_than_the_baseline_s() {
    needs!(guest);
    let sweep = "rate = ['2mbit', '5mbit', '20mbit']";
    assert_drops("duration = '5s'\nruns = 1\nseed = 3", sweep, "rate = '$rate'", |run| run.at["rate"].clone());
}

/// Bursts of ACKs look like a fast path to algorithms that time them, and cause bursts of packets.
#[test]
fn first_slow_start_drops_no_more_than_the_baseline_s_where_acks_come_in_bursts() {
    needs!(guest);
    let sweep = "acks = ['compressed:time=10ms,share=20%', 'thinned:time=30ms,pkts=16']";
    let path = "rate = '20mbit'\nreverse = { acks = '$acks' }";
    assert_drops("duration = '3s'\nruns = 2\nseed = 3", sweep, path, |_| "20mbit".to_owned());
}

/// Part of a round trip by which pacing may lengthen a request.
const PACED_ROUNDS: f64 = 0.9;
/// Its draft begins with two packets, and slow start grows by GAIN.
const BEGINS_SLOWLY: &str = "ledbatpp";
/// `swift` once reduced the initial window from 10 to 4, and did not restore it when its estimate failed.
#[test]
fn short_requests_take_no_more_round_trips_than_reno_s() {
    needs!(guest);
    // The interval is less than a timeout, so the kernel keeps the window.
    let requests = |name: &str, ends: [&str; 2], more: &str| {
        let fields = "algorithm = '$algorithm'\nsize = '$size'\ncount = 12\ninterval = '190ms'";
        flow(name, ends, &format!("{fields}\n{more}"))
    };
    // On the far path aggregated ACKs have no spacing. The near path is too fast to time.
    let rest = [
        link(["a", "b"], "rate = '20mbit'\ndelay = '20ms'\nreverse = { acks = 'aggregated:time=1ms,pkts=64' }"),
        link(["c", "d"], "rate = '1gbit'\ndelay = '1ms'"),
        requests("far", ["a", "b"], "start = '3s'"),
        requests("far-kept", ["a", "b"], "keep_alive = 1"),
        requests("near", ["c", "d"], "start = '3s'"),
        requests("near-kept", ["c", "d"], "keep_alive = 1"),
    ];
    let runs = runs("duration = '6s'\nruns = 1\nseed = 9", "size = ['7kB', '14kB', '28kB']", &rest);
    let median = |run: &PropertyRun, flow: &str| {
        let mut took = run.took_s(flow);
        took.sort_by(f64::total_cmp);
        took[took.len() / 2]
    };
    let mut broken = Vec::new();
    for run in runs.iter().filter(|run| run.algorithm != BEGINS_SLOWLY) {
        let is_reno = |other: &&PropertyRun| other.algorithm == "reno" && other.at["size"] == run.at["size"];
        let reno = runs.iter().find(is_reno).unwrap();
        for (flow, rtt_s) in [("far", 0.041), ("far-kept", 0.041), ("near", 0.002), ("near-kept", 0.002)] {
            let rounds = (median(run, flow) - median(reno, flow)) / rtt_s;
            if rounds > PACED_ROUNDS {
                let size = &run.at["size"];
                broken.push(format!("{}: \"{flow}\" of {size} takes {rounds:.1} round trips more", run.algorithm));
            }
        }
    }
    assert_none(&broken);
}
