//! A path of known rate and round trip, transfers over it, and what the wire and the sender's algorithm showed meanwhile.

pub mod tamper;

use std::any::Any;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libbpf_rs::query::{LinkInfo, LinkInfoIter, LinkTypeInfo, ProgInfoIter};
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimestampns};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, setsockopt, socket};
use tccc::catalog;
use tccc::emulate::tunlink::TunLink;
use tccc::kernel::netns::Netns;
use tccc::kernel::probe::Features;
use tccc::kernel::sysctl;
use tccc::loader::{Registration, Request, register};
use tccc::path::Direction;
use tccc::trace::event::{Event, EventKind};
use tccc::trace::live::{Sampling, Tracer};
use tccc::units::{BitsPerSec, QueueSize};

use crate::lab::group::TestCgroup;
use crate::lab::link::{connect_sides, new_sides, set_addresses};
use crate::lab::socket::{connect_with, receive_stamped};
use crate::lab::trace::only;
use crate::lab::wire::{Handle, Wire};
pub use tamper::Tamper;

pub const T1: u64 = 1_544_000;
pub const OC1: u64 = 51_840_000;
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const IPV4_BYTES: usize = 20;
/// The options of bpf/include/pair.bpf.h on the wire: kind, length, ExID.
const MARK: [u8; 4] = [254, 6, 0x53, 0x53];
const REPLY: [u8; 4] = [254, 8, 0x53, 0x53];

/// Two namespaces and the path between them. Data flow from the first to the second.
pub struct PairPath {
    pub sides: [Netns; 2],
    /// The link or wire, which ends when it is dropped.
    _path: Box<dyn Any>,
}

impl PairPath {
    pub fn new(bits_per_second: u64, rtt: Duration) -> PairPath {
        let direction = |rate, seed| Direction {
            rate,
            delay: rtt / 2,
            queue: QueueSize::Packets(5_000),
            seed,
            ..Direction::default()
        };
        let sides = new_sides();
        let directions = [direction(Some(BitsPerSec(bits_per_second)), 1), direction(None, 2)];
        let link = connect_sides(&TunLink, &sides, directions, "pair");
        PairPath::on(sides, link)
    }

    /// A path without a rate limit that tampers with the receiver's replies.
    pub fn tampered(rtt: Duration, tamper: Tamper) -> PairPath {
        PairPath::rewritten(tamper::of_replies(tamper, rtt))
    }

    /// A path without a rate limit on which a copy with a malformed block of options precedes every packet. `blocks`
    /// counts the copies.
    pub fn hostile(rtt: Duration, seed: u64, blocks: &Arc<AtomicU64>) -> PairPath {
        PairPath::rewritten(tamper::of_all_options(seed, Arc::clone(blocks), rtt))
    }

    fn rewritten(handle: Handle) -> PairPath {
        let sides = new_sides();
        let wire = Wire::between(&sides, "pair", handle, || false);
        PairPath::on(sides, wire)
    }

    fn on(sides: [Netns; 2], path: impl Any) -> PairPath {
        set_addresses(&sides, "pair", 77);
        for (side, (name, value)) in sides.iter().flat_map(|side| SETTINGS.map(|setting| (side, setting))) {
            sysctl::write(side, name, value).unwrap();
        }
        PairPath { sides, _path: Box::new(path) }
    }

    fn listen(&self) -> TcpListener {
        self.sides[1].run(|| Ok(TcpListener::bind((RECEIVER, 0))?)).unwrap()
    }

    pub fn transfer(&self, algorithm: &str, bytes: usize) -> PairTransfer {
        self.transfer_from(None, algorithm, bytes)
    }

    /// Like [`PairPath::transfer`], with the sender's socket alone in a cgroup.
    pub fn transfer_from(&self, cgroup: Option<&TestCgroup>, algorithm: &str, bytes: usize) -> PairTransfer {
        let listener = self.listen();
        let tracer = Tracer::start(&only(&self.sides[0]), Sampling::ByPacket(Duration::ZERO), 64 << 20).unwrap();
        let wire = self.sides[1].run(capture).unwrap();
        let is_over = AtomicBool::new(false);
        let mut seen = PairTransfer { algorithm: algorithm.to_owned(), ..PairTransfer::default() };
        std::thread::scope(|scope| {
            let (is_over, address) = (&is_over, listener.local_addr().unwrap());
            let watched = scope.spawn(move || {
                let (mut events, mut options) = (Vec::new(), Vec::new());
                loop {
                    let was_over = is_over.load(Ordering::Acquire);
                    tracer.poll(Duration::from_millis(1), &mut |event| events.push(event)).unwrap();
                    take_options(&wire, &mut options);
                    if was_over {
                        return (events, options);
                    }
                }
            });
            let started = Instant::now();
            let connect = || self.sides[0].run(|| connect_with(address, algorithm)).unwrap();
            let sent = cgroup.map_or_else(connect, |cgroup| cgroup.inside(connect));
            let received = scope.spawn(|| receive(&listener, bytes));
            (&sent).write_all(&vec![7; bytes]).unwrap();
            received.join().unwrap();
            seen.seconds = started.elapsed().as_secs_f64();
            // The receiver's FIN arrives after every ACK.
            assert_eq!((&sent).read(&mut [0]).unwrap(), 0);
            is_over.store(true, Ordering::Release);
            (seen.events, seen.options) = watched.join().unwrap();
        });
        seen
    }

