//! Delayed Fast Recovery against its event table: `bpf/cc/dfr.bpf.c`. Its steps also serve the tests of msack.

use tccc::author::ring::path::{Fate, SimulatedPath, Transmission};

use super::*;

/// Bit of `in_ack_event` for an echoed congestion mark (`CA_ACK_ECE`).
const ACK_ECE: u32 = 1 << 2;

impl Endpoint<'_> {
    /// Passes an ACK that acknowledges nothing new. As in the kernel, losses are marked after the callbacks.
    pub fn hear(&mut self, rtt_us: Option<u32>) {
        self.acked(Acked { rtt_us, ..Acked::default() }, 0);
    }

    /// Passes an ACK that echoes a congestion mark.
    pub fn hear_mark(&mut self) {
        self.acked(Acked::default(), ACK_ECE);
    }

    /// Marks packets as lost, which begins recovery.
    pub fn mark_lost(&mut self, packets: u32) {
        let tcp = &mut self.tcp;
        tcp.lost_out = (tcp.lost_out + packets).min(tcp.packets_out);
        tcp.lost += packets;
        if tcp.ca_state != state::RECOVERY {
            self.begin_recovery();
        }
    }

    fn begin_recovery(&mut self) {
        self.enter_recovery();
        // The retransmission is not known to be spurious.
        self.undo_retrans = 1;
    }

    /// Marks packets as lost and passes the next ACK, whose callbacks see the loss first during recovery.
    fn mark_lost_and_ack(&mut self, packets: u32) {
        self.mark_lost(packets);
        self.hear(None);
    }

    /// Acknowledges everything up to this packet, which may end recovery.
    pub fn acknowledge_to(&mut self, packet: u32) {
        let tcp = &mut self.tcp;
        tcp.snd_una = packet;
        tcp.packets_out = tcp.snd_nxt.wrapping_sub(packet);
        (tcp.lost_out, tcp.retrans_out) = (0, 0);
        self.hear(None);
        if self.is_recovered() {
            self.leave();
        }
    }

    /// Ends recovery, and sends the next window if nothing is in flight.
    pub fn end_recovery(&mut self) {
        self.acknowledge_to(self.high_seq);
        let tcp = &mut self.tcp;
        assert_eq!(tcp.ca_state, state::OPEN);
        if tcp.packets_out == 0 {
            tcp.snd_nxt = tcp.snd_una.wrapping_add(tcp.snd_cwnd);
            tcp.packets_out = tcp.snd_cwnd;
        }
    }

    pub fn verdict(&self) -> String {
        self.value("verdict").to_string().trim_start_matches("VERDICT_").to_lowercase()
    }

    pub fn is_first_loss(&self) -> bool {
        self.field("first_loss") == 1
    }
}

pub const LOSE: EndpointStep = |flow| flow.mark_lost(1);
const LOSE_AND_ACK: EndpointStep = |flow| flow.mark_lost_and_ack(1);
pub const TIME_OUT: EndpointStep = |flow| flow.time_out();
pub const MARK: EndpointStep = |flow| flow.hear_mark();
/// A reduction outside of recovery.
pub const REDUCE: EndpointStep = |flow| flow.enter_cwr();
const UNDO: EndpointStep = |flow| flow.undo();
const END: EndpointStep = |flow| flow.end_recovery();
/// A first loss, which is forgiven.
const FORGIVE: EndpointStep = |flow| {
    flow.mark_lost_and_ack(1);
    assert_eq!((flow.ssthresh(), counters(flow)), (40, [1, 0, 0]));
};

fn dfr(cwnd: u32, ssthresh: u32, steps: &[EndpointStep]) -> Endpoint<'static> {
    Endpoint::of("dfr", cwnd, ssthresh).through(steps)
}

fn counters(flow: &Endpoint) -> [u64; 3] {
    flow.fields(["postponed", "cut", "rtos"])
}

#[test]
fn first_loss_keeps_the_window_whatever_it_is() {
    for cwnd in [1, 2, 3, 40, 65_535, INFINITE_SSTHRESH] {
        for ssthresh in [2, INFINITE_SSTHRESH] {
            let mut flow = dfr(cwnd, ssthresh, &[LOSE]);
            assert_eq!(flow.ssthresh(), cwnd.max(2));
            assert_eq!((flow.verdict().as_str(), flow.phase()), ("postponed", "postponed"));
            assert_eq!((counters(&flow), flow.is_first_loss()), ([1, 0, 0], false));
            flow.end_recovery();
            assert_eq!(flow.cwnd(), cwnd.max(2));
        }
    }
    let widen: EndpointStep = |flow| flow.tcp.snd_cwnd = INFINITE_SSTHRESH + 1;
    let beyond = dfr(INFINITE_SSTHRESH, INFINITE_SSTHRESH, &[widen, LOSE]);
    assert_eq!(beyond.ssthresh(), INFINITE_SSTHRESH, "a window beyond any threshold");
}

