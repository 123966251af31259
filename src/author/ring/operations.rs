//! Random operations on one connection. The kernel could see each of them at that moment.

use proptest::prelude::*;

use super::kernel::{Acked, SimulatedKernel};
use super::native::{CongestionControl, INFINITE_SSTHRESH, Tcp, state};

#[derive(Debug, Clone, Copy)]
pub enum Operation {
    /// Acknowledges packets in sequence.
    Ack {
        packets: u32,
        rtt_us: u32,
    },
    /// Acknowledges one packet out of sequence.
    Sack,
    Lose,
    /// An ACK echoes a congestion mark.
    Mark,
    TimeOut,
    /// Acknowledges everything outstanding.
    Finish,
    /// The latest reduction proves unnecessary.
    Undo,
    /// Idle for some timeouts, then a restart.
    Idle {
        timeouts: u32,
    },
    Limit {
        by_window: bool,
    },
    ShrinkMtu,
    Mss {
        bytes: u32,
    },
    Clamp {
        packets: u32,
    },
    /// Data of the other end arrives.
    Receive {
        packets: u32,
        is_marked: bool,
    },
}

/// The beginning of a connection, in packets.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    pub cwnd: u32,
    pub ssthresh: u32,
    pub clamp: u32,
}

/// Any window that the kernel can hold, in packets; small and very large ones are frequent.
pub fn window() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1..200u32, 2 => 1..100_000u32, 1 => INFINITE_SSTHRESH - 100_000..=INFINITE_SSTHRESH]
}

/// Any window, threshold and clamp that the kernel can give a new connection.
pub fn start() -> impl Strategy<Value = Start> {
    let ssthresh = prop_oneof![Just(INFINITE_SSTHRESH), window().prop_map(|w| w.max(2))];
    let clamp = prop_oneof![Just(INFINITE_SSTHRESH), window()];
    (window(), ssthresh, clamp).prop_map(|(cwnd, ssthresh, clamp)| Start { cwnd: cwnd.min(clamp), ssthresh, clamp })
}

fn operation() -> impl Strategy<Value = Operation> {
    let rtt_us = prop_oneof![1..1_000u32, 1_000..1_000_000u32, 1_000_000..=100_000_000u32];
    prop_oneof![
        12 => (1..200u32, rtt_us).prop_map(|(packets, rtt_us)| Operation::Ack { packets, rtt_us }),
        2 => Just(Operation::Sack),
        3 => Just(Operation::Lose),
        2 => Just(Operation::Mark),
        2 => Just(Operation::TimeOut),
        4 => Just(Operation::Finish),
        1 => Just(Operation::Undo),
        1 => (0..40u32).prop_map(|timeouts| Operation::Idle { timeouts }),
        2 => any::<bool>().prop_map(|by_window| Operation::Limit { by_window }),
        1 => Just(Operation::ShrinkMtu),
        1 => (48..65_000u32).prop_map(|bytes| Operation::Mss { bytes }),
        1 => window().prop_map(|packets| Operation::Clamp { packets }),
        2 => (1..20u32, any::<bool>()).prop_map(|(packets, is_marked)| Operation::Receive { packets, is_marked }),
    ]
}

pub fn operations() -> impl Strategy<Value = Vec<Operation>> {
    proptest::collection::vec(operation(), 1..120)
}

/// Opens a connection with a full window in flight.
pub fn connect<C: CongestionControl>(mut cc: C, start: Start) -> SimulatedKernel<C> {
    cc.set_clock(0);
    let tcp = Tcp {
        snd_cwnd: start.cwnd,
        snd_ssthresh: start.ssthresh,
        snd_cwnd_clamp: start.clamp,
        mss_cache: 1448,
        is_cwnd_limited: 1,
        ..Tcp::default()
    };
    let mut kernel = SimulatedKernel::new(cc, tcp);
    fill(&mut kernel);
    kernel
}

/// Sends as much as the window allows, retransmissions first.
fn fill<C: CongestionControl>(kernel: &mut SimulatedKernel<C>) {
    kernel.ask_for_segments();
    let tcp = &mut kernel.tcp;
    let is_limited = tcp.is_cwnd_limited == 1;
    let allowed = if tcp.is_cwnd_limited == 1 { tcp.snd_cwnd } else { tcp.snd_cwnd / 2 };
    let room = allowed.saturating_sub(tcp.in_flight());
    let again = room.min(tcp.lost_out - tcp.retrans_out);
    let end = tcp.snd_nxt.wrapping_add(room - again);
    if room > again {
        kernel.rate.sent_in_order(tcp, end, kernel.now_us);
    }
    tcp.retrans_out += again;
    tcp.packets_out += room - again;
    tcp.snd_nxt = end;
    tcp.count_sent(room);
    tcp.max_packets_out = tcp.max_packets_out.max(tcp.packets_out);
    kernel.undo_retrans = kernel.undo_retrans.saturating_add(again);
    if kernel.is_reducing() {
        kernel.prr_out = kernel.prr_out.saturating_add(room);
    }
    if !is_limited {
        kernel.limit_by_application();
    }
}

