//! What the processes of a run do with sockets, and the clock and the standard input that they share.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use crate::kernel::clock;
use crate::units::{Bytes, duration_text};

/// What is written to or read from a connection at a time.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Payloads to send over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Own address; with the port of the first connection where each payload has its own.
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    /// The kernel's name of the algorithm.
    pub algorithm: String,
    /// Payload of each.
    pub size: Bytes,
    pub count: u32,
    /// From the start of one to the start of the next.
    #[serde(with = "duration_text")]
    pub interval: Duration,
    /// When what is not done is given up, from the start of the first.
    #[serde(with = "duration_text")]
    pub length: Duration,
}

impl Sending {
    /// A socket at this port of the sender's address that uses the algorithm.
    pub fn open(&self, port: u16) -> Result<TcpStream> {
        let socket = socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
        let (socket, algorithm): (OwnedFd, _) = (socket.context("open a socket")?, &self.algorithm);
        setsockopt(&socket, sockopt::TcpCongestion, &algorithm.into())
            .with_context(|| format!("choose {algorithm}"))?;
        setsockopt(&socket, sockopt::ReuseAddr, &true).context("prepare a socket")?;
        let from = SocketAddrV4::new(*self.from.ip(), port);
        let bound = socket::bind(socket.as_raw_fd(), &SockaddrIn::from(from));
        bound.with_context(|| format!("bind port {port}"))?;
        Ok(TcpStream::from(socket))
    }
}

/// Now, on the clock that all processes of a host share.
pub fn now_ns() -> u64 {
    clock::monotonic_ns().expect("every kernel has this clock")
}

fn await_end_of_input() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink()); // an error is an end too
}

/// Whether standard input ended; a thread of its own waits for it.
pub fn until_input_ends() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    std::thread::spawn(move || {
        await_end_of_input();
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// What a thread that receives has noted when standard input ends.
///
/// Errors: the thread ended badly.
pub fn received<T: Clone + Default + Send + 'static>(
    receive: impl FnOnce(&Arc<Mutex<T>>) + Send + 'static,
) -> Result<T> {
    let arrived: Arc<Mutex<T>> = Arc::default();
    let for_thread = Arc::clone(&arrived);
    std::thread::spawn(move || receive(&for_thread));
    await_end_of_input();
    let arrived = arrived.lock().map_err(|_| anyhow!("a receiving thread ended badly"))?;
    Ok(arrived.clone())
}

/// What is sent over a connection by a thread of its own.
pub struct Going {
    socket: Arc<TcpStream>,
    done: Receiver<Result<()>>,
}

impl Going {
    pub fn start(socket: TcpStream, send: impl FnOnce(&TcpStream) -> Result<()> + Send + 'static) -> Going {
        let socket = Arc::new(socket);
        let (tell, done) = mpsc::channel();
        let for_thread = Arc::clone(&socket);
        std::thread::spawn(move || drop(tell.send(send(&for_thread)))); // nobody listens after the deadline
        Going { socket, done }
    }

    /// Returns why the sender did not finish in time, or None if it did.
    pub fn finish(self, left: Duration) -> Option<String> {
        match self.end(left) {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(format!("{error:#}")),
            None => Some("not done in time".to_owned()),
        }
    }

    /// Waits for the sender. Returns None, and resets the connection, if it has not ended in time.
    pub fn end(self, left: Duration) -> Option<Result<()>> {
        let ended = self.done.recv_timeout(left).ok();
        if !matches!(ended, Some(Ok(()))) {
            give_up(&self.socket);
        }
        ended
    }
}

pub fn connect(socket: &TcpStream, to: SocketAddrV4) -> Result<()> {
    socket::connect(socket.as_raw_fd(), &SockaddrIn::from(to)).context("connect")
}

pub fn write_payload(socket: &TcpStream, size: u64) -> Result<()> {
    let chunk = [0; CHUNK_BYTES];
    let mut writer = socket;
    let mut left = size;
    while left > 0 {
        let part = left.min(CHUNK_BYTES as u64);
        writer.write_all(&chunk[..part as usize]).context("send")?;
        left -= part;
    }
    Ok(())
}

/// Waits until the receiver has everything and says so by closing.
pub fn finish_sending(socket: &TcpStream) -> Result<()> {
    socket.shutdown(Shutdown::Write).context("finish sending")?;
    let mut reader = socket;
    reader.read(&mut [0; 1]).context("wait for the receiver")?;
    Ok(())
}

/// Ends a connection at once, so that its close is seen before its namespace goes.
fn give_up(socket: &TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(socket, sockopt::Linger, &at_once); // what is closed already needs neither
    let _ = socket.shutdown(Shutdown::Both);
}
