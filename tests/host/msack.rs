//! Modified TCP SACK against the flow chart and the event table: `bpf/cc/msack.bpf.c`.

use std::sync::OnceLock;

use proptest::prelude::*;
use tccc::catalog;

use crate::dfr::Connection;
use crate::native::CongestionControl;
use crate::native::{self, INFINITE_SSTHRESH, Native, event, state};

/// The average RTT of these connections, and an RTT above it by far more than any tolerance.
const RTT_US: u32 = 10_000;
const LONG_RTT_US: u32 = 30_000;

fn set(native: &mut Native, settings: &[&str]) {
    for setting in catalog::find("msack").unwrap().settings(settings).unwrap() {
        native.set(&setting.name, &setting.bytes);
    }
}

/// The paper's algorithm, which has no guard, with these settings.
fn tuned(settings: &[&str]) -> Native {
    let mut native = native::own("msack");
    set(&mut native, &["guard=0"]);
    set(&mut native, settings);
    native
}

fn paper() -> &'static Native {
    static COPY: OnceLock<Native> = OnceLock::new();
    COPY.get_or_init(|| tuned(&[]))
}

/// 40 packets in linear growth and an average RTT.
fn steady(native: &Native) -> Connection<'_> {
    let mut connection = Connection::new(native, 40, 20);
    connection.ack(0, Some(RTT_US));
    connection
}

fn msack() -> Connection<'static> {
    steady(paper())
}

/// As it is loaded by default.
fn guarded() -> Connection<'static> {
    steady(native::find("msack"))
}

/// An ACK with this RTT tells of so many losses; inside recovery the ACK after it brings the verdict.
fn tell(connection: &mut Connection, rtt_us: u32, losses: u32) {
    connection.ack(0, Some(rtt_us));
    connection.lose(losses);
    connection.ack(0, None);
}

/// random, postponed, cut, rtos.
fn counters(connection: &Connection) -> [u64; 4] {
    ["random", "postponed", "cut", "rtos"].map(|name| connection.number(name))
}

