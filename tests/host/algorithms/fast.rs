//! FAST and FAST-FIT against their equations in floating point: `bpf/include/fast.bpf.h`.

use proptest::prelude::*;

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, INFINITE_SSTHRESH, Socket, state};
use crate::algorithms::operations::{self, Operation};
use crate::algorithms::rounds::{connection, lose, round, samples};

const RTT_US: u64 = 40_000;
/// The path of most tests holds 400 packets.
const PATH: [u64; 2] = [RTT_US, 100];

fn average_us(kernel: &Kernel<Socket>) -> f64 {
    native::field(&kernel.cc, "fast", "path.avg_rtt") as f64 / 65_536.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// avgRTT = (1 - eta) avgRTT + eta RTT with eta = min(3 / w, 1 / 4).
    #[test]
    fn average_is_the_paper_s(cwnd in 2..2_000u32, rtts in proptest::collection::vec(1_000..1_000_000u32, 1..50)) {
        let mut kernel = connection(native::find("fast"), cwnd);
        samples(&mut kernel, &rtts);
        let eta = (3.0 / f64::from(cwnd)).min(0.25);
        let mut expected = f64::from(rtts[0]);
        for rtt in &rtts[1..] {
            expected = (1.0 - eta) * expected + eta * f64::from(*rtt);
        }
        // eta is rounded down to 2^-16, the average by as much at each sample.
        let bound = 1e-4 + 1_000_000.0 * 50.0 / 65_536.0;
        prop_assert!((average_us(&kernel) - expected).abs() < bound, "{} for {expected}", average_us(&kernel));
    }

    /// Equation (4), for windows up to some millions and any queue.
    #[test]
    fn window_follows_the_equation(cwnd in 2..5_000_000u32, base in 100..1_000_000u32, permille in 0..3_000u64) {
        let mut kernel = connection(native::find("fast"), cwnd);
        let rtt = base + (u64::from(base) * permille / 1000) as u32;
        round(&mut kernel, &[base]);
        kernel.tcp.snd_cwnd = cwnd;
        round(&mut kernel, &[rtt; 40]);
        let ratio = f64::from(base) / average_us(&kernel);
        let w = f64::from(cwnd);
        let expected = (0.5 * w + 0.5 * (ratio * w + 20.0)).min(2.0 * w).max(2.0);
        let error = (f64::from(kernel.tcp.snd_cwnd) - expected).abs();
        // The average is cut to a whole us, half a packet is rounding.
        prop_assert!(error <= 0.6 + 0.6 * w / f64::from(base), "{} for {expected}", kernel.tcp.snd_cwnd);
    }
}

#[test]
fn window_rests_at_the_path_and_alpha() {
    for alpha in [4, 20, 100] {
        let native = native::tuned("fast", &[&format!("alpha={alpha}")]);
        for begin in [50, 400, 2000] {
            let mut flow = Flow::new(&native, begin, 2, PATH);
            flow.run_for(10_000_000);
            assert!(flow.cwnd().abs_diff(400 + alpha) <= 2, "{} from {begin}, alpha {alpha}", flow.cwnd());
        }
    }
}

#[test]
fn empty_path_adds_half_of_alpha_a_round() {
    let mut flow = Flow::new(native::find("fast"), 1000, 2, [RTT_US, 0]);
    flow.run_for(RTT_US);
    for _ in 0..5 {
        let before = flow.cwnd();
        flow.run_for(RTT_US);
        assert_eq!(flow.cwnd(), before + 10);
    }
}

#[test]
fn window_never_more_than_doubles() {
    let native = native::tuned("fast", &["alpha=1000"]);
    let mut kernel = connection(&native, 5);
    round(&mut kernel, &[40_000]);
    assert_eq!(kernel.tcp.snd_cwnd, 10);
}

#[test]
fn slow_start_ends_when_alpha_packets_are_queued() {
    for (id, alpha) in [("fast", 20), ("fastfit", 4)] {
        let mut flow = Flow::new(native::find(id), 10, INFINITE_SSTHRESH, PATH);
        flow.run_until(|flow| flow.kernel.tcp.snd_ssthresh < INFINITE_SSTHRESH);
        let exit = flow.kernel.tcp.snd_ssthresh;
        assert!((400 + alpha..=1300).contains(&exit), "{id} left slow start at {exit}");
    }
}

#[test]
fn loss_halves() {
    for id in ["fast", "fastfit"] {
        for (cwnd, kept) in [(1000, 500), (5, 2), (1, 2)] {
            let mut kernel = connection(native::find(id), cwnd);
            kernel.enter_recovery();
            assert_eq!(kernel.tcp.snd_ssthresh, kept);
        }
    }
}

