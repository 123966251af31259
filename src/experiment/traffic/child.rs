//! What our own processes do in the nodes' namespaces: transfers of a size, and datagrams at a constant rate.
//!
//! `tccc run` starts them as `tccc traffic TASK`; they are of no use on their own. Receivers end when their standard
//! input does, and so with the process that holds its other end.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrIn, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::getppid;
use serde::{Deserialize, Serialize};

use super::messages::{self, Plan};
use crate::kernel::netns::Netns;
use crate::units::{BitsPerSec, Bytes, duration_text};

/// IPv4 and UDP headers.
pub(in crate::experiment) const UDP_HEADER_BYTES: u32 = 28;
/// What a datagram begins with: its number, from 0.
const NUMBER_BYTES: usize = 8;
/// Numbers of datagrams that are kept, 64 each: 128 MB.
const NUMBER_WORDS_MAX: usize = 1 << 24;
/// Room for datagrams that arrive while the receiver does not run.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;
/// How often a receiver of datagrams looks whether it is still needed.
pub(super) const LOOK_UP: Duration = Duration::from_millis(20);
/// What is written to or read from a connection at a time.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// Where a process works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file of the network namespace.
    pub netns: PathBuf,
    /// The file to which a process that joins the cgroup writes.
    pub cgroup: PathBuf,
    /// The process with whose starting thread this one ends.
    pub parent: u32,
}

impl Place {
    /// Goes there for good. To be called before any thread is started.
    ///
    /// Errors: not permitted; the parent is dead.
    pub fn enter(&self) -> Result<()> {
        prctl::set_pdeathsig(Signal::SIGKILL).context("tie this process to its parent")?;
        if getppid().as_raw() as u32 != self.parent {
            bail!("the process that started this one is dead"); // before the kernel knew that we go with it
        }
        Netns::open(&self.netns)?.enter_for_good().context("enter the network namespace")?;
        fs::write(&self.cgroup, "0").with_context(|| format!("join \"{}\"", self.cgroup.display()))
    }
}

/// What a process is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Becomes another program.
    Become {
        /// Its name.
        program: String,
        /// What follows the name.
        arguments: Vec<String>,
    },
    /// Sends transfers of a size, one port each from the given one on.
    SendTransfers {
        /// Own address, with the port of the first.
        from: SocketAddrV4,
        /// The receiver's.
        to: SocketAddrV4,
        /// The kernel's name of the algorithm.
        algorithm: String,
        /// Payload of each.
        size: Bytes,
        /// How many.
        count: u32,
        /// From the start of one to the start of the next.
        #[serde(with = "duration_text")]
        interval: Duration,
        /// When those that are not done are given up, from the start of the first.
        #[serde(with = "duration_text")]
        length: Duration,
    },
    /// Sends messages over one connection.
    SendMessages {
        /// Own address.
        from: SocketAddrV4,
        /// The receiver's.
        to: SocketAddrV4,
        /// The kernel's name of the algorithm.
        algorithm: String,
        /// The messages.
        plan: Plan,
    },
    /// Receives messages over one connection.
    ReceiveMessages {
        /// Own address.
        at: SocketAddrV4,
        /// Payload of each.
        size: Bytes,
    },
    /// Receives what connects.
    ReceiveTransfers {
        /// Own address.
        at: SocketAddrV4,
    },
    /// Sends datagrams.
    SendDatagrams {
        /// Own address.
        from: SocketAddrV4,
        /// The receiver's.
        to: SocketAddrV4,
        /// Rate in whole IP packets.
        rate: BitsPerSec,
        /// Length of each IP packet.
        packet_bytes: u32,
        /// For how long.
        #[serde(with = "duration_text")]
        length: Duration,
    },
    /// Counts datagrams.
    ReceiveDatagrams {
        /// Own address.
        at: SocketAddrV4,
        /// How long after the first packet others count.
        #[serde(with = "duration_text")]
        length: Duration,
        /// How long after the last packet the path is empty.
        #[serde(with = "duration_text")]
        settle: Duration,
    },
}

