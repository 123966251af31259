//! Tahoe's window after losses: `bpf/cc/tahoe.bpf.c`, equations and numbered differences.

use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{self, CongestionControl, INFINITE_SSTHRESH, Socket, state};
use crate::algorithms::operations::{self, Operation, Start};
use crate::algorithms::rounds::{connection, lose};

const ID: &str = "tahoe";

fn windows(kernel: &Kernel<Socket>) -> (u32, u32) {
    (kernel.tcp.snd_cwnd, kernel.tcp.snd_ssthresh)
}

fn acknowledge(kernel: &mut Kernel<Socket>, packets: u32) {
    operations::apply(kernel, Operation::Ack { packets, rtt_us: 40_000 }, 0);
}

/// In a recovery, with everything in flight that a window of this many packets holds.
fn in_recovery(cwnd: u32) -> Kernel<Socket<'static>> {
    let mut kernel = connection(native::find(ID), cwnd);
    operations::apply(&mut kernel, Operation::Lose, 0);
    assert_eq!(kernel.tcp.ca_state, state::RECOVERY);
    kernel
}

#[test]
fn loss_restarts_from_one_packet_and_half_the_window_ends_slow_start() {
    for (cwnd, half) in [(40, 20), (41, 20), (5, 2), (2, 2), (1, 2), (INFINITE_SSTHRESH, INFINITE_SSTHRESH / 2)] {
        let mut kernel = connection(native::find(ID), cwnd);
        lose(&mut kernel);
        assert_eq!(windows(&kernel), (1, half), "from {cwnd}");
    }
}

/// log2(64 / 2) round trips of slow start, then a packet a round.
#[test]
fn window_doubles_up_to_half_and_then_grows_by_one() {
    let mut kernel = connection(native::find(ID), 64);
    lose(&mut kernel);
    let rounds: Vec<u32> = (0..8)
        .map(|_| {
            let window = kernel.tcp.snd_cwnd;
            kernel.cc.cong_avoid(&mut kernel.tcp, window);
            kernel.tcp.snd_cwnd
        })
        .collect();
    assert_eq!(rounds, [2, 4, 8, 16, 32, 33, 34, 35]);
}

/// While losses are repaired the kernel leads the window to no more than slow start would have.
#[test]
fn recovery_aims_at_what_slow_start_has() {
    let mut kernel = in_recovery(40);
    let aims: Vec<u32> = (0..4)
        .map(|_| {
            let aim = kernel.tcp.snd_ssthresh;
            acknowledge(&mut kernel, 1);
            aim
        })
        .collect();
    assert_eq!(aims, [2, 2, 3, 4]);
    kernel.undo_retrans = 1;
    kernel.leave();
    assert_eq!(windows(&kernel), (5, 20));
}

#[test]
fn recovery_never_ends_above_half_of_the_window() {
    let mut kernel = in_recovery(8);
    for _ in 0..7 {
        acknowledge(&mut kernel, 1);
        assert!(kernel.tcp.snd_ssthresh <= 4);
    }
}

#[test]
fn congestion_mark_is_a_loss() {
    let mut kernel = connection(native::find(ID), 40);
    kernel.enter_cwr();
    assert_eq!(kernel.tcp.snd_ssthresh, 2);
    kernel.leave();
    assert_eq!(windows(&kernel), (1, 20));
}

#[test]
fn timeout_keeps_half_also_inside_a_recovery() {
    let mut kernel = connection(native::find(ID), 40);
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!(windows(&kernel), (1, 20));
    let mut kernel = in_recovery(40);
    operations::apply(&mut kernel, Operation::TimeOut, 0);
    assert_eq!(windows(&kernel), (1, 20));
}

#[test]
fn loss_after_a_mark_goes_on_with_the_same_reduction() {
    let mut kernel = connection(native::find(ID), 40);
    kernel.enter_cwr();
    kernel.enter_recovery();
    kernel.undo_retrans = 1;
    kernel.leave();
    assert_eq!(windows(&kernel), (1, 20));
}

#[test]
fn spurious_loss_restores_both() {
    let start = Start { cwnd: 40, ssthresh: 30, clamp: INFINITE_SSTHRESH };
    let mut kernel = operations::connect(native::find(ID).socket(0xaa), start);
    kernel.enter_recovery();
    kernel.leave();
    assert_eq!(windows(&kernel), (40, 30));
}
