//! A link between two namespaces of the test's own, and UDP and TCP traffic over it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{Linger, RcvBufForce, ReceiveTimestampns, UdpGsoSegment};
use nix::time::{ClockId, clock_gettime};
use tccc::emulate::{Link, LinkDriver, LinkEnd};
use tccc::kernel::netlink::add_address;
use tccc::kernel::netns::Netns;
use tccc::path::{Direction, LinkConfig};
use tccc::units::{BitsPerSec, QueueSize};

use crate::lab::socket::receive_stamped;

/// IPv4 and UDP headers, bytes.
pub const UDP_HEADERS: usize = 28;
pub const MTU: usize = 1500;
const ADDRESSES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 79, 0, 1), Ipv4Addr::new(10, 79, 0, 2)];
/// Packets per send call of a flood. The kernel cuts them into single packets before the link.
const FLOOD_BURST: usize = 16;
/// How long a receiver waits for the next packet until it considers the traffic finished.
const QUIET: Duration = Duration::from_millis(400);

/// A direction without rate limit, loss or jitter.
pub fn plain(delay: Duration) -> Direction {
    Direction { delay, seed: 1, ..Direction::default() }
}

/// A direction with a rate in Mbit/s.
pub fn limited(mbit: f64, delay: Duration, queue: QueueSize) -> Direction {
    Direction { rate: Some(BitsPerSec((mbit * 1e6) as u64)), queue, ..plain(delay) }
}

pub fn new_sides() -> [Netns; 2] {
    [Netns::create().unwrap(), Netns::create().unwrap()]
}

/// The ends of a link between two namespaces. The interfaces are called `prefix` and 0 or 1.
pub fn ends_of(sides: &[Netns; 2], prefix: &str) -> [LinkEnd; 2] {
    [0, 1].map(|n| LinkEnd { netns: sides[n].try_clone().unwrap(), interface: format!("{prefix}{n}") })
}

pub fn connect_sides(
    driver: &dyn LinkDriver,
    sides: &[Netns; 2],
    directions: [Direction; 2],
    prefix: &str,
) -> Box<dyn Link> {
    driver.connect(&LinkConfig { directions, mtu: MTU as u32 }, ends_of(sides, prefix)).unwrap()
}

/// Gives the interfaces the addresses `10.NETWORK.0.1` and `10.NETWORK.0.2`.
pub fn set_addresses(sides: &[Netns; 2], prefix: &str, network: u8) {
    for (n, side) in sides.iter().enumerate() {
        add_address(side, &format!("{prefix}{n}"), [10, network, 0, 1 + n as u8].into(), 24).unwrap();
    }
}

/// Two namespaces and the link between them. TCP flows from the first to the second.
pub struct LinkLab {
    pub link: Box<dyn Link>,
    pub sides: [Netns; 2],
}

impl LinkLab {
    pub fn new(driver: &dyn LinkDriver, directions: [Direction; 2]) -> LinkLab {
        Self::with_mtu(driver, directions, MTU as u32)
    }

    pub fn with_mtu(driver: &dyn LinkDriver, directions: [Direction; 2], mtu: u32) -> LinkLab {
        let sides = new_sides();
        let link = driver.connect(&LinkConfig { directions, mtu }, ends_of(&sides, "lnk")).unwrap();
        set_addresses(&sides, "lnk", 79);
        LinkLab { link, sides }
    }

    /// Sockets for packets from side `from` to the other side.
    pub fn udp(&self, from: usize) -> (PacketSender, PacketReceiver) {
        let to = 1 - from;
        let receiver = self.sides[to].run(|| Ok(UdpSocket::bind((ADDRESSES[to], 0))?)).unwrap();
        receiver.set_read_timeout(Some(QUIET)).unwrap();
        setsockopt(&receiver, RcvBufForce, &(64 << 20)).unwrap();
        setsockopt(&receiver, ReceiveTimestampns, &true).unwrap();
        let sender = self.sides[from].run(|| Ok(UdpSocket::bind((ADDRESSES[from], 0))?)).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (PacketSender { socket: sender, next: 0 }, PacketReceiver(receiver))
    }

    /// Sends TCP for a time; returns the bytes that arrived.
    pub fn tcp(&self, time: Duration) -> u64 {
        const BUFFERS: &str = "4096 1048576 67108864";
        for side in &self.sides {
            let set = |name| Ok(fs::write(format!("/proc/sys/net/ipv4/{name}"), BUFFERS)?);
            side.run(|| set("tcp_rmem").and_then(|()| set("tcp_wmem"))).unwrap();
        }
        let listener = self.sides[1].run(|| Ok(TcpListener::bind((ADDRESSES[1], 0))?)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::scope(|scope| {
            let received = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut buffer = vec![0; 256 << 10];
                let mut received = 0;
                while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                    received += bytes as u64;
                }
                received
            });
            let mut stream = self.sides[0].run(|| Ok(TcpStream::connect(address)?)).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            let (started, buffer) = (Instant::now(), vec![0; 128 << 10]);
            while started.elapsed() < time {
                let _ = stream.write(&buffer);
            }
            // Discards what is left in the sender's buffer.
            setsockopt(&stream, Linger, &nix::libc::linger { l_onoff: 1, l_linger: 0 }).unwrap();
            drop(stream);
            received.join().unwrap()
        })
    }
}

