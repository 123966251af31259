//! A connection under a catalogue algorithm, with its private fields by name.

use derive_more::{Deref, DerefMut};
use tccc::author::ring::connection::SimulatedConnection;
use tccc::catalog::StateValue;

use super::*;

/// Something that happens to a connection.
pub type EndpointStep = fn(&mut Endpoint);

/// A connection that begins with a full window in flight.
#[derive(Deref, DerefMut)]
pub struct Endpoint<'n> {
    #[deref]
    #[deref_mut]
    connection: SimulatedConnection<'n>,
    id: &'n str,
}

/// How the kernel reports the end of a pause without data in flight: an event, or from Linux 7.1 on a callback.
pub const RESUMPTIONS: [fn(&mut Endpoint); 2] = [
    |flow| flow.call(|cc, tcp| cc.cwnd_event(tcp, event::TX_START)),
    |flow| flow.call(|cc, tcp| cc.cwnd_event_tx_start(tcp)),
];

impl Endpoint<'static> {
    /// With default tunables.
    pub fn of(id: &str, cwnd: u32, ssthresh: u32) -> Self {
        Endpoint::over(native::find(id), cwnd, ssthresh)
    }

    /// With default tunables, in congestion avoidance.
    pub fn avoiding(id: &str, cwnd: u32) -> Self {
        Endpoint::of(id, cwnd, 2)
    }
}

impl<'n> Endpoint<'n> {
    pub fn over(native: &'n Native, cwnd: u32, ssthresh: u32) -> Self {
        Endpoint { connection: SimulatedConnection::over(native, cwnd, ssthresh), id: &native.id }
    }

    /// Switches to the algorithm from another one, after changes to the connection's fields.
    pub fn switched(mut self, change: impl FnOnce(&mut Tcp)) -> Self {
        self.call(|cc, tcp| {
            change(tcp);
            cc.init(tcp);
        });
        self
    }

    pub fn through(mut self, steps: &[EndpointStep]) -> Self {
        steps.iter().for_each(|step| step(&mut self));
        self
    }

    /// Applies operations.
    pub fn after(mut self, operations: &[Operation]) -> Self {
        operations.iter().for_each(|&operation| self.apply(operation));
        self
    }

    /// Window and threshold, packets.
    pub fn windows(&self) -> (u32, u32) {
        (self.cwnd(), self.ssthresh())
    }

    /// A field of the private state, by the name in `tccc show` or by its last part.
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

    /// Enters recovery and returns the threshold.
    pub fn reduce(&mut self) -> u32 {
        self.enter_recovery();
        self.ssthresh()
    }

    /// Calls one callback.
    pub fn call<R>(&mut self, callback: impl FnOnce(&mut NativeSocket<'n>, &mut Tcp) -> R) -> R {
        let kernel: &mut SimulatedKernel<_> = self;
        callback(&mut kernel.cc, &mut kernel.tcp)
    }

    /// Passes RTT samples.
    pub fn sample(&mut self, rtts_us: &[u32]) {
        for &rtt_us in rtts_us {
            self.call(|cc, tcp| cc.pkts_acked(tcp, 1, Some(rtt_us)));
        }
    }

    /// Passes the sample and the growth of one ACK, whatever is in flight.
    pub fn acknowledge(&mut self, packets: u32, rtt_us: Option<u32>) {
        let acked = Acked { delivered: packets, in_order: packets, lost: 0, rtt_us };
        let una = self.tcp.snd_una;
        self.rate.delivered_in_order(una);
        self.acked(acked, 0);
        self.control(acked);
    }

    /// Ends a round with these samples: an ACK of the next round arrives, without a sample.
    pub fn end_round(&mut self, rtts_us: &[u32]) {
        self.sample(rtts_us);
        self.tcp.snd_una = self.tcp.snd_nxt.wrapping_add(1);
        self.tcp.snd_nxt = self.tcp.snd_nxt.wrapping_add(2);
        self.call(|cc, tcp| cc.cong_avoid(tcp, 1));
    }

    pub fn end_rounds(&mut self, rounds: usize, rtts_us: &[u32]) {
        (0..rounds).for_each(|_| self.end_round(rtts_us));
    }
}
