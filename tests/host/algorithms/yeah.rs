//! YeAH's two modes, its decongestion and its cut: `bpf/cc/bpf_yeah.bpf.c`.

use super::*;

const ID: &str = "bpf_yeah";
const BASE_US: u32 = 40_000;

/// Ends a round of three samples with this share of the RTT in queues.
fn queued(flow: &mut Endpoint, permille: u32) {
    let rtt_us = (BASE_US * 1000).div_ceil(1000 - permille);
    flow.end_round(&[rtt_us; 3]);
}

/// A connection with a known base RTT.
fn with_base(cwnd: u32) -> Endpoint<'static> {
    let mut flow = Endpoint::avoiding(ID, cwnd);
    queued(&mut flow, 0);
    flow.tcp.snd_cwnd = cwnd;
    flow
}

#[test]
fn empty_path_grows_by_a_percent_a_round() {
    let mut flow = LoneFlow::of(ID, 1000, 2, [BASE_US.into(), 1]);
    flow.run_for(BASE_US.into());
    let begin = f64::from(flow.cwnd());
    flow.run_for(30 * u64::from(BASE_US));
    let expected = begin * 1.01_f64.powi(30);
    assert!((f64::from(flow.cwnd()) / expected - 1.0).abs() < 0.01, "{} for {expected}", flow.cwnd());
    assert_eq!(flow.phase(), "fast");
}

#[test]
fn mode_is_slow_above_an_eighth_of_delay_or_eighty_packets() {
    for (cwnd, permille, is_slow) in [(100, 110, 0), (100, 112, 1), (700, 110, 0), (1000, 75, 0), (1000, 85, 1)] {
        let mut flow = with_base(cwnd);
        queued(&mut flow, permille);
        assert_eq!(flow.field("slow_rounds"), is_slow, "{cwnd} packets, {permille} permille of the RTT in queues");
    }
}

#[test]
fn decongestion_drains_the_queue_but_at_most_half_of_the_window() {
    for (cwnd, permille, expected) in [(1000, 100, 900), (1000, 300, 700), (1000, 700, 500)] {
        let mut flow = with_base(cwnd);
        queued(&mut flow, permille);
        assert_eq!(flow.windows(), (expected, expected), "{permille} permille");
        assert_eq!(flow.field("w_reno"), u64::from(expected / 2));
    }
}

#[test]
fn decongestion_never_undercuts_a_reno_flow() {
    let mut flow = with_base(1000);
    queued(&mut flow, 700);
    assert_eq!(flow.field("w_reno"), 250);
    flow.tcp.snd_cwnd = 300;
    queued(&mut flow, 700);
    assert_eq!((flow.cwnd(), flow.field("w_reno")), (250, 251));
    queued(&mut flow, 700);
    assert_eq!((flow.cwnd(), flow.field("w_reno")), (250, 252), "it grows with Reno's estimate only");
}

/// The flow drains its own queue before it loses a packet.
#[test]
fn queue_of_a_lonely_flow_stays_short() {
    let mut flow = LoneFlow::of(ID, 300, 2, [BASE_US.into(), 100]);
    let longest = flow.largest_window(300, 50_000);
    assert!((450..=510).contains(&longest), "the path holds 400 packets, the window was {longest}");
}

#[test]
fn loss_cuts_the_queue_and_at_least_an_eighth() {
    for (cwnd, permille, expected) in [(400, 0, 50), (400, 100, 50), (400, 190, 76), (100, 450, 45)] {
        let mut flow = with_base(cwnd);
        queued(&mut flow, permille);
        flow.tcp.snd_cwnd = cwnd;
        assert_eq!(cwnd - flow.reduce(), expected, "{cwnd} packets, {permille} permille of the RTT in queues");
    }
}

#[test]
fn competition_cuts_half() {
    let mut flow = with_base(400);
    for rounds in 1..=16 {
        queued(&mut flow, 150);
        assert_eq!(flow.field("slow_rounds"), rounds);
    }
    flow.tcp.snd_cwnd = 400;
    assert_eq!(flow.reduce(), 200);
}

#[test]
fn loss_halves_the_estimate_of_reno_s_window() {
    let mut flow = with_base(400);
    queued(&mut flow, 150);
    assert_eq!(flow.field("w_reno"), 200);
    flow.enter_recovery();
    assert_eq!(flow.field("w_reno"), 100);
}

#[test]
fn fifty_one_fast_rounds_forget_the_competitor() {
    let mut flow = with_base(400);
    queued(&mut flow, 150);
    let fast = flow.field("fast_rounds");
    for _ in fast..50 {
        queued(&mut flow, 0);
    }
    assert_eq!(flow.field("w_reno"), 200);
    queued(&mut flow, 0);
    assert_eq!((flow.field("w_reno"), flow.field("fast_rounds")), (2, 0));
}

#[test]
fn two_samples_decide_nothing() {
    let mut flow = with_base(1000);
    flow.end_round(&[2 * BASE_US; 2]);
    assert_eq!((flow.cwnd(), flow.field("slow_rounds")), (1000, 0));
}

#[test]
fn base_is_measured_anew_after_idle_time() {
    let restart = |flow: &mut Endpoint| flow.call(|cc, tcp| cc.cwnd_event(tcp, event::CWND_RESTART));
    for resume in [restart, RESUMPTIONS[1]] {
        let mut flow = with_base(1000);
        resume(&mut flow);
        flow.sample(&[3 * BASE_US]);
        assert_eq!(flow.field("base_rtt_us"), u64::from(3 * BASE_US));
    }
}
