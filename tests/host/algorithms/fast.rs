//! FAST and FAST-FIT against their equations: `bpf/include/fast.bpf.h`.

use proptest::prelude::*;

use super::*;

const RTT_US: u64 = 40_000;
/// The path of most tests holds 400 packets.
const PATH: [u64; 2] = [RTT_US, 100];

fn average_us(flow: &Endpoint) -> f64 {
    flow.field("path.avg_rtt") as f64 / 65_536.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// avgRTT = (1 - eta) avgRTT + eta RTT with eta = min(3 / w, 1 / 4).
    #[test]
    fn average_is_the_paper_s(cwnd in 2..2_000u32, rtts in proptest::collection::vec(1_000..1_000_000u32, 1..50)) {
        let mut flow = Endpoint::avoiding("fast", cwnd);
        flow.sample(&rtts);
        let eta = (3.0 / f64::from(cwnd)).min(0.25);
        let mut expected = f64::from(rtts[0]);
        for rtt in &rtts[1..] {
            expected = (1.0 - eta) * expected + eta * f64::from(*rtt);
        }
        // eta and each average are rounded down to 2^-16.
        let bound = 1e-4 + 1_000_000.0 * 50.0 / 65_536.0;
        prop_assert!((average_us(&flow) - expected).abs() < bound, "{} for {expected}", average_us(&flow));
    }

    /// Equation (4), for windows up to some millions and any queue.
    #[test]
    fn window_follows_the_equation(cwnd in 2..5_000_000u32, base in 100..1_000_000u32, permille in 0..3_000u64) {
        let mut flow = Endpoint::avoiding("fast", cwnd);
        let rtt = base + (u64::from(base) * permille / 1000) as u32;
        flow.end_round(&[base]);
        flow.tcp.snd_cwnd = cwnd;
        flow.end_round(&[rtt; 40]);
        let ratio = f64::from(base) / average_us(&flow);
        let w = f64::from(cwnd);
        let expected = (0.5 * w + 0.5 * (ratio * w + 20.0)).min(2.0 * w).max(2.0);
        let error = (f64::from(flow.cwnd()) - expected).abs();
        // The average is truncated to 1 us, and the window rounded to packets.
        prop_assert!(error <= 0.6 + 0.6 * w / f64::from(base), "{} for {expected}", flow.cwnd());
    }
}

#[test]
fn window_rests_at_the_path_and_alpha() {
    for alpha in [4, 20, 100] {
        let native = native::tuned("fast", &[&format!("alpha={alpha}")]);
        // After slow start too, which ends above that window.
        for (begin, ssthresh) in [(50, 2), (400, 2), (2000, 2), (10, INFINITE_SSTHRESH)] {
            let mut flow = LoneFlow::new(native, begin, ssthresh, PATH);
            flow.run_for(10_000_000);
            assert!(flow.cwnd().abs_diff(400 + alpha) <= 2, "{} from {begin}, alpha {alpha}", flow.cwnd());
        }
    }
}

/// FAST adds half of alpha, FAST-FIT two packets.
#[test]
fn window_grows_by_constant_steps_on_an_empty_path() {
    for (id, step) in [("fast", 10), ("fastfit", 2)] {
        let mut flow = LoneFlow::of(id, 1000, 2, [RTT_US, 0]);
        flow.run_for(RTT_US);
        let begin = flow.cwnd();
        for round in 1..=10 {
            flow.run_for(RTT_US);
            assert_eq!(flow.cwnd(), begin + step * round, "{id}");
        }
    }
}

#[test]
fn window_never_more_than_doubles() {
    let mut flow = Endpoint::over(native::tuned("fast", &["alpha=1000"]), 5, 2);
    flow.end_round(&[40_000]);
    assert_eq!(flow.cwnd(), 10);
}

#[test]
fn slow_start_ends_when_alpha_packets_are_queued() {
    for (id, alpha) in [("fast", 20), ("fastfit", 4)] {
        let mut flow = LoneFlow::of(id, 10, INFINITE_SSTHRESH, PATH);
        flow.run_until(|flow| flow.ssthresh() < INFINITE_SSTHRESH);
        let exit = flow.ssthresh();
        assert!((400 + alpha..=1300).contains(&exit), "{id} left slow start at {exit}");
    }
}