#[test]
fn second_loss_in_recovery_halves_the_window_at_its_beginning_once() {
    let mut flow = dfr(40, 20, &[FORGIVE]);
    flow.tcp.snd_cwnd = 31;
    for _ in 0..3 {
        flow.mark_lost_and_ack(1);
        assert_eq!((flow.ssthresh(), counters(&flow)), (20, [1, 1, 0]));
    }
    assert_eq!((flow.verdict().as_str(), flow.phase()), ("cut", "recovery"));
    flow.end_recovery();
    assert_eq!((flow.cwnd(), flow.is_first_loss()), (20, true));
    for cwnd in 1..5 {
        assert_eq!(dfr(cwnd, 2, &[LOSE, LOSE_AND_ACK]).ssthresh(), 2, "of {cwnd}");
    }
}

/// Threshold, counters and verdict after steps of a connection with 40 packets in congestion avoidance.
#[test]
fn verdicts_follow_the_event_table() {
    let check = |what: &str, steps: &[EndpointStep], ssthresh: u32, counted: [u64; 3], verdict: &str| {
        let flow = dfr(40, 20, steps);
        let found = (flow.ssthresh(), counters(&flow), flow.verdict());
        assert_eq!(found, (ssthresh, counted, verdict.to_owned()), "{what}");
        let is_cut = verdict == "cut" || verdict == "mark";
        assert_eq!(flow.phase() == "recovery", is_cut, "{what}");
        assert!(flow.is_first_loss() || verdict == "postponed", "{what}: the next loss is a first one");
    };
    let lose_two: EndpointStep = |flow| flow.mark_lost(2);
    check("two losses at once halve at once", &[lose_two], 20, [0, 1, 0], "cut");
    let begin: EndpointStep = |flow| flow.begin_recovery();
    check("a loss that is marked later is the first", &[begin, LOSE_AND_ACK], 40, [1, 0, 0], "postponed");
    check("the one after it is not", &[begin, LOSE_AND_ACK, LOSE_AND_ACK], 20, [1, 1, 0], "cut");
    let leave: EndpointStep = |flow| {
        flow.set_state(state::OPEN);
        flow.tcp.lost_out = 0;
    };
    check("a recovery before the window has passed is cut", &[FORGIVE, leave, LOSE], 20, [1, 1, 0], "cut");
    for times in 1..=3 {
        let forgiven_then = |step: EndpointStep| [&[FORGIVE][..], &[step; 3][..times]].concat();
        check("timeouts halve a kept window once", &forgiven_then(TIME_OUT), 20, [1, 0, 1], "timeout");
        check("marks cut a kept window once", &forgiven_then(MARK), 20, [1, 1, 0], "mark");
    }
    let shrink: EndpointStep = |flow| {
        flow.tcp.snd_cwnd = 30;
        flow.hear(None);
    };
    check("a timeout", &[TIME_OUT], 20, [0, 0, 1], "timeout");
    let in_force = [FORGIVE, LOSE_AND_ACK, shrink, TIME_OUT];
    check("a timeout inside a cut recovery halves the window in force", &in_force, 15, [1, 1, 1], "timeout");
    let complete: EndpointStep = |flow| flow.tcp.snd_una = flow.high_seq;
    check("a timeout when recovery is complete counts once", &[FORGIVE, complete, TIME_OUT], 20, [1, 0, 1], "timeout");
    let shrink_mtu: EndpointStep = |flow| {
        flow.tcp.retrans_out = 1;
        flow.apply(Operation::ShrinkMtu);
        assert_eq!(flow.tcp.ca_state, state::LOSS);
    };
    check("a shrunken MTU inside recovery is no timeout", &[FORGIVE, shrink_mtu], 40, [1, 0, 0], "postponed");
    check("a loss reported with a mark is cut", &[MARK, LOSE], 20, [0, 1, 0], "mark");
    check("a mark cuts", &[MARK, REDUCE], 20, [0, 1, 0], "mark");
    let lose_more: EndpointStep = |flow| {
        flow.mark_lost_and_ack(3);
        assert_eq!(flow.tcp.ca_state, state::RECOVERY);
    };
    check("losses after a mark cut no more", &[MARK, REDUCE, LOSE, lose_more], 20, [0, 1, 0], "mark");
    // A tail loss probe repaired a loss, or this host dropped a packet.
    check("a reduction without mark or recovery is cut as a loss", &[REDUCE], 20, [0, 1, 0], "cut");
}

