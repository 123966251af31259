//! BIC against its table of steps and the paper's recurrence: `bpf/cc/bpf_bic.bpf.c`.

use super::*;

const ID: &str = "bpf_bic";
const RTT_US: u64 = 40_000;

/// Without the kernel's factor for delayed ACKs, which the paper lacks.
fn paper() -> &'static Native {
    native::tuned(ID, &["delayed_ack=0"])
}

/// Packets acknowledged per packet of growth at a window, after a loss at `w_max`.
fn count(native: &Native, w_max: u32, cwnd: u32) -> u64 {
    let mut flow = Endpoint::over(native, w_max.max(1), 2);
    if w_max > 0 {
        flow.lose();
    }
    (flow.tcp.snd_cwnd, flow.tcp.snd_ssthresh) = (cwnd, 2);
    flow.ack(1, 40_000);
    flow.field("cnt")
}

#[test]
fn step_follows_the_table_of_the_header() {
    let native = paper();
    let check = |w_max: u32, cwnd: u32, expected: u64| {
        assert_eq!(count(native, w_max, cwnd), expected, "{cwnd} packets with Wmax {w_max}");
    };
    check(1000, 14, 14); // as Reno
    check(1000, 15, 1); // 16 per round would be more than one per packet
    check(1000, 800, 50); // 16 a round
    check(1000, 928, 58); // 72 / 4 is more than 16
    check(1000, 936, 58); // 16 exactly
    check(1000, 940, 62); // 15
    check(1000, 980, 196); // 5
    check(1000, 992, 496); // 2
    check(1000, 993, 4965); // below two: 0.2
    check(1000, 999, 4995);
    check(1000, 1000, 5000); // beyond as slowly
    check(1000, 1003, 5015);
    check(1000, 1004, 753); // 4 / 3
    check(1000, 1030, 103); // 10
    check(1000, 1047, 66); // 47 / 3
    check(1000, 1048, 65); // 16
    check(1000, 5000, 312);
    check(0, 1000, 20); // no loss yet: 5 % a round at least
    check(0, 160, 10);
    check(0, 40, 3);
}

/// The ratio begins with 32/16 packets per ACK. ACKs of one packet lower it to 31/16, ACKs of three raise it, and ACKs of
/// nothing lower it further.
#[test]
fn steps_are_taken_times_the_packets_per_ack() {
    let mut flow = Endpoint::avoiding(ID, 1000);
    flow.lose();
    let mut count_after = |cwnd: u32, packets: u32| {
        (flow.tcp.snd_cwnd, flow.tcp.snd_ssthresh) = (cwnd, 2);
        flow.ack(packets, 40_000);
        flow.fields(["ack_ratio", "cnt"])
    };
    assert_eq!(count_after(940, 1), [31, 62 * 16 / 31]);
    assert_eq!(count_after(980, 1), [31, 196 * 16 / 31]);
    assert_eq!(count_after(940, 3), [33, 62 * 16 / 33]);
    assert_eq!(count_after(940, 3), [34, 62 * 16 / 34]);
    assert_eq!(count_after(14, 3), [35, 14], "as Reno");
}

#[test]
fn acks_of_nothing_lower_the_packets_per_ack_for_good() {
    let mut flow = Endpoint::avoiding(ID, 1000);
    for (sacks, ratio) in [(0, 31), (1, 30), (20, 16)] {
        flow = flow.after(&vec![Operation::Sack; sacks]);
        for _ in 0..2 {
            flow.ack(1, 40_000);
            assert_eq!(flow.field("ack_ratio"), ratio, "after {sacks} more ACKs of nothing");
        }
    }
}

#[test]
fn largest_windows_saturate() {
    let large = INFINITE_SSTHRESH - 1_000;
    let counts = [large, large + 4].map(|cwnd| count(paper(), large, cwnd));
    assert_eq!(counts, [u64::from(u32::MAX), u64::from(large + 4) * 3 / 4]);
}

