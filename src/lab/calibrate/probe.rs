//! Our own small UDP packets between two nodes: answered at once, or counted.

use std::io::ErrorKind;
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
/// First byte of a packet that is to be sent back.
const ECHO: u8 = b'e';
/// First byte of a packet that is to be counted.
const COUNT: u8 = b'c';
/// Room for what arrives while the receiving thread does not run.
const SOCKET_BUFFER_BYTES: usize = 16 << 20;
/// How soon the receiving thread notices that it is no longer needed.
const LOOK_UP: Duration = Duration::from_millis(20);
/// Packets due within one of these are sent together.
const BATCH: Duration = Duration::from_millis(1);

/// The receiving end; ends with the value.
pub struct Receiver {
    address: SocketAddr,
    arrivals: Arc<Mutex<Vec<Instant>>>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Probes for the round-trip time.
#[derive(Debug, Clone, Copy)]
pub struct RttPlan {
    pub probes: u32,
    pub spacing: Duration,
    pub bytes: u32,
    /// How long to wait for the last answers.
    pub patience: Duration,
}

/// A stream of packets that are counted.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    pub packets: u32,
    pub per_second: f64,
    pub bytes: u32,
    /// Most packets sent together when the sender was held up.
    pub burst: u32,
    /// How long after the last packet the count ends.
    pub settle: Duration,
}

/// What became of a stream.
#[derive(Debug, Clone)]
pub struct Counted {
    pub sent: u64,
    /// Arrival times since the first packet was sent, ascending.
    pub arrivals: Vec<Duration>,
}

impl Receiver {
    /// Starts to answer and count packets at a node.
    ///
    /// Errors: no socket can be opened there.
    pub fn start(node: &Node) -> Result<Receiver> {
        let socket = open(node)?;
        socket.set_read_timeout(Some(LOOK_UP)).context("prepare a probe socket")?;
        let address = socket.local_addr().context("read a probe socket's address")?;
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::new(AtomicBool::new(false));
        let (for_thread, until) = (Arc::clone(&arrivals), Arc::clone(&done));
        let thread = std::thread::spawn(move || receive(&socket, &for_thread, &until));
        Ok(Receiver { address, arrivals, done, thread: Some(thread) })
    }

    /// Sends probes one by one and returns the round-trip times of those that were answered.
    ///
    /// Errors: no socket can be opened at the node.
    pub fn probe_rtt(&self, from: &Node, plan: &RttPlan) -> Result<Vec<Duration>> {
        let socket = open(from)?;
        let begin = Instant::now();
        let mut sent = Vec::new();
        let mut answers = Vec::new();
        let mut packet = vec![0; (plan.bytes - HEADER_BYTES) as usize];
        for number in 0..plan.probes {
            packet[0] = ECHO;
            packet[1..5].copy_from_slice(&number.to_ne_bytes());
            sent.push(Instant::now());
            send(&socket, &packet, self.address)?;
            let last = number + 1 == plan.probes;
            let until = begin + plan.spacing * (number + 1) + if last { plan.patience } else { Duration::ZERO };
            collect(&socket, until, &sent, &mut answers)?;
        }
        Ok(answers)
    }

    /// Sends a stream and returns what arrived of it.
    ///
    /// Errors: no socket can be opened at the node.
    pub fn count(&self, from: &Node, stream: &Stream) -> Result<Counted> {
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
        std::thread::sleep(stream.settle); // a packet that was not lost has arrived by then
        let arrivals = self.take_arrivals()?.into_iter().map(|at| at.saturating_duration_since(begin)).collect();
        Ok(Counted { sent: u64::from(sent), arrivals })
    }

    fn take_arrivals(&self) -> Result<Vec<Instant>> {
        let mut arrivals = self.arrivals.lock().map_err(|_| anyhow!("the receiving thread ended badly"))?;
        Ok(std::mem::take(&mut *arrivals))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A UDP socket bound to the node's own address; it stays in the node's namespace wherever it is used.
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
        let Ok((length, from)) = socket.recv_from(&mut packet) else { continue }; // nothing came for a while
        match packet[0] {
            ECHO => {
                let _ = socket.send_to(&packet[..length], from); // a lost answer is a lost probe
            }
            _ => match arrivals.lock() {
                Ok(mut arrivals) => arrivals.push(Instant::now()),
                Err(_) => return,
            },
        }
    }
}

/// A full queue of the device is the path's business, not an error.
fn send(socket: &UdpSocket, packet: &[u8], to: SocketAddr) -> Result<()> {
    match socket.send_to(packet, to) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOBUFS)) => Ok(()),
        other => other.map(drop).context("send a probe"),
    }
}

/// Receives answers until the given moment.
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
