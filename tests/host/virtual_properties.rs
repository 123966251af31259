//! Properties of every algorithm on the kernel's own TCP stack, in virtual time: what it must not do to a host or its
//! neighbours on paths that no paper has.
//!
//! `mswift` is not among them: its companion is a BPF program, which the guest has not. Its start is covered by the native
//! build (`algorithms/mswift.rs`), by the real kernel (`kernel/mswift.rs`), and by its figures in `scenarios/safety`, which the
//! real kernel gives. After the start it is Reno.
//!
//! A limit is stated for all. Where an algorithm's own design says otherwise, a table says so, with the reason.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use crate::common::experiment::finished;
use crate::common::needs;
use crate::lab::virtual_time::Bench;
use serde_json::Value;
use tccc::catalog::{self, risk};
use tccc::units::BitsPerSec;

/// The kernel's own algorithms that others are compared with.
const KERNEL: [&str; 2] = ["reno", "cubic"];

/// Those that a guest can have.
fn algorithms() -> Vec<String> {
    let ours = catalog::all().iter().filter(|algorithm| algorithm.companion.is_none());
    ours.map(|algorithm| algorithm.id.clone()).chain(KERNEL.map(str::to_owned)).collect()
}

/// One finished run.
struct Run {
    algorithm: String,
    at: BTreeMap<String, String>,
    record: Value,
    /// Samples of all sockets, in order of time.
    events: Vec<Value>,
}

/// Runs a scenario for every algorithm. `head` is what stands above `[sweep]`, `rest` what stands below.
fn runs(head: &str, sweep: &str, rest: &str) -> Vec<Run> {
    let text = format!(
        "title = \"x\"\nclaim = \"y\"\nprofile = \"native\"\n{head}\n[sweep]\nalgorithm = {:?}\n{sweep}\n{rest}",
        algorithms()
    );
    let out = Bench::new(&text);
    let folder = out.runs("out", "");
    let run = |(id, bytes): (String, Vec<u8>)| {
        let record: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(record["status"], "done", "{id}: {record}");
        let events = fs::read_to_string(folder.join("runs").join(&id).join("events.jsonl")).unwrap();
        let at: BTreeMap<String, String> = serde_json::from_value(record["at"].clone()).unwrap();
        let events = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Run { algorithm: at["algorithm"].clone(), at, record, events }
    };
    finished(&folder).into_iter().map(run).collect()
}

impl Run {
    /// The samples of a flow of one connection: seconds from its first one, and a field.
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

    /// How long each transfer of a flow took, seconds; one that was not done took for ever.
    fn took_s(&self, flow: &str) -> Vec<f64> {
        let transfers = self.flow(flow)["completions"].as_array().unwrap();
        let took = |one: &Value| if one["done"] == true { one["took_s"].as_f64().unwrap() } else { f64::INFINITY };
        transfers.iter().map(took).collect()
    }

    fn dropped(&self) -> f64 {
        self.record["links"][0]["counters"][0]["overflow_pkts"].as_f64().unwrap()
    }
}

/// Fails with every line that stands in the list, so that all algorithms are known at once.
fn assert_none(broken: &[String]) {
    let list = broken.iter().fold(String::new(), |mut list, line| {
        let _ = writeln!(list, "  {line}");
        list
    });
    assert!(broken.is_empty(), "{} broken:\n{list}", broken.len());
}

/// Longest time in which a condition held without a break, seconds.
fn longest(series: &[(f64, f64)], holds: impl Fn(f64) -> bool) -> f64 {
    let stays = series.chunk_by(|one, other| holds(one.1) == holds(other.1)).filter(|stay| holds(stay[0].1));
    stays.map(|stay| stay[stay.len() - 1].0 - stay[0].0).fold(0.0, f64::max)
}

/// Longest time in which a count did not grow, seconds.
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
    assert_eq!(longest_pause(&[(0.0, 1.0), (1.0, 2.0), (6.0, 2.0)]), 5.0, "it never went on");
}

/// A window of two packets or fewer may last for so many round trips of the longer route.
const LOW_ROUNDS: f64 = 20.0;