/// Step per round in the header's equations, packets.
fn step(cwnd: f64, w_max: f64) -> f64 {
    let (to_go, past) = ((w_max - cwnd) / 4.0, cwnd - w_max);
    if cwnd < w_max {
        return if to_go > 2.0 { to_go.min(16.0) } else { 0.2 };
    }
    if past < 4.0 { 0.2 } else { (past / 3.0).min(16.0) }
}

/// From the cut past the plateau at Wmax, each round is within 2 % of the recurrence.
#[test]
fn window_searches_as_the_recurrence() {
    for w_max in [200, 500, 1000] {
        let mut flow = LoneFlow::new(paper(), w_max, 2, [RTT_US, 1]);
        flow.lose();
        assert_eq!(flow.cwnd(), w_max * 819 / 1024);
        let mut reference = f64::from(flow.cwnd());
        flow.run_for(RTT_US); // until the first packets are acknowledged
        for round in 0..60 {
            flow.run_for(RTT_US);
            reference += step(reference, f64::from(w_max));
            let error = (f64::from(flow.cwnd()) - reference) / reference;
            assert!(error.abs() < 0.02, "{} for {reference} in round {round} of {w_max}", flow.cwnd());
        }
        assert_eq!(flow.phase(), "probe");
    }
}

/// Most of the round trips after a loss are spent within 4 % of Wmax.
#[test]
fn window_rests_at_the_last_maximum() {
    let mut flow = LoneFlow::new(paper(), 500, 2, [RTT_US, 1]);
    flow.lose();
    flow.run_until(|flow| flow.cwnd() >= 480);
    assert_eq!(flow.phase(), "search");
    let begin_us = flow.now_us();
    flow.run_until(|flow| flow.cwnd() > 520);
    let rounds = (flow.now_us() - begin_us) / RTT_US;
    assert!((40..=90).contains(&rounds), "{rounds} round trips");
}

#[test]
fn small_windows_are_reno_s() {
    let mut bic = LoneFlow::of(ID, 5, 2, [RTT_US, 1]);
    let mut reno = LoneFlow::of("bpf_reno", 5, 2, [RTT_US, 1]);
    for _ in 0..9 {
        bic.run_for(RTT_US);
        reno.run_for(RTT_US);
        assert_eq!(bic.cwnd(), reno.cwnd());
    }
    assert_eq!(bic.phase(), "reno");
    bic.lose();
    reno.lose();
    assert_eq!(bic.cwnd(), reno.cwnd());
}

#[test]
fn loss_keeps_beta_above_the_low_window_and_half_below() {
    for (cwnd, kept) in [(1000, 799), (100, 79), (15, 11), (14, 7), (3, 2), (2, 2), (1, 2)] {
        let mut flow = Endpoint::avoiding(ID, cwnd);
        assert_eq!((flow.reduce(), flow.field("w_max")), (kept, cwnd.into()));
    }
}

#[test]
fn loss_below_the_maximum_lowers_it_further() {
    for (setting, expected) in [("fast_convergence=1", 719), ("fast_convergence=0", 799)] {
        let mut flow = Endpoint::over(native::tuned(ID, &[setting]), 1000, 2);
        flow.lose();
        flow.lose();
        // 799 packets (1 + 819/1024) / 2
        assert_eq!(flow.field("w_max"), expected, "{setting}");
    }
}

#[test]
fn timeout_forgets_the_maximum_and_undo_leaves_it() {
    let mut flow = Endpoint::avoiding(ID, 1000);
    flow.enter_recovery();
    flow.undo();
    assert_eq!((flow.cwnd(), flow.field("w_max")), (1000, 1000));
    flow.apply(Operation::TimeOut);
    assert_eq!(flow.fields(["w_max", "cnt"]), [0, 1]);
}

#[test]
fn steps_are_tunables() {
    let settings = ["max_increment=32", "beta=896", "smooth_part=100", "low_window=50", "delayed_ack=0"];
    let native = native::tuned(ID, &settings);
    assert_eq!([800, 1000, 50].map(|cwnd| count(native, 1000, cwnd)), [25, 25_000, 50]);
    assert_eq!(Endpoint::over(native, 1000, 2).reduce(), 875);
}
