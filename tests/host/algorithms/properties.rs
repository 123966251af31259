//! What holds for every algorithm, whatever happens to the connection.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tccc::author::ring::property::{Property, history};
use tccc::catalog;

use crate::algorithms::connection::Connection;
use crate::algorithms::native::{self, CongestionControl, event};
use crate::algorithms::operations::{self, Operation};
use crate::algorithms::path;
use crate::algorithms::reno::Reno;
use crate::algorithms::sender::{Round, SimulatedSender};

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
}

fn check(property: Property) {
    // Each begins with another algorithm, so that none waits for another's copies.
    let all = catalog::all();
    let first = property as usize * all.len() / Property::ALL.len();
    for algorithm in all.iter().cycle().skip(first).take(all.len()) {
        let mut native = native::borrowed(&algorithm.id, &[]);
        let held = property.check(&mut native, algorithm, TestRunner::new(config()));
        held.unwrap_or_else(|why| panic!("{}: {why}", algorithm.id));
    }
}

#[test]
fn windows_stay_sound_and_the_phase_is_declared() {
    check(Property::Sound);
}

#[test]
fn any_tunables_in_range_keep_the_window_sound() {
    check(Property::Tuned);
}

#[test]
fn init_clears_whatever_the_memory_held() {
    check(Property::Init);
}

#[test]
fn a_reduction_never_raises_the_threshold_above_the_window() {
    check(Property::Reduction);
}

#[test]
fn every_algorithm_delivers_over_all_paths() {
    check(Property::Delivery);
}

/// Windows of long fast paths: 10^6 packets are 100 Gbit/s over 115 ms.
#[test]
fn windows_of_a_million_packets_neither_wrap_nor_jump() {
    check(Property::Large);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn bpf_reno_is_reno_whatever_happens(start in operations::start(), list in operations::operations()) {
        let native = native::find("bpf_reno").socket(0);
        prop_assert_eq!(history(native, start, &list, |_| {}), history(Reno, start, &list, |_| {}));
    }

    #[test]
    fn bpf_reno_is_reno_on_random_paths(seed: u64, lost in 0..60u32, marked in 0..20u32, late in 0..20u32) {
        fn rounds<C: CongestionControl>(cc: C, path: path::SimulatedPath) -> Vec<Round> {
            let mut rounds = Vec::new();
            SimulatedSender::new(cc, path).run(|round, _| rounds.push(round.clone()));
            rounds
        }
        let odds = [lost, marked, late];
        let native = native::find("bpf_reno").socket(0);
        prop_assert_eq!(rounds(native, path::random(seed, odds)), rounds(Reno, path::random(seed, odds)));
    }
}

#[test]
fn events_that_an_algorithm_does_not_name_change_nothing() {
    for (id, others) in [
        ("adaptive", [event::TX_START, event::COMPLETE_CWR, event::LOSS]),
        ("dtcp", [event::TX_START, event::COMPLETE_CWR, event::CWND_RESTART]),
    ] {
        for other in others {
            let mut flow = Connection::of(id, 1000, 20);
            flow.sample(&[10_000]);
            let before = (flow.tcp.clone(), flow.cc.private());
            flow.call(|cc, tcp| cc.cwnd_event(tcp, other));
            assert_eq!((flow.tcp.clone(), flow.cc.private()), before, "{id} at event {other}");
        }
    }
}

/// As snd_cwnd_cnt in the kernel; its Hybla has a credit of its own, which stays.
#[test]
fn credit_of_growth_ends_at_a_reduction() {
    for id in ["bpf_highspeed", "bpf_htcp", "bpf_illinois", "tcpfit", "bpf_hybla"] {
        for reduction in [Operation::Lose, Operation::Mark, Operation::TimeOut] {
            let mut connection = Connection::of(id, 1000, 2);
            connection.ack(1, 100_000);
            let credit = connection.field("credit");
            assert!(credit > 0, "{id}");
            connection.apply(reduction);
            let left = if id == "bpf_hybla" { credit } else { 0 };
            assert_eq!(connection.field("credit"), left, "{id} {reduction:?}");
        }
    }
}
