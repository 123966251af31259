//! One connection of one algorithm, driven round trip by round trip.

use tccc::catalog::{self, Value};

use crate::kernel::Kernel;
use crate::native::{self, INFINITE_SSTHRESH, Native, Socket};
use crate::operations::{self, Operation, Start};

/// A connection with its clock; it begins with a full window in flight.
pub struct Connection<'n> {
    pub kernel: Kernel<Socket<'n>>,
    id: &'n str,
    now_us: u64,
}

/// Its own copy of an algorithm, with these settings.
pub fn tuned(id: &str, settings: &[&str]) -> Native {
    let mut native = Native::own(id);
    for setting in catalog::find(id).unwrap().settings(settings).unwrap() {
        native.set(&setting.name, &setting.bytes);
    }
    native
}

impl Connection<'static> {
    /// With the defaults.
    pub fn of(id: &str, cwnd: u32, ssthresh: u32) -> Self {
        Connection::over(native::find(id), cwnd, ssthresh)
    }
}

impl<'n> Connection<'n> {
    pub fn over(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        let start = Start { cwnd, ssthresh, clamp: INFINITE_SSTHRESH };
        Connection { kernel: operations::connect(native.socket(0xaa), start), id: &native.id, now_us: 0 }
    }

    /// A field of the private state, by the name that `tccc show` gives.
    pub fn field(&self, name: &str) -> u64 {
        let private = self.kernel.cc.private();
        let fields = catalog::find(self.id).unwrap().layout.decode(&private);
        match fields.into_iter().find(|(field, _)| *field == name) {
            Some((_, Value::Unsigned(value))) => value,
            other => panic!("{name} of {} is {other:?}", self.id),
        }
    }

    pub fn cwnd(&self) -> u32 {
        self.kernel.tcp.snd_cwnd
    }

    pub fn ssthresh(&self) -> u32 {
        self.kernel.tcp.snd_ssthresh
    }

    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Time passes and nothing arrives.
    pub fn wait(&mut self, us: u64) {
        self.now_us += us;
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
        let packets = self.kernel.tcp.packets_out;
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
        assert_eq!(self.kernel.tcp.ca_state, native::state::OPEN);
    }

    /// The end of a reduction that was not spurious.
    pub fn recover(&mut self) {
        self.kernel.undo_retrans = 1;
        let tcp = &mut self.kernel.tcp;
        (tcp.lost_out, tcp.sacked_out, tcp.retrans_out) = (0, 0, 0);
        self.kernel.leave();
    }
}
