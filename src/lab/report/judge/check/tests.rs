//! Checks of made events: 10 Mbit/s and a round trip of 40 ms, so a BDP of 33.3 packets and 833.3 packets per second.

use super::timeline::Timeline;
use super::window::{self, Outcome};
use crate::report::read::directory::StoredLine;
use crate::scenario::Scenario;
use shared::catalog::StateValue;
use shared::event::{CaState, Event};
use shared::model::live::samples::sample;
use shared::model::queue::{QueueSample, QueueState};
use shared::model::run::FlowRecord;

const SCENARIO: &str = "title=\"t\"\nclaim=\"c\"\nprofile=\"native\"\nduration=\"60s\"\nruns=1\nseed=1\nsample=\"10ms\"\n\
    [[link]]\nends=[\"s\",\"r\"]\nrate=\"10mbit\"\ndelay=\"20ms\"\nqueue=\"1bdp\"\n\
    change=[{ at=\"30s\", rate=\"20mbit\", delay=\"40ms\" }]\n\
    [[flow]]\nname=\"f\"\nfrom=\"s\"\nto=\"r\"\nalgorithm=\"reno\"\n";
const MSS: u32 = 1448;

/// An event at a time in seconds, with a window that is in flight.
fn line(at: f64, cwnd: u32, delivered: u32, phase: &str) -> StoredLine {
    let event = Event {
        cwnd_pkts: cwnd,
        inflight_pkts: cwnd,
        delivered_pkts: delivered,
        mss_bytes: MSS,
        lost_pkts: 0,
        ca_state: CaState::Open,
        algorithm: "own".into(),
        ..sample(7, (at * 1e9).round() as u64)
    };
    let state =
        [("gain", StateValue::Unsigned(230)), ("pair", StateValue::List([1, 2].map(StateValue::Unsigned).into()))];
    let state = state.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    StoredLine { event, phase: Some(phase.to_owned()), state }
}

/// A flow over 4 s that delivers 800 packets per second with 30 in flight. It starts up for a second, drains for half a
/// second and loses 10 packets at 3 s, where its window is halved.
fn flow() -> Vec<StoredLine> {
    let mut lines: Vec<StoredLine> = Vec::new();
    for step in 0..=400_u32 {
        let at = f64::from(step) / 100.0;
        let phase = match step {
            0..100 => "startup",
            100..150 => "drain",
            _ => "cruise",
        };
        let mut one = line(at, if step < 300 { 30 } else { 15 }, 8 * step, phase);
        one.event.lost_pkts = if step < 300 { 0 } else { 10 };
        one.event.ca_state = if (300..310).contains(&step) { CaState::Recovery } else { CaState::Open };
        lines.push(one);
    }
    lines
}

/// `holds`, or why not.
fn judged(check: &str, lines: &[StoredLine]) -> String {
    judged_with(check, lines, &[])
}

fn judged_with(check: &str, lines: &[StoredLine], queues: &[QueueSample]) -> String {
    let text = format!("{SCENARIO}[[check]]\nname=\"n\"\nwhy=\"w\"\n{check}\n");
    let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let record = FlowRecord { name: "f".into(), socket: Some(7), ..FlowRecord::default() };
    let cell = &scenario.cells[0];
    let outcome = match Timeline::of(&record, lines, queues, 0.0, cell) {
        Ok(timeline) => window::judge(&scenario.checks[0], &timeline),
        Err(unrecorded) => Outcome::Unrecorded(unrecorded),
    };
    match outcome {
        Outcome::Holds(moments) => format!("holds at {moments}"),
        Outcome::Broken(broken) => broken.why,
        Outcome::Unrecorded(unrecorded) => format!("unrecorded: {}; {}", unrecorded.why, unrecorded.advice),
    }
}

#[test]
fn check_holds_or_names_the_first_moment_and_value_that_break_it() {
    let flow = flow();
    for (check, said) in [
        ("what=\"inflight_pkts\"\nat_most=\"1bdp\"", "holds at 401"),
        (
            "what=\"inflight_pkts\"\nat_most=\"0.5bdp\"",
            "inflight_pkts is 30 pkts at 0.000 s, and must be at most 0.5bdp (16.667 pkts)",
        ),
        ("what=\"inflight_pkts\"\nat_most=\"0.5bdp\"\nfrom=\"3s\"", "holds at 101"),
        ("what=\"inflight_pkts\"\nat_least=20\nat_most=40\nto=\"2s\"", "holds at 201"),
        ("what=\"phase\"\nis=\"drain\"\nmust=\"reach\"", "holds at 101"),
        (
            "what=\"phase\"\nis=\"up\"\nmust=\"reach\"",
            "phase is never up from 0.000 s to 4.000 s; it is cruise at 4.000 s",
        ),
        ("what=\"phase\"\nis=[\"up\", \"refill\"]\nmust=\"never\"", "holds at 401"),
        ("what=\"phase\"\nis=\"drain\"\nmust=\"never\"", "phase is drain at 1.000 s, and must never be drain"),
        ("what=\"phase\"\nis_not=\"startup\"\nfrom=\"1s\"", "holds at 301"),
        ("what=\"app_limited\"\nis=false", "holds at 401"),
        ("what=\"ca_state\"\nis=\"Loss\"\nmust=\"never\"", "holds at 401"),
        // 800 packets per second of 1448 bytes are 96 % of the rate.
        ("what=\"delivery_rate_bps\"\nover=\"1s\"\nat_least=\"95%\"\nfrom=\"1s\"", "holds at 301"),
        (
            "what=\"delivery_rate_bps\"\nover=\"1s\"\nat_least=\"98%\"\nfrom=\"1s\"",
            "delivery_rate_bps over 1s is 9.267 Mbit/s at 1.000 s, and must be at least 98% (9.46 Mbit/s)",
        ),
        ("what=\"sent_pkts\"\nover=\"1s\"\nat_most=850", "holds at 401"),
        (
            "what=\"sent_pkts\"\nover=\"1s\"\nat_most=750",
            "sent_pkts over 1s is 752 pkts at 0.940 s, and must be at most 750",
        ),
        ("what=\"srtt_us\"\nat_most=\"100rtt\"", "holds at 401"),
        ("what=\"cwnd_pkts\"\nat_most=\"1 inflight_pkts\"", "holds at 401"),
    ] {
        assert_eq!(judged(check, &flow), said, "{check}");
    }
}

