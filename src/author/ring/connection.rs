//! One connection of one algorithm, driven round trip by round trip.

use derive_more::{Deref, DerefMut};

use super::kernel::SimulatedKernel;
use super::native::{INFINITE_SSTHRESH, Native, NativeSocket, state};
use super::operations::{self, Operation, Start};

/// A connection with its own clock.
#[derive(Deref, DerefMut)]
pub struct SimulatedConnection<'n> {
    #[deref]
    #[deref_mut]
    kernel: SimulatedKernel<NativeSocket<'n>>,
    now_us: u64,
}

impl<'n> SimulatedConnection<'n> {
    /// Opens a connection with this window and threshold, in packets, and a full window in flight.
    pub fn over(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        let start = Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH };
        SimulatedConnection { kernel: operations::connect(native.socket(0xaa), start), now_us: 0 }
    }

    pub fn cwnd(&self) -> u32 {
        self.tcp.snd_cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.tcp.snd_ssthresh
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Lets time pass while nothing arrives.
    pub fn wait(&mut self, us: u64) {
        self.now_us += us;
        self.kernel.set_clock(self.now_us);
    }

    pub fn apply(&mut self, operation: Operation) {
        operations::apply(&mut self.kernel, operation, self.now_us * 1000);
    }

    /// Delivers one ACK.
    pub fn ack(&mut self, packets: u32, rtt_us: u32) {
        self.apply(Operation::Ack { packets, rtt_us });
    }

    /// Acknowledges everything in flight, packet by packet over one round trip, and sends as much as allowed.
    pub fn round(&mut self, rtt_us: u32) {
        let packets = self.tcp.packets_out;
        let end_us = self.now_us + u64::from(rtt_us);
        for packet in 1..=packets {
            self.now_us = end_us - u64::from(rtt_us) * u64::from(packets - packet) / u64::from(packets);
            self.ack(1, rtt_us);
        }
    }

    /// Loses one packet and repairs the loss by fast retransmit, as if no other ACK came. Ends in the Open state.
    pub fn lose(&mut self) {
        self.apply(Operation::Lose);
        self.recover();
        assert_eq!(self.tcp.ca_state, state::OPEN);
    }

    /// Ends a reduction that was not spurious.
    pub fn recover(&mut self) {
        self.undo_retrans = 1;
        let tcp = &mut self.tcp;
        (tcp.lost_out, tcp.sacked_out, tcp.retrans_out) = (0, 0, 0);
        self.leave();
    }
}
