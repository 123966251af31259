//! Discrete TCP against its decrease table: `bpf/cc/dtcp.bpf.c`, equations and numbered differences.

use tccc::catalog;

use crate::algorithms::kernel::{Acked, Kernel};
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Socket, Tcp, event, state};
use crate::algorithms::operations::{self, Operation};
use crate::algorithms::rounds::connect as connection;

fn dtcp(cwnd: u32, ssthresh: u32) -> Kernel<Socket<'static>> {
    connection(native::find("dtcp"), cwnd, ssthresh)
}

/// losses_ss, losses_ca, rtos.
fn counters(kernel: &Kernel<Socket>) -> [u64; 3] {
    ["losses_ss", "losses_ca", "rtos"].map(|name| native::field(&kernel.cc, "dtcp", name))
}

fn time_out(kernel: &mut Kernel<Socket>) {
    operations::apply(kernel, Operation::TimeOut, 0);
}

fn acknowledge(kernel: &mut Kernel<Socket>, packets: u32) {
    operations::apply(kernel, Operation::Ack { packets, rtt_us: 40_000 }, 0);
}

const INSIDE_RECOVERY: u32 = 40;

/// A connection that lost a packet in linear growth and has been reduced.
fn in_recovery() -> Kernel<Socket<'static>> {
    let mut kernel = dtcp(INSIDE_RECOVERY, 20);
    operations::apply(&mut kernel, Operation::Lose, 0);
    assert_eq!((kernel.tcp.ca_state, kernel.tcp.snd_ssthresh), (state::RECOVERY, 30));
    kernel
}

#[test]
fn decrease_follows_the_table_for_every_window() {
    for cwnd in (1..=1000).chain([65_535, 1 << 20, INFINITE_SSTHRESH - 1, INFINITE_SSTHRESH]) {
        let wide = u64::from(cwnd);
        let check = |ssthresh: u32, expected: u64, losses: [u64; 3]| {
            let mut kernel = dtcp(cwnd, ssthresh);
            kernel.enter_recovery();
            assert_eq!(u64::from(kernel.tcp.snd_ssthresh), expected.max(2), "{cwnd} with threshold {ssthresh}");
            assert_eq!(counters(&kernel), losses);
        };
        if cwnd < INFINITE_SSTHRESH {
            check(cwnd + 1, wide / 2, [1, 0, 0]);
            check(INFINITE_SSTHRESH, wide / 2, [1, 0, 0]);
        }
        check(cwnd, 3 * wide / 4, [0, 1, 0]);
        check(2.min(cwnd), 3 * wide / 4, [0, 1, 0]);
    }
}

#[test]
fn congestion_mark_is_a_loss_of_the_same_phase() {
    for (ssthresh, expected, losses) in [(INFINITE_SSTHRESH, 20, [1, 0, 0]), (40, 30, [0, 1, 0])] {
        let mut kernel = dtcp(40, ssthresh);
        kernel.enter_cwr();
        assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (expected, losses));
    }
}

type Step = fn(&mut Kernel<Socket>);

const LOSE: Step = |kernel| operations::apply(kernel, Operation::Lose, 0);
const MARK: Step = |kernel| kernel.enter_cwr();

/// A connection of 40 packets in linear growth: what happens to it, its threshold afterwards, and the counters.
#[test]
fn threshold_and_counters_follow_the_event_table() {
    let check = |what: &str, steps: &[Step], ssthresh: u32, losses: [u64; 3]| {
        let mut kernel = dtcp(INSIDE_RECOVERY, 20);
        steps.iter().for_each(|step| step(&mut kernel));
        assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (ssthresh, losses), "{what}");
    };
    check("more losses in recovery make no second reduction", &[LOSE, LOSE, MARK], 30, [0, 1, 0]);
    check("a timeout inside recovery halves the window before it", &[LOSE, time_out], 20, [0, 1, 1]);
    check("a timeout inside a reduction by marks halves too", &[MARK, time_out], 20, [0, 1, 1]);
    for timeouts in 2..=4 {
        let steps = [&[LOSE][..], &[time_out as Step; 4][..timeouts]].concat();
        check("timeouts of the same loss halve once", &steps, 20, [0, 1, 1]);
    }
    let progress: Step = |kernel| {
        acknowledge(kernel, 1);
        acknowledge(kernel, 2);
        assert_eq!((kernel.tcp.ca_state, kernel.tcp.snd_cwnd), (state::LOSS, 4));
    };
    check("a timeout after progress in loss halves again", &[time_out, progress, time_out], 2, [0, 0, 2]);
    // The kernel's reordering timer enters recovery without an ACK.
    let by_timer: Step = |kernel| {
        (kernel.tcp.snd_cwnd, kernel.tcp.lost_out) = (50, 1);
        kernel.enter_recovery();
    };
    check("a recovery that no ACK began has the window at its beginning", &[by_timer, time_out], 25, [0, 1, 1]);
    // All that recovery waited for is acknowledged, but the state has not been left yet.
    let complete: Step = |kernel| kernel.tcp.snd_una = kernel.high_seq;
    check("a timeout when recovery is complete counts once", &[LOSE, complete, time_out], 20, [0, 1, 1]);
    let shrink_mtu: Step = |kernel| {
        operations::apply(kernel, Operation::ShrinkMtu, 0);
        assert_eq!(kernel.tcp.ca_state, state::LOSS);
    };
    check("a shrunken MTU inside recovery is no timeout", &[LOSE, shrink_mtu], 30, [0, 1, 0]);
}

