//! Tests the content and the memory use of an hour of synthetic sums.

use super::*;
use crate::serve::frame::data;
use crate::trace::source::Batches;
use shared::arrival::RuleArm;
use shared::model::live::Live;
use shared::model::live::samples::{SECOND, arrival, sample};

/// Sums with a tenth of the packets retransmitted.
fn sums(sockets: u64, bytes_acked: u64, sent_pkts: u64, rtt_us: u32) -> LineSums {
    let mut sums = LineSums { sockets, bytes_acked, sent_pkts, retrans_pkts: sent_pkts / 10, ..LineSums::default() };
    (0..sent_pkts.min(1000)).for_each(|_| sums.rtt.observe(rtt_us));
    sums
}

fn algorithm(name: &str) -> LineKey {
    LineKey::Algorithm(name.into())
}

fn of(pairs: impl IntoIterator<Item = (LineKey, LineSums)>) -> BTreeMap<LineKey, LineSums> {
    pairs.into_iter().collect()
}

fn whole(overview: &Overview) -> serde_json::Value {
    let mut source = Batches { now_ns: SECOND, ..Batches::default() };
    data(&overview.whole(&Status::of(&Live::default(), &mut source, std::time::Duration::ZERO)))
}

fn line<'a>(told: &'a serde_json::Value, name: &str) -> &'a serde_json::Value {
    let lines = told["series"].as_array().unwrap();
    lines.iter().find(|it| it["algorithm"] == name || it["arm"] == name || it["kind"] == name).expect(name)
}

#[test]
fn first_sums_tell_connections_and_the_next_what_they_did() {
    let mut overview = Overview::new(STEP_NS);
    overview.observe(100 * SECOND, of([(algorithm("reno"), sums(2, 5_000_000, 90, 1000))]));
    let told = whole(&overview);
    assert_eq!((&told["newest"], &told["first"], &told["step_ms"]), (&10.into(), &10.into(), &10_000.0.into()));
    let reno = line(&told, "reno");
    assert_eq!((&reno["sockets"][0], &reno["goodput_bps"][0]), (&2.into(), &serde_json::Value::Null));
    overview.observe(105 * SECOND, of([(algorithm("reno"), sums(3, 6_000_000, 190, 1000))]));
    let told = whole(&overview);
    let reno = line(&told, "reno");
    assert_eq!((&reno["sockets"][0], &reno["goodput_bps"][0]), (&3.into(), &1_600_000.into()), "over five seconds");
    assert!((reno["retrans_ratio"][0].as_f64().unwrap() - 0.1).abs() < 1e-6);
    let rtt = reno["rtt_p50_us"][0].as_f64().unwrap();
    assert!((rtt / 1000.0 - 1.0).abs() < 0.125, "{rtt}");
    overview.observe(109 * SECOND, of([(algorithm("reno"), sums(3, 6_000_000, 190, 1000))]));
    let told = whole(&overview);
    let reno = line(&told, "reno");
    assert_eq!(reno["goodput_bps"][0], 888_888, "a value covers the part of its step that was counted");
    overview.observe(135 * SECOND, of([(algorithm("reno"), sums(3, 7_000_000, 190, 1000))]));
    let told = whole(&overview);
    let goodput = line(&told, "reno")["goodput_bps"].as_array().unwrap();
    assert_eq!(goodput[1..], [307_692, 307_692, 307_692], "steps without a count have the mean");
}

/// Regression: after an idle hour, an algorithm restarted with the sum of its whole past.
#[test]
fn connections_that_come_back_begin_with_what_they_do_now() {
    let mut overview = Overview::new(STEP_NS);
    let host = || (LineKey::Host, sums(9, 0, 0, 0));
    let old = sums(0, 1 << 40, 1000, 1000);
    for step in 0..=SLOTS as u64 + 2 {
        overview.observe(step * STEP_NS, of([host(), (algorithm("reno"), old.clone())]));
    }
    assert!(!overview.series.contains_key(&algorithm("reno")), "it had no connection in the last hour");
    let later = LineSums { sockets: 1, bytes_acked: old.bytes_acked + 1250, ..old };
    overview.observe((SLOTS as u64 + 3) * STEP_NS, of([host(), (algorithm("reno"), later)]));
    let told = whole(&overview);
    let goodput = line(&told, "reno")["goodput_bps"].as_array().unwrap();
    assert_eq!(goodput[SLOTS - 1], 1000);
    assert!(goodput[..SLOTS - 1].iter().all(serde_json::Value::is_null), "nothing was known of it before");
}