/// Sends packets with their number and their sending time, in wall-clock nanoseconds.
pub struct PacketSender {
    socket: UdpSocket,
    next: u64,
}

impl PacketSender {
    pub fn send(&mut self, bytes: usize) {
        let mut packet = [0; MTU];
        packet[..8].copy_from_slice(&self.next.to_le_bytes());
        packet[8..16].copy_from_slice(&wall_nanos().to_le_bytes());
        while let Err(error) = self.socket.send(&packet[..bytes - UDP_HEADERS]) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        }
        self.next += 1;
    }

    /// Sends full packets at a rate for a time, in small bursts, so that the queue of the link stays full.
    ///
    /// Side effects: raises the calling thread's priority, because gaps in the flood would measure the sender.
    pub fn flood(&mut self, mbit: f64, time: Duration) {
        const BURST_INTERVAL: Duration = Duration::from_micros(200);
        const NICENESS: i32 = -19;
        // SAFETY: plain system calls on the calling thread.
        unsafe {
            nix::libc::prctl(nix::libc::PR_SET_TIMERSLACK, 1);
            nix::libc::setpriority(nix::libc::PRIO_PROCESS, 0, NICENESS);
        }
        let payload = MTU - UDP_HEADERS;
        setsockopt(&self.socket, UdpGsoSegment, &(payload as i32)).unwrap();
        let burst = vec![0; payload * FLOOD_BURST];
        let started = Instant::now();
        let mut sent = 0;
        while started.elapsed() < time {
            let wanted = (started.elapsed().as_secs_f64() * mbit * 1e6 / 8.0 / MTU as f64) as usize;
            while sent < wanted {
                let packets = (wanted - sent).min(FLOOD_BURST);
                // A refused packet counts as never sent.
                let _ = self.socket.send(&burst[..payload * packets]);
                sent += packets;
            }
            thread::sleep(BURST_INTERVAL); // the pace of the flood
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct CapturedPacket {
    pub number: u64,
    /// Wall-clock nanoseconds at which the receiving kernel got the packet.
    pub at: u64,
    /// From the sender's call to the receiving kernel, nanoseconds.
    pub delay: u64,
}

pub struct PacketReceiver(UdpSocket);

impl PacketReceiver {
    /// All packets until none arrives for a while.
    pub fn rest(&self) -> Vec<CapturedPacket> {
        std::iter::from_fn(|| self.one()).collect()
    }

    /// The next packet.
    ///
    /// None: no packet arrives for a while.
    pub fn one(&self) -> Option<CapturedPacket> {
        let mut packet = [0; MTU];
        let at = receive_stamped(&self.0, &mut packet)?.1.as_nanos() as u64;
        let word = |at: usize| u64::from_le_bytes(packet[at..at + 8].try_into().unwrap());
        Some(CapturedPacket { number: word(0), at, delay: at.saturating_sub(word(8)) })
    }
}

pub fn receive_during(receiver: &PacketReceiver, traffic: impl FnOnce()) -> Vec<CapturedPacket> {
    let finished = AtomicBool::new(false);
    thread::scope(|scope| {
        let arrivals = scope.spawn(|| {
            let mut arrivals = Vec::new();
            while !finished.load(Ordering::Relaxed) {
                arrivals.extend(receiver.rest());
            }
            arrivals.extend(receiver.rest());
            arrivals
        });
        traffic();
        finished.store(true, Ordering::Relaxed);
        arrivals.join().unwrap()
    })
}

/// Sends packets one by one; returns the numbers of those that arrived.
pub fn survivors(lab: &LinkLab, packets: u64) -> Vec<u64> {
    let (mut sender, receiver) = lab.udp(0);
    let arrivals = receive_during(&receiver, || (0..packets).for_each(|_| sender.send(200)));
    arrivals.iter().map(|arrival| arrival.number).collect()
}

/// Wall-clock nanoseconds. The kernel's receive time stamps use the same clock.
pub fn wall_nanos() -> u64 {
    Duration::from(clock_gettime(ClockId::CLOCK_REALTIME).unwrap()).as_nanos() as u64
}

/// Processor time of all link threads of this process so far.
pub fn link_cpu_time() -> Duration {
    let threads = procfs::process::Process::myself().and_then(|process| process.tasks()).unwrap().flatten();
    let links = threads.filter(|thread| thread.stat().is_ok_and(|stat| stat.comm == "tunlink"));
    Duration::from_nanos(links.filter_map(|thread| Some(thread.schedstat().ok()?.sum_exec_runtime)).sum())
}
