//! Experiments over links that do more than carry: equal seeds, marks, and everything a link can do at once.

use std::fs;
use std::path::Path;

use crate::common::need::quiet_attempt;
use crate::common::{HostSnapshot, needs, tccc};
use crate::experiments::{done, events};
use tccc::model::run::{LinkCounters, RunRecord};
use tccc::trace::event::Event;

/// A busy host makes runs late until they are given up; so often the same directory is resumed.
const ATTEMPTS: u32 = 2;

/// Runs a scenario by the user-space link; its finished runs by id, and the events of each. None: the host is too busy.
fn run(place: &Path, name: &str, scenario: &str) -> Option<Vec<(RunRecord, Vec<Event>)>> {
    let (file, out) = (place.join("link-runs.toml"), place.join(name));
    fs::write(&file, scenario).unwrap();
    let attempt = || tccc().arg("run").arg(&file).arg("--out").arg(&out).args(["--link", "tunlink"]).output().unwrap();
    let output = quiet_attempt(ATTEMPTS, attempt)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let with_events = |record: RunRecord| {
        let events = events(&out, &record);
        (record, events)
    };
    Some(done(&out).into_iter().map(with_events).collect())
}

/// What the two directions of the only link did.
fn counters(record: &RunRecord) -> &[LinkCounters; 2] {
    &record.links[0].counters
}

const SEEDED: &str = include_str!("../fixtures/scenarios/link-seeded.toml");

#[test]
fn same_scenario_with_the_same_seed_drops_the_same_packets() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let before = HostSnapshot::take(&["link-runs"]);
    let place = tempfile::tempdir().unwrap();
    let [Some(first), Some(second)] = ["first", "second"].map(|name| run(place.path(), name, SEEDED)) else { return };
    assert_eq!((first.len(), second.len()), (2, 2));
    for ((one, _), (other, _)) in first.iter().zip(&second) {
        assert_eq!((&one.id, one.seed), (&other.id, other.seed));
        for (one, other) in counters(one).iter().zip(counters(other)) {
            // How many packets a sender sends depends on the host's time; which of them are lost does not.
            let both = one.received_pkts.min(other.received_pkts);
            let within = |lost: &[u64]| lost.iter().copied().filter(|number| *number <= both).collect::<Vec<u64>>();
            let lost = within(&one.lost_positions);
            assert!(lost.len() >= 5, "500 packets there and back at least: {one:?}");
            assert_eq!(lost, within(&other.lost_positions));
            assert_eq!(one.lost_positions.len() as u64, one.lost_pkts, "{one:?}");
        }
    }
    let [one, other] = [0, 1].map(|repeat: usize| &counters(&first[repeat].0)[0].lost_positions);
    assert_ne!(one[..5], other[..5], "another repeat is another draw");
    before.assert_unchanged();
}

const MARKED: &str = include_str!("../fixtures/scenarios/link-marked.toml");

#[test]
fn long_queue_marks_the_flow_that_asked_and_only_that() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let place = tempfile::tempdir().unwrap();
    let Some(runs) = run(place.path(), "marked", MARKED) else { return };
    let of = |ecn: &str| runs.iter().find(|(record, _)| record.at["ecn"] == ecn).unwrap();
    let ((deaf, deaf_events), (asked, asked_events)) = (of("0"), of("1"));
    let marks_told = |events: &[Event]| events.iter().map(|event| event.delivered_ce_pkts).max().unwrap_or(0);
    let [deaf, _] = counters(deaf);
    assert_eq!((deaf.marked_pkts, marks_told(deaf_events)), (0, 0), "{deaf:?}");
    let [there, back] = counters(asked);
    assert!(there.marked_pkts > 0 && marks_told(asked_events) > 0, "{there:?}");
    assert_eq!((there.overflow_pkts, there.lost_pkts, back.marked_pkts), (0, 0, 0), "{there:?}");
    assert!(asked_events.iter().all(|event| event.lost_pkts == 0), "marks take the place of losses");
    let waited = |counters: &LinkCounters| counters.max_queue_pkts.unwrap();
    assert!(waited(there) < waited(deaf), "marks keep the queue short: {} and {}", waited(there), waited(deaf));
}

const ACKS: &str = include_str!("../fixtures/scenarios/link-acks.toml");

#[test]
fn acknowledgements_that_are_held_thinned_and_lost_leave_the_flow_its_rate() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let place = tempfile::tempdir().unwrap();
    let Some(runs) = run(place.path(), "acks", ACKS) else { return };
    for (record, _) in runs {
        let [there, back] = counters(&record);
        // The sender has some of its own: those of its handshakes, and of what iperf3 answers.
        assert!(there.acks_held_pkts * 10 < back.acks_held_pkts, "{there:?} {back:?}");
        let (lost, held) = (back.acks_lost_pkts as f64, back.acks_held_pkts as f64);
        let all = back.received_pkts as f64;
        assert!((0.005..0.045).contains(&(lost / all)), "{back:?}");
        let kind = record.at["acks"].split(':').next().unwrap();
        let least = if kind == "compressed" { 0.1 } else { 0.9 };
        assert!(held / all > least, "{kind}: {back:?}");
        let thinned = back.acks_thinned_pkts as f64 / held;
        assert!(if kind == "thinned" { thinned > 0.3 } else { thinned == 0.0 }, "{kind}: {back:?}");
        let goodput = record.flows[0].received_bytes as f64 * 8.0 / 4.0;
        assert!(goodput > 5e6, "{kind}: {goodput} bit/s of 8 Mbit/s");
    }
}

const EVERYTHING: &str = include_str!("../fixtures/scenarios/link-everything.toml");

#[test]
fn link_that_does_everything_at_once_counts_it_and_flows_get_through() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let place = tempfile::tempdir().unwrap();
    let Some(runs) = run(place.path(), "everything", EVERYTHING) else { return };
    let record = &runs[0].0;
    let [there, back] = counters(record);
    assert_eq!(there.lost_positions[..2], [40, 41]);
    assert!(there.lost_pkts >= 3, "{there:?}");
    assert!(back.down_pkts > 0, "the call goes on while the link is down: {back:?}");
    for counters in [there, back] {
        assert!(counters.duplicated_pkts > 0, "{counters:?}");
        assert!(counters.reordered_pkts > Some(0) && counters.failed_pkts == 0, "{counters:?}");
    }
    let delays = runs[0].1.iter().filter_map(|event| event.min_rtt_us).min().unwrap();
    assert!((15_000..30_000).contains(&delays), "the shortest round trip is that before the change: {delays} us");
    for flow in &record.flows {
        assert!(flow.received_bytes > 20_000, "{flow:?}");
    }
}