#[test]
fn tolerance_parts_random_from_postponed() {
    let mut native = tuned(&[]);
    let mut check = |tolerance: u32, random_us: &[u32], postponed_us: &[u32]| {
        set(&mut native, &[&format!("tolerance={tolerance}")]);
        for (samples, expected) in [(random_us, "random"), (postponed_us, "postponed")] {
            for &rtt_us in samples {
                let mut connection = steady(&native);
                connection.ack(0, Some(rtt_us));
                connection.lose(1);
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
fn tolerance_inside_recovery_is_of_the_frozen_average() {
    for (rtt_us, expected) in [(9_000, "random"), (10_000, "random"), (11_000, "random"), (11_001, "postponed")] {
        let mut connection = msack();
        tell(&mut connection, RTT_US, 1);
        tell(&mut connection, rtt_us, 1);
        assert_eq!(connection.verdict(), expected, "{rtt_us} us");
    }
}

#[test]
fn deviation_is_shown_in_thousandths_and_never_negative() {
    for (rtt_us, permille) in [(RTT_US, 0), (5_000, 0), (11_001, 100), (12_345, 234), (30_000, 2_000)] {
        let mut connection = msack();
        tell(&mut connection, RTT_US, 1);
        tell(&mut connection, rtt_us, 1);
        assert_eq!(connection.number("deviation_permille"), permille);
        assert_eq!(connection.number("rtt_last_us"), u64::from(rtt_us));
        assert_eq!(connection.number("rtt_avg_us"), u64::from(RTT_US));
    }
}

/// What is seen after a loss: verdict, phase, threshold, counters, and whether the next loss is a first one.
type Seen<'s> = (&'s str, &'s str, u32, [u64; 4], bool);

/// Losses one ACK after another, each with the RTT of its ACK, in one recovery of 40 packets.
fn check(native: &Native, told: &[(u32, u32)], expected: Seen) {
    let mut connection = steady(native);
    for &(rtt_us, losses) in told {
        tell(&mut connection, rtt_us, losses);
    }
    let verdict = connection.verdict();
    let first = connection.is_first_loss();
    let seen = (verdict.as_str(), connection.phase(), connection.ssthresh(), counters(&connection), first);
    assert_eq!(seen, expected, "{told:?}");
    let at_end = connection.ssthresh();
    connection.recover();
    assert_eq!(connection.kernel.tcp.snd_cwnd, at_end, "{told:?}");
}

#[test]
fn flow_chart_in_mode_dfr() {
    const NEAR: u32 = RTT_US;
    const FAR: u32 = LONG_RTT_US;
    let check = |told: &[(u32, u32)], expected: Seen| check(paper(), told, expected);
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
    // One cut a recovery, and nothing to judge after it.
    check(&[(FAR, 1), (FAR, 1), (FAR, 1), (NEAR, 1)], ("cut", "recovery", 20, [0, 1, 1, 0], true));
}

#[test]
fn text_beside_it_in_mode_strict() {
    const NEAR: u32 = RTT_US;
    const FAR: u32 = LONG_RTT_US;
    let native = tuned(&["mode=1"]);
    let check = |told: &[(u32, u32)], expected: Seen| check(&native, told, expected);
    check(&[(NEAR, 1)], ("random", "random", 40, [1, 0, 0, 0], true));
    check(&[(NEAR, 1), (NEAR, 2)], ("random", "random", 40, [2, 0, 0, 0], true));
    check(&[(FAR, 1)], ("cut", "recovery", 20, [0, 0, 1, 0], true));
    check(&[(NEAR, 1), (FAR, 1)], ("cut", "recovery", 20, [1, 0, 1, 0], true));
    check(&[(FAR, 1), (NEAR, 1), (FAR, 1)], ("cut", "recovery", 20, [0, 0, 1, 0], true));
}

#[test]
fn loss_before_any_average_is_above_the_tolerance() {
    for (mode, expected) in [("mode=0", "postponed"), ("mode=1", "cut")] {
        let native = tuned(&[mode, "tolerance=100"]);
        let mut connection = Connection::new(&native, 40, 20);
        connection.ack(0, None);
        connection.lose(1);
        assert_eq!((connection.verdict().as_str(), connection.number("deviation_permille")), (expected, 0));
    }
}

#[test]
fn first_loss_is_one_again_when_the_window_of_the_postponed_one_has_passed() {
    for una in [0, u32::MAX - 39, u32::MAX - 45, u32::MAX / 2] {
        let postponed = || {
            let mut connection = msack();
            let tcp = &mut connection.kernel.tcp;
            (tcp.snd_una, tcp.snd_nxt) = (una, una.wrapping_add(40));
            tell(&mut connection, RTT_US, 1);
            // Ten packets later a loss is postponed: its window ends beyond the one that recovery waits for.
            connection.kernel.tcp.snd_nxt = una.wrapping_add(50);
            tell(&mut connection, LONG_RTT_US, 1);
            connection.recover();
            assert!(!connection.is_first_loss(), "40 of 50 packets are acknowledged");
            connection
        };
        let mut before = postponed();
        tell(&mut before, LONG_RTT_US, 1);
        assert_eq!((before.verdict().as_str(), before.ssthresh()), ("cut", 20));
        let mut random = postponed();
        tell(&mut random, RTT_US, 1);
        assert_eq!((random.verdict().as_str(), random.phase(), random.is_first_loss()), ("random", "random", false));
        let mut after = postponed();
        after.acknowledge_to(una.wrapping_add(49));
        assert!(!after.is_first_loss());
        after.acknowledge_to(una.wrapping_add(50));
        assert!(after.is_first_loss());
        tell(&mut after, LONG_RTT_US, 1);
        assert_eq!((after.verdict().as_str(), after.ssthresh()), ("postponed", 40));
    }
}

#[test]
fn random_loss_in_slow_start_lets_it_go_on() {
    let mut connection = Connection::new(native::find("msack"), 40, INFINITE_SSTHRESH);
    tell(&mut connection, RTT_US, 1);
    assert_eq!((connection.ssthresh(), connection.phase()), (40, "random"));
    connection.recover();
    assert_eq!((connection.kernel.tcp.snd_cwnd, connection.ssthresh()), (40, INFINITE_SSTHRESH));
}

/// The verdicts on so many ACKs in a row, each of which tells of so many losses at the average RTT.
fn row(connection: &mut Connection, acks: usize, losses: u32) -> Vec<String> {
    let mut verdicts = Vec::new();
    for _ in 0..acks {
        tell(connection, RTT_US, losses);
        verdicts.push(connection.verdict());
    }
    verdicts
}

/// It went wrong where linear growth filled the queue: the average followed, and every loss at the overflow was random.
#[test]
fn guard_cuts_at_the_overflow_of_a_slowly_filled_queue_at_any_window() {
    for capacity in [20, 50, 80, 400, 10_000] {
        let at_overflow = |native: &Native| {
            let mut connection = Connection::new(native, capacity, 20);
            for queued in 0..=capacity {
                let rtt_us = (u64::from(RTT_US) * u64::from(capacity + queued) / u64::from(capacity)) as u32;
                let tcp = &mut connection.kernel.tcp;
                tcp.snd_cwnd = capacity + queued;
                (tcp.snd_una, tcp.snd_nxt) = (tcp.snd_nxt, tcp.snd_nxt + tcp.snd_cwnd);
                connection.ack(1_000, Some(rtt_us));
            }
            connection.lose(1);
            (connection.verdict(), connection.ssthresh())
        };
        let is_hidden = capacity >= 50;
        let by_paper = if is_hidden { ("random".into(), 2 * capacity) } else { ("postponed".into(), 2 * capacity) };
        assert_eq!(at_overflow(paper()), by_paper, "{capacity} packets");
        let expected = if is_hidden { ("guard".into(), capacity) } else { by_paper };
        assert_eq!(at_overflow(native::find("msack")), expected, "{capacity} packets");
    }
}

#[test]
fn guard_cuts_from_three_queued_packets_on() {
    for (cwnd, forgiven_us, cut_us) in [(40, 10_810, 10_811), (400, 10_075, 10_076), (35, 10_937, 10_938)] {
        for (rtt_us, expected) in [(9_000, "random"), (RTT_US, "random"), (forgiven_us, "random"), (cut_us, "guard")] {
            let mut connection = Connection::new(native::find("msack"), cwnd, 20);
            connection.ack(0, Some(RTT_US));
            connection.ack(0, Some(rtt_us));
            connection.lose(1);
            assert_eq!(connection.verdict(), expected, "{rtt_us} us at {cwnd} packets");
            let kept = if expected == "guard" { cwnd / 2 } else { cwnd };
            assert_eq!(connection.ssthresh(), kept, "{rtt_us} us at {cwnd} packets");
        }
    }
}

#[test]
fn guard_inside_recovery_cuts_the_window_of_its_beginning() {
    let mut connection = guarded();
    tell(&mut connection, RTT_US, 1);
    tell(&mut connection, 10_900, 1);
    assert_eq!((connection.verdict().as_str(), connection.ssthresh()), ("guard", 20));
    assert_eq!((counters(&connection), connection.phase()), ([1, 0, 1, 0], "recovery"));
}

#[test]
fn guard_leaves_what_is_above_the_tolerance_to_the_parent() {
    let mut connection = guarded();
    tell(&mut connection, LONG_RTT_US, 1);
    assert_eq!((connection.verdict().as_str(), connection.ssthresh()), ("postponed", 40));
}

/// It went wrong where several losses came with one ACK: the guard counted ACKs.
#[test]
fn guard_counts_losses_and_not_the_acks_that_tell_of_them() {
    for (acks, losses) in [(8, 1), (4, 2), (2, 4), (1, 8)] {
        let mut connection = guarded();
        assert_eq!(row(&mut connection, acks, losses), vec!["random"; acks], "{losses} losses an ACK");
        assert_eq!((connection.ssthresh(), connection.number("budget")), (40, 0));
        assert_eq!(row(&mut connection, 1, 1), ["guard"], "{losses} losses an ACK");
        assert_eq!((connection.ssthresh(), connection.phase()), (20, "recovery"));
        assert_eq!(connection.number("budget"), 8_000, "a cut fills the budget");
    }
    assert_eq!(row(&mut guarded(), 1, 9), ["guard"], "more at once than the budget holds");
}

#[test]
fn guard_forgives_over_recoveries_what_delivered_packets_earned() {
    let mut connection = guarded();
    row(&mut connection, 8, 1);
    connection.recover();
    connection.kernel.tcp.delivered += 99;
    let mut early = guarded();
    row(&mut early, 8, 1);
    early.recover();
    early.kernel.tcp.delivered += 99;
    assert_eq!(row(&mut early, 1, 1), ["guard"], "99 packets earn less than one loss at 1 %");
    connection.kernel.tcp.delivered += 1;
    assert_eq!(row(&mut connection, 2, 1), ["random", "guard"]);
    let mut long = guarded();
    row(&mut long, 8, 1);
    long.recover();
    long.kernel.tcp.delivered = long.kernel.tcp.delivered.wrapping_add(u32::MAX);
    assert_eq!(row(&mut long, 9, 1)[7..], ["random", "guard"], "no more than eight are earned");
}

#[test]
fn guard_s_budget_outlasts_a_postponed_cut_and_is_full_after_a_timeout() {
    let mut postponed = guarded();
    row(&mut postponed, 7, 1);
    tell(&mut postponed, LONG_RTT_US, 1);
    assert_eq!(postponed.verdict(), "postponed");
    assert_eq!(row(&mut postponed, 2, 1), ["random", "guard"]);
    let mut timeout = guarded();
    row(&mut timeout, 8, 1);
    timeout.time_out();
    timeout.recover();
    assert_eq!(row(&mut timeout, 8, 1), ["random"; 8]);
}

#[test]
fn guard_has_tunables() {
    assert_eq!(row(&mut msack(), 100, 1), vec!["random"; 100], "the paper has none");
    let mut native = tuned(&["guard=1", "guard_losses=3", "guard_share=0"]);
    {
        let mut connection = steady(&native);
        connection.kernel.tcp.delivered += 1_000_000;
        assert_eq!(row(&mut connection, 4, 1), ["random", "random", "random", "guard"]);
    }
    for (queue, rtt_us, expected) in [(1, 10_256, "random"), (1, 10_257, "guard"), (65_535, 11_000, "random")] {
        set(&mut native, &[&format!("guard_queue={queue}")]);
        let mut connection = steady(&native);
        connection.ack(0, Some(rtt_us));
        connection.lose(1);
        assert_eq!(connection.verdict(), expected, "{rtt_us} us, {queue} packets");
    }
}

#[test]
fn mark_cuts_whatever_the_rtt() {
    let mut alone = msack();
    alone.marked_ack();
    alone.kernel.enter_cwr();
    assert_eq!((alone.ssthresh(), alone.verdict().as_str(), counters(&alone)), (20, "mark", [0, 0, 1, 0]));
    let mut with_loss = msack();
    with_loss.marked_ack();
    with_loss.lose(1);
    assert_eq!((with_loss.ssthresh(), counters(&with_loss)), (20, [0, 0, 1, 0]));
    let mut in_recovery = msack();
    tell(&mut in_recovery, RTT_US, 1);
    in_recovery.marked_ack();
    in_recovery.marked_ack();
    assert_eq!((in_recovery.ssthresh(), counters(&in_recovery)), (20, [1, 0, 1, 0]));
}

#[test]
fn probe_that_repaired_a_loss_cuts_whatever_the_rtt() {
    let mut connection = msack();
    connection.kernel.enter_cwr();
    assert_eq!((connection.ssthresh(), connection.verdict().as_str()), (20, "cut"));
    assert_eq!(counters(&connection), [0, 0, 1, 0]);
}

#[test]
fn timeout_halves_whatever_the_rtt() {
    let mut open = msack();
    open.time_out();
    assert_eq!((open.ssthresh(), open.verdict().as_str(), counters(&open)), (20, "timeout", [0, 0, 0, 1]));
    for (rtt_us, before) in [(RTT_US, [1, 0]), (LONG_RTT_US, [0, 1])] {
        let mut in_recovery = msack();
        tell(&mut in_recovery, rtt_us, 1);
        for _ in 0..3 {
            in_recovery.time_out();
            assert_eq!((in_recovery.ssthresh(), in_recovery.is_first_loss()), (20, true));
            assert_eq!(counters(&in_recovery), [before[0], before[1], 0, 1]);
        }
    }
}

#[test]
fn undo_restores_the_window_and_the_next_loss_is_a_first_one() {
    let mut connection = msack();
    tell(&mut connection, LONG_RTT_US, 1);
    tell(&mut connection, LONG_RTT_US, 1);
    connection.kernel.undo();
    assert_eq!((connection.kernel.tcp.snd_cwnd, connection.ssthresh(), connection.is_first_loss()), (40, 30, true));
    let mut postponed = msack();
    tell(&mut postponed, LONG_RTT_US, 1);
    postponed.kernel.undo();
    assert_eq!((postponed.kernel.tcp.snd_cwnd, postponed.is_first_loss()), (40, true));
}

#[test]
fn restart_after_idle_keeps_the_average_and_makes_the_next_loss_a_first_one() {
    let mut connection = msack();
    tell(&mut connection, LONG_RTT_US, 1);
    let average = connection.number("rtt_avg");
    connection.kernel.set_state(state::OPEN);
    connection.kernel.cc.cwnd_event(&mut connection.kernel.tcp, event::TX_START);
    assert!(!connection.is_first_loss());
    connection.kernel.restart_after_idle(3, 10);
    assert_eq!((connection.is_first_loss(), connection.number("rtt_avg")), (true, average));
}

#[test]
fn average_rests_in_recovery_and_loss_only() {
    let native = tuned(&["average_by_round=0"]);
    for (ca_state, moves) in [
        (state::OPEN, true),
        (state::DISORDER, true),
        (state::CWR, true),
        (state::RECOVERY, false),
        (state::LOSS, false),
    ] {
        let mut connection = steady(&native);
        connection.kernel.tcp.ca_state = ca_state;
        connection.ack(0, None);
        assert_eq!((connection.number("rtt_avg_us"), connection.number("rtt_last_us")), (10_000, 10_000));
        connection.ack(0, Some(18_000));
        let average = if moves { 11_000 } else { 10_000 };
        assert_eq!((connection.number("rtt_avg_us"), connection.number("rtt_last_us")), (average, 18_000));
    }
}

#[test]
fn average_takes_one_sample_a_round_trip() {
    for una in [0, u32::MAX - 20, u32::MAX / 2 - 20] {
        let mut connection = Connection::new(native::find("msack"), 40, 20);
        let tcp = &mut connection.kernel.tcp;
        (tcp.snd_una, tcp.snd_nxt) = (una, una.wrapping_add(40));
        let mut check = |acknowledged: u32, rtt_us: u32, average: u64| {
            let tcp = &mut connection.kernel.tcp;
            tcp.snd_una = una.wrapping_add(acknowledged);
            tcp.snd_nxt = tcp.snd_una.wrapping_add(40);
            connection.ack(0, Some(rtt_us));
            assert_eq!(connection.number("rtt_avg_us"), average, "{acknowledged} packets after {una}");
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
    let mut native = tuned(&["average_by_round=0"]);
    for (gain, expected) in [(1, 10_010), (512, 15_000), (1024, 20_000)] {
        set(&mut native, &[&format!("average_gain={gain}")]);
        let mut connection = steady(&native);
        connection.ack(0, Some(20_240));
        let average = connection.number("rtt_avg_us");
        assert_eq!(average, if gain == 1 { expected } else { expected + 240 * gain / 1024 });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Against floating point over RTTs from 0 to 2^31 us: each step of the average is short of the exact one by less
    /// than 1/1024 us, which adds up to 8/1024 us; the decision agrees wherever that does not decide it.
    #[test]
    fn average_and_decision_are_those_of_exact_arithmetic(
        samples in proptest::collection::vec((0..=0x7fff_ffffu32, 0..31u32), 1..60), tolerance in 0..=100u32,
    ) {
        use std::sync::{Mutex, OnceLock};
        static COPY: OnceLock<Mutex<Native>> = OnceLock::new();
        let copy = COPY.get_or_init(|| Mutex::new(native::own("msack")));
        let mut native = copy.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        set(&mut native, &["guard=0", "average_by_round=0", &format!("tolerance={tolerance}")]);
        let samples: Vec<u32> = samples.into_iter().map(|(rtt_us, shift)| rtt_us >> shift).collect();
        let exact = samples.iter().map(|&rtt| f64::from(rtt.max(1))).reduce(|average, rtt| average + (rtt - average) / 8.0);
        let exact = exact.unwrap();
        let mut connection = Connection::new(&native, 40, 20);
        for &rtt_us in &samples {
            connection.ack(0, Some(rtt_us));
        }
        let average = connection.number("rtt_avg") as f64 / 1024.0;
        prop_assert!((average..=average + 8.0 / 1024.0 + exact * 1e-12).contains(&exact), "{} for {}", average, exact);
        connection.lose(1);
        let rtt = f64::from(samples[samples.len() - 1].max(1));
        let deviation = (rtt / exact - 1.0) * 100.0 - f64::from(tolerance);
        if deviation.abs() > 1.0 {
            prop_assert_eq!(connection.verdict(), if deviation < 0.0 { "random" } else { "postponed" });
        }
        let shown = connection.number("deviation_permille") as f64;
        let expected = ((rtt / average - 1.0) * 1000.0).clamp(0.0, f64::from(u32::MAX));
        prop_assert!((shown - expected).abs() <= 1.0, "{} for {}", shown, expected);
    }
}

#[test]
fn longest_deviation_saturates() {
    let native = tuned(&["average_gain=1"]);
    let mut connection = Connection::new(&native, 40, 20);
    connection.ack(0, Some(1));
    tell(&mut connection, 1, 1);
    tell(&mut connection, 100_000_000, 1);
    assert_eq!(
        (connection.number("deviation_permille"), connection.verdict().as_str()),
        (u32::MAX.into(), "postponed")
    );
}
