//! Modified TCP SACK against the flow chart and the event table: `bpf/cc/msack.bpf.c`.

mod guard;

use std::sync::LazyLock;

use proptest::prelude::*;

use super::dfr::{LOSE, MARK, REDUCE, TIME_OUT};
use super::*;

/// The average RTT of these connections, and an RTT far above any tolerance.
const NEAR: u32 = 10_000;
const FAR: u32 = 30_000;

/// The paper's algorithm, which has no guard.
fn tuned(settings: &[&str]) -> &'static Native {
    native::tuned("msack", &[&["guard=0"], settings].concat())
}

static PAPER: LazyLock<&Native> = LazyLock::new(|| tuned(&[]));

/// 40 packets in congestion avoidance with an average RTT.
fn steady(native: &Native) -> Endpoint<'_> {
    let mut connection = Endpoint::over(native, 40, 20);
    connection.hear(Some(NEAR));
    connection
}

fn msack() -> Endpoint<'static> {
    steady(*PAPER)
}

/// Passes an ACK with this RTT and losses, and the next ACK, which brings the verdict inside recovery.
fn tell(connection: &mut Endpoint, rtt_us: u32, losses: u32) {
    connection.hear(Some(rtt_us));
    connection.mark_lost(losses);
    connection.hear(None);
}

/// A loss far above the average RTT.
const FAR_LOSS: EndpointStep = |connection| tell(connection, FAR, 1);

fn counters(connection: &Endpoint) -> [u64; 4] {
    connection.fields(["random", "postponed", "cut", "rtos"])
}

#[test]
fn tolerance_parts_random_from_postponed() {
    let check = |tolerance: u32, random_us: &[u32], postponed_us: &[u32]| {
        let native = tuned(&[&format!("tolerance={tolerance}")]);
        for (samples, expected) in [(random_us, "random"), (postponed_us, "postponed")] {
            for &rtt_us in samples {
                let mut connection = steady(native);
                connection.hear(Some(rtt_us));
                connection.mark_lost(1);
                assert_eq!(connection.verdict(), expected, "{rtt_us} us, tolerance {tolerance} %");
                assert_eq!((connection.phase(), connection.ssthresh()), (expected, 40));
            }
        }
    };
    check(0, &[1, 9_000, 10_000], &[10_001, 10_500, 100_000_000]);
    check(2, &[1, 10_200], &[10_201, 11_000]);
    check(10, &[1, 10_001, 11_000], &[11_001, 12_000]);
    check(20, &[1, 12_000], &[12_001, i32::MAX as u32]);
    check(100, &[1, 20_000], &[20_001]);
}

#[test]
fn tolerance_inside_recovery_is_of_the_frozen_average_and_shown_in_thousandths() {
    let random = [5_000, 9_000, NEAR].map(|rtt_us| (rtt_us, "random", 0));
    let others = [(11_000, "random", 100), (11_001, "postponed", 100), (12_345, "postponed", 234)];
    for (rtt_us, expected, permille) in random.into_iter().chain(others).chain([(FAR, "postponed", 2_000)]) {
        let mut connection = msack();
        tell(&mut connection, NEAR, 1);
        tell(&mut connection, rtt_us, 1);
        assert_eq!(connection.verdict(), expected, "{rtt_us} us");
        let shown = connection.fields(["deviation_permille", "rtt_last_us", "rtt_avg_us"]);
        assert_eq!(shown, [permille, rtt_us.into(), NEAR.into()]);
    }
}

/// Verdict, phase, threshold, counters, and whether the next loss is a first one.
type Judged<'s> = (&'s str, &'s str, u32, [u64; 4], bool);

