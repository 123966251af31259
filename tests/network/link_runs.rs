//! Experiments over links with seeded loss, marks, ACK effects, and everything at once.

use tccc::model::run::LinkCounters;

use super::*;
use crate::experiments::{ATTEMPTS, done, events};

/// Runs a scenario over the user-space link; returns its completed runs with their events, sorted by id.
///
/// None: the host is too busy.
fn run(place: &Path, name: &str, scenario: &str) -> Option<Vec<(RunRecord, Vec<Event>)>> {
    let (file, out) = (place.join("link-runs.toml"), place.join(name));
    fs::write(&file, scenario).unwrap();
    quiet_attempt(ATTEMPTS, || run_command(&file, &out).args(["--link", "tunlink"]).output().unwrap())?;
    let with_events = |record: RunRecord| {
        let events = events(&out, &record);
        (record, events)
    };
    Some(done(&out).into_iter().map(with_events).collect())
}

fn counters(record: &RunRecord) -> &[LinkCounters; 2] {
    &record.links[0].counters
}

const SEEDED: &str = include_str!("../fixtures/scenarios/link-seeded.toml");

#[test]
fn same_scenario_with_the_same_seed_drops_the_same_packets() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let _host = HostSnapshot::take(&["link-runs"]);
    let place = tempfile::tempdir().unwrap();
    let [Some(first), Some(second)] = ["first", "second"].map(|name| run(place.path(), name, SEEDED)) else { return };
    assert_eq!((first.len(), second.len()), (2, 2));
    for ((one, _), (other, _)) in first.iter().zip(&second) {
        assert_eq!((&one.id, one.seed), (&other.id, other.seed));
        for (one, other) in counters(one).iter().zip(counters(other)) {
            // The number of sent packets depends on the host's timing, but the numbers of the lost packets do not.
            let both = one.received_pkts.min(other.received_pkts);
            let within = |lost: &[u64]| lost.iter().copied().filter(|number| *number <= both).collect::<Vec<u64>>();
            let lost = within(&one.lost_positions);
            assert!(lost.len() >= 5, "500 packets there and back at least: {one:?}");
            assert_eq!(lost, within(&other.lost_positions));
            assert_eq!(one.lost_positions.len() as u64, one.lost_pkts, "{one:?}");
        }
    }
    let [one, other] = [0, 1].map(|repeat: usize| &counters(&first[repeat].0)[0].lost_positions);
    assert_ne!(one[..5], other[..5], "another repeat has other losses");
}

const MARKED: &str = include_str!("../fixtures/scenarios/link-marked.toml");

#[test]
fn long_queue_marks_only_the_flow_with_ecn() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let place = tempfile::tempdir().unwrap();
    let Some(runs) = run(place.path(), "marked", MARKED) else { return };
    let of = |ecn: &str| runs.iter().find(|(record, _)| record.at["ecn"] == ecn).unwrap();
    let ((without, events_without), (with, events_with)) = (of("0"), of("1"));
    let echoed_marks = |events: &[Event]| events.iter().map(|event| event.delivered_ce_pkts).max().unwrap_or(0);
    let [without, _] = counters(without);
    assert_eq!((without.marked_pkts, echoed_marks(events_without)), (0, 0), "{without:?}");
    let [there, back] = counters(with);
    assert!(there.marked_pkts > 0 && echoed_marks(events_with) > 0, "{there:?}");
    assert_eq!((there.overflow_pkts, there.lost_pkts, back.marked_pkts), (0, 0, 0), "{there:?}");
    assert!(events_with.iter().all(|event| event.lost_pkts == 0), "marks replace losses");
    let waited = |counters: &LinkCounters| counters.max_queue_pkts.unwrap();
    assert!(waited(there) < waited(without), "marks keep the queue short: {} and {}", waited(there), waited(without));
}

/// The receiver once kept the default. It then refused ECN, and the sender became Reno. iperf3 and our own sender.
#[test]
fn receiver_of_dctcp_runs_it_too_and_echoes_each_mark() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let _host = HostSnapshot::take(&["link-runs"]);
    let place = tempfile::tempdir().unwrap();
    let scenario = MARKED
        .replace("ecn = [0, 1]", "sender = [\"iperf3\", \"tccc\"]")
        .replace("ecn = \"$ecn\"", "ecn = 1\nsender = \"$sender\"")
        .replace("\"reno\"", "\"bpf_dctcp\"");
    let Some(runs) = run(place.path(), "dctcp", &scenario) else { return };
    assert_eq!(runs.len(), 2);
    for (record, events) in &runs {
        let marked = counters(record)[0].marked_pkts as f64;
        let echoed = events.iter().map(|event| event.delivered_ce_pkts).max().unwrap_or(0);
        assert!(marked > 10.0, "{}: {marked} marked", record.id);
        assert!((0.7 * marked..=1.3 * marked).contains(&f64::from(echoed)), "{}: {echoed} of {marked}", record.id);
        let mut own = events.iter().filter(|event| Some(event.socket) == record.flows[0].socket);
        // iperf3 chooses the algorithm when it has connected.
        assert_eq!(own.next_back().map(|event| &*event.algorithm), Some("bpf_dctcp"), "{}", record.id);
    }
}

const ACKS: &str = include_str!("../fixtures/scenarios/link-acks.toml");

#[test]
fn compressed_thinned_and_lost_acks_leave_the_flow_its_rate() {
    needs!(root, struct_ops, cgroup2, iperf3);
    let place = tempfile::tempdir().unwrap();
    let Some(runs) = run(place.path(), "acks", ACKS) else { return };
    for (record, _) in runs {
        let [there, back] = counters(&record);
        // The sender also sends ACKs, of handshakes and of iperf3's replies.
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
    // A first window is longer than its bucket, and yet calibration found the link's own rate.
    assert!(there.policed_pkts > 0, "{there:?}");
    assert!(back.down_pkts > 0, "the call continues while the link is down: {back:?}");
    for counters in [there, back] {
        assert!(counters.duplicated_pkts > 0, "{counters:?}");
        assert!(counters.reordered_pkts > Some(0) && counters.failed_pkts == 0, "{counters:?}");
    }
    let delays = runs[0].1.iter().filter_map(|event| event.min_rtt_us).min().unwrap();
    assert!((15_000..30_000).contains(&delays), "the shortest round trip is that before the change: {delays} us");
    for flow in &record.flows {
        assert!(flow.received_bytes > 20_000, "{flow:?}");
    }
    // No datagram is faster than the way back, and those that were lost while the link was down are late.
    let (delay_us, frames) = (record.flows[2].delay_us.unwrap(), record.flows[2].frames.unwrap());
    assert!(delay_us.p50 > 5_000.0 && delay_us.max >= delay_us.p99, "{delay_us:?}");
    assert!(frames.sent > 200 && frames.in_time < frames.sent, "{frames:?}");
}
