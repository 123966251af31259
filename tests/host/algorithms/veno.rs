//! Veno's verdict on a loss, which the kernel rounds: `bpf/cc/bpf_veno.bpf.c`.

use super::*;

const ID: &str = "bpf_veno";
const BASE_US: u32 = 40_000;

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

/// Random and congestive losses.
fn losses(flow: &Endpoint) -> [u64; 2] {
    flow.fields(["random_losses", "congested_losses"])
}

#[test]
fn random_loss_keeps_four_fifths() {
    for (cwnd, expected) in [(1_000_000, 800_000), (1000, 800), (99, 79), (5, 4), (3, 2), (2, 2), (1, 2)] {
        let mut flow = Endpoint::avoiding(ID, cwnd);
        assert_eq!((flow.reduce(), losses(&flow)), (expected, [1, 0]));
    }
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