#[test]
fn application_limited_window_shrinks_only() {
    let mut kernel = connection(native::find("fast"), 100);
    (kernel.tcp.is_cwnd_limited, kernel.tcp.max_packets_out) = (0, 10);
    round(&mut kernel, &[40_000]);
    assert_eq!(kernel.tcp.snd_cwnd, 100);
    round(&mut kernel, &[80_000; 100]);
    assert!(kernel.tcp.snd_cwnd < 90);
}

/// An outage that held packets back: a timeout which proves spurious, and then their ACKs with RTTs of the outage.
#[test]
fn packets_that_an_outage_held_do_not_shrink_the_restored_window() {
    for id in ["fast", "fastfit"] {
        let mut kernel = connection(native::find(id), 100);
        round(&mut kernel, &[40_000; 5]);
        let before = kernel.tcp.snd_cwnd;
        operations::apply(&mut kernel, Operation::TimeOut, 0);
        samples(&mut kernel, &[600_000; 50]);
        kernel.undo();
        kernel.set_state(state::OPEN);
        assert_eq!(kernel.tcp.snd_cwnd, before, "{id}");
        round(&mut kernel, &[600_000; 50]);
        assert_eq!(kernel.tcp.snd_cwnd, before, "{id}");
        // What was sent after the outage counts again.
        round(&mut kernel, &[80_000; 200]);
        assert!(native::field(&kernel.cc, id, "path.avg_rtt") > 70_000 << 16, "{id}");
    }
}

#[test]
fn equation_rests_during_a_recovery_and_goes_on_after_it() {
    let mut kernel = connection(native::find("fast"), 100);
    round(&mut kernel, &[40_000; 5]);
    lose(&mut kernel);
    let kept = kernel.tcp.snd_cwnd;
    round(&mut kernel, &[40_000; 5]);
    assert_eq!(kernel.tcp.snd_cwnd, kept);
    round(&mut kernel, &[40_000; 5]);
    assert_eq!(kernel.tcp.snd_cwnd, kept + 10);
}

/// How far the window is behind the virtual one. It follows by gamma q (wr - w) / w a round, q packets queued, and so stays
/// w / (gamma q) behind one that grows by a packet a round.
fn lag(flow: &Flow) -> (f64, f64) {
    let w = f64::from(flow.cwnd());
    (flow.field("fastfit", "w_reno") as f64 - w, 2.0 * w / (w - 400.0))
}

/// Where a queue stands the window is the virtual Reno window, which grows by a packet a round.
#[test]
fn fastfit_grows_as_reno_in_a_queue() {
    let mut flow = Flow::new(native::find("fastfit"), 500, 2, PATH);
    flow.run_for(1_000_000);
    let begin = flow.cwnd();
    flow.run_for(2_000_000);
    let (behind, expected) = lag(&flow);
    assert!((behind - expected).abs() <= 3.0, "{behind} packets behind, not {expected}");
    let grown = flow.cwnd() - begin;
    // 2 s of round trips of 52 ms and more: the window in 1/10 ms.
    assert!((30..=39).contains(&grown), "{grown} packets in 2 s");
}

#[test]
fn fastfit_grows_by_two_packets_a_round_on_an_empty_path() {
    let mut flow = Flow::new(native::find("fastfit"), 1000, 2, [RTT_US, 0]);
    flow.run_for(RTT_US);
    let begin = flow.cwnd();
    flow.run_for(10 * RTT_US);
    assert_eq!(flow.cwnd() - begin, 20);
}

#[test]
fn fastfit_s_virtual_window_is_halved_and_restored() {
    let mut kernel = connection(native::find("fastfit"), 500);
    round(&mut kernel, &[40_000]);
    round(&mut kernel, &[40_000]);
    assert_eq!(native::field(&kernel.cc, "fastfit", "w_reno"), 501);
    kernel.enter_recovery();
    assert_eq!(native::field(&kernel.cc, "fastfit", "w_reno"), 250);
    kernel.undo();
    assert_eq!(native::field(&kernel.cc, "fastfit", "w_reno"), 501);
    kernel.leave();
    lose(&mut kernel);
    assert_eq!(native::field(&kernel.cc, "fastfit", "w_reno"), 250);
}

#[test]
fn fastfit_asks_for_reno_s_share_of_the_queue() {
    let mut kernel = connection(native::find("fastfit"), 500);
    round(&mut kernel, &[40_000]);
    kernel.tcp.snd_cwnd = 500;
    // A tenth of the RTT in queues: a tenth of the virtual window.
    round(&mut kernel, &[44_444; 2000]);
    let alpha = native::field(&kernel.cc, "fastfit", "path.alpha");
    assert!(alpha.abs_diff(50) <= 1, "alpha is {alpha}");
}