    /// Sends `answered` messages of one byte that are answered, and one more. While that is on its way, pacing begins,
    /// and `bytes` follow. Returns the seconds from the last message until all bytes were read.
    pub fn time_when_pacing_begins(&self, algorithm: &str, answered: usize, bytes: usize, limit: Duration) -> f64 {
        let listener = self.listen();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let received = scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(limit)).unwrap();
                for _ in 0..answered {
                    stream.read_exact(&mut [0]).unwrap();
                    stream.write_all(&[0]).unwrap();
                }
                stream.read_exact(&mut vec![0; 1 + bytes])
            });
            let mut sent = self.sides[0].run(|| connect_with(address, algorithm)).unwrap();
            sent.set_nodelay(true).unwrap();
            for _ in 0..answered {
                sent.write_all(&[7]).unwrap();
                sent.read_exact(&mut [0]).unwrap();
            }
            let started = Instant::now();
            sent.write_all(&[7]).unwrap();
            limit_pacing(&sent, u64::MAX / 2);
            sent.write_all(&vec![7; bytes]).unwrap();
            received.join().unwrap().expect("the bytes arrive");
            started.elapsed().as_secs_f64()
        })
    }

    /// Sends `bytes` without a tracer. Returns the seconds from before the connection until the last byte was read.
    pub fn time(&self, algorithm: &str, bytes: usize) -> f64 {
        let listener = self.listen();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let started = Instant::now();
            let sent = self.sides[0].run(|| connect_with(address, algorithm)).unwrap();
            let received = scope.spawn(|| receive(&listener, bytes));
            (&sent).write_all(&vec![7; bytes]).unwrap();
            received.join().unwrap();
            started.elapsed().as_secs_f64()
        })
    }
}

/// Large windows, and no metrics cached from earlier connections.
const SETTINGS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_rmem", "4096 8388608 67108864"),
    ("net.ipv4.tcp_wmem", "4096 8388608 67108864"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];

/// Limits the pacing rate of a socket as an application does, in bytes per second. TCP paces the socket from now on.
pub fn limit_pacing(socket: &impl AsRawFd, rate: u64) {
    // SAFETY: the descriptor is open; the number is as long as the call expects and outlives it.
    let answer = unsafe {
        let at = (&raw const rate).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, at, size_of::<u64>() as u32)
    };
    assert_eq!(answer, 0);
}

fn receive(listener: &TcpListener, bytes: usize) {
    const SILENCE: Duration = Duration::from_secs(60);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(SILENCE)).unwrap(); // a broken path fails the test instead of blocking it
    let mut rest = vec![0; 256 << 10];
    let mut left = bytes;
    while left > 0 {
        let most = left.min(rest.len());
        let read = stream.read(&mut rest[..most]).expect("bytes arrive");
        assert!(read > 0, "{left} bytes are missing");
        assert!(rest[..read].iter().all(|&byte| byte == 7));
        left -= read;
    }
}

/// A socket that receives every IP packet of this namespace, in both directions, with the kernel's time stamp.
fn capture() -> anyhow::Result<OwnedFd> {
    let wire = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll)?;
    setsockopt(&wire, RcvBufForce, &(64 << 20))?;
    setsockopt(&wire, ReceiveTimestampns, &true)?;
    Ok(wire)
}

