//! Transfers of a size, each over its own connection.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddrV4, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::socket::{
    SendThread, Sending, await_request, connect, finish_sending, now_ns, read_on, received, write_payload,
};
use crate::load::PlannedTransfer;
use shared::units::Bytes;

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
    /// When the request for it was sent.
    #[serde(default)]
    pub requested_ns: Option<u64>,
}

/// Writes the transfers of a flow to a file, for the process that sends them.
///
/// # Errors
/// The file cannot be written.
pub fn write(transfers: &[PlannedTransfer], file: &Path) -> Result<()> {
    let text = serde_json::to_vec(transfers).context("encode transfers")?;
    fs::write(file, text).with_context(|| format!("write \"{}\"", file.display()))
}

/// # Errors
/// The file cannot be read, or has another form.
pub fn read(file: &Path) -> Result<Vec<PlannedTransfer>> {
    let text = fs::read(file).with_context(|| format!("read \"{}\"", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("read \"{}\"", file.display()))
}

/// Starts each transfer at its time, and gives up those that have not finished at the deadline.
///
/// # Errors
/// A socket cannot be opened; the kernel refuses the algorithm.
pub fn send(sending: &Sending, transfers: &[PlannedTransfer]) -> Result<TransfersBegun> {
    let deadline = Instant::now() + sending.length;
    let begin = Instant::now();
    let mut at_ns = BTreeMap::new();
    let mut threads: Vec<(u16, SendThread)> = Vec::new();
    let mut errors = BTreeMap::new();
    for (planned, port) in transfers.iter().zip(sending.from.port()..) {
        let due = begin + Duration::from_nanos(planned.start_ns);
        if due >= deadline {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        at_ns.insert(port, now_ns());
        let (to, size, request) = (sending.to, planned.bytes, sending.request);
        let thread = SendThread::start(sending.open(port)?, move |socket| {
            connect(socket, to)?;
            await_request(socket, request)?;
            write_payload(socket, size)?;
            finish_sending(socket)
        });
        threads.push((port, thread));
        // Closes the sockets of those that have ended, because a process has a limit of open files.
        for (port, ended) in threads.extract_if(.., |(_, thread)| thread.has_ended()) {
            errors.extend(ended.finish(Duration::ZERO).map(|why| (port, why)));
        }
    }
    let left = || deadline.saturating_duration_since(Instant::now());
    errors.extend(threads.into_iter().filter_map(|(port, thread)| Some((port, thread.finish(left())?))));
    Ok(TransfersBegun { at_ns, errors })
}

/// Accepts connections until standard input ends, and sends the request over each.
///
/// # Errors
/// The address is not available; a thread panicked.
pub fn receive(at: SocketAddrV4, request: Option<Bytes>) -> Result<BTreeMap<u16, TransferArrived>> {
    let listener = TcpListener::bind(at).context("listen for transfers")?;
    received(move |arrived: &Arc<Mutex<BTreeMap<u16, TransferArrived>>>| {
        for connection in listener.incoming().flatten() {
            let arrived = Arc::clone(arrived);
            std::thread::spawn(move || {
                let Ok(peer) = connection.peer_addr() else { return };
                let note = |change: &dyn Fn(&mut TransferArrived)| {
                    let Ok(mut arrived) = arrived.lock() else { return };
                    change(arrived.entry(peer.port()).or_default());
                };
                if let Some(Bytes(size)) = request {
                    note(&|one| one.requested_ns = Some(now_ns()));
                    let _ = write_payload(&connection, size); // reading then ends too
                }
                read_on(&connection, |bytes, last_ns| {
                    note(&|one| *one = TransferArrived { bytes: one.bytes + bytes, last_ns, ..*one });
                });
            });
        }
    })
}
