//! One connection that carries as much as its algorithm lets it, and whose time begins when the scenario says.

use std::io::{Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::socket::{CHUNK_BYTES, Going, Sending, connect, now_ns, received, write_payload};

/// Its first bytes tell the receiver when the flow's time began. They are as long as those of iperf3, so that both count
/// the same packets as data.
const OPENING_BYTES: usize = 37;

/// When the sender's time began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    pub begun_ns: u64,
    /// Why it ended before its time.
    pub error: Option<String>,
}

/// What arrived in the flow's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// Payload, without the first bytes.
    pub bytes: u64,
}

/// Connects and sends until the time is over; what has not left by then is given up.
///
/// Errors: a socket cannot be opened, or the kernel does not take the algorithm.
pub fn send(sending: &Sending) -> Result<Sent> {
    let begun_ns = now_ns();
    let to = sending.to;
    let going = Going::start(sending.open(sending.from.port())?, move |socket| send_on(socket, to, begun_ns));
    let error = going.end(sending.length).and_then(Result::err).map(|why| format!("{why:#}"));
    Ok(Sent { begun_ns, error })
}

fn send_on(mut socket: &TcpStream, to: SocketAddrV4, begun_ns: u64) -> Result<()> {
    connect(socket, to)?;
    let mut opening = [0; OPENING_BYTES];
    opening[..8].copy_from_slice(&begun_ns.to_ne_bytes());
    socket.write_all(&opening).context("send")?;
    write_payload(socket, u64::MAX)
}

/// Takes one connection and counts what arrives within `length` of the flow's beginning, until standard input ends.
///
/// Errors: the address cannot be listened on; a thread ended badly.
pub fn receive(at: SocketAddrV4, length: Duration) -> Result<Received> {
    let listener = TcpListener::bind(at).context("listen for a flow")?;
    received(move |received| {
        if let Ok((connection, _)) = listener.accept() {
            count(&connection, length, received);
        }
    })
}

/// Reads to the end, so that the sender is not held up, also after the time.
fn count(mut connection: &TcpStream, length: Duration, received: &Mutex<Received>) {
    let mut opening = [0; OPENING_BYTES];
    if connection.read_exact(&mut opening).is_err() {
        return;
    }
    let mut begun_ns = [0; 8];
    begun_ns.copy_from_slice(&opening[..8]);
    let end_ns = u64::from_ne_bytes(begun_ns).saturating_add(length.as_nanos() as u64);
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = connection.read(&mut chunk) {
        if now_ns() <= end_ns
            && let Ok(mut received) = received.lock()
        {
            received.bytes += length as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sender's time began before it could connect.
    #[test]
    fn what_arrives_after_the_time_does_not_count() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        let counted = |ago: Duration, sender: &mut TcpStream, receiver: &TcpStream| {
            let mut opening = [0; OPENING_BYTES];
            opening[..8].copy_from_slice(&(now_ns() - ago.as_nanos() as u64).to_ne_bytes());
            sender.write_all(&opening).unwrap();
            sender.write_all(&[0; 1000]).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
            let received = Mutex::default();
            count(receiver, Duration::from_secs(100), &received);
            received.into_inner().unwrap().bytes
        };
        assert_eq!(counted(Duration::from_secs(60), &mut sender, &receiver), 1000);
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        assert_eq!(counted(Duration::from_secs(101), &mut sender, &receiver), 0);
    }
}
