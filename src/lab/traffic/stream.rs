//! One connection that sends as much as its algorithm allows, and whose time begins when the scenario says.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::socket::{CHUNK_BYTES, SendThread, Sending, connect, now_ns, read_on, received, write_payload};
use crate::load::Schedule;
use shared::units::nanos;

/// The first bytes tell the receiver when the flow's time began. They are as long as iperf3's, so that both senders
/// count the same packets as data.
const OPENING_BYTES: usize = 37;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSent {
    /// When the flow's time began.
    pub begun_ns: u64,
    /// Why the connection ended before its time.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamReceived {
    /// Payload in the flow's time, without the opening.
    pub bytes: u64,
}

/// Connects and sends until the time is over, then resets the connection.
///
/// # Errors
/// A socket cannot be opened; the kernel refuses the algorithm.
pub fn send(sending: &Sending) -> Result<StreamSent> {
    let begun_ns = now_ns();
    let (to, schedule) = (sending.to, Schedule::of(sending.bursts));
    let send = move |socket: &TcpStream| send_on(socket, to, &schedule, begun_ns);
    let thread = SendThread::start(sending.open(sending.from.port())?, send);
    let error = thread.end(sending.length).and_then(Result::err).map(|why| format!("{why:#}"));
    Ok(StreamSent { begun_ns, error })
}

fn send_on(mut socket: &TcpStream, to: SocketAddrV4, schedule: &Schedule, begun_ns: u64) -> Result<()> {
    connect(socket, to)?;
    let mut opening = [0; OPENING_BYTES];
    opening[..8].copy_from_slice(&begun_ns.to_ne_bytes());
    socket.write_all(&opening).context("send")?;
    if schedule.bursts().is_empty() {
        write_payload(socket, u64::MAX)
    } else {
        write_bursts(socket, schedule, begun_ns)
    }
}

/// Writes in each burst what the socket takes. What it has taken by the end of a burst is sent in the pause.
///
/// Does not return before the connection ends.
fn write_bursts(mut socket: &TcpStream, schedule: &Schedule, begun_ns: u64) -> Result<()> {
    let chunk = [0; CHUNK_BYTES];
    let left = |until: Duration| Duration::from_nanos((begun_ns + nanos(until)).saturating_sub(now_ns()));
    for [start, end] in schedule.spans() {
        std::thread::sleep(left(start));
        while let Some(left) = Some(left(end)).filter(|left| !left.is_zero()) {
            socket.set_write_timeout(Some(left)).context("limit a write to a burst")?;
            match socket.write(&chunk) {
                Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return Err(error).context("send");
                }
                _ => {}
            }
        }
    }
    socket.read(&mut [0; 1]).context("wait for the end")?;
    Ok(())
}

/// Accepts one connection and counts what arrives within `length` of the flow's beginning, until standard input ends.
///
/// # Errors
/// The address is not available; a thread panicked.
pub fn receive(at: SocketAddrV4, length: Duration) -> Result<StreamReceived> {
    let listener = TcpListener::bind(at).context("listen for a flow")?;
    received(move |received| {
        if let Ok((connection, _)) = listener.accept() {
            count(&connection, length, received);
        }
    })
}

/// Reads on after the flow's time, so that the sender is not blocked.
fn count(mut connection: &TcpStream, length: Duration, received: &Mutex<StreamReceived>) {
    let mut opening = [0; OPENING_BYTES];
    if connection.read_exact(&mut opening).is_err() {
        return;
    }
    let begun_ns = opening[..8].try_into().map(u64::from_ne_bytes).expect("eight bytes");
    let end_ns = begun_ns.saturating_add(nanos(length));
    read_on(connection, |bytes, now_ns| {
        if now_ns <= end_ns
            && let Ok(mut received) = received.lock()
        {
            received.bytes += bytes;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sender's time begins before it can connect.
    #[test]
    fn what_arrives_after_the_time_does_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        for (ago_s, counted) in [(60, 1000), (101, 0)] {
            let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (receiver, _) = listener.accept().unwrap();
            let mut opening = [0; OPENING_BYTES];
            opening[..8].copy_from_slice(&(now_ns() - ago_s * 1_000_000_000).to_ne_bytes());
            sender.write_all(&opening).unwrap();
            sender.write_all(&[0; 1000]).unwrap();
            drop(sender);
            let received = Mutex::default();
            count(&receiver, Duration::from_secs(100), &received);
            assert_eq!(received.into_inner().unwrap().bytes, counted, "begun {ago_s} s ago");
        }
    }
}