#[test]
fn spurious_reductions_are_taken_back_to_before_the_first() {
    for steps in [&[LOSE][..], &[time_out], &[LOSE, time_out]] {
        let mut kernel = dtcp(40, 30);
        steps.iter().for_each(|step| step(&mut kernel));
        kernel.undo();
        assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (40, 30), "after {} events", steps.len());
    }
}

#[test]
fn timeout_halves_whatever_the_phase() {
    for ssthresh in [INFINITE_SSTHRESH, 20] {
        let mut kernel = dtcp(41, ssthresh);
        time_out(&mut kernel);
        assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh, kernel.tcp.ca_state), (1, 20, state::LOSS));
        assert_eq!(counters(&kernel), [0, 0, 1]);
    }
}

#[test]
fn timeout_leaves_two_packets_of_threshold() {
    let mut kernel = dtcp(1, 2);
    time_out(&mut kernel);
    assert_eq!(kernel.tcp.snd_ssthresh, 2);
}

#[test]
fn timeout_later_in_recovery_halves_the_window_at_the_last_ack() {
    let mut kernel = in_recovery();
    for _ in 0..20 {
        operations::apply(&mut kernel, Operation::Sack, 0);
    }
    let at_last_ack = kernel.tcp.snd_cwnd;
    assert!((30..INSIDE_RECOVERY).contains(&at_last_ack), "recovery shrank the window to {at_last_ack}");
    kernel.cc.in_ack_event(&mut kernel.tcp, 0);
    time_out(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (at_last_ack / 2, [0, 1, 1]));
}

#[test]
fn loss_in_the_slow_start_after_a_timeout_halves() {
    let mut kernel = dtcp(40, 30);
    // Most of the window has arrived, and nothing more is sent: few packets are left to grow on.
    kernel.tcp.sacked_out = 30;
    time_out(&mut kernel);
    operations::apply(&mut kernel, Operation::Finish, 0);
    let cwnd = kernel.tcp.snd_cwnd;
    assert_eq!((kernel.tcp.ca_state, kernel.tcp.snd_ssthresh), (state::OPEN, 20));
    assert!(kernel.tcp.in_slow_start(), "{cwnd} packets are past the threshold");
    operations::apply(&mut kernel, Operation::Lose, 0);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), ((cwnd / 2).max(2), [1, 0, 1]));
}

#[test]
fn events_other_than_loss_change_nothing() {
    for other in [event::TX_START, event::CWND_RESTART, event::COMPLETE_CWR] {
        let mut kernel = dtcp(40, 20);
        let before = (kernel.tcp.clone(), kernel.cc.private());
        kernel.cc.cwnd_event(&mut kernel.tcp, other);
        assert_eq!((kernel.tcp.clone(), kernel.cc.private()), before);
    }
}

#[test]
fn shares_are_tunables() {
    let native = native::tuned("dtcp", &["keep_slow_start=768", "keep_avoidance=896", "keep_timeout=256"]);
    let after = |ssthresh: u32, cut: fn(&mut Kernel<Socket>)| {
        let mut kernel = connection(&native, 40, ssthresh);
        cut(&mut kernel);
        kernel.tcp.snd_ssthresh
    };
    assert_eq!(after(INFINITE_SSTHRESH, |kernel| kernel.enter_recovery()), 30);
    assert_eq!(after(20, |kernel| kernel.enter_recovery()), 35);
    assert!(catalog::find("dtcp").unwrap().settings(&["keep_avoidance=1024"]).is_err(), "it would never reduce");
    assert_eq!(after(20, time_out), 10);
}

#[test]
fn growth_carries_the_rest_past_the_threshold() {
    let mut kernel = dtcp(18, 20);
    acknowledge(&mut kernel, 12);
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_cwnd_cnt), (20, 10));
    acknowledge(&mut kernel, 10);
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_cwnd_cnt), (21, 0));
}

#[test]
fn application_limited_window_does_not_grow() {
    let mut kernel = dtcp(40, 20);
    (kernel.tcp.is_cwnd_limited, kernel.tcp.packets_out) = (0, 10);
    let acked = Acked { delivered: 10, in_order: 10, ..Acked::default() };
    let before: Tcp = kernel.tcp.clone();
    kernel.control(acked);
    assert_eq!(kernel.tcp, before);
}
