//! Properties of every algorithm, and of groups of algorithms.

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tccc::author::ring::property::{Property, history};

use super::*;

fn config() -> ProptestConfig {
    ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
}

fn check(property: Property) {
    // Each property begins with another algorithm, so that no test waits for another's copies.
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

/// 10^6 packets are 100 Gbit/s over 115 ms.
#[test]
fn windows_of_a_million_packets_neither_wrap_nor_jump() {
    check(Property::Large);
}

/// Proportional rate reduction once took the simulated window beyond any that a kernel can hold.
#[test]
fn reduction_after_a_huge_window_stays_within_what_a_kernel_can_hold() {
    let start = operations::Start { cwnd: INFINITE_SSTHRESH, ssthresh: INFINITE_SSTHRESH, clamp: INFINITE_SSTHRESH };
    let ack = Operation::Ack { packets: 1, rtt_us: 1 };
    let (clamp, finish) = (Operation::Clamp { packets: 38 }, Operation::Finish);
    let mut list = vec![finish, finish, clamp, finish, finish, finish, Operation::Lose, Operation::ShrinkMtu, finish];
    list.extend([finish, ack, Operation::Lose, Operation::Undo, ack, Operation::Undo]);
    for id in ["fastfit", "bpf_reno"] {
        history(native::find(id).socket(0), start, &list, |_| {});
    }
}

#[test]
fn events_that_an_algorithm_does_not_name_change_nothing() {
    for (id, others) in [
        ("adaptive", [event::TX_START, event::COMPLETE_CWR, event::LOSS]),
        ("dtcp", [event::TX_START, event::COMPLETE_CWR, event::CWND_RESTART]),
    ] {
        for other in others {
            let mut flow = Endpoint::of(id, 1000, 20);
            flow.sample(&[10_000]);
            let before = (flow.tcp.clone(), flow.cc.private());
            flow.call(|cc, tcp| cc.cwnd_event(tcp, other));
            assert_eq!((flow.tcp.clone(), flow.cc.private()), before, "{id} at event {other}");
        }
    }
}

/// The path may have changed. No path of the twins restarts a window, and their kernel lacks the callback of Linux 7.1.
#[test]
fn lowest_rtt_is_forgotten_after_a_pause() {
    let restart: EndpointStep = |flow| flow.call(|cc, tcp| cc.cwnd_event(tcp, event::CWND_RESTART));
    for id in ["bpf_vegas", "bpf_veno", "bpf_yeah"] {
        for resume in [restart, RESUMPTIONS[0], RESUMPTIONS[1]] {
            let mut flow = Endpoint::avoiding(id, 100);
            flow.ack(1, 40_000);
            resume(&mut flow);
            assert_eq!(flow.field("base_rtt_us"), u64::from(u32::MAX), "{id}");
        }
    }
}

#[test]
fn growth_of_reno_carries_the_rest_past_the_threshold() {
    for id in ["dtcp", "dfr"] {
        let mut flow = Endpoint::of(id, 18, 20);
        for (packets, cwnd, credit, phase) in [(12, 20, 10, "slow_start"), (10, 21, 0, "avoidance")] {
            flow.ack(packets, 40_000);
            assert_eq!((flow.cwnd(), flow.tcp.snd_cwnd_cnt, flow.phase()), (cwnd, credit, phase), "{id}");
        }
    }
}

/// A window below ssthresh would grow back by slow start, which delay does not ask for.
#[test]
fn slow_start_resumes_only_after_a_reduction() {
    // Slowdowns of LEDBAT++ keep the window in the threshold, as its draft says. BBR has no use for the threshold.
    let others = ["ledbatpp", "bpf_bbr", "bpf_bbr3"];
    for algorithm in catalog::all().iter().filter(|algorithm| !others.contains(&algorithm.id.as_str())) {
        for (cwnd, ssthresh) in [(10, INFINITE_SSTHRESH), (2000, 2000)] {
            let mut flow = LoneFlow::of(&algorithm.id, cwnd, ssthresh, [40_000, 100]);
            flow.run_for(1_000_000);
            if flow.ssthresh() == INFINITE_SSTHRESH {
                continue; // nothing but a loss ends its slow start
            }
            let end_us = flow.now_us() + 3_000_000;
            flow.run_until(|flow| flow.now_us() >= end_us || flow.cwnd() < flow.ssthresh());
            assert!(flow.cwnd() >= flow.ssthresh(), "{}: {} below {}", algorithm.id, flow.cwnd(), flow.ssthresh());
        }
    }
}

/// As snd_cwnd_cnt in the kernel. Hybla keeps its own credit there too.
#[test]
fn credit_of_growth_ends_at_a_reduction() {
    for id in ["bpf_highspeed", "bpf_htcp", "bpf_illinois", "tcpfit", "bpf_hybla"] {
        for reduction in [Operation::Lose, Operation::Mark, Operation::TimeOut] {
            let mut connection = Endpoint::of(id, 1000, 2);
            connection.ack(1, 100_000);
            let credit = connection.field("credit");
            assert!(credit > 0, "{id}");
            connection.apply(reduction);
            let left = if id == "bpf_hybla" { credit } else { 0 };
            assert_eq!(connection.field("credit"), left, "{id} {reduction:?}");
        }
    }
}