/// Passes RTTs with losses, one ACK after another, in one recovery of 40 packets.
fn check(native: &Native, told: &[(u32, u32)], expected: Judged) {
    let mut connection = steady(native);
    for &(rtt_us, losses) in told {
        tell(&mut connection, rtt_us, losses);
    }
    let verdict = connection.verdict();
    let first = connection.is_first_loss();
    let seen = (verdict.as_str(), connection.phase(), connection.ssthresh(), counters(&connection), first);
    assert_eq!(seen, expected, "{told:?}");
    let at_end = connection.ssthresh();
    connection.end_recovery();
    assert_eq!(connection.cwnd(), at_end, "{told:?}");
}

#[test]
fn flow_chart_in_mode_dfr() {
    let check = |told: &[(u32, u32)], expected: Judged| check(*PAPER, told, expected);
    check(&[(NEAR, 1)], ("random", "random", 40, [1, 0, 0, 0], true));
    check(&[(NEAR, 5)], ("random", "random", 40, [1, 0, 0, 0], true));
    check(&[(FAR, 1)], ("postponed", "postponed", 40, [0, 1, 0, 0], false));
    check(&[(FAR, 2)], ("cut", "recovery", 20, [0, 0, 1, 0], true));
    check(&[(NEAR, 1), (NEAR, 1)], ("random", "random", 40, [2, 0, 0, 0], true));
    check(&[(NEAR, 1), (NEAR, 4)], ("random", "random", 40, [2, 0, 0, 0], true));
    check(&[(NEAR, 1), (FAR, 1)], ("postponed", "postponed", 40, [1, 1, 0, 0], false));
    check(&[(NEAR, 1), (FAR, 2)], ("cut", "recovery", 20, [1, 0, 1, 0], true));
    check(&[(NEAR, 1), (FAR, 1), (FAR, 1)], ("cut", "recovery", 20, [1, 1, 1, 0], true));
    check(&[(FAR, 1), (NEAR, 1)], ("random", "postponed", 40, [1, 1, 0, 0], false));
    check(&[(FAR, 1), (NEAR, 3), (FAR, 1)], ("cut", "recovery", 20, [1, 1, 1, 0], true));
    check(&[(FAR, 1), (FAR, 1)], ("cut", "recovery", 20, [0, 1, 1, 0], true));
    // One cut per recovery.
    check(&[(FAR, 1), (FAR, 1), (FAR, 1), (NEAR, 1)], ("cut", "recovery", 20, [0, 1, 1, 0], true));
}

#[test]
fn flow_chart_in_mode_strict() {
    let native = tuned(&["mode=1"]);
    let check = |told: &[(u32, u32)], expected: Judged| check(native, told, expected);
    check(&[(NEAR, 1)], ("random", "random", 40, [1, 0, 0, 0], true));
    check(&[(NEAR, 1), (NEAR, 2)], ("random", "random", 40, [2, 0, 0, 0], true));
    check(&[(FAR, 1)], ("cut", "recovery", 20, [0, 0, 1, 0], true));
    check(&[(NEAR, 1), (FAR, 1)], ("cut", "recovery", 20, [1, 0, 1, 0], true));
    check(&[(FAR, 1), (NEAR, 1), (FAR, 1)], ("cut", "recovery", 20, [0, 0, 1, 0], true));
}

#[test]
fn loss_before_any_average_is_above_the_tolerance() {
    for (mode, expected) in [("mode=0", "postponed"), ("mode=1", "cut")] {
        let mut connection = Endpoint::over(tuned(&[mode, "tolerance=100"]), 40, 20);
        connection.hear(None);
        connection.mark_lost(1);
        assert_eq!((connection.verdict().as_str(), connection.field("deviation_permille")), (expected, 0));
    }
}

