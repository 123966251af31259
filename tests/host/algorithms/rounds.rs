//! A connection whose round trips have the RTT samples that a test gives them, and nothing else.

use crate::algorithms::kernel::Kernel;
use crate::algorithms::native::{CongestionControl, INFINITE_SSTHRESH, Native, Socket};
use crate::algorithms::operations::{self, Start};

/// With a full window in flight.
pub fn connect(native: &Native, cwnd: u32, ssthresh: u32) -> Kernel<Socket<'_>> {
    operations::connect(native.socket(0xaa), Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH })
}

/// The same in congestion avoidance.
pub fn connection(native: &Native, cwnd: u32) -> Kernel<Socket<'_>> {
    connect(native, cwnd, 2)
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
