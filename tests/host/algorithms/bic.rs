//! What twins cannot see of BIC: its tunables, windows that overflow in the kernel, and what none of their paths reaches.

use super::*;

const ID: &str = "bpf_bic";

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
fn largest_windows_saturate() {
    let large = INFINITE_SSTHRESH - 1_000;
    let counts = [large, large + 4].map(|cwnd| count(paper(), large, cwnd));
    assert_eq!(counts, [u64::from(u32::MAX), u64::from(large + 4) * 3 / 4]);
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
fn steps_are_tunables() {
    let settings = ["max_increment=32", "beta=896", "smooth_part=100", "low_window=50", "delayed_ack=0"];
    let native = native::tuned(ID, &settings);
    assert_eq!([800, 1000, 50].map(|cwnd| count(native, 1000, cwnd)), [25, 25_000, 50]);
    assert_eq!(Endpoint::over(native, 1000, 2).reduce(), 875);
}

#[test]
fn loss_keeps_beta_above_the_low_window_and_half_below() {
    for (cwnd, kept) in [(1000, 799), (100, 79), (15, 11), (14, 7), (3, 2), (2, 2), (1, 2)] {
        let mut flow = Endpoint::avoiding(ID, cwnd);
        assert_eq!((flow.reduce(), flow.field("w_max")), (kept, cwnd.into()));
    }
}

#[test]
fn growth_before_the_first_loss_is_a_twentieth_a_round_at_least() {
    assert_eq!([1000, 160, 40].map(|cwnd| count(paper(), 0, cwnd)), [20, 10, 3]);
}