/// `adaptive` held the round-trip time of a longer route for a queue, and stayed at 2 packets after a few losses.
#[test]
fn longer_route_leaves_no_flow_at_two_packets() {
    needs!(guest);
    const RTT_S: f64 = 0.08;
    const CHANGE_S: f64 = 10.0;
    // Some 5 % of two round trips are lost every 4 s: one loss or a few, at any window.
    let pulses: String = (14..60)
        .step_by(4)
        .map(|second| format!("{{at = \"{second}s\", loss = \"5%\"}}, {{at = \"{second}200ms\", loss = \"0%\"}}, "))
        .collect();
    let link = format!(
        "[[link]]\nends = [\"a\", \"b\"]\nrate = \"10mbit\"\ndelay = \"10ms\"\nqueue = \"20pkts\"\n\
         change = [{{at = \"10s\", delay = \"40ms\"}}, {pulses}]\n\
         [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"$algorithm\"\n"
    );
    let mut broken = Vec::new();
    for run in runs("duration = \"60s\"\nruns = 1\nseed = 11", "", &link) {
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

/// A sender with data waiting may pause so long: two retransmission timeouts of the shortest kind, the second doubled.
const PAUSE_MAX_S: f64 = 1.0;
/// A request of at most 50 packets may take so long, with one lost timeout among its round trips.
const REQUEST_MAX_S: f64 = 2.0;

#[test]
fn nothing_stands_still_while_data_waits_whatever_becomes_of_the_acknowledgements() {
    needs!(guest);
    let sweep = "acks = [\"aggregated:time=30ms,pkts=64\", \"thinned:time=30ms,pkts=64\", \
                 \"compressed:time=60ms,share=2%\"]";
    let link = |ends: &str| {
        format!(
            "[[link]]\nends = [{ends}]\nrate = \"10mbit\"\ndelay = \"20ms\"\nqueue = \"40pkts\"\n\
             reverse = {{ acks = \"$acks\", ack_loss = \"20%\" }}\n"
        )
    };
    // Of 5 to 50 packets, with pauses: over connections of their own, and over one.
    let requests = |name: &str, size: &str, more: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"c\"\nto = \"d\"\nalgorithm = \"$algorithm\"\nsize = \"{size}\"\n\
             count = 6\ninterval = \"1300ms\"\n{more}\n"
        )
    };
    let rest = [
        link("\"a\", \"b\""),
        link("\"c\", \"d\""),
        "[[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"$algorithm\"\n".to_owned(),
        requests("small", "7kB", ""),
        requests("large", "70kB", "start = \"400ms\""),
        requests("kept", "30kB", "start = \"800ms\"\nkeep_alive = 1"),
    ];
    let mut broken = Vec::new();
    for run in runs("duration = \"10s\"\nruns = 1\nseed = 5", sweep, &rest.concat()) {
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

/// What a Reno flow keeps beside one other flow, of its equal share. An algorithm whose card states less may leave less.
const NEIGHBOUR_KEEPS: f64 = 0.5;
/// Two runs of 40 s lie so far below the figure of the card, the mean of thirty runs.
const CARD_MARGIN: f64 = 0.75;
/// The question of `scenarios/safety`, and its cell, that has the path of this property.
const CARD_FIGURE: (&str, &str) = ("beside-reno", "queue 1bdp");

/// The share of a Reno neighbour that the card of an algorithm states; none: no such figure.
fn stated_on_card(algorithm: &str) -> Option<f64> {
    let (question, at) = CARD_FIGURE;
    let figures = &risk::measured().get(algorithm)?.figures;
    Some(figures.iter().find(|figure| figure.question == question && figure.at == at)?.ratio)
}

#[test]
fn reno_neighbour_keeps_its_stated_share() {
    needs!(guest);
    let link = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"20mbit\"\ndelay = \"20ms\"\nqueue = \"1bdp\"\n\
                [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"$algorithm\"\n\
                [[flow]]\nname = \"neighbour\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"reno\"\n";
    let mut shares: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs("duration = \"40s\"\nruns = 2\nseed = 21", "", link) {
        let [own, other] = ["data", "neighbour"].map(|flow| run.flow(flow)["goodput_bps"].as_f64().unwrap());
        shares.entry(run.algorithm).or_default().push(2.0 * other / (own + other));
    }
    let mut broken = Vec::new();
    for (algorithm, shares) in &shares {
        let stated = stated_on_card(algorithm).map_or(NEIGHBOUR_KEEPS, |ratio| ratio * CARD_MARGIN);
        let least = stated.min(NEIGHBOUR_KEEPS);
        let share = shares.iter().sum::<f64>() / shares.len() as f64;
        if share < least {
            broken
                .push(format!("{algorithm}: Reno keeps {share:.2} of its equal share, at least {least:.2} is stated"));
        }
    }
    assert_none(&broken);
}

/// What may be dropped beyond what the baseline drops: a share of it, and so many packets.
const DROPS_MARGIN: (f64, f64) = (0.5, 10.0);
/// What drops more than its baseline by design, by how many times.
const DROPS_MORE: [(&str, f64); 4] = [
    ("bpf_hybla", 3.0), // slow start is made as steep as that of a 25 ms path
    // A small cut at the loss keeps a part of the overshot window.
    ("bpf_bic", 2.0), // the kernel's steps also grow with the packets per ACK
    ("bpf_scalable", 2.0),
    ("bpf_yeah", 2.0),
];
/// Those whose baseline is CUBIC with HyStart. That of others is Reno, or what the path holds if that is more: slow start
/// grows by as much before the sender learns of its first drop. Reno's bursts meet a full queue earlier than paced packets.
const LIKE_CUBIC: [&str; 6] = ["bpf_cubic", "cubic", "cct", "cct_lo", "cct_ss", "erfc"];
/// Queue of the path on which first slow starts are compared.
const QUEUE_PKTS: f64 = 66.0;

/// Fails where an algorithm drops more than its baseline and the margin. `cell` is what a run's baseline has in common
/// with it, `rate` the rate of its path.
fn assert_drops(runs: &[Run], cell: &str, rate: impl Fn(&Run) -> String) {
    let mut dropped: BTreeMap<(&str, &str), (Vec<f64>, f64)> = BTreeMap::new();
    for run in runs {
        // Packets on the way in 80 ms, and in the queue.
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

/// `cct_ss` had no end of slow start where ACKs come in no trains, and kept most of an overshot window.
#[test]
fn first_slow_start_drops_no_more_than_the_baseline_s() {
    needs!(guest);
    let link = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"$rate\"\ndelay = \"40ms\"\nqueue = \"66pkts\"\n\
                [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"$algorithm\"\n";
    let sweep = "rate = [\"2mbit\", \"5mbit\", \"20mbit\"]";
    let runs = runs("duration = \"5s\"\nruns = 1\nseed = 3", sweep, link);
    assert_drops(&runs, "rate", |run| run.at["rate"].clone());
}

/// ACKs in bursts look like a fast path to whoever times them, and make whoever sends on ACKs send in bursts.
#[test]
fn first_slow_start_drops_no_more_than_the_baseline_s_where_acks_come_in_bursts() {
    needs!(guest);
    let link = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"20mbit\"\ndelay = \"40ms\"\nqueue = \"66pkts\"\n\
                reverse = { acks = \"$acks\" }\n\
                [[flow]]\nname = \"data\"\nfrom = \"a\"\nto = \"b\"\nalgorithm = \"$algorithm\"\n";
    let sweep = "acks = [\"compressed:time=10ms,share=20%\", \"thinned:time=30ms,pkts=16\"]";
    let runs = runs("duration = \"3s\"\nruns = 2\nseed = 3", sweep, link);
    assert_drops(&runs, "acks", |_| "20mbit".to_owned());
}

/// Part of a round trip by which pacing may lengthen a request.
const PACED_ROUNDS: f64 = 0.9;
/// `swift` set the kernel's initial window of 10 to 4 and never gave it back where its estimate failed.
#[test]
fn short_requests_take_no_more_round_trips_than_reno_s() {
    needs!(guest);
    // On the far path ACKs are aggregated: they have no spacing. The near one is too fast to time.
    let rest = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"20mbit\"\ndelay = \"20ms\"\n\
                reverse = { acks = \"aggregated:time=1ms,pkts=64\" }\n\
                [[link]]\nends = [\"c\", \"d\"]\nrate = \"1gbit\"\ndelay = \"1ms\"\n";
    let flow = |name: &str, [from, to]: [&str; 2], more: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\nalgorithm = \"$algorithm\"\nsize = \"$size\"\n\
             count = 12\ninterval = \"190ms\"\n{more}\n"
        )
    };
    // A pause of less than a timeout: the kernel keeps the window over it.
    let flows = [
        flow("far", ["a", "b"], "start = \"3s\""),
        flow("far-kept", ["a", "b"], "keep_alive = 1"),
        flow("near", ["c", "d"], "start = \"3s\""),
        flow("near-kept", ["c", "d"], "keep_alive = 1"),
    ];
    let runs = runs(
        "duration = \"6s\"\nruns = 1\nseed = 9",
        "size = [\"7kB\", \"14kB\", \"28kB\"]",
        &format!("{rest}{}", flows.concat()),
    );
    let median = |run: &Run, flow: &str| {
        let mut took = run.took_s(flow);
        took.sort_by(f64::total_cmp);
        took[took.len() / 2]
    };
    let mut broken = Vec::new();
    for run in &runs {
        let is_reno = |other: &&Run| other.algorithm == "reno" && other.at["size"] == run.at["size"];
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
