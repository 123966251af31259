//! Veno's verdict on each loss, and its two paces: `bpf/cc/bpf_veno.bpf.c`.

use crate::algorithms::bottleneck::Flow;
use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, Native, Socket, event, state};
use crate::algorithms::operations::{self, Operation};
use crate::algorithms::rounds::connection;

const ID: &str = "bpf_veno";
const BASE_US: u32 = 40_000;

fn acknowledge(kernel: &mut Kernel<Socket>, rtt_us: u32) {
    operations::apply(kernel, Operation::Ack { packets: 1, rtt_us }, 0);
}

/// Random and congestive losses so far.
fn losses(kernel: &Kernel<Socket>) -> [u64; 2] {
    ["random_losses", "congested_losses"].map(|name| native::field(&kernel.cc, ID, name))
}

/// The threshold after a loss at 100 packets, when the latest RTT was this one.
fn kept(native: &Native, rtt_us: u32) -> u32 {
    let mut kernel = connection(native, 100);
    acknowledge(&mut kernel, BASE_US);
    acknowledge(&mut kernel, rtt_us);
    kernel.tcp.snd_cwnd = 100;
    kernel.enter_recovery();
    kernel.tcp.snd_ssthresh
}

#[test]
fn loss_is_congestive_from_three_queued_packets_on() {
    // N = 100 (RTT - 40 ms) / RTT: 2.9997 and 3.002 packets.
    assert_eq!(kept(native::find(ID), BASE_US), 80);
    assert_eq!(kept(native::find(ID), 41_237), 80);
    assert_eq!(kept(native::find(ID), 41_238), 50);
    assert_eq!(kept(native::find(ID), 4_000_000), 50);
    // The kernel's rounding: 2.5 packets.
    let kernels = native::tuned(ID, &["beta=5"]);
    assert_eq!((kept(&kernels, 41_025), kept(&kernels, 41_026)), (80, 50));
}

#[test]
fn random_loss_keeps_four_fifths() {
    for (cwnd, expected) in [(1_000_000, 800_000), (1000, 800), (99, 79), (5, 4), (3, 2), (2, 2), (1, 2)] {
        let mut kernel = connection(native::find(ID), cwnd);
        kernel.enter_recovery();
        assert_eq!((kernel.tcp.snd_ssthresh, losses(&kernel)), (expected, [1, 0]));
    }
}

/// Time from one window to another, in ms.
fn ms_between(flow: &mut Flow, from: u32, to: u32) -> u64 {
    flow.run_until(|flow| flow.cwnd() >= from);
    let begin_us = flow.now_us();
    flow.run_until(|flow| flow.cwnd() >= to);
    (flow.now_us() - begin_us) / 1000
}

/// The path holds 40 packets: up to 43 a packet takes one round trip, beyond two, each as long as the window in ms.
#[test]
fn growth_is_half_as_fast_with_a_queue() {
    let mut flow = Flow::new(native::find(ID), 20, 2, [BASE_US.into(), 1_000]);
    let alone = ms_between(&mut flow, 25, 38);
    assert!(alone.abs_diff(13 * 40) <= 45, "13 packets took {alone} ms");
    assert_eq!(flow.phase(ID), "available");
    let queued = ms_between(&mut flow, 46, 56);
    let expected: u64 = (46..56).map(|cwnd| 2 * cwnd).sum();
    assert!(queued.abs_diff(expected) <= 60, "10 packets took {queued} ms, not {expected}");
    assert_eq!(flow.phase(ID), "congested");
}

#[test]
fn disordered_acks_decide_nothing() {
    let mut kernel = connection(native::find(ID), 100);
    acknowledge(&mut kernel, BASE_US);
    kernel.set_state(state::DISORDER);
    acknowledge(&mut kernel, 10 * BASE_US);
    kernel.enter_recovery();
    assert_eq!(losses(&kernel), [1, 0]);
}

/// Both forms in which a kernel tells of idle time: the RTT before is not the base of what comes after.
#[test]
fn base_is_measured_anew_after_idle_time() {
    type Resume = fn(&mut Kernel<Socket>);
    let by_event: Resume = |kernel| kernel.cc.cwnd_event(&mut kernel.tcp, event::TX_START);
    let by_callback: Resume = |kernel| kernel.cc.cwnd_event_tx_start(&mut kernel.tcp);
    let not_at_all: Resume = |_| {};
    for (resume, expected) in [(by_event, 80), (by_callback, 80), (not_at_all, 50)] {
        let mut kernel = connection(native::find(ID), 100);
        acknowledge(&mut kernel, BASE_US);
        resume(&mut kernel);
        acknowledge(&mut kernel, 2 * BASE_US);
        kernel.tcp.snd_cwnd = 100;
        kernel.enter_recovery();
        assert_eq!(kernel.tcp.snd_ssthresh, expected);
    }
}
