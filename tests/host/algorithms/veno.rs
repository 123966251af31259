//! Veno's verdict on each loss, and its two paces: `bpf/cc/bpf_veno.bpf.c`.

use super::*;

const ID: &str = "bpf_veno";
const BASE_US: u32 = 40_000;

/// Random and congestive losses.
fn losses(flow: &Endpoint) -> [u64; 2] {
    flow.fields(["random_losses", "congested_losses"])
}

/// The threshold after a loss at 100 packets, if this was the latest RTT.
fn kept(native: &Native, rtt_us: u32) -> u32 {
    let mut flow = Endpoint::over(native, 100, 2);
    flow.ack(1, BASE_US);
    flow.ack(1, rtt_us);
    flow.tcp.snd_cwnd = 100;
    flow.reduce()
}

#[test]
fn loss_is_congestive_from_three_queued_packets_on() {
    // N = 100 (RTT - 40 ms) / RTT: 2.9997 and 3.002 packets.
    assert_eq!([BASE_US, 41_237, 41_238, 4_000_000].map(|rtt_us| kept(native::find(ID), rtt_us)), [80, 80, 50, 50]);
    // The kernel rounds from 2.5 packets on.
    assert_eq!([41_025, 41_026].map(|rtt_us| kept(native::tuned(ID, &["beta=5"]), rtt_us)), [80, 50]);
}

#[test]
fn random_loss_keeps_four_fifths() {
    for (cwnd, expected) in [(1_000_000, 800_000), (1000, 800), (99, 79), (5, 4), (3, 2), (2, 2), (1, 2)] {
        let mut flow = Endpoint::avoiding(ID, cwnd);
        assert_eq!((flow.reduce(), losses(&flow)), (expected, [1, 0]));
    }
}

fn ms_between(flow: &mut LoneFlow, from: u32, to: u32) -> u64 {
    flow.run_until(|flow| flow.cwnd() >= from);
    let begin_us = flow.now_us();
    flow.run_until(|flow| flow.cwnd() >= to);
    (flow.now_us() - begin_us) / 1000
}

/// The path holds 40 packets. Growth by a packet takes one round trip up to a window of 43, then two. Each lasts as many ms
/// as the window has packets.
#[test]
fn growth_is_half_as_fast_with_a_queue() {
    let mut flow = LoneFlow::of(ID, 20, 2, [BASE_US.into(), 1_000]);
    let alone = ms_between(&mut flow, 25, 38);
    assert!(alone.abs_diff(13 * 40) <= 45, "13 packets took {alone} ms");
    assert_eq!(flow.phase(), "available");
    let queued = ms_between(&mut flow, 46, 56);
    let expected: u64 = (46..56).map(|cwnd| 2 * cwnd).sum();
    assert!(queued.abs_diff(expected) <= 60, "10 packets took {queued} ms, not {expected}");
    assert_eq!(flow.phase(), "congested");
}

#[test]
fn disordered_acks_decide_nothing() {
    let mut flow = Endpoint::avoiding(ID, 100);
    flow.ack(1, BASE_US);
    flow.set_state(state::DISORDER);
    flow.ack(1, 10 * BASE_US);
    flow.enter_recovery();
    assert_eq!(losses(&flow), [1, 0]);
}

#[test]
fn base_is_measured_anew_after_idle_time() {
    for (resume, expected) in [(RESUMPTIONS[0], 80), (RESUMPTIONS[1], 80), (|_| (), 50)] {
        let mut flow = Endpoint::avoiding(ID, 100);
        flow.ack(1, BASE_US);
        resume(&mut flow);
        flow.ack(1, 2 * BASE_US);
        flow.tcp.snd_cwnd = 100;
        assert_eq!(flow.reduce(), expected);
    }
}