#[test]
fn first_loss_is_one_again_when_the_window_of_the_postponed_one_has_passed() {
    for una in [0, u32::MAX - 39, u32::MAX - 45, u32::MAX / 2] {
        let postponed = || {
            let mut connection = msack();
            let tcp = &mut connection.tcp;
            (tcp.snd_una, tcp.snd_nxt) = (una, una.wrapping_add(40));
            tell(&mut connection, NEAR, 1);
            // A loss ten packets later is postponed. Its window ends after the one that recovery waits for.
            connection.tcp.snd_nxt = una.wrapping_add(50);
            tell(&mut connection, FAR, 1);
            connection.end_recovery();
            assert!(!connection.is_first_loss(), "40 of 50 packets are acknowledged");
            connection
        };
        let mut before = postponed();
        tell(&mut before, FAR, 1);
        assert_eq!((before.verdict().as_str(), before.ssthresh()), ("cut", 20));
        let mut random = postponed();
        tell(&mut random, NEAR, 1);
        assert_eq!((random.verdict().as_str(), random.phase(), random.is_first_loss()), ("random", "random", false));
        let mut after = postponed();
        after.acknowledge_to(una.wrapping_add(49));
        assert!(!after.is_first_loss());
        after.acknowledge_to(una.wrapping_add(50));
        assert!(after.is_first_loss());
        tell(&mut after, FAR, 1);
        assert_eq!((after.verdict().as_str(), after.ssthresh()), ("postponed", 40));
    }
}

#[test]
fn marks_probes_and_timeouts_cut_whatever_the_rtt() {
    let check = |what: &str, steps: &[EndpointStep], verdict: &str, counted: [u64; 4]| {
        let connection = msack().through(steps);
        let seen = (connection.ssthresh(), connection.verdict(), counters(&connection));
        assert_eq!((seen, connection.is_first_loss()), ((20, verdict.to_owned(), counted), true), "{what}");
    };
    let near: EndpointStep = |connection| tell(connection, NEAR, 1);
    check("a mark", &[MARK, REDUCE], "mark", [0, 0, 1, 0]);
    check("a loss with a mark", &[MARK, LOSE], "mark", [0, 0, 1, 0]);
    check("marks in recovery", &[near, MARK, MARK], "mark", [1, 0, 1, 0]);
    check("a probe that repaired a loss", &[REDUCE], "cut", [0, 0, 1, 0]);
    check("a timeout", &[TIME_OUT], "timeout", [0, 0, 0, 1]);
    for timeouts in 1..=3 {
        let after = |step: EndpointStep| [&[step][..], &[TIME_OUT; 3][..timeouts]].concat();
        check("timeouts after a random loss", &after(near), "timeout", [1, 0, 0, 1]);
        check("timeouts after a postponed cut", &after(FAR_LOSS), "timeout", [0, 1, 0, 1]);
    }
}

#[test]
fn undo_restores_the_window_and_the_next_loss_is_a_first_one() {
    for (steps, ssthresh) in [(&[FAR_LOSS, FAR_LOSS] as &[EndpointStep], 30), (&[FAR_LOSS], 40)] {
        let mut connection = msack().through(steps);
        connection.undo();
        let seen = (connection.windows(), connection.is_first_loss());
        assert_eq!(seen, ((40, ssthresh), true), "{} losses", steps.len());
    }
}

#[test]
fn restart_after_idle_keeps_the_average_and_makes_the_next_loss_a_first_one() {
    let mut connection = msack();
    tell(&mut connection, FAR, 1);
    let average = connection.field("rtt_avg");
    connection.set_state(state::OPEN);
    connection.call(|cc, tcp| cc.cwnd_event(tcp, event::TX_START));
    assert!(!connection.is_first_loss());
    connection.restart_after_idle(3, 10);
    assert_eq!((connection.is_first_loss(), connection.field("rtt_avg")), (true, average));
}

#[test]
fn average_rests_in_recovery_and_loss_only() {
    let native = tuned(&["average_by_round=0"]);
    for ca_state in [state::OPEN, state::DISORDER, state::CWR, state::RECOVERY, state::LOSS] {
        let mut connection = steady(native);
        connection.tcp.ca_state = ca_state;
        connection.hear(None);
        assert_eq!(connection.fields(["rtt_avg_us", "rtt_last_us"]), [10_000, 10_000]);
        connection.hear(Some(18_000));
        let average = if [state::RECOVERY, state::LOSS].contains(&ca_state) { 10_000 } else { 11_000 };
        assert_eq!(connection.fields(["rtt_avg_us", "rtt_last_us"]), [average, 18_000]);
    }
}

