//! Tests with constructed events.

use super::filter::SocketFilter;
use super::history::{MarkKind, POINTS_MAX};
use super::listing::{Listing, SocketColumn};
use super::samples::{SECOND, arrival, sample};
use super::*;
use crate::catalog::{Phase, StateLayout};
use crate::event::{CaState, EventKind};

fn live(events: impl IntoIterator<Item = Event>) -> Live {
    let mut live = Live::default();
    events.into_iter().for_each(|event| live.apply(arrival(event)));
    live
}

/// A socket that acknowledges this many bytes a second for ten seconds.
fn steady(socket: u64, bytes_a_second: u64) -> Vec<Event> {
    let at = |tenth: u64| Event {
        bytes_acked: tenth * bytes_a_second / 10,
        delivered_pkts: (tenth * 100) as u32,
        retrans_pkts: tenth as u32,
        ..sample(socket, SECOND + tenth * SECOND / 10)
    };
    (0..=100).map(at).collect()
}

fn list(live: &Live, text: &str, by: SocketColumn, reversed: bool) -> Vec<u64> {
    live.list(&Listing { filter: SocketFilter::parse(text).unwrap(), by, reversed })
}

#[test]
fn rates_of_a_steady_flow_are_its_own_and_end_when_it_does() {
    let mut live = live(steady(1, 1_000_000));
    let socket = live.socket(1).unwrap();
    assert_eq!(socket.goodput_bps(live.now_ns()), Some(8e6));
    assert!((socket.retrans_ratio().unwrap() - 1.0 / 101.0).abs() < 1e-9);
    live.advance(live.now_ns() + SECOND);
    assert_eq!(live.socket(1).unwrap().goodput_bps(live.now_ns()), Some(8e6), "one second is within its rhythm");
    live.advance(live.now_ns() + 10 * SECOND);
    assert_eq!(live.socket(1).unwrap().goodput_bps(live.now_ns()), Some(0.0));
}

