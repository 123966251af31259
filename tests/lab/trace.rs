//! Connections in namespaces of the test's own, and a tracer that keeps what it saw.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use tccc::emulate::tunlink::TunLink;
use tccc::emulate::{Link, LinkDriver, LinkEnd};
use tccc::kernel::netlink;
use tccc::kernel::netns::Netns;
use tccc::path::{Direction, LinkConfig};
use tccc::trace::event::{Event, EventKind};
use tccc::trace::filter::Filter;
use tccc::trace::live::{Sampling, Tracer};
use tccc::units::{BitsPerSec, QueueSize, Share};

use crate::common::poll_until;
use crate::lab::socket::{RawTcpInfo, algorithm_of, connect_with};

const SOON: Duration = Duration::from_secs(20);

/// A namespace of its own with its loopback interface up.
pub fn loopback_netns() -> Netns {
    let netns = Netns::create().unwrap();
    netlink::set_up(&netns, "lo").unwrap();
    netns
}

/// The filter for one namespace.
pub fn only(netns: &Netns) -> Filter {
    Filter { netns: Some(BTreeSet::from([netns.inode()])), ..Filter::default() }
}

/// Both ends of a connection, held by this process.
pub struct Connection {
    pub client: TcpStream,
    pub server: TcpStream,
    /// Of the server.
    pub address: SocketAddr,
}

impl Connection {
    /// Connects over the loopback of `netns`; the client runs `algorithm`.
    pub fn open(netns: &Netns, algorithm: &str) -> Connection {
        Self::open_at(netns, algorithm, "127.0.0.1:0")
    }

    pub fn open_at(netns: &Netns, algorithm: &str, address: &str) -> Connection {
        let listener = netns.run(|| Ok(TcpListener::bind(address)?)).unwrap();
        Self::between(netns, listener, algorithm)
    }

    /// Connects from `client` to whoever listens; the client runs `algorithm`.
    pub fn between(client: &Netns, listener: TcpListener, algorithm: &str) -> Connection {
        let address = listener.local_addr().unwrap();
        let client = client.run(|| connect_with(address, algorithm)).unwrap();
        let (server, _) = listener.accept().unwrap();
        Connection { client, server, address }
    }

    /// Sends `bytes` from the client and waits until they have arrived.
    pub fn send(&mut self, bytes: usize) {
        let (sent, mut received) = (vec![7; bytes], vec![0; bytes]);
        std::thread::scope(|scope| {
            scope.spawn(|| self.client.write_all(&sent).unwrap());
            self.server.read_exact(&mut received).unwrap();
        });
        assert!(received == sent, "the bytes arrive as they were sent");
    }

    /// Sends a megabyte.
    pub fn transfer(&mut self) {
        self.send(1 << 20);
    }

    /// What the kernel says that the client uses.
    pub fn algorithm(&self) -> String {
        algorithm_of(&self.client)
    }
}

/// Sends `bytes` over the loopback of `netns` and closes; returns the client's address.
pub fn transfer(netns: &Netns, algorithm: &str, bytes: usize) -> SocketAddr {
    let mut connection = Connection::open(netns, algorithm);
    connection.send(bytes);
    connection.client.local_addr().unwrap()
}

/// Two namespaces with a link that loses packets.
pub struct LossyPath {
    sides: [Netns; 2],
    _link: Box<dyn Link>,
}

impl LossyPath {
    pub fn build() -> LossyPath {
        let direction = |loss, seed| Direction {
            rate: Some(BitsPerSec(50_000_000)),
            delay: Duration::from_millis(5),
            queue: QueueSize::Packets(500),
            loss: Share(loss).into(),
            seed,
            ..Direction::default()
        };
        let sides = [Netns::create().unwrap(), Netns::create().unwrap()];
        let ends = [0, 1].map(|n| LinkEnd { netns: sides[n].try_clone().unwrap(), interface: format!("trc{n}") });
        let config = LinkConfig { directions: [direction(0.02, 1), direction(0.0, 2)], mtu: 1500 };
        let link = TunLink.connect(&config, ends).unwrap();
        for (n, side) in sides.iter().enumerate() {
            netlink::add_address(side, &format!("trc{n}"), [10, 78, 0, 1 + n as u8].into(), 24).unwrap();
        }
        LossyPath { sides, _link: link }
    }

    pub fn sender(&self) -> &Netns {
        &self.sides[0]
    }

    /// Connects from the sender to the other side.
    pub fn connect(&self, algorithm: &str) -> Connection {
        let listener = self.sides[1].run(|| Ok(TcpListener::bind("10.78.0.2:0")?)).unwrap();
        Connection::between(&self.sides[0], listener, algorithm)
    }

