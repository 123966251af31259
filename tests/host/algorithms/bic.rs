//! BIC against its table of steps and the paper's recurrence in floating point: `bpf/cc/bpf_bic.bpf.c`.

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::native::{self, INFINITE_SSTHRESH, Native};
use crate::algorithms::operations::{self, Operation};
use crate::algorithms::rounds::{connection, lose};

const ID: &str = "bpf_bic";
const RTT_US: u64 = 40_000;

/// Without the kernel's factor for delayed ACKs, which the paper does not have.
fn paper() -> Native {
    native::tuned(ID, &["delayed_ack=0"])
}

/// Packets acknowledged per packet of growth at a window, after a loss at `w_max`.
fn count(native: &Native, w_max: u32, cwnd: u32) -> u64 {
    let mut kernel = connection(native, w_max.max(1));
    if w_max > 0 {
        lose(&mut kernel);
    }
    (kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh) = (cwnd, 2);
    operations::apply(&mut kernel, Operation::Ack { packets: 1, rtt_us: 40_000 }, 0);
    native::field(&kernel.cc, ID, "cnt")
}

#[test]
fn step_follows_the_table_of_the_header() {
    let check = |w_max: u32, cwnd: u32, expected: u64| {
        assert_eq!(count(&paper(), w_max, cwnd), expected, "{cwnd} packets with Wmax {w_max}");
    };
    check(1000, 14, 14); // as Reno
    check(1000, 15, 1); // 16 a round would be more than one for each
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

/// 32/16 packets per ACK to begin with; an ACK of one packet makes it 31/16, where it stays; three packets raise it, and
/// one that acknowledges nothing lowers it. The window may stand still meanwhile.
#[test]
fn steps_are_taken_times_the_packets_per_ack() {
    let mut kernel = connection(native::find(ID), 1000);
    lose(&mut kernel);
    let mut count_after = |cwnd: u32, packets: u32| {
        (kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh) = (cwnd, 2);
        operations::apply(&mut kernel, Operation::Ack { packets, rtt_us: 40_000 }, 0);
        ["ack_ratio", "cnt"].map(|name| native::field(&kernel.cc, ID, name))
    };
    assert_eq!(count_after(940, 1), [31, 62 * 16 / 31]);
    assert_eq!(count_after(980, 1), [31, 196 * 16 / 31]);
    assert_eq!(count_after(940, 3), [33, 62 * 16 / 33]);
    assert_eq!(count_after(940, 3), [34, 62 * 16 / 34]);
    assert_eq!(count_after(14, 3), [35, 14], "as Reno");
}

#[test]
fn acks_of_nothing_lower_the_packets_per_ack_for_good() {
    let mut kernel = connection(native::find(ID), 1000);
    let mut ratio_after = |operation| {
        operations::apply(&mut kernel, operation, 0);
        native::field(&kernel.cc, ID, "ack_ratio")
    };
    let single = Operation::Ack { packets: 1, rtt_us: 40_000 };
    assert_eq!([single, single].map(&mut ratio_after), [31, 31]);
    assert_eq!([Operation::Sack, single, single].map(&mut ratio_after), [30, 30, 30]);
    for _ in 0..20 {
        ratio_after(Operation::Sack);
    }
    assert_eq!([single, single].map(ratio_after), [16, 16]);
}

#[test]
fn largest_windows_saturate() {
    let large = INFINITE_SSTHRESH - 1_000;
    assert_eq!(count(&paper(), large, large), u64::from(u32::MAX));
    assert_eq!(count(&paper(), large, large + 4), u64::from(large + 4) * 3 / 4);
}

/// The step of a round trip, in packets: the header's equations.
fn step(cwnd: f64, w_max: f64) -> f64 {
    let (to_go, past) = ((w_max - cwnd) / 4.0, cwnd - w_max);
    if cwnd < w_max {
        return if to_go > 2.0 { to_go.min(16.0) } else { 0.2 };
    }
    if past < 4.0 { 0.2 } else { (past / 3.0).min(16.0) }
}

/// From the cut to the plateau at Wmax and past it: within 2 % of the recurrence, round by round.
#[test]
fn window_searches_as_the_recurrence() {
    for w_max in [200, 500, 1000] {
        let native = paper();
        let mut flow = Flow::new(&native, w_max, 2, [RTT_US, 1]);
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
        assert_eq!(flow.phase(ID), "probe");
    }
}

/// A plateau is flat: most of the round trips after a loss are spent within 4 % of Wmax.
#[test]
fn window_rests_at_the_last_maximum() {
    let native = paper();
    let mut flow = Flow::new(&native, 500, 2, [RTT_US, 1]);
    flow.lose();
    flow.run_until(|flow| flow.cwnd() >= 480);
    assert_eq!(flow.phase(ID), "search");
    let begin_us = flow.now_us();
    flow.run_until(|flow| flow.cwnd() > 520);
    let rounds = (flow.now_us() - begin_us) / RTT_US;
    assert!((40..=90).contains(&rounds), "{rounds} round trips");
}

#[test]
fn small_windows_are_reno_s() {
    let mut bic = Flow::new(native::find(ID), 5, 2, [RTT_US, 1]);
    let mut reno = Flow::new(native::find("bpf_reno"), 5, 2, [RTT_US, 1]);
    for _ in 0..9 {
        bic.run_for(RTT_US);
        reno.run_for(RTT_US);
        assert_eq!(bic.cwnd(), reno.cwnd());
    }
    assert_eq!(bic.phase(ID), "reno");
    bic.lose();
    reno.lose();
    assert_eq!(bic.cwnd(), reno.cwnd());
}

#[test]
fn loss_keeps_beta_above_the_low_window_and_half_below() {
    for (cwnd, kept) in [(1000, 799), (100, 79), (15, 11), (14, 7), (3, 2), (2, 2), (1, 2)] {
        let mut kernel = connection(native::find(ID), cwnd);
        kernel.enter_recovery();
        assert_eq!((kernel.tcp.snd_ssthresh, native::field(&kernel.cc, ID, "w_max")), (kept, cwnd.into()));
    }
}

#[test]
fn loss_below_the_maximum_lowers_it_further() {
    for (setting, expected) in [("fast_convergence=1", 719), ("fast_convergence=0", 799)] {
        let native = native::tuned(ID, &[setting]);
        let mut kernel = connection(&native, 1000);
        lose(&mut kernel);
        lose(&mut kernel);
        // 799 packets (1 + 819/1024) / 2
        assert_eq!(native::field(&kernel.cc, ID, "w_max"), expected, "{setting}");
    }
}

#[test]
fn timeout_forgets_the_maximum_and_undo_leaves_it() {
    let mut kernel = connection(native::find(ID), 1000);
    kernel.enter_recovery();
    kernel.undo();
    assert_eq!((kernel.tcp.snd_cwnd, native::field(&kernel.cc, ID, "w_max")), (1000, 1000));
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!(["w_max", "cnt"].map(|name| native::field(&kernel.cc, ID, name)), [0, 1]);
}

#[test]
fn steps_are_tunables() {
    let native =
        native::tuned(ID, &["max_increment=32", "beta=896", "smooth_part=100", "low_window=50", "delayed_ack=0"]);
    assert_eq!(count(&native, 1000, 800), 25);
    assert_eq!(count(&native, 1000, 1000), 25_000);
    assert_eq!(count(&native, 1000, 50), 50);
    let mut kernel = connection(&native, 1000);
    kernel.enter_recovery();
    assert_eq!(kernel.tcp.snd_ssthresh, 875);
}