#[test]
fn window_begins_and_ends_with_conditions_rounds_and_times() {
    let flow = flow();
    let after = "after=[{ what=\"phase\", is=\"drain\" }]";
    for (check, said) in [
        // 8 packets are delivered every 10 ms, so a round of 30 packets takes 40 ms.
        (format!("what=\"phase\"\nis=\"drain\"\nwithin=\"1round\"\n{after}"), "holds at 5"),
        (format!("what=\"phase\"\nis=\"drain\"\nwithin=\"3rounds\"\n{after}"), "holds at 13"),
        (format!("what=\"phase\"\nis=\"drain\"\nwithin=\"200ms\"\n{after}"), "holds at 21"),
        (format!("what=\"phase\"\nis=\"cruise\"\nmust=\"reach\"\nwithin=\"13rounds\"\n{after}"), "holds at 51"),
        (
            format!("what=\"phase\"\nis=\"cruise\"\nmust=\"reach\"\nwithin=\"12rounds\"\n{after}"),
            "phase is never cruise from 1.000 s to 1.480 s; it is drain at 1.480 s",
        ),
        (format!("what=\"phase\"\nis=\"drain\"\n{after}\nuntil=[{{ what=\"phase\", is=\"cruise\" }}]"), "holds at 50"),
        ("what=\"cwnd_pkts\"\nat_most=15\nwhile=[{ what=\"lost_pkts\", at_least=1 }]".into(), "holds at 101"),
        ("what=\"next_phase\"\nis=\"drain\"\nwhile=[{ what=\"phase\", is=\"startup\" }]".into(), "holds at 100"),
        (
            "what=\"next_phase\"\nis=\"up\"\nwhile=[{ what=\"phase\", is=\"drain\" }]".into(),
            "next_phase is cruise at 1.000 s, and must be up",
        ),
        // The window is halved at the loss, and is 30 just before it.
        (
            "what=\"cwnd_pkts\"\nat_most=\"0.5 before\"\nmust=\"reach\"\nwithin=\"1round\"\n\
             each=[{ what=\"lost_pkts\", over=\"1round\", at_least=1 }]"
                .into(),
            "holds at 1",
        ),
        (
            "what=\"cwnd_pkts\"\nat_most=\"0.4 before\"\nmust=\"reach\"\nwithin=\"1round\"\n\
             each=[{ what=\"ca_state\", is=\"Recovery\" }]"
                .into(),
            "cwnd_pkts is never at most 0.4 before (12 pkts) from 3.000 s to 3.020 s; it is 15 pkts at 3.020 s",
        ),
        // Only the part of a window that is recorded is judged, and its end decides nothing.
        (
            "what=\"phase\"\nis=\"cruise\"\neach=[{ what=\"delivered_pkts\", at_least=3100 }]\nwithin=\"5s\"".into(),
            "holds at 13",
        ),
    ] {
        assert_eq!(judged(&check, &flow), said, "{check}");
    }
}

/// The next phase of `drain` was `drain`, because the last event of `startup` had the same time as the first of `drain`.
#[test]
fn events_of_one_moment_count_as_the_last_of_them() {
    let flow =
        [line(0.0, 9, 0, "startup"), line(1.0, 9, 9, "startup"), line(1.0, 9, 9, "drain"), line(2.0, 9, 9, "cruise")];
    let after = |phase: &str, next: &str| {
        judged(&format!("what=\"next_phase\"\nis=\"{next}\"\nwhile=[{{ what=\"phase\", is=\"{phase}\" }}]"), &flow)
    };
    assert_eq!([after("startup", "drain"), after("drain", "cruise")], ["holds at 1", "holds at 1"]);
}

