//! Compound's two windows against the paper's equations: `bpf/cc/compound.bpf.c`.

use proptest::prelude::*;

use super::*;

const ID: &str = "compound";
const BASE_US: u32 = 40_000;

/// Growth of the delay window in a round without queue, packets.
fn growth(win: u32) -> f64 {
    let mut flow = Endpoint::avoiding(ID, win);
    flow.end_round(&[BASE_US; 3]);
    flow.field("dwnd") as f64 + flow.field("dwnd_frac") as f64 / 1024.0
}

fn square_root(value: u64) -> u32 {
    // SAFETY: the signature of compound.bpf.c.
    let function: extern "C" fn(u64) -> u32 = unsafe { native::find(ID).function("square_root") };
    function(value)
}

fn check_square_root(value: u64) {
    let root = u128::from(square_root(value));
    let value = u128::from(value);
    assert!(root.pow(2) <= value && value < (root + 1).pow(2), "the square root of {value} is not {root}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn square_root_is_the_floor(value: u64, shift in 0..64u32) {
        check_square_root(value >> shift);
    }

    /// Equation (5): win^(3/4) / 8 - 1. The error is at most 1/1024 of rounding plus an eighth of 1/128.
    #[test]
    fn growth_is_the_paper_s_power(win in 2..1_000_000_000u32, shift in 0..28u32) {
        let win = (win >> shift).max(2);
        let exact = (f64::from(win).powf(0.75) / 8.0 - 1.0).max(0.0);
        let error = exact - growth(win);
        prop_assert!((-1e-6..0.002).contains(&error), "{win}: {} for {exact}", growth(win));
    }
}

#[test]
fn square_root_is_exact_at_the_edges() {
    for square in [0, 1, 2, 3, 255, 256, 65_535, 65_536, u64::from(u32::MAX)].map(|root| root * root) {
        (square.saturating_sub(1)..=square + 1).for_each(check_square_root);
    }
    check_square_root(u64::MAX);
}

#[test]
fn growth_has_the_header_s_numbers() {
    for (win, expected) in [(15, 0.0), (16, 0.0), (64, 1.83), (100, 2.95), (1000, 21.23)] {
        assert!((growth(win) - expected).abs() < 0.01, "{} for {expected} at {win}", growth(win));
    }
}

/// Without a queue both windows together grow by 1 + (win^(3/4) / 8 - 1) packets a round.
#[test]
fn empty_path_follows_the_recurrence() {
    let mut flow = LoneFlow::of(ID, 64, 2, [BASE_US.into(), 1]);
    flow.run_for(u64::from(BASE_US) + 1);
    let mut reference = f64::from(flow.cwnd());
    for round in 0..40 {
        flow.run_for(BASE_US.into());
        reference += (reference.powf(0.75) / 8.0).max(1.0);
        let error = f64::from(flow.cwnd()) / reference - 1.0;
        assert!(error.abs() < 0.04, "{} for {reference} in round {round}", flow.cwnd());
    }
    assert_eq!(flow.phase(), "compound");
    let reno = u64::from(flow.cwnd()) - flow.field("dwnd");
    assert!((64 + 38..=64 + 43).contains(&reno), "Reno's part is {reno}");
}

/// A connection with a delay window.
fn grown() -> Endpoint<'static> {
    let mut flow = Endpoint::avoiding(ID, 1000);
    flow.end_rounds(10, &[BASE_US; 3]);
    assert!(flow.field("dwnd") > 200);
    flow
}

#[test]
fn delay_window_shrinks_from_thirty_queued_packets_on() {
    for (queue, is_shrunk) in [(29, false), (31, true), (100, true)] {
        let mut flow = grown();
        let (win, dwnd) = (flow.cwnd(), flow.field("dwnd"));
        let rtt_us = (f64::from(BASE_US) * f64::from(win) / f64::from(win - queue)) as u32;
        flow.end_round(&[rtt_us; 3]);
        let diff = flow.field("diff");
        assert!(diff.abs_diff(queue.into()) <= 1, "{diff} for {queue}");
        if is_shrunk {
            assert_eq!((flow.field("dwnd"), u64::from(flow.cwnd())), (dwnd - diff, u64::from(win) - diff));
        } else {
            assert!(flow.field("dwnd") > dwnd);
        }
    }
}