/// What a process says at its end. Times are on the host's monotonic clock, nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// When each transfer began to connect, by its own port; and what went wrong with some.
    Begun {
        /// Port to time.
        at_ns: BTreeMap<u16, u64>,
        /// Port to reason.
        errors: BTreeMap<u16, String>,
    },
    /// When each message began; and what went wrong.
    MessagesBegun {
        /// In their order.
        at_ns: Vec<u64>,
        /// Reason why not all were sent.
        error: Option<String>,
    },
    /// What arrived of the messages.
    MessagesArrived(messages::Arrived),
    /// What arrived of each transfer, by the sender's port.
    Arrived(BTreeMap<u16, Arrived>),
    /// Datagrams sent.
    Sent {
        /// How many.
        packets: u64,
        /// Longest that one left after its time.
        latest: Duration,
    },
    /// Datagrams counted.
    Counted(Counted),
}

/// What arrived of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Payload.
    pub bytes: u64,
    /// When the last of it did.
    pub last_ns: u64,
}

/// What arrived of datagrams while they count; copies of a packet do not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Packets.
    pub packets: u64,
    /// Payload.
    pub bytes: u64,
    /// When the first arrived.
    pub first_ns: u64,
    /// When the last of them arrived.
    pub last_ns: u64,
    /// Packets, those that came later too.
    pub arrived_ever: u64,
}

impl Counted {
    /// Counts a packet that is no copy.
    fn add(&mut self, now_ns: u64, bytes: usize, length: Duration) {
        if self.arrived_ever == 0 {
            self.first_ns = now_ns;
        }
        self.arrived_ever += 1;
        if u128::from(now_ns - self.first_ns) <= length.as_nanos() {
            self.packets += 1;
            self.bytes += bytes as u64;
            self.last_ns = now_ns;
        }
    }
}

/// The numbers of packets that arrived, one bit each: 1 MB is 100 s of full packets at 1 Gbit/s. Beyond the most that
/// are kept, each is new.
#[derive(Debug, Default)]
struct Numbers(Vec<u64>);

impl Numbers {
    /// Whether the number is a new one.
    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= NUMBER_WORDS_MAX {
            return true;
        }
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

/// Does a task and returns what there is to say.
///
/// Errors: a socket cannot be opened at the address, or the kernel does not take the algorithm; no such program.
pub fn work(task: &Task) -> Result<Told> {
    match task {
        Task::Become { program, arguments } => {
            let why = Command::new(program).args(arguments).exec();
            Err(why).with_context(|| format!("start {program}"))
        }
        Task::SendTransfers { length, count, interval, .. } => {
            let deadline = Instant::now() + *length;
            send_transfers(task, *count, *interval, deadline)
        }
        Task::ReceiveTransfers { at } => receive_transfers(*at),
        Task::SendMessages { from, to, algorithm, plan } => messages::send(open(*from, algorithm)?, *to, *plan),
        Task::ReceiveMessages { at, size } => messages::receive(*at, *size),
        Task::SendDatagrams { from, to, rate, packet_bytes, length } => {
            let socket = UdpSocket::bind(from).context("open a socket for datagrams")?;
            socket.connect(to).context("direct a socket for datagrams")?;
            let gap = Duration::from_secs_f64(8.0 * f64::from(*packet_bytes) / rate.0 as f64);
            send_datagrams(&socket, *packet_bytes, gap, *length)
        }
        Task::ReceiveDatagrams { at, length, settle } => receive_datagrams(*at, *length, *settle).map(Told::Counted),
    }
}

/// Now, on the clock that all processes of a host share.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every kernel has this clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Whether standard input ended; a thread of its own waits for it.
pub(super) fn until_input_ends() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink()); // an error is an end too
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// A transfer that goes on.
struct Going {
    socket: Arc<TcpStream>,
    done: Receiver<Result<()>>,
}