#[test]
fn a_closed_connection_is_shown_for_a_while_unless_it_is_held() {
    let mut live = live([sample(1, SECOND), sample(2, SECOND)]);
    for socket in [1, 2] {
        live.apply(arrival(Event { kind: EventKind::Close, ..sample(socket, 2 * SECOND) }));
    }
    live.hold(Some(2));
    assert_eq!((live.open_sockets(), live.sockets().count(), live.counts().closed), (0, 2, 2));
    live.advance(60 * SECOND);
    assert_eq!(live.sockets().map(|socket| socket.latest.socket).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_sweep_ends_what_it_did_not_find_where_it_looked() {
    let swept = |hidden, netns: &[u32]| {
        let (begin_ns, time_ns, netns) = (5 * SECOND, 6 * SECOND, netns.to_vec());
        Arrival::Fact(Fact::Swept { begin_ns, time_ns, hidden, netns })
    };
    let mut live = live([sample(1, SECOND), sample(2, SECOND)]);
    live.apply(arrival(Event { kind: EventKind::Snapshot, ..sample(2, 5 * SECOND + 1) }));
    live.apply(swept(1, &[8, 9]));
    assert_eq!((live.open_sockets(), live.counts().hidden), (2, 1));
    live.apply(swept(1, &[1]));
    assert_eq!((live.open_sockets(), live.counts().closed), (1, 1));
    live.apply(swept(0, &[]));
    assert_eq!((live.open_sockets(), live.counts().hidden), (1, 0));
    assert!(live.socket(2).unwrap().closed_ns.is_none());
}

#[test]
fn a_row_of_a_sweep_that_is_older_than_a_sample_changes_nothing() {
    let young = Event { cwnd_pkts: 50, ..sample(1, 3 * SECOND) };
    let live = live([young, Event { kind: EventKind::Snapshot, ..sample(1, 2 * SECOND) }]);
    assert_eq!(live.socket(1).unwrap().latest.cwnd_pkts, 50);
}

/// Such a socket used to stay closed, and had no goodput until its new counts exceeded the old ones.
#[test]
fn a_socket_that_connects_again_is_a_connection_that_begins() {
    let at = |kind, second: u64, bytes_acked, delivered_pkts| Event {
        kind,
        bytes_acked,
        delivered_pkts,
        ..sample(1, second * SECOND)
    };
    let mut live = live([at(EventKind::Open, 1, 0, 0), at(EventKind::Close, 9, 1 << 40, 7)]);
    live.hold(Some(1));
    live.advance(60 * SECOND);
    live.apply(arrival(at(EventKind::Open, 61, 0, 0)));
    live.apply(arrival(at(EventKind::Sample, 62, 1_000_000, 2)));
    let socket = live.socket(1).unwrap();
    assert_eq!((socket.closed_ns, socket.first_ns, live.open_sockets()), (None, 61 * SECOND, 1));
    assert_eq!(socket.goodput_bps(live.now_ns()), Some(8e6));
    assert_eq!(live.algorithm("reno").unwrap().delivered_pkts, 7 + 2);
}

#[test]
fn losses_and_timeouts_leave_marks() {
    let state =
        |time, prior_ca_state, ca_state| Event { kind: EventKind::State, prior_ca_state, ca_state, ..sample(1, time) };
    let live = live([
        sample(1, SECOND),
        Event { lost_pkts: 3, retrans_pkts: 2, kind: EventKind::Loss, ..sample(1, 2 * SECOND) },
        Event { lost_pkts: 3, retrans_pkts: 2, ..state(4 * SECOND, CaState::Recovery, CaState::Loss) },
        Event { lost_pkts: 3, retrans_pkts: 2, ..state(5 * SECOND, CaState::Loss, CaState::Open) },
    ]);
    let marks: Vec<_> = live.socket(1).unwrap().history.marks().map(|mark| (mark.kind, mark.count)).collect();
    assert_eq!(marks, [(MarkKind::Loss, 3), (MarkKind::Timeout, 1)]);
}

#[test]
fn what_an_algorithm_did_is_the_sum_of_its_sockets_since_they_were_met() {
    let mut events = steady(1, 1_000_000);
    events.extend(steady(2, 500_000));
    events.push(Event { algorithm: "other".into(), bytes_acked: 1 << 40, ..sample(3, SECOND) });
    let live = live(events);
    let summaries = live.summaries();
    let names: Vec<_> = summaries.iter().map(|summary| (summary.algorithm, summary.sockets)).collect();
    assert_eq!(names, [("reno", 2), ("other", 1)]);
    assert_eq!((summaries[0].goodput_bps, summaries[1].goodput_bps), (12e6, 0.0));
    assert_eq!(live.algorithm("reno").unwrap().delivered_pkts, 20_000);
    assert_eq!(live.algorithm("other").unwrap().delivered_pkts, 0, "what came before is not counted");
    assert_eq!((summaries[0].rtt.total(), summaries[0].ca_states), (200, [2, 0, 0, 0, 0]));
}

#[test]
fn costs_are_those_of_the_time_looked_at() {
    let cost = |calls, nanoseconds| {
        let (algorithm, callback) = ("reno".to_owned(), "cong_avoid".to_owned());
        Arrival::Fact(Fact::Cost { time_ns: 0, algorithm, callback, calls, nanoseconds })
    };
    let mut live = Live::default();
    live.apply(cost(100, 1_000_000));
    assert_eq!(live.algorithm("reno").unwrap().ns_per_call(), None);
    live.apply(cost(200, 1_005_000));
    assert_eq!(live.algorithm("reno").unwrap().callback_ns().collect::<Vec<_>>(), [("cong_avoid", 50.0)]);
    live.apply(cost(10, 400));
    assert_eq!(live.algorithm("reno").unwrap().ns_per_call(), Some(40.0), "it was loaded again");
}

#[test]
fn names_come_with_facts_in_any_order() {
    let mut live = Live::default();
    let layout = StateLayout { size: 1, phases: vec![Phase { value: 2, name: "probe".into() }], fields: Vec::new() };
    live.apply(Arrival::Fact(Fact::Owner { socket: 1, pid: 42, command: "nginx".into() }));
    let mut event = sample(1, SECOND);
    event.private_state[0] = 2;
    live.apply(arrival(event));
    live.apply(Arrival::Fact(Fact::Layout { algorithm: "reno".into(), layout }));
    live.apply(Arrival::Fact(Fact::Cgroup { cgroup: 7, path: "/system.slice".into() }));
    let socket = live.socket(1).unwrap();
    assert_eq!(live.owner(socket).unwrap().command, "nginx");
    assert_eq!((live.phase(socket), live.cgroup(socket)), (Some("probe"), Some("/system.slice")));
}

fn in_arm(socket: u64, rule: &str, arm: &str) -> Arrival {
    let given = Some(RuleArm { rule: rule.into(), arm: arm.into() });
    Arrival::Fact(Fact::Arm { socket, given })
}

#[test]
fn rule_and_arm_come_with_a_fact_and_go_with_the_connection() {
    let mut live = Live::default();
    live.apply(in_arm(1, "web", "dtcp"));
    (1..4).for_each(|socket| live.apply(arrival(sample(socket, SECOND))));
    live.apply(in_arm(2, "web", "keep"));
    let shown = |live: &Live, text: &str| list(live, text, SocketColumn::Peer, false);
    for (text, sockets) in [("rule:web", &[1, 2][..]), ("arm:keep", &[2]), ("web", &[1, 2])] {
        assert_eq!(shown(&live, text), sockets, "{text}");
    }
    live.apply(Arrival::Fact(Fact::Arm { socket: 2, given: None }));
    assert_eq!(shown(&live, "rule:web"), [1]);
    live.apply(arrival(Event { kind: EventKind::Close, ..sample(1, 2 * SECOND) }));
    assert!(live.arm(live.socket(1).unwrap()).is_some(), "it is shown for a while");
    live.advance(60 * SECOND);
    assert!(live.arms.is_empty() && live.has_arms());
}

#[test]
fn arms_of_more_names_than_a_host_numbers_are_counted_and_not_kept() {
    let mut live = Live::default();
    (0..ARMS_MAX as u64 + 3).for_each(|n| live.apply(in_arm(n, &format!("r{n}"), "keep")));
    live.apply(in_arm(9999, "r0", "keep"));
    assert_eq!((live.arms.len(), live.arm_names.len(), live.counts().unnamed), (ARMS_MAX + 1, ARMS_MAX, 3));
}

/// The largest number of names, each as long as a path, used to take more than a gigabyte.
#[test]
fn names_of_cgroups_stay_within_their_room() {
    const PATH_BYTES: usize = 4096;
    const FIT: u64 = (CGROUP_BYTES_MAX / PATH_BYTES) as u64;
    let named = |cgroup, bytes| Arrival::Fact(Fact::Cgroup { cgroup, path: "x".repeat(bytes) });
    let kept = |live: &Live| (live.cgroups.len() as u64, live.cgroups.values().map(String::len).sum::<usize>());
    let mut live = Live::default();
    (0..FIT + 10).for_each(|cgroup| live.apply(named(cgroup, PATH_BYTES)));
    assert_eq!(kept(&live), (FIT, CGROUP_BYTES_MAX));
    live.apply(named(0, 1));
    live.apply(named(FIT, PATH_BYTES));
    assert_eq!(kept(&live), (FIT, CGROUP_BYTES_MAX - PATH_BYTES + 1), "it does not fit");
    live.apply(named(FIT, PATH_BYTES - 1));
    assert_eq!(kept(&live), (FIT + 1, CGROUP_BYTES_MAX), "a shorter name gave room");
    live.apply(Arrival::Restart);
    live.apply(named(0, PATH_BYTES));
    assert_eq!(kept(&live), (1, PATH_BYTES));
}

/// Names used to be kept forever. On hosts that start many cgroups, new ones then stayed unnamed.
#[test]
fn names_of_cgroups_that_no_socket_has_give_room_at_a_sweep() {
    let named = |cgroup| Arrival::Fact(Fact::Cgroup { cgroup, path: "/x".to_owned() });
    let full = || {
        let mut live = live([Event { cgroup: 1, ..sample(1, 9 * SECOND) }]);
        (0..NAMES_MAX as u64 + 2).for_each(|cgroup| live.apply(named(cgroup)));
        live
    };
    let mut live = full();
    assert_eq!((live.cgroups.len(), live.counts().unnamed), (NAMES_MAX, 2));
    live.apply(Arrival::Fact(Fact::Cgroup { cgroup: 1, path: "/y".to_owned() }));
    let now = live.cgroup(live.socket(1).unwrap());
    assert_eq!((now, live.counts().unnamed), (Some("/y"), 2), "a known one may change");
    live.apply(named(1));
    live.apply(Arrival::Fact(Fact::Swept { begin_ns: SECOND, time_ns: 2 * SECOND, hidden: 0, netns: Vec::new() }));
    assert_eq!((live.cgroups.len(), live.cgroup_bytes), (1, 2));
    assert_eq!(live.cgroup(live.socket(1).unwrap()), Some("/x"));
    live.apply(named(u64::MAX));
    assert_eq!((live.cgroups.len(), live.counts().unnamed), (2, 2));
}

/// Recordings of earlier versions contain a name only once, although the cgroup's sockets come and go.
#[test]
fn names_of_few_cgroups_outlast_their_sockets() {
    let mut live = Live::default();
    live.apply(Arrival::Fact(Fact::Cgroup { cgroup: 7, path: "/x".to_owned() }));
    live.apply(Arrival::Fact(Fact::Swept { begin_ns: SECOND, time_ns: 2 * SECOND, hidden: 0, netns: Vec::new() }));
    live.apply(arrival(sample(1, 3 * SECOND)));
    assert_eq!(live.cgroup(live.socket(1).unwrap()), Some("/x"));
}

#[test]
fn lists_are_filtered_and_sorted_with_the_unknown_last() {
    let mut live =
        live([2, 1, 3].map(|socket| Event { srtt_us: Some(socket as u32 * 10_000), ..sample(socket, SECOND) }));
    live.apply(arrival(Event { srtt_us: None, algorithm: "other".into(), ..sample(9, SECOND) }));
    for (text, by, reversed, sockets) in [
        ("", SocketColumn::Srtt, false, &[3, 2, 1, 9][..]),
        ("", SocketColumn::Srtt, true, &[1, 2, 3, 9]),
        ("srtt>10ms", SocketColumn::Peer, false, &[2, 3]),
        ("algorithm:OTHER", SocketColumn::Peer, false, &[9]),
        (":1003 reno", SocketColumn::Peer, false, &[3]),
    ] {
        assert_eq!(list(&live, text, by, reversed), sockets, "{text}");
    }
}

#[test]
fn a_restart_forgets_all_but_what_is_looked_at() {
    let mut live = live([sample(1, SECOND)]);
    live.hold(Some(1));
    live.apply(Arrival::Restart);
    assert_eq!((live.sockets().count(), live.counts(), live.held), (0, Counts::default(), BTreeSet::from([1])));
}

#[test]
fn ten_thousand_sockets_stay_within_the_room_for_all() {
    let mut live = Live::default();
    for round in 0..100u64 {
        for socket in 0..10_000 {
            live.apply(arrival(sample(socket, SECOND + round * SECOND + socket)));
        }
    }
    let points: usize = live.sockets().map(|socket| socket.history.points().len()).sum();
    assert!(points <= POINTS_MAX, "{points} points");
    assert!(live.sockets().all(|socket| socket.history.points().len() > 30));
}
