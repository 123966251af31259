//! Transfers of a size, each over a connection of its own.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::socket::{CHUNK_BYTES, Going, Sending, connect, finish_sending, now_ns, received, write_payload};

/// When each transfer began to connect, by its own port; and what went wrong with some.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// Port to time.
    pub at_ns: BTreeMap<u16, u64>,
    /// Port to reason.
    pub errors: BTreeMap<u16, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    pub bytes: u64,
    /// When the last of it did.
    pub last_ns: u64,
}

/// Starts each transfer in time, and gives up at the deadline those that are not done.
///
/// Errors: a socket cannot be opened, or the kernel does not take the algorithm.
pub fn send(sending: &Sending) -> Result<Begun> {
    let deadline = Instant::now() + sending.length;
    let begin = Instant::now();
    let mut at_ns = BTreeMap::new();
    let mut going = BTreeMap::new();
    for number in 0..sending.count {
        let due = begin + sending.interval * number;
        if due >= deadline {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let port = sending.from.port() + number as u16;
        at_ns.insert(port, now_ns());
        let (to, size) = (sending.to, sending.size.0);
        going.insert(port, Going::start(sending.open(port)?, move |socket| transfer(socket, to, size)));
    }
    let left = || deadline.saturating_duration_since(Instant::now());
    let errors = going.into_iter().filter_map(|(port, one)| Some((port, one.finish(left())?)));
    Ok(Begun { at_ns, errors: errors.collect() })
}

/// Connects, sends, and waits until the receiver has everything and says so by closing.
fn transfer(socket: &TcpStream, to: SocketAddrV4, size: u64) -> Result<()> {
    connect(socket, to)?;
    write_payload(socket, size)?;
    finish_sending(socket)
}

/// Takes connections until standard input ends.
///
/// Errors: the address cannot be listened on; a thread ended badly.
pub fn receive(at: SocketAddrV4) -> Result<BTreeMap<u16, Arrived>> {
    let listener = TcpListener::bind(at).context("listen for transfers")?;
    received(move |arrived| {
        for connection in listener.incoming().flatten() {
            let arrived = Arc::clone(arrived);
            std::thread::spawn(move || read_all(&connection, &arrived));
        }
    })
}

/// Reads a connection to its end and notes how far it came.
fn read_all(mut connection: &TcpStream, arrived: &Mutex<BTreeMap<u16, Arrived>>) {
    let Ok(peer) = connection.peer_addr() else { return };
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = connection.read(&mut chunk) {
        let last_ns = now_ns();
        let Ok(mut arrived) = arrived.lock() else { return };
        let one = arrived.entry(peer.port()).or_default();
        *one = Arrived { bytes: one.bytes + length as u64, last_ns };
    }
}