/// Starts each transfer in time, and gives up at the deadline those that are not done.
fn send_transfers(task: &Task, count: u32, interval: Duration, deadline: Instant) -> Result<Told> {
    let begin = Instant::now();
    let mut at_ns = BTreeMap::new();
    let mut going = BTreeMap::new();
    for number in 0..count {
        let due = begin + interval * number;
        if due >= deadline {
            break;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let port = first_port(task)? + number as u16;
        at_ns.insert(port, now_ns());
        going.insert(port, start_transfer(task, port)?);
    }
    let mut errors = BTreeMap::new();
    for (port, one) in going {
        let left = deadline.saturating_duration_since(Instant::now());
        let why = match one.done.recv_timeout(left) {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "not done in time".to_owned(),
        };
        give_up(&one.socket);
        errors.insert(port, why);
    }
    Ok(Told::Begun { at_ns, errors })
}

fn first_port(task: &Task) -> Result<u16> {
    match task {
        Task::SendTransfers { from, .. } => Ok(from.port()),
        _ => bail!("only a sender has ports"),
    }
}

/// Starts one transfer on a thread of its own.
fn start_transfer(task: &Task, port: u16) -> Result<Going> {
    let Task::SendTransfers { from, to, algorithm, size, .. } = task else { bail!("only a sender sends") };
    let socket = Arc::new(open(SocketAddrV4::new(*from.ip(), port), algorithm)?);
    let (tell, done) = mpsc::channel();
    let (for_thread, to, size) = (Arc::clone(&socket), *to, size.0);
    std::thread::spawn(move || {
        let _ = tell.send(transfer(&for_thread, to, size)); // nobody listens after the deadline
    });
    Ok(Going { socket, done })
}

/// A socket at this address that uses the algorithm.
fn open(from: SocketAddrV4, algorithm: &str) -> Result<TcpStream> {
    let socket = socket::socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None);
    let socket: OwnedFd = socket.context("open a socket")?;
    setsockopt(&socket, sockopt::TcpCongestion, &algorithm.into()).with_context(|| format!("choose {algorithm}"))?;
    setsockopt(&socket, sockopt::ReuseAddr, &true).context("prepare a socket")?;
    let bound = socket::bind(socket.as_raw_fd(), &SockaddrIn::from(from));
    bound.with_context(|| format!("bind port {}", from.port()))?;
    Ok(TcpStream::from(socket))
}

/// Connects, sends, and waits until the receiver has everything and says so by closing.
fn transfer(socket: &TcpStream, to: SocketAddrV4, size: u64) -> Result<()> {
    connect(socket, to)?;
    write_payload(socket, size)?;
    finish_sending(socket)
}

pub(super) fn connect(socket: &TcpStream, to: SocketAddrV4) -> Result<()> {
    socket::connect(socket.as_raw_fd(), &SockaddrIn::from(to)).context("connect")
}

pub(super) fn write_payload(socket: &TcpStream, size: u64) -> Result<()> {
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
pub(super) fn finish_sending(socket: &TcpStream) -> Result<()> {
    socket.shutdown(Shutdown::Write).context("finish sending")?;
    let mut reader = socket;
    reader.read(&mut [0; 1]).context("wait for the receiver")?;
    Ok(())
}

/// Ends a connection at once, so that its close is seen before its namespace goes.
pub(super) fn give_up(socket: &TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    let _ = setsockopt(socket, sockopt::Linger, &at_once); // what is closed already needs neither
    let _ = socket.shutdown(Shutdown::Both);
}

/// Takes connections until standard input ends.
fn receive_transfers(at: SocketAddrV4) -> Result<Told> {
    let listener = TcpListener::bind(at).context("listen for transfers")?;
    let arrived: Arc<Mutex<BTreeMap<u16, Arrived>>> = Arc::default();
    let for_thread = Arc::clone(&arrived);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let arrived = Arc::clone(&for_thread);
            std::thread::spawn(move || read_all(&connection, &arrived));
        }
    });
    let ended = until_input_ends();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_UP);
    }
    let arrived = arrived.lock().map_err(|_| anyhow!("a receiving thread ended badly"))?;
    Ok(Told::Arrived(arrived.clone()))
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

