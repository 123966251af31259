//! A connection whose round trips have the RTT samples that a test gives them, and nothing else.

use crate::kernel::Kernel;
use crate::native::{CongestionControl, INFINITE_SSTHRESH, Native, Socket};
use crate::operations::{self, Start};

/// In congestion avoidance, with a full window in flight.
pub fn connection(native: &Native, cwnd: u32) -> Kernel<Socket<'_>> {
    operations::connect(native.socket(0xaa), Start { cwnd, ssthresh: 2, clamp: INFINITE_SSTHRESH })
}

pub fn samples(kernel: &mut Kernel<Socket>, rtts_us: &[u32]) {
    for &rtt_us in rtts_us {
        kernel.cc.pkts_acked(&mut kernel.tcp, 1, Some(rtt_us));
    }
}

/// A round that had these samples is over: an ACK of one packet of the next one arrives, without a sample.
pub fn round(kernel: &mut Kernel<Socket>, rtts_us: &[u32]) {
    samples(kernel, rtts_us);
    kernel.tcp.snd_una = kernel.tcp.snd_nxt.wrapping_add(1);
    kernel.tcp.snd_nxt = kernel.tcp.snd_nxt.wrapping_add(2);
    kernel.cc.cong_avoid(&mut kernel.tcp, 1);
}

/// A reduction, over at once, for a packet that was really lost.
pub fn lose(kernel: &mut Kernel<Socket>) {
    kernel.enter_recovery();
    kernel.undo_retrans = 1;
    kernel.leave();
}
