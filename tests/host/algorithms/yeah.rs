//! YeAH's rules that no path of the twins reaches: `bpf/cc/bpf_yeah.bpf.c`.

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