/// Sends packets when they are due, and how late the latest was; a full queue of the device is the path's business.
fn send_datagrams(socket: &UdpSocket, packet_bytes: u32, gap: Duration, length: Duration) -> Result<Told> {
    let mut packet = vec![0; (packet_bytes - UDP_HEADER_BYTES) as usize];
    let begin = Instant::now();
    let (mut packets, mut latest) = (0_u64, Duration::ZERO);
    loop {
        let due = gap.mul_f64(packets as f64);
        if due >= length {
            return Ok(Told::Sent { packets, latest });
        }
        std::thread::sleep((begin + due).saturating_duration_since(Instant::now()));
        latest = latest.max(begin.elapsed().saturating_sub(due));
        packet[..NUMBER_BYTES].copy_from_slice(&packets.to_ne_bytes());
        match socket.send(&packet) {
            // A port where nobody listens any more is told by ICMP: the receiver was stopped.
            Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return Err(error).context("send a datagram"),
            _ => packets += 1,
        }
    }
}

/// Counts packets until standard input ended and none came for a while.
fn receive_datagrams(at: SocketAddrV4, length: Duration, settle: Duration) -> Result<Counted> {
    let socket = UdpSocket::bind(at).context("open a socket for datagrams")?;
    setsockopt(&socket, sockopt::RcvBufForce, &DATAGRAM_BUFFER_BYTES).context("enlarge a socket's buffer")?;
    socket.set_read_timeout(Some(LOOK_UP)).context("prepare a socket")?;
    let ended = until_input_ends();
    let (mut counted, mut numbers) = (Counted::default(), Numbers::default());
    let mut packet = [0; 1 << 16];
    let mut quiet_since = Instant::now();
    loop {
        match socket.recv(&mut packet) {
            Ok(bytes) => {
                let number =
                    packet[..NUMBER_BYTES].try_into().map(u64::from_ne_bytes).expect("the number's own length");
                if numbers.insert(number) {
                    counted.add(now_ns(), bytes, length);
                }
                quiet_since = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error).context("receive a datagram"),
        }
        if ended.load(Ordering::Relaxed) && quiet_since.elapsed() >= settle {
            return Ok(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_of_datagrams_knows_how_many_it_sent() {
        let [socket, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.connect(other.local_addr().unwrap()).unwrap();
        let [gap, length] = [1, 5].map(Duration::from_millis);
        let Told::Sent { packets, latest } = send_datagrams(&socket, 100, gap, length).unwrap() else { panic!() };
        assert!(packets == 5 && latest > Duration::ZERO, "{packets} {latest:?}");
    }

    #[test]
    fn datagrams_count_once_and_only_for_the_length() {
        let (mut counted, mut numbers) = (Counted::default(), Numbers::default());
        for (number, at_ms) in [(0, 10), (70, 500), (70, 510), (1, 1010), (2, 1011), (0, 1100)] {
            if numbers.insert(number) {
                counted.add(at_ms * 1_000_000, 100, Duration::from_secs(1));
            }
        }
        let Counted { packets, bytes, first_ns, last_ns, arrived_ever } = counted;
        assert_eq!((packets, bytes, first_ns, last_ns), (3, 300, 10_000_000, 1_010_000_000));
        assert_eq!(arrived_ever, 4);
        assert!(numbers.insert(u64::MAX) && numbers.0.len() == 2, "a number beyond all that are kept takes no memory");
    }
}
