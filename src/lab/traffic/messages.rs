//! Messages over one connection that stays open and idle between them, as from a web server to a browser.

use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::socket::{SendThread, Sending, connect, finish_sending, now_ns, read_on, received, write_payload};
use crate::load::Schedule;
use shared::units::Bytes;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessagesBegun {
    /// Start of each message, in order.
    pub at_ns: Vec<u64>,
    /// Why not all were sent.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesArrived {
    /// Arrival of each message's last byte.
    pub done_ns: Vec<u64>,
    /// Payload of all messages.
    pub bytes: u64,
    /// Arrival of the last byte of all.
    pub last_ns: u64,
}

/// Sends each message when it is due, or as soon as the kernel has taken the one before.
///
/// # Errors
/// A socket cannot be opened; the kernel refuses the algorithm; a thread panicked.
pub fn send(sending: &Sending) -> Result<MessagesBegun> {
    let at_ns: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (times, plan) = (Arc::clone(&at_ns), sending.clone());
    let thread = SendThread::start(sending.open(sending.from.port())?, move |socket| send_all(socket, &plan, &times));
    let error = thread.finish(sending.length);
    let at_ns = at_ns.lock().map_err(|_| anyhow!("a sending thread ended badly"))?.clone();
    Ok(MessagesBegun { at_ns, error })
}

fn send_all(socket: &TcpStream, sending: &Sending, at_ns: &Mutex<Vec<u64>>) -> Result<()> {
    let schedule = Schedule::of(sending.bursts);
    let begin = Instant::now();
    for number in 0..sending.count {
        // A late message does not delay the schedule of those after it.
        let due = begin + schedule.due(sending.interval * number);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        at_ns.lock().map_err(|_| anyhow!("the times are lost"))?.push(now_ns());
        if number == 0 {
            connect(socket, sending.to)?;
        }
        write_payload(socket, sending.size.0)?;
    }
    finish_sending(socket)
}

/// Accepts one connection and notes when each message is complete, until standard input ends.
///
/// # Errors
/// The address is not available; a thread panicked.
pub fn receive(at: SocketAddrV4, size: Bytes) -> Result<MessagesArrived> {
    let listener = TcpListener::bind(at).context("listen for messages")?;
    received(move |arrived: &Arc<Mutex<MessagesArrived>>| {
        let Ok((connection, _)) = listener.accept() else { return };
        read_on(&connection, |bytes, now_ns| {
            if let Ok(mut arrived) = arrived.lock() {
                arrived.add(bytes, size.0, now_ns);
            }
        });
    })
}

impl MessagesArrived {
    fn add(&mut self, bytes: u64, size: u64, now_ns: u64) {
        self.bytes += bytes;
        self.last_ns = now_ns;
        let complete = self.bytes.checked_div(size).unwrap_or(0) as usize;
        self.done_ns.resize(complete.max(self.done_ns.len()), now_ns);
    }

    /// The bytes of one message that arrived, and when the last of them arrived.
    pub fn of(&self, number: usize, size: u64) -> (u64, u64) {
        let bytes = self.bytes.saturating_sub(number as u64 * size).min(size);
        (bytes, self.done_ns.get(number).copied().unwrap_or(self.last_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_done_with_its_last_byte() {
        let mut arrived = MessagesArrived::default();
        for (bytes, now_ns) in [(600, 1), (300, 2), (1_150, 3), (100, 4)] {
            arrived.add(bytes, 1_000, now_ns);
        }
        assert_eq!(arrived.done_ns, [3, 3]);
        assert_eq!([0, 2, 3].map(|number| arrived.of(number, 1_000)), [(1_000, 3), (150, 4), (0, 4)]);
    }
}
