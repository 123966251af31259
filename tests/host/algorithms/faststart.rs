//! Fast Start after a pause: window, marks, pacing, and its end: `bpf/cc/faststart.bpf.c`.

use super::*;

const ID: &str = "faststart";
const RTT_US: u32 = 40_000;
/// A mark of the application that no other code sets.
const OWN_MARK: i32 = 0x48;
/// SO_PRIORITY, which setting a mark changes.
const OWN_PRIORITY: i32 = 5;
const LOW: i32 = 0x20;

/// A connection with nothing in flight since an ACK at 1 s.
fn silent(native: &Native, cwnd: u32, ssthresh: u32) -> Endpoint<'_> {
    let mut flow = Endpoint::over(native, cwnd, ssthresh);
    flow.cc.set_mark(OWN_MARK);
    flow.cc.set_priority(OWN_PRIORITY);
    flow.wait(1_000_000);
    flow.tcp.delivered = 500;
    (flow.tcp.packets_out, flow.tcp.snd_una) = (0, flow.tcp.snd_nxt);
    (flow.tcp.srtt_us, flow.tcp.rttvar_us) = (8 * RTT_US, 200_000);
    flow.sample(&[RTT_US]);
    flow
}

/// The connection at its first packet after a pause.
fn resumed(native: &Native, cwnd: u32, ssthresh: u32, pause_ms: u64) -> Endpoint<'_> {
    let mut flow = silent(native, cwnd, ssthresh);
    flow.wait(pause_ms * 1000);
    send(&mut flow);
    flow
}

/// Sends a packet and returns its mark.
fn send(flow: &mut Endpoint) -> i32 {
    flow.call(|cc, tcp| cc.min_tso_segs(tcp));
    if flow.tcp.packets_out == 0 {
        flow.start_transmission();
    }
    let mark = flow.cc.mark();
    assert_eq!(flow.cc.priority(), OWN_PRIORITY, "the application's traffic class");
    flow.tcp.packets_out += 1;
    flow.tcp.snd_nxt += 1;
    mark
}

/// After slow start half of the window, but no less than slow start may send; after avoidance one packet less.
#[test]
fn window_is_halved_after_slow_start_and_one_less_after_avoidance() {
    const NONE: u32 = INFINITE_SSTHRESH;
    let in_avoidance = [(60, 61, 30), (60, 60, 59), (60, 20, 59)];
    let in_slow_start = [(60, 30), (2, 2), (9, 9), (12, 10), (19, 10), (24, 12)].map(|(cwnd, kept)| (cwnd, NONE, kept));
    for (cwnd, ssthresh, expected) in in_avoidance.into_iter().chain(in_slow_start) {
        let flow = resumed(native::find(ID), cwnd, ssthresh, 300);
        assert_eq!(flow.windows(), (expected, ssthresh), "from {cwnd}");
        assert!(cwnd < 60 || flow.phase() == "fast_start");
    }
}

/// The kernel's own restart has already shrunk the window and raised the threshold.
#[test]
fn kernel_s_restart_is_taken_back() {
    let mut flow = silent(native::find(ID), 60, 20);
    flow.wait(1_000_000);
    flow.restart_after_idle(3, 10);
    assert_eq!(flow.windows(), (10, 45));
    flow.start_transmission();
    assert_eq!(flow.windows(), (59, 20));
}

#[test]
fn pause_shorter_than_the_timeout_changes_nothing() {
    for (pause_ms, cwnd, phase, mark) in [(240, 60, "avoidance", OWN_MARK), (241, 59, "fast_start", LOW)] {
        let mut flow = resumed(native::find(ID), 60, 20, pause_ms);
        assert_eq!((flow.cwnd(), flow.phase(), send(&mut flow)), (cwnd, phase, mark), "{pause_ms} ms");
    }
}

#[test]
fn second_to_last_packets_of_the_window_are_marked_unless_switched_off() {
    let mut flow = resumed(native::find(ID), 31, 20, 300);
    let marks: Vec<i32> = (1..30).map(|_| send(&mut flow)).collect();
    assert!(marks.iter().all(|mark| *mark == LOW), "{marks:?}");
    assert_eq!(send(&mut flow), OWN_MARK, "beyond the window");
    let mut flow = silent(native::find(ID), 31, 20);
    flow.wait(300_000);
    assert_eq!([send(&mut flow), send(&mut flow)], [OWN_MARK, LOW]);
    flow.tcp.ca_state = state::RECOVERY;
    assert_eq!(send(&mut flow), OWN_MARK, "retransmissions");
    let mut flow = resumed(native::tuned(ID, &["mark=0"]), 31, 20, 300);
    assert_eq!((flow.cwnd(), send(&mut flow)), (30, OWN_MARK));
}

