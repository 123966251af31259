//! Sockets, clock and standard input of a run's own processes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use crate::load::Bursts;
use shared::kernel::clock;
use shared::units::{Bytes, duration_text};

/// Bytes in one write or read.
pub const CHUNK_BYTES: usize = 64 << 10;

/// Payloads to send over TCP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sending {
    /// Local address, with the port of the first connection.
    pub from: SocketAddrV4,
    pub to: SocketAddrV4,
    /// The kernel's name of the algorithm.
    pub algorithm: String,
    /// Size of each payload. This and the next two are of messages and streams.
    pub size: Bytes,
    pub count: u32,
    /// Time between the starts of two payloads.
    #[serde(with = "duration_text")]
    pub interval: Duration,
    /// Payload of the request that the sender awaits before each; `None`: it awaits none.
    #[serde(default)]
    pub request: Option<Bytes>,
    /// `None`: it never pauses.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// Payloads that are not done this long after the start of the first are given up.
    #[serde(with = "duration_text")]
    pub length: Duration,
}

impl Sending {
    /// Opens a socket that uses the algorithm, bound to this port of the sender's address.
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

/// The monotonic clock, which all processes of a host share.
pub fn now_ns() -> u64 {
    clock::monotonic_ns().expect("every kernel has this clock")
}

fn await_end_of_input() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink()); // an error is an end too
}

/// A flag that another thread sets at the end of standard input.
pub fn until_input_ends() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    std::thread::spawn(move || {
        await_end_of_input();
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// Runs `receive` in a thread, and returns what it has noted when standard input ends.
///
/// # Errors
/// The thread panicked.
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

/// A thread that sends over one connection.
pub struct SendThread {
    socket: Arc<TcpStream>,
    thread: JoinHandle<()>,
    done: Receiver<Result<()>>,
}

impl SendThread {
    pub fn start(socket: TcpStream, send: impl FnOnce(&TcpStream) -> Result<()> + Send + 'static) -> Self {
        let socket = Arc::new(socket);
        let (tell, done) = mpsc::channel();
        let for_thread = Arc::clone(&socket);
        let thread = std::thread::spawn(move || drop(tell.send(send(&for_thread)))); // nobody listens after the deadline
        SendThread { socket, thread, done }
    }

    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the sender; returns why it failed or did not finish in time, or `None` if it succeeded.
    pub fn finish(self, left: Duration) -> Option<String> {
        match self.end(left) {
            Some(Ok(())) => None,
            Some(Err(error)) => Some(format!("{error:#}")),
            None => Some("not done in time".to_owned()),
        }
    }

    /// Waits for the sender. Resets the connection unless the sender succeeded. Returns `None` if it has not ended in
    /// time.
    pub fn end(self, left: Duration) -> Option<Result<()>> {
        let ended = self.done.recv_timeout(left).ok();
        if !matches!(ended, Some(Ok(()))) {
            // A reset lets the tracer see the close before the namespace goes. A sender that succeeded has already
            // closed.
            let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
            let _ = setsockopt(&self.socket, sockopt::Linger, &at_once);
            let _ = self.socket.shutdown(Shutdown::Both);
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

/// Waits until the receiver's request has arrived, if there is one.
pub fn await_request(mut socket: &TcpStream, request: Option<Bytes>) -> Result<()> {
    let mut request = vec![0; request.map_or(0, |size| size.0 as usize)];
    socket.read_exact(&mut request).context("wait for a request")
}

/// Reads a connection to its end, and calls `note` with the bytes and the time of each read.
pub fn read_on(mut connection: &TcpStream, mut note: impl FnMut(u64, u64)) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(length @ 1..) = connection.read(&mut chunk) {
        note(length as u64, now_ns());
    }
}

/// Waits until the receiver has everything, which it shows by closing.
pub fn finish_sending(socket: &TcpStream) -> Result<()> {
    socket.shutdown(Shutdown::Write).context("finish sending")?;
    let mut reader = socket;
    reader.read(&mut [0; 1]).context("wait for the receiver")?;
    Ok(())
}
