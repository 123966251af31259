//! Transfers of a size, each over its own connection.

use std::collections::BTreeMap;
use std::net::{SocketAddrV4, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::socket::{SendThread, Sending, connect, finish_sending, now_ns, read_on, received, write_payload};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransfersBegun {
    /// When each transfer began to connect, by local port.
    pub at_ns: BTreeMap<u16, u64>,
    /// Why transfers failed, by local port.
    pub errors: BTreeMap<u16, String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferArrived {
    pub bytes: u64,
    /// Arrival of the last byte.
    pub last_ns: u64,
}

/// Starts each transfer at its time, and gives up those that have not finished at the deadline.
///
/// # Errors
/// A socket cannot be opened; the kernel refuses the algorithm.
pub fn send(sending: &Sending) -> Result<TransfersBegun> {
    let deadline = Instant::now() + sending.length;
    let begin = Instant::now();
    let mut at_ns = BTreeMap::new();
    let mut threads = BTreeMap::new();
    for number in 0..sending.count {
        let due = begin + sending.interval * number;
        if due >= deadline {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let port = sending.from.port() + number as u16;
        at_ns.insert(port, now_ns());
        let (to, size) = (sending.to, sending.size.0);
        let thread = SendThread::start(sending.open(port)?, move |socket| {
            connect(socket, to)?;
            write_payload(socket, size)?;
            finish_sending(socket)
        });
        threads.insert(port, thread);
    }
    let left = || deadline.saturating_duration_since(Instant::now());
    let errors = threads.into_iter().filter_map(|(port, thread)| Some((port, thread.finish(left())?)));
    Ok(TransfersBegun { at_ns, errors: errors.collect() })
}

/// Accepts connections until standard input ends.
///
/// # Errors
/// The address is not available; a thread panicked.
pub fn receive(at: SocketAddrV4) -> Result<BTreeMap<u16, TransferArrived>> {
    let listener = TcpListener::bind(at).context("listen for transfers")?;
    received(move |arrived: &Arc<Mutex<BTreeMap<u16, TransferArrived>>>| {
        for connection in listener.incoming().flatten() {
            let arrived = Arc::clone(arrived);
            std::thread::spawn(move || {
                let Ok(peer) = connection.peer_addr() else { return };
                read_on(&connection, |bytes, last_ns| {
                    let Ok(mut arrived) = arrived.lock() else { return };
                    let one = arrived.entry(peer.port()).or_default();
                    *one = TransferArrived { bytes: one.bytes + bytes, last_ns };
                });
            });
        }
    })
}
