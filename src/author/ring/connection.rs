//! One connection of one algorithm, driven round trip by round trip.

use derive_more::{Deref, DerefMut};

use super::kernel::Kernel;
use super::native::{CongestionControl as _, INFINITE_SSTHRESH, Native, Socket, state};
use super::operations::{self, Operation, Start};

/// A connection with its clock; it begins with a full window in flight.
#[derive(Deref, DerefMut)]
pub struct Connection<'n> {
    #[deref]
    #[deref_mut]
    kernel: Kernel<Socket<'n>>,
    now_us: u64,
}

impl<'n> Connection<'n> {
    /// One that begins with this window and threshold, packets.
    pub fn over(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        let start = Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH };
        Connection { kernel: operations::connect(native.socket(0xaa), start), now_us: 0 }
    }

    /// The window, packets.
    pub fn cwnd(&self) -> u32 {
        self.tcp.snd_cwnd
    }

    /// The threshold, packets.
    pub fn ssthresh(&self) -> u32 {
        self.tcp.snd_ssthresh
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Time passes and nothing arrives.
    pub fn wait(&mut self, us: u64) {
        self.now_us += us;
        self.kernel.cc.set_clock(self.now_us * 1000);
    }

    pub fn apply(&mut self, operation: Operation) {
        operations::apply(&mut self.kernel, operation, self.now_us * 1000);
    }

    /// One ACK for so many packets.
    pub fn ack(&mut self, packets: u32, rtt_us: u32) {
        self.apply(Operation::Ack { packets, rtt_us });
    }

    /// Everything in flight is acknowledged packet by packet over one round trip, and as much as allowed is sent.
    pub fn round(&mut self, rtt_us: u32) {
        let packets = self.tcp.packets_out;
        let end_us = self.now_us + u64::from(rtt_us);
        for packet in 1..=packets {
            self.now_us = end_us - u64::from(rtt_us) * u64::from(packets - packet) / u64::from(packets);
            self.ack(1, rtt_us);
        }
    }

    /// A loss that fast retransmission repairs, as if no other ACK came meanwhile; leaves the connection open again.
    pub fn lose(&mut self) {
        self.apply(Operation::Lose);
        self.recover();
        assert_eq!(self.tcp.ca_state, state::OPEN);
    }

    /// The end of a reduction that was not spurious.
    pub fn recover(&mut self) {
        self.undo_retrans = 1;
        let tcp = &mut self.tcp;
        (tcp.lost_out, tcp.sacked_out, tcp.retrans_out) = (0, 0, 0);
        self.leave();
    }
}
