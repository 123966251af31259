//! Discrete TCP against its decrease table: `bpf/cc/dtcp.bpf.c`.

use super::*;

fn dtcp(cwnd: u32, ssthresh: u32) -> Endpoint<'static> {
    Endpoint::of("dtcp", cwnd, ssthresh)
}

fn counters(flow: &Endpoint) -> [u64; 3] {
    flow.fields(["losses_ss", "losses_ca", "rtos"])
}

#[test]
fn decrease_follows_the_table_for_every_window() {
    for cwnd in (1..=1000).chain([65_535, 1 << 20, INFINITE_SSTHRESH - 1, INFINITE_SSTHRESH]) {
        let wide = u64::from(cwnd);
        let check = |ssthresh: u32, expected: u64, losses: [u64; 3]| {
            let mut flow = dtcp(cwnd, ssthresh);
            assert_eq!(u64::from(flow.reduce()), expected.max(2), "{cwnd} with threshold {ssthresh}");
            assert_eq!(counters(&flow), losses);
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
        let mut flow = dtcp(40, ssthresh);
        flow.enter_cwr();
        assert_eq!((flow.ssthresh(), counters(&flow)), (expected, losses));
    }
}

const LOSE: EndpointStep = |flow| flow.apply(Operation::Lose);
const MARK: EndpointStep = |flow| flow.enter_cwr();
const TIME_OUT: EndpointStep = |flow| flow.time_out();

/// Threshold and counters after steps of a connection with 40 packets in congestion avoidance.
#[test]
fn threshold_and_counters_follow_the_event_table() {
    let check = |what: &str, steps: &[EndpointStep], ssthresh: u32, losses: [u64; 3]| {
        let flow = dtcp(40, 20).through(steps);
        assert_eq!((flow.ssthresh(), counters(&flow)), (ssthresh, losses), "{what}");
    };
    check("more losses in recovery make no second reduction", &[LOSE, LOSE, MARK], 30, [0, 1, 0]);
    check("a timeout inside recovery halves the window before it", &[LOSE, TIME_OUT], 20, [0, 1, 1]);
    check("a timeout inside a reduction by marks halves too", &[MARK, TIME_OUT], 20, [0, 1, 1]);
    for timeouts in 2..=4 {
        let steps = [&[LOSE][..], &[TIME_OUT; 4][..timeouts]].concat();
        check("timeouts of the same loss halve once", &steps, 20, [0, 1, 1]);
    }
    let progress: EndpointStep = |flow| {
        flow.ack(1, 40_000);
        flow.ack(2, 40_000);
        assert_eq!((flow.tcp.ca_state, flow.cwnd()), (state::LOSS, 4));
    };
    check("a timeout after progress in loss halves again", &[TIME_OUT, progress, TIME_OUT], 2, [0, 0, 2]);
    // The reordering timer enters recovery without an ACK.
    let by_timer: EndpointStep = |flow| {
        (flow.tcp.snd_cwnd, flow.tcp.lost_out) = (50, 1);
        flow.enter_recovery();
    };
    check("a recovery that no ACK began has the window at its beginning", &[by_timer, TIME_OUT], 25, [0, 1, 1]);
    // Everything that recovery waits for is acknowledged, but the state is still Recovery.
    let complete: EndpointStep = |flow| flow.tcp.snd_una = flow.high_seq;
    check("a timeout when recovery is complete counts once", &[LOSE, complete, TIME_OUT], 20, [0, 1, 1]);
    let shrink_mtu: EndpointStep = |flow| {
        flow.apply(Operation::ShrinkMtu);
        assert_eq!(flow.tcp.ca_state, state::LOSS);
    };
    check("a shrunken MTU inside recovery is no timeout", &[LOSE, shrink_mtu], 30, [0, 1, 0]);
}

#[test]
fn spurious_reductions_are_taken_back_to_before_the_first() {
    for steps in [&[LOSE][..], &[TIME_OUT], &[LOSE, TIME_OUT]] {
        let mut flow = dtcp(40, 30).through(steps);
        flow.undo();
        assert_eq!(flow.windows(), (40, 30), "after {} events", steps.len());
    }
}

#[test]
fn timeout_halves_whatever_the_phase() {
    for (cwnd, ssthresh, kept) in [(41, INFINITE_SSTHRESH, 20), (41, 20, 20), (1, 2, 2)] {
        let flow = dtcp(cwnd, ssthresh).after(&[Operation::TimeOut]);
        assert_eq!((flow.windows(), flow.tcp.ca_state), ((1, kept), state::LOSS));
        assert_eq!(counters(&flow), [0, 0, 1]);
    }
}

#[test]
fn timeout_later_in_recovery_halves_the_window_at_the_last_ack() {
    let mut flow = dtcp(40, 20).after(&[Operation::Lose]);
    assert_eq!((flow.tcp.ca_state, flow.ssthresh()), (state::RECOVERY, 30));
    flow = flow.after(&[Operation::Sack; 20]);
    let at_last_ack = flow.cwnd();
    assert!((30..40).contains(&at_last_ack), "recovery shrank the window to {at_last_ack}");
    flow.call(|cc, tcp| cc.in_ack_event(tcp, 0));
    flow.time_out();
    assert_eq!((flow.ssthresh(), counters(&flow)), (at_last_ack / 2, [0, 1, 1]));
}

#[test]
fn loss_in_the_slow_start_after_a_timeout_halves() {
    let mut flow = dtcp(40, 30);
    // Most of the window has arrived and nothing more is sent, so slow start lasts few packets.
    flow.tcp.sacked_out = 30;
    flow.time_out();
    flow.apply(Operation::Finish);
    let cwnd = flow.cwnd();
    assert_eq!((flow.tcp.ca_state, flow.ssthresh()), (state::OPEN, 20));
    assert!(flow.tcp.in_slow_start(), "{cwnd} packets are past the threshold");
    flow.apply(Operation::Lose);
    assert_eq!((flow.ssthresh(), counters(&flow)), ((cwnd / 2).max(2), [1, 0, 1]));
}

#[test]
fn shares_are_tunables() {
    let native = native::tuned("dtcp", &["keep_slow_start=768", "keep_avoidance=896", "keep_timeout=256"]);
    let after = |ssthresh, event| Endpoint::over(native, 40, ssthresh).after(&[event]).ssthresh();
    assert_eq!([INFINITE_SSTHRESH, 20].map(|ssthresh| after(ssthresh, Operation::Lose)), [30, 35]);
    assert_eq!(after(20, Operation::TimeOut), 10);
    assert!(catalog::find("dtcp").unwrap().settings(&["keep_avoidance=1024"]).is_err(), "it would never reduce");
}