#[test]
fn check_that_sees_nothing_does_not_hold_and_says_why() {
    let flow = flow();
    for (check, said) in [
        (
            "what=\"cwnd_pkts\"\nat_most=1\nfrom=\"20s\"\nto=\"40s\"",
            "nothing is judged of cwnd_pkts from 20.000 s to 40.000 s; the flow ends at 4.000 s: no moment of the window \
             counts",
        ),
        (
            "what=\"cwnd_pkts\"\nat_most=99\nwhile=[{ what=\"phase\", is=\"up\" }]",
            "nothing is judged of cwnd_pkts from 0.000 s to 4.000 s: no moment of the window counts",
        ),
        (
            "what=\"cwnd_pkts\"\nat_most=99\nafter=[{ what=\"phase\", is=\"up\" }, { what=\"cwnd_pkts\", at_most=99 }]",
            "nothing is judged, because never phase is up and cwnd_pkts is at most 99 from 0.000 s to 4.000 s",
        ),
        (
            "what=\"phase\"\nis=\"up\"\nmust=\"reach\"\neach=[{ what=\"phase\", is=\"cruise\" }]\nwithin=\"9s\"",
            "nothing is judged of phase from 0.000 s to 4.000 s: no window holds a moment that counts",
        ),
    ] {
        assert_eq!(judged(check, &flow), said, "{check}");
    }
}

#[test]
fn private_fields_have_units_and_missing_ones_are_never_taken_for_granted() {
    let flow = flow();
    let mut bare = flow.clone();
    bare.iter_mut().for_each(|line| (line.phase, line.state) = (None, Default::default()));
    let gain = "what=\"state.gain\"\nunit=\"1/256\"\nat_least=0.89\nat_most=0.91";
    for (check, lines, said) in [
        (gain, &flow, "holds at 401"),
        ("what=\"state.gain\"\nat_least=231", &flow, "state.gain is 230 at 0.000 s, and must be at least 231"),
        ("what=\"state.pair[1]\"\nis=2", &flow, "holds at 401"),
        ("what=\"state.gain\"\nat_most=\"115 state.pair[1]\"", &flow, "holds at 401"),
        (
            "what=\"state.bw\"\nat_most=1",
            &flow,
            "unrecorded: the events of \"own\" have no state.bw; they have gain, pair",
        ),
        (
            "what=\"state.pair\"\nat_most=1",
            &flow,
            "unrecorded: the events of \"own\" have no state.pair; they have gain, pair",
        ),
        (
            gain,
            &bare,
            "unrecorded: the events of \"own\" have no state.gain; virtual time records phases and private fields of the \
             algorithms that `tccc list` shows, not those of a file",
        ),
        (
            "what=\"cwnd_pkts\"\nat_most=99\nuntil=[{ what=\"phase\", is=\"up\" }]",
            &bare,
            "unrecorded: the events of \"own\" have no phases; virtual time records phases and private fields of the \
             algorithms that `tccc list` shows, not those of a file",
        ),
        (
            "what=\"queue_pkts\"\nat_most=99",
            &flow,
            "unrecorded: the queue of s-r was not recorded; `--engine virtual` and `--link tunlink` record queues",
        ),
        (
            "what=\"cwnd_pkts\"\nat_most=99",
            &Vec::new(),
            "unrecorded: the events of flow \"f\" are missing; remove the run's folder, and `tccc run` on the same directory \
             repeats it",
        ),
    ] {
        assert_eq!(judged(check, lines), said, "{check}");
    }
}

#[test]
fn queue_and_path_count_at_their_own_moments() {
    let flow = flow();
    let sample = |step: u64| {
        let state = QueueState { time_ns: step * 1_000_000_000, queue_pkts: 10 * step, ..QueueState::default() };
        QueueSample::of(["s", "r"], state)
    };
    let queues: Vec<QueueSample> = (0..=4).map(sample).collect();
    let queue = |check: &str| judged_with(check, &flow, &queues);
    assert_eq!(queue("what=\"queue_pkts\"\nat_most=40"), "holds at 5");
    assert_eq!(queue("what=\"queue_pkts\"\nlink=[\"s\",\"r\"]\nat_most=\"1bdp\"\nto=\"3s\""), "holds at 4");
    assert_eq!(
        queue("what=\"queue_pkts\"\nat_most=\"1bdp\""),
        "queue_pkts is 40 pkts at 4.000 s, and must be at most 1bdp (33.333 pkts)"
    );
    assert_eq!(queue("what=\"cwnd_pkts\"\nat_most=15\nwhile=[{ what=\"queue_pkts\", at_least=30 }]"), "holds at 101");
    // After the change at 30 s, a BDP is four times as large.
    let late: Vec<StoredLine> = [20.0, 29.9, 30.1, 31.0].map(|at| line(at, 100, 1, "x")).into();
    assert_eq!(judged("what=\"cwnd_pkts\"\nat_most=\"1bdp\"\nfrom=\"30s\"", &late), "holds at 2");
    assert_eq!(
        judged("what=\"cwnd_pkts\"\nat_most=\"1bdp\"", &late),
        "cwnd_pkts is 100 pkts at 20.000 s, and must be at most 1bdp (33.333 pkts)"
    );
}
