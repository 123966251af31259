//! A flow of our own processes: one at each end, told what to do and asked what came of it.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

use super::child::{Task, Told};
use super::datagrams::{Counted, Sent};
use super::ends::{Bed, Ends, slack};
use super::process::{Process, TCP_LISTENING, UDP_BOUND};
use super::report::{Datagrams, Report, Transferred};
use super::socket::Sending;
use super::transfers::Arrived;
use crate::scenario::Sends;
use crate::units::Bytes;

/// A path is taken for empty when nothing came for this long: longer than any queue and delay of a scenario's path
/// hold up a packet behind the one before it, but for what is known of it, which is added.
pub(crate) const QUIET: Duration = Duration::from_millis(300);

/// The two processes of a flow.
#[derive(Debug)]
pub struct Own {
    receiver: Process,
    sender: Option<Process>,
    deadline: Instant,
}

impl Own {
    /// Starts the receiver of a flow and returns when it listens.
    ///
    /// Errors: it cannot be started or does not listen in time.
    /// Side effects: a process that ends with the returned value.
    pub fn listen(ends: &Ends<'_>, bed: Bed<'_>) -> Result<Own> {
        let at = ends.server_address();
        let (task, sockets) = match ends.flow.sends {
            Sends::Datagrams { .. } => {
                (Task::ReceiveDatagrams { at, length: ends.length, settle: QUIET + ends.hold_up }, UDP_BOUND)
            }
            Sends::Messages { size, .. } => (Task::ReceiveMessages { at, size }, TCP_LISTENING),
            _ => (Task::ReceiveTransfers { at }, TCP_LISTENING),
        };
        let mut receiver = Process::start(ends.to, bed, &task, &format!("flow-{}.receiver.json", ends.index))?;
        receiver.await_listening(ends, &sockets, bed.stop)?;
        Ok(Own { receiver, sender: None, deadline: Instant::now() })
    }

    /// Starts to send.
    ///
    /// Errors: the sender cannot be started.
    pub fn send(&mut self, ends: &Ends<'_>, algorithm: &str, bed: Bed<'_>) -> Result<()> {
        let (from, to, length) = (ends.sender_address(), ends.server_address(), ends.length);
        let sending = |size: Bytes, count: u32, interval: Duration| {
            let algorithm = algorithm.to_owned();
            Sending { from, to, algorithm, size, count, interval, length }
        };
        let task = match ends.flow.sends {
            Sends::Transfers { size, count, interval } => Task::SendTransfers(sending(size, count, interval)),
            Sends::Messages { size, count, interval } => Task::SendMessages(sending(size, count, interval)),
            Sends::Datagrams { rate, packet_bytes } => Task::SendDatagrams { from, to, rate, packet_bytes, length },
            Sends::Bulk => bail!("a bulk flow is sent by iperf3"),
        };
        self.sender = Some(Process::start(ends.from, bed, &task, &format!("flow-{}.sender.json", ends.index))?);
        self.deadline = Instant::now() + length + slack(length);
        Ok(())
    }

    /// Waits until the sender is done, asks the receiver, and puts together what both say.
    ///
    /// Errors: an end does not end, or ended without a word; `stop` was set.
    pub fn finish(mut self, ends: &Ends<'_>, stop: &AtomicBool) -> Result<Report> {
        let mut sender = self.sender.take().ok_or_else(|| anyhow!("the flow was never started"))?;
        sender.wait(self.deadline, stop)?;
        self.receiver.end_input(); // by which it knows that it is over
        self.receiver.wait(self.deadline, stop)?;
        let size = match ends.flow.sends {
            Sends::Transfers { size, .. } | Sends::Messages { size, .. } => size.0,
            _ => 0,
        };
        match (read(&sender, ends)?, read(&self.receiver, ends)?) {
            (Told::Begun(begun), Told::Arrived(arrived)) => {
                let one = |(port, begun_ns)| transferred(port, begun_ns, arrived.get(&port).copied(), size);
                Ok(Report::Transfers(begun.at_ns.into_iter().map(one).collect()))
            }
            (Told::MessagesBegun(begun), Told::MessagesArrived(arrived)) => {
                let one = |(number, begun_ns)| message(ends.sender_port, begun_ns, arrived.of(number, size), size);
                Ok(Report::Transfers(begun.at_ns.into_iter().enumerate().map(one).collect()))
            }
            (Told::Sent(sent), Told::Counted(counted)) => Ok(Report::Datagrams(datagrams(sent, counted))),
            _ => bail!("the ends of flow \"{}\" did different things", ends.flow.name),
        }
    }
}

fn transferred(port: u16, begun_ns: u64, arrived: Option<Arrived>, size: u64) -> Transferred {
    let last_ns = arrived.map(|arrived| arrived.last_ns);
    let received_bytes = arrived.map_or(0, |arrived| arrived.bytes);
    Transferred { port, begun_ns, last_ns, done_ns: last_ns.filter(|_| received_bytes >= size), received_bytes }
}

fn message(port: u16, begun_ns: u64, (bytes, last_ns): (u64, Option<u64>), size: u64) -> Transferred {
    transferred(port, begun_ns, last_ns.map(|last_ns| Arrived { bytes, last_ns }), size)
}

fn datagrams(sent: Sent, counted: Counted) -> Datagrams {
    let active_s = counted.last_ns.saturating_sub(counted.first_ns) as f64 / 1e9;
    Datagrams {
        latest: sent.latest,
        lost_pkts: sent.packets.saturating_sub(counted.arrived_ever),
        received_pkts: counted.packets,
        received_bytes: counted.bytes,
        active_s,
    }
}

fn read(process: &Process, ends: &Ends<'_>) -> Result<Told> {
    let text = process.said()?;
    serde_json::from_str(&text).map_err(|_| anyhow!("flow \"{}\" says: {}", ends.flow.name, text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_is_done_when_all_of_it_arrived() {
        let arrived = |bytes| Some(Arrived { bytes, last_ns: 900 });
        assert_eq!(transferred(7, 100, arrived(1000), 1000).done_ns, Some(900));
        assert_eq!(transferred(7, 100, arrived(999), 1000).done_ns, None);
        assert_eq!(transferred(7, 100, None, 1000).received_bytes, 0);
    }
}
