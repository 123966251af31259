//! A connection of an algorithm of `bpf/cc`, with its private fields by name.

use derive_more::{Deref, DerefMut};
use tccc::author::ring::connection;
use tccc::catalog::{self, StateValue};

use crate::algorithms::kernel::{Acked, SimulatedKernel};
use crate::algorithms::native::{self, CongestionControl, Native, NativeSocket, Tcp, event};
use crate::algorithms::operations::Operation;

/// A connection with its clock; it begins with a full window in flight.
#[derive(Deref, DerefMut)]
pub struct Connection<'n> {
    #[deref]
    #[deref_mut]
    connection: connection::SimulatedConnection<'n>,
    id: &'n str,
}

/// What ends a pause without data in flight: an event, and from Linux 7.1 on a callback of its own.
pub const RESUMPTIONS: [fn(&mut Connection); 2] = [
    |flow| flow.call(|cc, tcp| cc.cwnd_event(tcp, event::TX_START)),
    |flow| flow.call(|cc, tcp| cc.cwnd_event_tx_start(tcp)),
];

impl Connection<'static> {
    /// With the defaults.
    pub fn of(id: &str, cwnd: u32, ssthresh: u32) -> Self {
        Connection::over(native::find(id), cwnd, ssthresh)
    }

    /// With the defaults, in congestion avoidance.
    pub fn avoiding(id: &str, cwnd: u32) -> Self {
        Connection::of(id, cwnd, 2)
    }
}

impl<'n> Connection<'n> {
    pub fn over(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        Connection { connection: connection::SimulatedConnection::over(native, cwnd, ssthresh), id: &native.id }
    }

    /// One that comes from another algorithm, with these changes to its fields.
    pub fn switched(mut self, change: impl FnOnce(&mut Tcp)) -> Self {
        self.call(|cc, tcp| {
            change(tcp);
            cc.init(tcp);
        });
        self
    }

    /// The same connection after these operations.
    pub fn after(mut self, operations: &[Operation]) -> Self {
        operations.iter().for_each(|&operation| self.apply(operation));
        self
    }

    /// Window and threshold, packets.
    pub fn windows(&self) -> (u32, u32) {
        (self.cwnd(), self.ssthresh())
    }

    /// A field of the private state, by the name that `tccc show` gives, or by its last part.
    pub fn value(&self, name: &str) -> StateValue {
        let private = self.cc.private();
        let fields = catalog::find(self.id).unwrap().layout.decode(&private);
        let found = fields.into_iter().find(|(field, _)| *field == name || field.ends_with(&format!(".{name}")));
        found.unwrap_or_else(|| panic!("{} has no field {name}", self.id)).1
    }

    pub fn field(&self, name: &str) -> u64 {
        match self.value(name) {
            StateValue::Unsigned(value) => value,
            other => panic!("{name} is {other}"),
        }
    }

    pub fn fields<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        names.map(|name| self.field(name))
    }

    pub fn phase(&self) -> &'static str {
        catalog::find(self.id).unwrap().layout.phase_name(&self.cc.private()).unwrap()
    }

    pub fn time_out(&mut self) {
        self.apply(Operation::TimeOut);
    }

    /// A loss begins a recovery; the threshold that it leads to.
    pub fn reduce(&mut self) -> u32 {
        self.enter_recovery();
        self.ssthresh()
    }

    /// A callback by itself.
    pub fn call<R>(&mut self, callback: impl FnOnce(&mut NativeSocket<'n>, &mut Tcp) -> R) -> R {
        let kernel: &mut SimulatedKernel<_> = self;
        callback(&mut kernel.cc, &mut kernel.tcp)
    }

    /// RTT samples, and nothing else.
    pub fn sample(&mut self, rtts_us: &[u32]) {
        for &rtt_us in rtts_us {
            self.call(|cc, tcp| cc.pkts_acked(tcp, 1, Some(rtt_us)));
        }
    }

    /// One ACK: its sample, then growth, whatever is in flight.
    pub fn acknowledge(&mut self, packets: u32, rtt_us: Option<u32>) {
        let acked = Acked { delivered: packets, in_order: packets, lost: 0, rtt_us };
        self.acked(acked);
        self.control(acked);
    }

    /// A round that had these samples is over: an ACK of one packet of the next one arrives, without a sample.
    pub fn end_round(&mut self, rtts_us: &[u32]) {
        self.sample(rtts_us);
        self.tcp.snd_una = self.tcp.snd_nxt.wrapping_add(1);
        self.tcp.snd_nxt = self.tcp.snd_nxt.wrapping_add(2);
        self.call(|cc, tcp| cc.cong_avoid(tcp, 1));
    }

    /// So many rounds that had these samples.
    pub fn end_rounds(&mut self, rounds: usize, rtts_us: &[u32]) {
        (0..rounds).for_each(|_| self.end_round(rtts_us));
    }
}