#[test]
fn average_takes_one_sample_a_round_trip() {
    for una in [0, u32::MAX - 20, u32::MAX / 2 - 20] {
        let mut connection = Endpoint::over(native::find("msack"), 40, 20);
        let tcp = &mut connection.tcp;
        (tcp.snd_una, tcp.snd_nxt) = (una, una.wrapping_add(40));
        let mut check = |acknowledged: u32, rtt_us: u32, average: u64| {
            let tcp = &mut connection.tcp;
            tcp.snd_una = una.wrapping_add(acknowledged);
            tcp.snd_nxt = tcp.snd_una.wrapping_add(40);
            connection.hear(Some(rtt_us));
            assert_eq!(connection.field("rtt_avg_us"), average, "{acknowledged} packets after {una}");
        };
        check(1, 10_000, 10_000);
        check(2, 18_000, 10_000);
        check(40, 18_000, 10_000);
        check(41, 18_000, 11_000);
        check(80, 19_000, 11_000);
        check(81, 19_000, 12_000);
    }
}

#[test]
fn average_has_its_gain_as_tunable() {
    for (gain, expected) in [(1, 10_010), (512, 15_120), (1024, 20_240)] {
        let mut connection = steady(tuned(&["average_by_round=0", &format!("average_gain={gain}")]));
        connection.hear(Some(20_240));
        assert_eq!(connection.field("rtt_avg_us"), expected, "gain {gain}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// For RTTs from 0 to 2^31 us: each step of the average is below the exact one by less than 1/1024 us, which adds up to
    /// 8/1024 us. Decisions that do not depend on this error agree.
    #[test]
    fn average_and_decision_are_those_of_exact_arithmetic(
        samples in proptest::collection::vec((0..=0x7fff_ffffu32, 0..31u32), 1..60), tolerance in 0..=100u32,
    ) {
        let settings = ["guard=0", "average_by_round=0", &format!("tolerance={tolerance}")];
        let native = native::borrowed("msack", &settings);
        let samples: Vec<u32> = samples.into_iter().map(|(rtt_us, shift)| rtt_us >> shift).collect();
        let exact = samples.iter().map(|&rtt| f64::from(rtt.max(1))).reduce(|average, rtt| average + (rtt - average) / 8.0);
        let exact = exact.unwrap();
        let mut connection = Endpoint::over(&native, 40, 20);
        for &rtt_us in &samples {
            connection.hear(Some(rtt_us));
        }
        let average = connection.field("rtt_avg") as f64 / 1024.0;
        prop_assert!((average..=average + 8.0 / 1024.0 + exact * 1e-12).contains(&exact), "{} for {}", average, exact);
        connection.mark_lost(1);
        let rtt = f64::from(samples[samples.len() - 1].max(1));
        let deviation = (rtt / exact - 1.0) * 100.0 - f64::from(tolerance);
        if deviation.abs() > 1.0 {
            prop_assert_eq!(connection.verdict(), if deviation < 0.0 { "random" } else { "postponed" });
        }
        let shown = connection.field("deviation_permille") as f64;
        let expected = ((rtt / average - 1.0) * 1000.0).clamp(0.0, f64::from(u32::MAX));
        prop_assert!((shown - expected).abs() <= 1.0, "{} for {}", shown, expected);
    }
}

#[test]
fn longest_deviation_saturates() {
    let mut connection = Endpoint::over(tuned(&["average_gain=1"]), 40, 20);
    connection.hear(Some(1));
    tell(&mut connection, 1, 1);
    tell(&mut connection, 100_000_000, 1);
    let shown = (connection.field("deviation_permille"), connection.verdict());
    assert_eq!(shown, (u32::MAX.into(), "postponed".into()));
}
