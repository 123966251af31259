//! Tahoe's window after losses: `bpf/cc/tahoe.bpf.c`.

use super::*;

const ID: &str = "tahoe";

/// In recovery with a full window in flight.
fn in_recovery(cwnd: u32) -> Endpoint<'static> {
    Endpoint::avoiding(ID, cwnd).after(&[Operation::Lose])
}

/// The thresholds before and after each ACK of a recovery.
fn aims(flow: &mut Endpoint, acks: usize) -> Vec<u32> {
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
        let mut flow = Endpoint::avoiding(ID, cwnd);
        flow.lose();
        assert_eq!(flow.windows(), (1, half), "from {cwnd}");
    }
}

#[test]
fn every_reduction_restarts_from_one_packet() {
    let check = |what: &str, operations: &[Operation]| {
        let mut flow = Endpoint::avoiding(ID, 40).after(operations);
        flow.recover();
        assert_eq!(flow.windows(), (1, 20), "{what}");
    };
    check("a mark", &[Operation::Mark]);
    check("a loss after a mark goes on with the same reduction", &[Operation::Mark, Operation::Lose]);
    check("a timeout", &[Operation::TimeOut]);
    check("a timeout inside a recovery", &[Operation::Lose, Operation::TimeOut]);
}

/// The next algorithm once began with the window of the recovery as its threshold.
#[test]
fn algorithm_that_takes_over_in_a_recovery_begins_with_the_real_threshold() {
    let mut flow = in_recovery(40);
    assert_eq!(flow.ssthresh(), 2);
    flow.call(|cc, tcp| cc.release(tcp));
    assert_eq!(flow.ssthresh(), 20);
}

/// During recovery the window grows as in slow start.
#[test]
fn recovery_aims_at_what_slow_start_has_up_to_half_of_the_window() {
    let mut flow = in_recovery(40);
    assert_eq!(aims(&mut flow, 4), [2, 2, 3, 4, 5]);
    flow.recover();
    assert_eq!(flow.windows(), (5, 20));
    let reduced = Endpoint::avoiding(ID, 40).after(&[Operation::Mark]);
    assert_eq!(reduced.ssthresh(), 2, "a mark begins no lower");
    assert_eq!(aims(&mut in_recovery(8), 7).into_iter().max(), Some(4));
}
