//! Tahoe's window after losses: `bpf/cc/tahoe.bpf.c`, equations and numbered differences.

use crate::algorithms::connection::Connection;
use crate::algorithms::native::{CongestionControl, INFINITE_SSTHRESH};
use crate::algorithms::operations::Operation;

const ID: &str = "tahoe";

/// In a recovery, with everything in flight that a window of this many packets holds.
fn in_recovery(cwnd: u32) -> Connection<'static> {
    Connection::avoiding(ID, cwnd).after(&[Operation::Lose])
}

/// The thresholds before the first ACK of a recovery and after each of these.
fn aims(flow: &mut Connection, acks: usize) -> Vec<u32> {
    let mut aims = vec![flow.ssthresh()];
    for _ in 0..acks {
        flow.ack(1, 40_000);
        aims.push(flow.ssthresh());
    }
    aims
}

#[test]
fn loss_restarts_from_one_packet_and_half_the_window_ends_slow_start() {
    for (cwnd, half) in [(40, 20), (41, 20), (5, 2), (2, 2), (1, 2), (INFINITE_SSTHRESH, INFINITE_SSTHRESH / 2)] {
        let mut flow = Connection::avoiding(ID, cwnd);
        flow.lose();
        assert_eq!(flow.windows(), (1, half), "from {cwnd}");
    }
}

#[test]
fn every_reduction_restarts_from_one_packet() {
    let check = |what: &str, operations: &[Operation]| {
        let mut flow = Connection::avoiding(ID, 40).after(operations);
        flow.recover();
        assert_eq!(flow.windows(), (1, 20), "{what}");
    };
    check("a mark", &[Operation::Mark]);
    check("a loss after a mark goes on with the same reduction", &[Operation::Mark, Operation::Lose]);
    check("a timeout", &[Operation::TimeOut]);
    check("a timeout inside a recovery", &[Operation::Lose, Operation::TimeOut]);
}

/// log2(64 / 2) round trips of slow start, then a packet a round.
#[test]
fn window_doubles_up_to_half_and_then_grows_by_one() {
    let mut flow = Connection::avoiding(ID, 64);
    flow.lose();
    for expected in [2, 4, 8, 16, 32, 33, 34, 35] {
        let window = flow.cwnd();
        flow.call(|cc, tcp| cc.cong_avoid(tcp, window));
        assert_eq!(flow.cwnd(), expected);
    }
}

/// While losses are repaired the kernel leads the window to no more than slow start would have.
#[test]
fn recovery_aims_at_what_slow_start_has_up_to_half_of_the_window() {
    let mut flow = in_recovery(40);
    assert_eq!(aims(&mut flow, 4), [2, 2, 3, 4, 5]);
    flow.recover();
    assert_eq!(flow.windows(), (5, 20));
    let reduced = Connection::avoiding(ID, 40).after(&[Operation::Mark]);
    assert_eq!(reduced.ssthresh(), 2, "a mark begins no lower");
    assert_eq!(aims(&mut in_recovery(8), 7).into_iter().max(), Some(4));
}

#[test]
fn spurious_loss_restores_both() {
    let mut flow = Connection::of(ID, 40, 30);
    flow.enter_recovery();
    flow.leave();
    assert_eq!(flow.windows(), (40, 30));
}