fn take_options(wire: &OwnedFd, options: &mut Vec<(Duration, PairOption)>) {
    let mut packet = [0; 2048];
    while let Some((length, time)) = receive_stamped(wire, &mut packet) {
        options.extend(pair_option(&packet[..length]).map(|option| (time, option)));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairOption {
    Mark { is_second: bool, pair: u8, payload: usize },
    Reply { dt_us: u32 },
}

fn pair_option(packet: &[u8]) -> Option<PairOption> {
    const TCP: u8 = 6;
    if packet.first()? >> 4 != 4 || packet.get(9) != Some(&TCP) {
        return None;
    }
    let tcp = packet.get(IPV4_BYTES..)?;
    let header = usize::from(tcp.get(12)? >> 4) * 4;
    let payload = packet.len() - IPV4_BYTES - header;
    let mut rest = tcp.get(20..header)?;
    while let [kind, tail @ ..] = rest {
        let length = match kind {
            0 => return None,
            1 => 1,
            _ => usize::from(*tail.first()?),
        };
        if rest.starts_with(&MARK) {
            return Some(PairOption::Mark { is_second: rest[4] & 1 == 1, pair: rest[5], payload });
        }
        if rest.starts_with(&REPLY) {
            return Some(PairOption::Reply { dt_us: u32::from_be_bytes(rest[4..8].try_into().unwrap()) });
        }
        rest = rest.get(length.max(1)..)?;
    }
    None
}

#[derive(Default)]
pub struct PairTransfer {
    pub algorithm: String,
    pub events: Vec<Event>,
    /// In the order of the wire, with times.
    pub options: Vec<(Duration, PairOption)>,
    /// From before the connection until the last byte was read.
    pub seconds: f64,
}

#[derive(Debug, Clone)]
pub struct PacketState {
    pub phase: String,
    pub dt_us: u64,
    pub rtt_pair_us: u64,
    pub est: u64,
    pub cwnd: u32,
    pub bytes_acked: u64,
    pub delivered: u32,
    pub time_ns: u64,
}

impl PairTransfer {
    /// The sender's states in order of time. The layout is that of algorithm `id` of the catalogue.
    pub fn states(&self, id: &str) -> Vec<PacketState> {
        let layout = &catalog::find(id).unwrap().layout;
        let ours = |event: &&Event| event.algorithm == self.algorithm && event.kind != EventKind::Close;
        let state = |event: &Event| {
            let fields = layout.decode(&event.private_state);
            let number = |wanted: &str| {
                let field = fields.iter().find(|(name, _)| *name == wanted);
                field.map_or(0, |(_, value)| value.to_string().parse().unwrap())
            };
            PacketState {
                phase: layout.phase_name(&event.private_state).unwrap().to_owned(),
                dt_us: number("dt_us"),
                rtt_pair_us: number("rtt_pair_us"),
                est: number("est"),
                cwnd: event.cwnd_pkts,
                bytes_acked: event.bytes_acked,
                delivered: event.delivered_pkts,
                time_ns: event.time_ns,
            }
        };
        self.events.iter().filter(ours).map(state).collect()
    }

    pub fn replies(&self) -> Vec<u32> {
        let reply = |(_, option): &(Duration, PairOption)| match option {
            PairOption::Reply { dt_us } => Some(*dt_us),
            PairOption::Mark { .. } => None,
        };
        self.options.iter().filter_map(reply).collect()
    }

    pub fn marks(&self) -> Vec<PairOption> {
        self.timed_marks().map(|(_, mark)| mark).collect()
    }

    fn timed_marks(&self) -> impl Iterator<Item = (Duration, PairOption)> {
        self.options.iter().copied().filter(|(_, option)| matches!(option, PairOption::Mark { .. }))
    }

    /// Microseconds between the two marks of each pair on the wire.
    pub fn intervals_us(&self) -> Vec<f64> {
        let times: Vec<Duration> = self.timed_marks().map(|(time, _)| time).collect();
        times.chunks_exact(2).map(|pair| pair[1].saturating_sub(pair[0]).as_secs_f64() * 1e6).collect()
    }
}

/// Ids of all cgroups to which a link attaches the companion program, whichever process holds the link.
pub fn attached() -> Vec<u64> {
    let programs = ProgInfoIter::default().filter(|program| program.name == "pair_delta");
    let ours: Vec<u32> = programs.map(|program| program.id).collect();
    let place = |link: LinkInfo| match link.info {
        LinkTypeInfo::Cgroup(cgroup) if ours.contains(&link.prog_id) => Some(cgroup.cgroup_id),
        _ => None,
    };
    LinkInfoIter::default().filter_map(place).filter(|&id| id != 0).collect()
}

/// Registers an algorithm of the catalogue until the value is dropped, with its companion in one cgroup only.
pub fn registered_in(cgroup: &TestCgroup, id: &str, name: &str) -> Registration {
    let request = Request { name, cgroup: Some(cgroup.path()), ..Request::of(catalog::find(id).unwrap()) };
    register(&request, &Features::probe().unwrap()).unwrap()
}

/// Registers an algorithm of the catalogue until the value is dropped, with its companion in every cgroup.
pub fn registered(id: &str, name: &str, settings: &[&str]) -> Registration {
    let algorithm = catalog::find(id).unwrap();
    let settings = algorithm.settings(settings).unwrap();
    let request = Request { name, settings: &settings, ..Request::of(algorithm) };
    register(&request, &Features::probe().unwrap()).unwrap()
}
