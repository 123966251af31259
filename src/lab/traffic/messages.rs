//! Messages over one connection that stays open and is idle between them, as a web server's to one reader.

use std::io::Read;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};

use super::socket::{CHUNK_BYTES, Going, Sending, connect, finish_sending, now_ns, received, write_payload};
use crate::units::Bytes;

/// When each message began, in their order; and why not all were sent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    pub at_ns: Vec<u64>,
    pub error: Option<String>,
}

/// What arrived of the messages. Times are on the host's monotonic clock, nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// When the last byte of each did.
    pub done_ns: Vec<u64>,
    /// Payload of all.
    pub bytes: u64,
    /// When the last of it arrived.
    pub last_ns: u64,
}

/// Sends each message when it is due, or once the kernel has taken the one before.
///
/// Errors: a socket cannot be opened, or the kernel does not take the algorithm; a thread ended badly.
pub fn send(sending: &Sending) -> Result<Begun> {
    let at_ns: Arc<Mutex<Vec<u64>>> = Arc::default();
    let (times, plan) = (Arc::clone(&at_ns), sending.clone());
    let going = Going::start(sending.open(sending.from.port())?, move |socket| send_all(socket, &plan, &times));
    let error = going.finish(sending.length);
    let at_ns = at_ns.lock().map_err(|_| anyhow!("a sending thread ended badly"))?.clone();
    Ok(Begun { at_ns, error })
}

fn send_all(socket: &TcpStream, sending: &Sending, at_ns: &Mutex<Vec<u64>>) -> Result<()> {
    let begin = Instant::now();
    for number in 0..sending.count {
        // A message that is late does not hold up the plan of those after it.
        let due = begin + sending.interval * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        at_ns.lock().map_err(|_| anyhow!("the times are lost"))?.push(now_ns());
        if number == 0 {
            connect(socket, sending.to)?;
        }
        write_payload(socket, sending.size.0)?;
    }
    finish_sending(socket)
}

/// Takes one connection and notes when each message is complete, until standard input ends.
///
/// Errors: the address cannot be listened on; a thread ended badly.
pub fn receive(at: SocketAddrV4, size: Bytes) -> Result<Arrived> {
    let listener = TcpListener::bind(at).context("listen for messages")?;
    received(move |arrived| {
        if let Ok((connection, _)) = listener.accept() {
            read_all(&connection, size.0, arrived);
        }
    })
}

fn read_all(mut connection: &TcpStream, size: u64, arrived: &Mutex<Arrived>) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = connection.read(&mut chunk) {
        let now_ns = now_ns();
        let Ok(mut arrived) = arrived.lock() else { return };
        arrived.add(length as u64, size, now_ns);
    }
}

impl Arrived {
    fn add(&mut self, bytes: u64, size: u64, now_ns: u64) {
        self.bytes += bytes;
        self.last_ns = now_ns;
        let complete = self.bytes.checked_div(size).unwrap_or(0) as usize;
        self.done_ns.resize(complete.max(self.done_ns.len()), now_ns);
    }

    /// Payload of one message that arrived, and when the last of it did; none when nothing did.
    pub fn of(&self, number: usize, size: u64) -> (u64, Option<u64>) {
        let bytes = self.bytes.saturating_sub(number as u64 * size).min(size);
        let last_ns = self.done_ns.get(number).copied().or((bytes > 0).then_some(self.last_ns));
        (bytes, last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_done_with_its_last_byte() {
        let mut arrived = Arrived::default();
        for (bytes, now_ns) in [(600, 1), (300, 2), (1_150, 3), (100, 4)] {
            arrived.add(bytes, 1_000, now_ns);
        }
        assert_eq!(arrived.done_ns, [3, 3]);
        assert_eq!(arrived.of(0, 1_000), (1_000, Some(3)));
        assert_eq!(arrived.of(2, 1_000), (150, Some(4)));
        assert_eq!(arrived.of(3, 1_000), (0, None));
    }
}