#[test]
fn more_algorithms_and_arms_than_fit_are_one_line_and_the_room_is_bounded() {
    let mut overview = Overview::new(STEP_NS);
    let arm = |n: u64| LineKey::Arm(RuleArm { rule: "web".into(), arm: n.to_string() });
    for step in 1..2 * SLOTS as u64 {
        let each = |n: u64| {
            let did = LineSums { sockets: n + 1, bytes_acked: step * 1250, sent_pkts: step, ..LineSums::default() };
            [(algorithm(&n.to_string()), did.clone()), (arm(n), did)]
        };
        overview.observe(step * STEP_NS, of((0..100).flat_map(each).chain([(LineKey::Host, sums(1, 0, 0, 0))])));
    }
    let told = whole(&overview);
    assert_eq!(told["series"].as_array().unwrap().len(), 2 * SERIES_MAX + 3);
    for others in ["other_algorithms", "other_arms"] {
        let line = line(&told, others);
        let own = told["series"].as_array().unwrap().iter().filter(|it| it["kind"] == others[6..others.len() - 1]);
        let own: u64 = own.map(|it| it["sockets"][SLOTS - 1].as_u64().unwrap()).sum();
        assert_eq!(line["sockets"][SLOTS - 1].as_u64().unwrap() + own, (1..=100).sum::<u64>());
        assert_eq!(line["goodput_bps"][SLOTS - 1], 1000 * (100 - SERIES_MAX as u64));
    }
    let bytes: usize = overview.series.values().map(|series| series.ring.bytes()).sum();
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
    assert!(told.to_string().len() < 1 << 20, "{} bytes of a page", told.to_string().len());
}

#[test]
fn time_that_is_set_back_begins_anew() {
    let mut overview = Overview::new(STEP_NS);
    overview.observe(1000 * SECOND, of([(algorithm("reno"), sums(2, 0, 0, 0))]));
    overview.observe(10 * SECOND, of([(algorithm("cubic"), sums(2, 0, 0, 0))]));
    let told = whole(&overview);
    assert_eq!((&told["newest"], told["series"].as_array().unwrap().len()), (&1.into(), 1));
}

#[test]
fn recording_is_counted_by_its_sockets() {
    let (mut live, mut sampler) = (Live::default(), Sampler::default());
    live.apply(arrival(sample(1, SECOND)));
    let first = sampler.look(&live)[&LineKey::Host].clone();
    assert_eq!((first.sockets, first.bytes_acked), (1, 0));
    let mut event = sample(1, 2 * SECOND);
    event.bytes_acked += 5000;
    event.delivered_pkts += 4;
    event.retrans_pkts += 1;
    live.apply(arrival(event.clone()));
    let next = sampler.look(&live);
    let sum = &next[&LineKey::Algorithm(event.algorithm.clone())];
    assert_eq!((sum.bytes_acked, sum.sent_pkts, sum.retrans_pkts, sum.sockets), (5000, 5, 1, 1));
    assert_eq!(sum.rtt.bins.iter().sum::<u64>(), 1, "it delivered something");
    assert_eq!(sampler.look(&live)[&LineKey::Host].rtt.bins.iter().sum::<u64>(), 1, "and nothing since");
}

#[test]
fn changes_of_an_hour_are_kept() {
    let mut overview = Overview::new(STEP_NS);
    let default = |name: &str| HostConfig { default: Some(name.into()), ..HostConfig::default() };
    overview.note_situation(SECOND, default("cubic"));
    overview.note_situation(2 * SECOND, default("dtcp"));
    let changes = whole(&overview)["changes"].clone();
    assert_eq!(changes, serde_json::json!([[2000.0, "the default is dtcp, was cubic"]]));
    for n in 0..100 {
        overview.note_situation(3 * SECOND + n, default(if n % 2 == 0 { "cubic" } else { "dtcp" }));
    }
    assert_eq!(overview.changes.len(), changes::CHANGES_MAX);
    overview.note_situation(2 * SLOTS as u64 * STEP_NS, default("dtcp"));
    assert!(overview.changes.is_empty());
}