    /// Sends `bytes` over the link and closes; returns the client's address.
    pub fn transfer(&self, bytes: usize) -> SocketAddr {
        let mut connection = self.connect("reno");
        connection.send(bytes);
        connection.client.local_addr().unwrap()
    }
}

/// A listener that takes nobody any more, and a client that it does not answer.
pub struct Crowd {
    pub unanswered: TcpStream,
    _listener: OwnedFd,
    _answered: TcpStream,
}

impl Crowd {
    pub fn before_a_full_listener(netns: &Netns) -> Crowd {
        use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, SockaddrIn};
        use nix::sys::socket::{bind, connect, getsockname, listen, socket};
        let crowd = || {
            let open = |flags| socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC | flags, None);
            let listener = open(SockFlag::empty())?;
            bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0))?;
            // Room for one connection that nobody accepts.
            listen(&listener, Backlog::new(0)?)?;
            let address: SockaddrIn = getsockname(listener.as_raw_fd())?;
            let (answered, unanswered) = (open(SockFlag::empty())?, open(SockFlag::SOCK_NONBLOCK)?);
            connect(answered.as_raw_fd(), &address)?;
            assert_eq!(connect(unanswered.as_raw_fd(), &address), Err(nix::errno::Errno::EINPROGRESS));
            Ok(Crowd { unanswered: unanswered.into(), _listener: listener, _answered: answered.into() })
        };
        netns.run(crowd).unwrap()
    }
}

/// A tracer and every event it has handed over.
pub struct Observed {
    pub tracer: Tracer,
    pub events: Vec<Event>,
}

impl Observed {
    pub fn start(filter: &Filter, interval: Duration, ring_bytes: u32) -> Observed {
        Observed {
            tracer: Tracer::start(filter, Sampling::ByPacket(interval), ring_bytes).unwrap(),
            events: Vec::new(),
        }
    }

    pub fn poll(&mut self) -> &[Event] {
        self.tracer.poll(Duration::from_millis(10), &mut |event| self.events.push(event)).unwrap();
        &self.events
    }

    /// Waits for the close event of the socket with this local address.
    #[track_caller]
    pub fn until_closed(&mut self, local: SocketAddr) {
        poll_until(SOON, "the connection closes", || {
            self.poll().iter().any(|event| event.kind == EventKind::Close && event.local == local)
        });
    }

    /// The events of the socket with this local address.
    pub fn of(&self, local: SocketAddr) -> Vec<&Event> {
        self.events.iter().filter(|event| event.local == local).collect()
    }
}

/// What the kernel itself says of a socket.
#[allow(dead_code, reason = "each test binary reads its own fields")]
pub struct TcpInfo {
    pub ca_state: u8,
    /// ECN was negotiated.
    pub has_ecn: bool,
    pub rto_us: u32,
    pub mss_bytes: u32,
    pub since_sent_ms: u32,
    pub srtt_us: u32,
    pub ssthresh_pkts: u32,
    pub cwnd_pkts: u32,
    pub retrans_pkts: u32,
    /// Bytes per second; all ones: none is set.
    pub pacing_rate: u64,
    /// Bytes per second; all ones: the application set none.
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub min_rtt_us: u32,
    pub delivered_pkts: u32,
    pub delivered_ce_pkts: u32,
    pub bytes_sent: u64,
}

pub fn tcp_info(stream: &TcpStream) -> TcpInfo {
    let info = RawTcpInfo::of(stream);
    assert!(info.length >= 208, "TCP_INFO of {} bytes does not say what was sent", info.length);
    let word = |at| info.word(at);
    TcpInfo {
        ca_state: info.byte(1),
        has_ecn: info.byte(5) & 8 != 0,
        rto_us: word(8),
        mss_bytes: word(16),
        since_sent_ms: word(44),
        srtt_us: word(68),
        ssthresh_pkts: word(76),
        cwnd_pkts: word(80),
        retrans_pkts: word(100),
        pacing_rate: info.wide(104),
        max_pacing_rate: info.wide(112),
        bytes_acked: info.wide(120),
        min_rtt_us: word(148),
        delivered_pkts: word(192),
        delivered_ce_pkts: word(196),
        bytes_sent: info.wide(200),
    }
}

/// The BPF programs that a process holds by links; a child that still becomes `tccc` holds none of its own.
pub fn programs_of(process: u32) -> BTreeSet<u32> {
    // The kernel closes what a child inherited before it gives it the name, and lets the parent go on before both.
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    if process != std::process::id() && name.trim_end() != "tccc" {
        return BTreeSet::new();
    }
    let Ok(entries) = std::fs::read_dir(format!("/proc/{process}/fdinfo")) else {
        return BTreeSet::new();
    };
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path()).ok());
    let links = texts.filter(|text| text.contains("link_type"));
    links.filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:"))?.trim().parse().ok()).collect()
}