/// W / srtt: 30 packets of 1448 bytes in 40 ms.
#[test]
fn window_is_paced_over_a_round_trip_until_the_first_ack() {
    assert_eq!(silent(native::find(ID), 31, 20).cc.pacing_status(), 0);
    let mut flow = resumed(native::find(ID), 31, 20, 300);
    flow.call(|cc, tcp| cc.min_tso_segs(tcp));
    assert_eq!((flow.cc.pacing_status(), flow.cc.pacing_rate()), (1, 30 * u64::from(MSS_BYTES) * 25));
    flow.sample(&[RTT_US]);
    assert_eq!(flow.cc.pacing_status(), 0);
}

/// The mark from before the pause once replaced what the application had set during the fast start.
#[test]
fn mark_that_the_application_sets_during_a_fast_start_stays() {
    const LATER_MARK: i32 = 0x88;
    const ECT: i32 = 2;
    for (set, expected) in [(LATER_MARK, LATER_MARK), (LOW | ECT, OWN_MARK)] {
        let mut flow = resumed(native::find(ID), 31, 20, 300);
        assert_eq!(send(&mut flow), LOW);
        flow.cc.set_mark(set);
        flow.cc.set_priority(OWN_PRIORITY);
        flow.tcp.ca_state = state::RECOVERY;
        assert_eq!(send(&mut flow), expected, "after {set:#x}");
    }
}

/// The limit was once switched off with the pacing, because the kernel had found pacing on already.
#[test]
fn limit_that_the_application_sets_during_a_fast_start_keeps_pacing() {
    let mut flow = resumed(native::find(ID), 31, 20, 300);
    flow.cc.set_max_pacing_rate(1_000_000);
    flow.sample(&[RTT_US]);
    assert_eq!(flow.cc.pacing_status(), 1);
}

#[test]
fn pacing_of_others_stays() {
    let mut flow = silent(native::find(ID), 31, 20);
    flow.cc.set_pacing_status(2);
    flow.wait(300_000);
    send(&mut flow);
    flow.sample(&[RTT_US]);
    assert_eq!(flow.cc.pacing_status(), 2);
}

/// A fast start of 30 packets in flight, of which some are then acknowledged.
fn under_way(acknowledged: u32) -> Endpoint<'static> {
    let mut flow = resumed(native::find(ID), 31, 20, 300);
    for _ in 1..30 {
        send(&mut flow);
    }
    for _ in 0..acknowledged {
        assert_ne!(flow.field("window"), 0);
        flow.ack(1, RTT_US);
    }
    flow
}

#[test]
fn fast_start_ends_when_its_window_has_arrived() {
    let mut flow = under_way(30);
    assert_eq!((flow.field("window"), flow.phase()), (0, "avoidance"));
    assert_eq!(send(&mut flow), OWN_MARK);
}

#[test]
fn timeout_gives_up_as_if_nothing_had_been_tried() {
    let flow = under_way(1).after(&[Operation::TimeOut]);
    assert_eq!((flow.windows(), flow.field("window")), ((10, 20), 0));
    // Not even the packet of slow start arrived.
    assert_eq!(under_way(0).after(&[Operation::TimeOut]).windows(), (1, 15), "an ordinary timeout");
}

#[test]
fn second_loss_gives_up_and_one_loss_does_not() {
    let [mut one, mut two] = [(); 2].map(|()| under_way(1).after(&[Operation::Lose]));
    assert_eq!(two.ssthresh(), 15);
    two.ack(1, RTT_US);
    assert_eq!((two.ssthresh(), two.field("window")), (10, 0));
    let mut left = under_way(1).after(&[Operation::Lose]);
    left.ack(1, RTT_US);
    left.call(|cc, tcp| cc.release(tcp));
    assert_eq!(left.ssthresh(), 15, "an algorithm that takes over begins with the real threshold");
    one.recover();
    two.recover();
    assert_eq!([one.windows(), two.windows()], [(15, 15), (10, 15)]);
}

/// From 7.1 on the kernel has a callback for the first transmission.
#[test]
fn both_forms_of_resumption_are_understood() {
    for resume in RESUMPTIONS {
        let mut flow = silent(native::find(ID), 60, 20);
        flow.wait(300_000);
        resume(&mut flow);
        assert_eq!(flow.cwnd(), 59);
    }
}
