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

#[test]
fn loss_in_recovery_makes_no_second_reduction() {
    let mut kernel = in_recovery();
    operations::apply(&mut kernel, Operation::Lose, 0);
    kernel.enter_cwr();
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (30, [0, 1, 0]));
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
fn timeout_inside_recovery_halves_the_window_before_it() {
    let mut kernel = in_recovery();
    time_out(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (INSIDE_RECOVERY / 2, [0, 1, 1]));
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
fn timeout_inside_recovery_that_no_ack_began_halves_the_window_at_its_beginning() {
    let mut kernel = dtcp(40, 20);
    // The kernel's reordering timer enters recovery without an ACK.
    kernel.tcp.snd_cwnd = 50;
    kernel.tcp.lost_out = 1;
    kernel.enter_recovery();
    time_out(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (25, [0, 1, 1]));
}

#[test]
fn timeout_inside_a_reduction_by_marks_halves_too() {
    let mut kernel = dtcp(40, 20);
    kernel.enter_cwr();
    time_out(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (20, [0, 1, 1]));
}

#[test]
fn timeouts_of_the_same_loss_halve_once() {
    let mut kernel = in_recovery();
    for _ in 0..4 {
        time_out(&mut kernel);
        assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (INSIDE_RECOVERY / 2, [0, 1, 1]));
    }
}

#[test]
fn timeout_after_progress_in_loss_halves_again() {
    let mut kernel = dtcp(40, 20);
    time_out(&mut kernel);
    acknowledge(&mut kernel, 1);
    acknowledge(&mut kernel, 2);
    let cwnd = kernel.tcp.snd_cwnd;
    assert_eq!((kernel.tcp.ca_state, cwnd), (state::LOSS, 4));
    time_out(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (2, [0, 0, 2]));
}

#[test]
fn timeout_when_recovery_is_complete_counts_once() {
    let mut kernel = in_recovery();
    // All that recovery waited for is acknowledged, but the state has not been left yet.
    kernel.tcp.snd_una = kernel.high_seq;
    time_out(&mut kernel);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (INSIDE_RECOVERY / 2, [0, 1, 1]));
}

#[test]
fn shrunken_mtu_inside_recovery_is_no_timeout() {
    let mut kernel = in_recovery();
    operations::apply(&mut kernel, Operation::ShrinkMtu, 0);
    assert_eq!(kernel.tcp.ca_state, state::LOSS);
    assert_eq!((kernel.tcp.snd_ssthresh, counters(&kernel)), (30, [0, 1, 0]));
}

#[test]
fn spurious_timeout_is_taken_back() {
    let mut kernel = dtcp(40, 30);
    time_out(&mut kernel);
    kernel.undo();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (40, 30));
}

#[test]
fn spurious_timeout_inside_recovery_is_taken_back_to_before_recovery() {
    let mut kernel = in_recovery();
    time_out(&mut kernel);
    kernel.undo();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (40, 30));
}

#[test]
fn spurious_recovery_is_taken_back() {
    let mut kernel = in_recovery();
    kernel.undo();
    assert_eq!((kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh), (40, 30));
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