#[test]
fn loss_counter_may_wrap() {
    for lost in [u32::MAX - 1, u32::MAX] {
        let mut flow = dfr(40, 20, &[]);
        (flow.tcp.lost, flow.tcp.lost_out) = (lost, 1);
        flow.begin_recovery();
        flow.tcp.lost = lost.wrapping_add(1);
        flow.hear(None);
        assert_eq!(counters(&flow), [1, 1, 0]);
    }
}

#[test]
fn loss_after_a_clean_window_is_a_first_one_at_any_sequence_number() {
    for una in [0, u32::MAX - 39, u32::MAX - 20, u32::MAX / 2 - 20] {
        let mut flow = dfr(40, 20, &[]);
        (flow.tcp.snd_una, flow.tcp.snd_nxt) = (una, una.wrapping_add(40));
        flow.mark_lost(1);
        flow.acknowledge_to(una.wrapping_add(39));
        assert!(!flow.is_first_loss(), "39 of 40 packets are acknowledged");
        flow.acknowledge_to(una.wrapping_add(40));
        assert!(flow.is_first_loss());
        flow.mark_lost(1);
        assert_eq!((flow.ssthresh(), counters(&flow)), (40, [2, 0, 0]));
    }
}

/// Window and threshold after steps of a connection with 40 packets.
#[test]
fn reductions_end_at_these_windows() {
    const NONE: u32 = INFINITE_SSTHRESH;
    let spurious: EndpointStep = |flow| {
        flow.tcp.snd_cwnd = 33;
        flow.undo_retrans = 0;
    };
    let lose_two: EndpointStep = |flow| flow.mark_lost(2);
    let check = |what: &str, ssthresh: u32, steps: &[EndpointStep], expected: (u32, u32)| {
        let flow = dfr(40, ssthresh, steps);
        assert_eq!((flow.windows(), flow.is_first_loss()), (expected, true), "{what}, threshold {ssthresh}");
    };
    for ssthresh in [100, NONE] {
        check("slow start goes on after a forgiven loss", ssthresh, &[LOSE, END], (40, ssthresh));
        check("slow start ends after a cut", ssthresh, &[LOSE, LOSE_AND_ACK, END], (20, 20));
    }
    for ssthresh in [20, NONE] {
        check("a reduction without mark or recovery", ssthresh, &[REDUCE, END], (20, 20));
        check("a timeout", ssthresh, &[TIME_OUT], (1, 20));
    }
    for (ssthresh, after_cut, after_forgiven) in [(20, 30, 40), (NONE, NONE, NONE)] {
        check("an undone cut", ssthresh, &[lose_two, UNDO], (40, after_cut));
        check("an undone forgiven loss", ssthresh, &[LOSE, spurious, END], (40, after_forgiven));
    }
}

#[test]
fn restart_after_idle_makes_the_next_loss_a_first_one() {
    let mut flow = dfr(40, 20, &[FORGIVE]);
    flow.set_state(state::OPEN);
    for other in [event::TX_START, event::COMPLETE_CWR] {
        flow.call(|cc, tcp| cc.cwnd_event(tcp, other));
        assert!(!flow.is_first_loss());
    }
    flow.restart_after_idle(1, 10);
    assert!(flow.is_first_loss());
}

/// The windows outside recovery after losses in one window of 40 packets, over a whole path.
fn windows_after(lost: &'static [u32]) -> Vec<u32> {
    let is_lost = move |sent: &Transmission| !sent.is_again && lost.contains(&sent.packet);
    let fate = Box::new(move |sent: &Transmission| if is_lost(sent) { Fate::Lost } else { Fate::Arrives });
    let quiet = SimulatedPath::quiet("losses", 6);
    let path = SimulatedPath { initial_cwnd: 40, initial_ssthresh: 40, fate, ..quiet };
    let mut windows = Vec::new();
    SimulatedSender::new(native::find("dfr").socket(0), path).run(|round, _| {
        if round.ca_state == state::OPEN {
            windows.push(round.cwnd);
        }
    });
    windows
}

#[test]
fn path_with_one_loss_in_a_window_keeps_it_and_with_two_halves_it() {
    for (lost, lowest) in [(&[] as &[u32], 41), (&[5], 40), (&[5, 20], 20)] {
        assert_eq!(windows_after(lost).iter().min(), Some(&lowest), "{lost:?}");
    }
}
