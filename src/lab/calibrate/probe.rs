//! Probes a path with UDP packets, which the receiver echoes or counts.

use std::io::ErrorKind;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::sys::socket::{setsockopt, sockopt};

use crate::emulate::topology::Node;

/// IPv4 and UDP headers.
const HEADER_BYTES: u32 = 28;
/// IP packets that measure the round-trip time.
pub const RTT_PROBES: u32 = 21;
pub const RTT_PACKET_BYTES: u32 = 64;
/// First byte of a packet that the receiver echoes.
const ECHO: u8 = b'e';
/// First byte of a packet that the receiver counts.
const COUNT: u8 = b'c';
/// Holds the packets that arrive while the receiving thread does not run.
const SOCKET_BUFFER_BYTES: usize = 16 << 20;
/// How often the receiving thread checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Packets due within this interval are sent together.
const BATCH: Duration = Duration::from_millis(1);

/// The receiver's thread ends when this is dropped.
pub struct ProbeReceiver {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Packets that the receiver counts.
#[derive(Debug, Clone, Copy)]
pub struct ProbeStream {
    pub packets: u32,
    pub per_second: f64,
    pub bytes: u32,
    /// Most packets sent together after a delay of the sender.
    pub burst: u32,
    /// The count ends this long after the last packet.
    pub settle: Duration,
}

impl ProbeReceiver {
    /// # Errors
    /// No socket can be opened at the node.
    pub fn start(node: &Node) -> Result<ProbeReceiver> {
        let socket = open(node)?;
        socket.set_read_timeout(Some(POLL_INTERVAL)).context("prepare a probe socket")?;
        let address = socket.local_addr().context("read a probe socket's address")?;
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::new(AtomicBool::new(false));
        let (for_thread, until) = (Arc::clone(&arrivals), Arc::clone(&done));
        let thread = std::thread::spawn(move || receive(&socket, &for_thread, &until));
        Ok(ProbeReceiver { address, arrivals, done, thread: Some(thread) })
    }

    /// Sends probes one by one, waits for `patience` after the last, and returns the round-trip times.
    ///
    /// # Errors
    /// No socket can be opened at the node.
    pub fn probe_rtt(&self, from: &Node, spacing: Duration, patience: Duration) -> Result<Vec<Duration>> {
        let socket = open(from)?;
        let begin = Instant::now();
        let mut sent = Vec::new();
        let mut answers = Vec::new();
        let mut packet = [0; (RTT_PACKET_BYTES - HEADER_BYTES) as usize];
        packet[0] = ECHO;
        for number in 0..RTT_PROBES {
            packet[1..5].copy_from_slice(&number.to_ne_bytes());
            sent.push(Instant::now());
            send(&socket, &packet, self.address)?;
            let last = number + 1 == RTT_PROBES;
            let until = begin + spacing * (number + 1) + if last { patience } else { Duration::ZERO };
            collect(&socket, until, &sent, &mut answers)?;
        }
        Ok(answers)
    }

    /// Sends a stream; returns the number of packets sent, and the time of each arrival since the first was sent.
    ///
    /// # Errors
    /// No socket can be opened at the node.
    pub fn count(&self, from: &Node, stream: &ProbeStream) -> Result<(u64, Vec<Duration>)> {
        let socket = open(from)?;
        self.take_arrivals()?;
        let mut packet = vec![0; (stream.bytes - HEADER_BYTES) as usize];
        packet[0] = COUNT;
        let begin = Instant::now();
        let (mut sent, mut skipped) = (0_u32, 0.0);
        while sent < stream.packets {
            let due = begin.elapsed().as_secs_f64() * stream.per_second - skipped;
            let behind = (due as u32 + 1).min(stream.packets).saturating_sub(sent);
            skipped += f64::from(behind.saturating_sub(stream.burst));
            for _ in 0..behind.min(stream.burst) {
                send(&socket, &packet, self.address)?;
                sent += 1;
            }
            std::thread::sleep(BATCH);
        }
        std::thread::sleep(stream.settle); // every packet that is not lost arrives in this time
        let arrivals = self.take_arrivals()?.into_iter().map(|at| at.saturating_duration_since(begin)).collect();
        Ok((u64::from(sent), arrivals))
    }

    fn take_arrivals(&self) -> Result<Vec<Instant>> {
        self.arrivals.lock().map(|mut arrivals| mem::take(&mut *arrivals)).map_err(|_| anyhow!("the receiver panicked"))
    }
}

impl Drop for ProbeReceiver {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A UDP socket bound to the node's address; it stays in the node's namespace when another thread uses it.
fn open(node: &Node) -> Result<UdpSocket> {
    node.netns.run(|| {
        let socket = UdpSocket::bind((node.address, 0)).with_context(|| format!("open a socket on {}", node.name))?;
        setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES).context("enlarge a probe socket's buffer")?;
        setsockopt(&socket, sockopt::SndBufForce, &SOCKET_BUFFER_BYTES).context("enlarge a probe socket's buffer")?;
        Ok(socket)
    })
}

fn receive(socket: &UdpSocket, arrivals: &Mutex<Vec<Instant>>, done: &AtomicBool) {
    let mut packet = [0; 1 << 16];
    while !done.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut packet) else { continue }; // timed out
        match packet[0] {
            ECHO => {
                let _ = socket.send_to(&packet[..length], from); // a failure counts as a lost probe
            }
            _ => match arrivals.lock() {
                Ok(mut arrivals) => arrivals.push(Instant::now()),
                Err(_) => return,
            },
        }
    }
}

/// A packet that a full queue of the device drops counts as lost on the path.
fn send(socket: &UdpSocket, packet: &[u8], to: SocketAddr) -> Result<()> {
    match socket.send_to(packet, to) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS)) => Ok(()),
        other => other.map(drop).context("send a probe"),
    }
}

fn collect(socket: &UdpSocket, until: Instant, sent: &[Instant], answers: &mut Vec<Duration>) -> Result<()> {
    let mut packet = [0; 1 << 16];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        socket.set_read_timeout(Some(left)).context("wait for an answer")?;
        match socket.recv_from(&mut packet) {
            Ok(_) => {
                let number = u32::from_ne_bytes(packet[1..5].try_into().expect("four bytes"));
                answers.extend(sent.get(number as usize).map(Instant::elapsed));
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Ok(()),
            Err(error) => return Err(error).context("receive an answer"),
        }
    }
}