#[test]
fn loss_halves() {
    for id in ["fast", "fastfit"] {
        for (cwnd, kept) in [(1000, 500), (5, 2), (1, 2)] {
            assert_eq!(Endpoint::avoiding(id, cwnd).reduce(), kept, "{id} at {cwnd}");
        }
    }
}

#[test]
fn application_limited_window_shrinks_only() {
    let mut flow = Endpoint::avoiding("fast", 100);
    (flow.tcp.is_cwnd_limited, flow.tcp.max_packets_out) = (0, 10);
    flow.end_round(&[40_000]);
    assert_eq!(flow.cwnd(), 100);
    flow.end_round(&[80_000; 100]);
    assert!(flow.cwnd() < 90);
}

/// After a spurious timeout, ACKs of packets that an outage delayed arrive with the RTT of the outage.
#[test]
fn packets_that_an_outage_held_do_not_shrink_the_restored_window() {
    for id in ["fast", "fastfit"] {
        let mut flow = Endpoint::avoiding(id, 100);
        flow.end_round(&[40_000; 5]);
        let before = flow.cwnd();
        flow.apply(Operation::TimeOut);
        flow.sample(&[600_000; 50]);
        flow.undo();
        flow.set_state(state::OPEN);
        assert_eq!(flow.cwnd(), before, "{id}");
        flow.end_round(&[600_000; 50]);
        assert_eq!(flow.cwnd(), before, "{id}");
        // Packets sent after the outage count again.
        flow.end_round(&[80_000; 200]);
        assert!(flow.field("path.avg_rtt") > 70_000 << 16, "{id}");
    }
}

#[test]
fn equation_pauses_during_recovery() {
    let mut flow = Endpoint::avoiding("fast", 100);
    flow.end_round(&[40_000; 5]);
    flow.lose();
    let kept = flow.cwnd();
    for grown in [0, 10] {
        flow.end_round(&[40_000; 5]);
        assert_eq!(flow.cwnd(), kept + grown);
    }
}

/// With q queued packets the window moves by gamma q (wr - w) / w a round. The virtual Reno window grows by a packet a round,
/// so the window lags by w / (gamma q).
#[test]
fn fastfit_grows_as_reno_in_a_queue() {
    let mut flow = LoneFlow::of("fastfit", 500, 2, PATH);
    flow.run_for(1_000_000);
    let begin = flow.cwnd();
    flow.run_for(2_000_000);
    let w = f64::from(flow.cwnd());
    let (behind, expected) = (flow.field("w_reno") as f64 - w, 2.0 * w / (w - 400.0));
    assert!((behind - expected).abs() <= 3.0, "{behind} packets behind, not {expected}");
    let grown = flow.cwnd() - begin;
    // RTTs of 52 ms and more in 2 s.
    assert!((30..=39).contains(&grown), "{grown} packets in 2 s");
}

#[test]
fn fastfit_s_virtual_window_is_halved_and_restored() {
    let mut flow = Endpoint::avoiding("fastfit", 500);
    flow.end_rounds(2, &[40_000]);
    assert_eq!(flow.field("w_reno"), 501);
    flow.enter_recovery();
    assert_eq!(flow.field("w_reno"), 250);
    flow.undo();
    assert_eq!(flow.field("w_reno"), 501);
    flow.leave();
    flow.lose();
    assert_eq!(flow.field("w_reno"), 250);
}

#[test]
fn fastfit_asks_for_reno_s_share_of_the_queue() {
    let mut flow = Endpoint::avoiding("fastfit", 500);
    flow.end_round(&[40_000]);
    flow.tcp.snd_cwnd = 500;
    // A tenth of the RTT is spent in queues.
    flow.end_round(&[44_444; 2000]);
    let alpha = flow.field("path.alpha");
    assert!(alpha.abs_diff(50) <= 1, "alpha is {alpha}");
}