#[test]
fn delay_window_shrinks_to_zero() {
    let mut flow = grown();
    let reno = u64::from(flow.cwnd()) - flow.field("dwnd");
    flow.end_rounds(20, &[2 * BASE_US; 3]);
    assert_eq!(flow.field("dwnd"), 0);
    assert!(u64::from(flow.cwnd()) >= reno, "Reno's part stays");
}

/// A lone flow's queue stays near gamma until Reno's part alone exceeds it.
#[test]
fn queue_of_a_lonely_flow_stays_near_gamma() {
    let mut flow = LoneFlow::of(ID, 100, 2, [BASE_US.into(), 100]);
    flow.run_until(|flow| flow.field("diff") >= 30);
    let longest = flow.largest_window(100, 45_000);
    assert!((430..=470).contains(&longest), "the path holds 400 packets, the window was {longest}");
    assert!(flow.field("dwnd") > 0);
}

#[test]
fn loss_halves_both_windows_and_undo_restores_both() {
    let mut flow = grown();
    let (win, dwnd) = (u64::from(flow.cwnd()), flow.field("dwnd"));
    flow.enter_recovery();
    let (ssthresh, left) = (u64::from(flow.ssthresh()), flow.field("dwnd"));
    assert_eq!(ssthresh, win - win / 2);
    assert_eq!(ssthresh - left, (win - dwnd) / 2);
    flow.undo();
    assert_eq!((u64::from(flow.cwnd()), flow.field("dwnd")), (win, dwnd));
}

/// The kernel silently halves a window that the application does not fill.
#[test]
fn reduction_by_the_kernel_comes_from_the_delay_window() {
    let mut flow = grown();
    let (win, dwnd) = (u64::from(flow.cwnd()), flow.field("dwnd"));
    let reno = win - dwnd;
    flow.tcp.max_packets_out = 0;
    (flow.tcp.snd_cwnd, flow.tcp.is_cwnd_limited) = (win as u32 - 50, 0);
    flow.call(|cc, tcp| cc.cong_avoid(tcp, 1));
    assert_eq!(flow.field("dwnd"), dwnd - 50);
    flow.tcp.snd_cwnd -= 50;
    flow.enter_recovery();
    let ssthresh = u64::from(flow.ssthresh());
    assert_eq!((ssthresh, flow.field("prior_dwnd")), ((win - 99) / 2, dwnd - 100));
    assert_eq!(ssthresh - flow.field("dwnd"), reno / 2);
    flow.undo();
    assert_eq!((u64::from(flow.cwnd()), flow.field("dwnd")), (win - 100, dwnd - 100));
    flow.tcp.snd_cwnd = 100;
    flow.call(|cc, tcp| cc.cong_avoid(tcp, 1));
    assert_eq!((flow.field("dwnd"), flow.field("win")), (0, 100));
}

#[test]
fn timeout_and_idle_time_clear_the_delay_window() {
    let (timed_out, mut idle) = (grown().after(&[Operation::TimeOut]), grown());
    idle.restart_after_idle(2, 10);
    assert_eq!([timed_out, idle].map(|flow| flow.field("dwnd")), [0; 2]);
}

#[test]
fn disturbed_rounds_change_nothing() {
    for (state, samples) in [(state::DISORDER, 3), (state::OPEN, 2)] {
        let mut flow = grown();
        flow.set_state(state);
        let dwnd = flow.field("dwnd");
        flow.end_round(&vec![BASE_US; samples]);
        assert_eq!(flow.field("dwnd"), dwnd, "{samples} samples decide nothing in state {state}");
    }
}

#[test]
fn losses_one_after_another_keep_reno_s_half() {
    let mut flow = grown();
    for _ in 0..12 {
        flow.lose();
        assert!(flow.field("dwnd") < u64::from(flow.cwnd()));
    }
    assert_eq!(flow.cwnd(), 2);
}