/// Applies one operation. An operation that is impossible at this moment does nothing.
pub fn apply<C: CongestionControl>(kernel: &mut SimulatedKernel<C>, operation: Operation, now_ns: u64) {
    kernel.set_clock(now_ns / 1000);
    match operation {
        Operation::Ack { packets, rtt_us } => acknowledge(kernel, packets.min(kernel.tcp.packets_out), Some(rtt_us)),
        Operation::Finish => acknowledge(kernel, kernel.tcp.packets_out, None),
        Operation::Sack => acknowledge(kernel, 0, None),
        Operation::Lose => lose(kernel),
        Operation::Mark => mark(kernel),
        Operation::TimeOut => time_out(kernel),
        Operation::Undo if kernel.tcp.ca_state >= state::CWR => kernel.undo(),
        Operation::Undo => {}
        Operation::Idle { timeouts } => idle(kernel, timeouts),
        Operation::Limit { by_window } => kernel.tcp.is_cwnd_limited = u32::from(by_window),
        Operation::ShrinkMtu => kernel.shrink_mtu(),
        Operation::Mss { bytes } => kernel.tcp.mss_cache = bytes,
        Operation::Clamp { packets } => kernel.tcp.snd_cwnd_clamp = packets,
        Operation::Receive { packets, is_marked } => kernel.data_arrives(packets, is_marked),
    }
    fill(kernel);
}

fn acknowledge<C: CongestionControl>(kernel: &mut SimulatedKernel<C>, packets: u32, rtt_us: Option<u32>) {
    let tcp = &mut kernel.tcp;
    let is_sack = packets == 0 && tcp.sacked_out + tcp.lost_out < tcp.packets_out;
    let sacked_before = tcp.sacked_out;
    tcp.sacked_out = (tcp.sacked_out + u32::from(is_sack)).min(tcp.packets_out - packets);
    let delivered = packets + tcp.sacked_out - sacked_before;
    let acked = Acked { delivered, in_order: packets, lost: 0, rtt_us };
    tcp.packets_out -= packets;
    tcp.lost_out = tcp.lost_out.min(tcp.packets_out - tcp.sacked_out);
    tcp.retrans_out = tcp.retrans_out.min(tcp.lost_out);
    tcp.snd_una = tcp.snd_una.wrapping_add(packets);
    tcp.count_acked(packets);
    tcp.delivered = tcp.delivered.wrapping_add(acked.delivered);
    tcp.srtt_us = rtt_us.map_or(tcp.srtt_us, |rtt_us| 8 * rtt_us);
    if delivered > 0 {
        kernel.rate.delivered_in_order(tcp.snd_una);
    }
    kernel.acked(acked, 0);
    if kernel.tcp.ca_state > state::DISORDER && kernel.is_recovered() {
        kernel.leave();
    }
    kernel.control(acked);
}

fn lose<C: CongestionControl>(kernel: &mut SimulatedKernel<C>) {
    let tcp = &mut kernel.tcp;
    if tcp.sacked_out + tcp.lost_out == tcp.packets_out {
        return;
    }
    tcp.lost_out += 1;
    tcp.lost += 1;
    if tcp.ca_state <= state::CWR {
        kernel.enter_recovery();
    }
}

/// The mark belongs to a packet delivered before.
fn mark<C: CongestionControl>(kernel: &mut SimulatedKernel<C>) {
    let tcp = &mut kernel.tcp;
    tcp.delivered_ce = tcp.delivered_ce.saturating_add(1).min(tcp.delivered);
    kernel.enter_cwr();
}

fn time_out<C: CongestionControl>(kernel: &mut SimulatedKernel<C>) {
    let tcp = &mut kernel.tcp;
    if tcp.packets_out == 0 {
        return;
    }
    (tcp.lost_out, tcp.retrans_out) = (tcp.packets_out - tcp.sacked_out, 0);
    kernel.enter_loss();
}

fn idle<C: CongestionControl>(kernel: &mut SimulatedKernel<C>, timeouts: u32) {
    if kernel.tcp.packets_out == 0 {
        kernel.restart_after_idle(timeouts, 10);
        kernel.start_transmission();
    }
}
