//! Messages over one connection that stays open and idle between them, as from a web server to a browser.

use std::io::Read;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

use super::socket::{
    CHUNK_BYTES, SendThread, Sending, await_request, connect, finish_sending, now_ns, read_on, received, write_payload,
};
use crate::load::Schedule;
use shared::units::{Bytes, duration_text};

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
    /// When each request was sent.
    #[serde(default)]
    pub requested_ns: Vec<u64>,
}

/// Requests that the receiver sends, each before its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Payload of each.
    pub size: Bytes,
    pub count: u32,
    /// From the first to the second, and so on.
    #[serde(with = "duration_text")]
    pub interval: Duration,
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
        // A late message does not delay the schedule of those after it. With requests, the receiver has the schedule.
        if sending.request.is_none() {
            let due = begin + schedule.due(sending.interval * number);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        at_ns.lock().map_err(|_| anyhow!("the times are lost"))?.push(now_ns());
        if number == 0 {
            connect(socket, sending.to)?;
        }
        await_request(socket, sending.request)?;
        write_payload(socket, sending.size.0)?;
    }
    finish_sending(socket)
}

/// Accepts one connection and notes when each message is complete, until standard input ends. Asks for each if there are
/// requests.
///
/// # Errors
/// The address is not available; a thread panicked.
pub fn receive(at: SocketAddrV4, size: Bytes, requests: Option<Requests>) -> Result<MessagesArrived> {
    let listener = TcpListener::bind(at).context("listen for messages")?;
    received(move |arrived: &Arc<Mutex<MessagesArrived>>| {
        let Ok((connection, _)) = listener.accept() else { return };
        if let Some(requests) = requests {
            let _ = ask(&connection, size, &requests, arrived); // reading then ends too
        }
        read_on(&connection, |bytes, now_ns| {
            if let Ok(mut arrived) = arrived.lock() {
                arrived.add(bytes, size.0, now_ns);
            }
        });
    })
}

/// Sends each request when it is due and the message before it has arrived.
fn ask(mut socket: &TcpStream, size: Bytes, requests: &Requests, arrived: &Mutex<MessagesArrived>) -> Result<()> {
    let lock = || arrived.lock().map_err(|_| anyhow!("the arrivals are lost"));
    let begin = Instant::now();
    let mut chunk = vec![0; CHUNK_BYTES];
    for number in 0..requests.count {
        std::thread::sleep((begin + requests.interval * number).saturating_duration_since(Instant::now()));
        lock()?.requested_ns.push(now_ns());
        write_payload(socket, requests.size.0)?;
        let mut left = size.0 as usize;
        while left > 0 {
            let most = left.min(chunk.len());
            let read = socket.read(&mut chunk[..most]).context("read a message")?;
            ensure!(read > 0, "the connection ended");
            left -= read;
            lock()?.add(read as u64, size.0, now_ns());
        }
    }
    Ok(())
}

impl MessagesBegun {
    /// When each message was opened and begun. `requested_ns` has the time of each request, if the flow has requests.
    pub fn times(&self, requested_ns: Option<&[u64]>) -> Vec<[u64; 2]> {
        let Some(requested_ns) = requested_ns else { return self.at_ns.iter().map(|at| [*at; 2]).collect() };
        let Some(opened_ns) = self.at_ns.first() else { return Vec::new() };
        let mut times: Vec<[u64; 2]> = requested_ns.iter().map(|at| [*at; 2]).collect();
        match times.first_mut() {
            Some(first) => first[0] = *opened_ns,
            None => times.push([*opened_ns; 2]), // it never connected
        }
        times
    }
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
    fn message_begins_with_its_request() {
        let begun = MessagesBegun { at_ns: vec![10, 55, 90], error: None };
        assert_eq!(begun.times(None), [[10, 10], [55, 55], [90, 90]]);
        assert_eq!(begun.times(Some(&[40, 80])), [[10, 40], [80, 80]]);
        assert_eq!(begun.times(Some(&[])), [[10, 10]], "it never connected");
    }

    /// Over loopback.
    #[test]
    fn receiver_asks_for_each_message_after_the_one_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let sends = std::thread::spawn(move || {
            for _ in 0..3 {
                await_request(&sender, Some(Bytes(7))).unwrap();
                write_payload(&sender, 200_000).unwrap();
            }
        });
        let arrived = Mutex::default();
        let requests = Requests { size: Bytes(7), count: 3, interval: Duration::ZERO };
        ask(&receiver, Bytes(200_000), &requests, &arrived).unwrap();
        sends.join().unwrap();
        let MessagesArrived { done_ns, bytes, requested_ns, .. } = arrived.into_inner().unwrap();
        assert_eq!((done_ns.len(), bytes, requested_ns.len()), (3, 600_000, 3));
        assert!(
            done_ns.iter().zip(&requested_ns[1..]).all(|(done, asked)| done <= asked),
            "{done_ns:?} {requested_ns:?}"
        );
    }

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
