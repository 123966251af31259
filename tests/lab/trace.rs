//! Connections in namespaces of the test's own, and a tracer that keeps every event.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tccc::emulate::Link;
use tccc::emulate::tunlink::TunLink;
use tccc::kernel::netlink;
use tccc::kernel::netns::Netns;
use tccc::path::Direction;
use tccc::trace::event::{Event, EventKind};
use tccc::trace::filter::Filter;
use tccc::trace::live::{Sampling, Tracer};
use tccc::units::{BitsPerSec, QueueSize, Share};

use crate::common::{SOON, poll_until};
use crate::lab::link::{connect_sides, new_sides, set_addresses};
use crate::lab::socket::connect_with;

pub fn loopback_netns() -> Netns {
    let netns = Netns::create().unwrap();
    netlink::set_up(&netns, "lo").unwrap();
    netns
}

pub fn only(netns: &Netns) -> Filter {
    Filter { netns: Some(BTreeSet::from([netns.inode()])), ..Filter::default() }
}

pub struct HeldConnection {
    pub client: TcpStream,
    pub server: TcpStream,
    /// The server's address.
    pub address: SocketAddr,
}

impl HeldConnection {
    /// Connects over the loopback of `netns`; the client runs `algorithm`.
    pub fn open(netns: &Netns, algorithm: &str) -> HeldConnection {
        Self::open_at(netns, algorithm, "127.0.0.1:0")
    }

    pub fn open_at(netns: &Netns, algorithm: &str, address: &str) -> HeldConnection {
        let listener = netns.run(|| Ok(TcpListener::bind(address)?)).unwrap();
        Self::between(netns, listener, algorithm)
    }

    /// Connects from the namespace `client` to the listener; the client runs `algorithm`.
    pub fn between(client: &Netns, listener: TcpListener, algorithm: &str) -> HeldConnection {
        let address = listener.local_addr().unwrap();
        let client = client.run(|| connect_with(address, algorithm)).unwrap();
        let (server, _) = listener.accept().unwrap();
        HeldConnection { client, server, address }
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
}

/// Sends `bytes` over the loopback of `netns` and closes; returns the client's address.
pub fn transfer(netns: &Netns, algorithm: &str, bytes: usize) -> SocketAddr {
    let mut connection = HeldConnection::open(netns, algorithm);
    connection.send(bytes);
    connection.client.local_addr().unwrap()
}

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
        let sides = new_sides();
        let link = connect_sides(&TunLink, &sides, [direction(0.02, 1), direction(0.0, 2)], "trc");
        set_addresses(&sides, "trc", 78);
        LossyPath { sides, _link: link }
    }

    pub fn sender(&self) -> &Netns {
        &self.sides[0]
    }

    pub fn connect(&self, algorithm: &str) -> HeldConnection {
        let listener = self.sides[1].run(|| Ok(TcpListener::bind("10.78.0.2:0")?)).unwrap();
        HeldConnection::between(&self.sides[0], listener, algorithm)
    }

    /// Sends `bytes` over the link and closes; returns the client's address.
    pub fn transfer(&self, bytes: usize) -> SocketAddr {
        let mut connection = self.connect("reno");
        connection.send(bytes);
        connection.client.local_addr().unwrap()
    }
}

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

    #[track_caller]
    pub fn until_closed(&mut self, local: SocketAddr) {
        poll_until(SOON, "the connection closes", || {
            self.poll().iter().any(|event| event.kind == EventKind::Close && event.local == local)
        });
    }

    pub fn of(&self, local: SocketAddr) -> Vec<&Event> {
        self.events.iter().filter(|event| event.local == local).collect()
    }
}

/// Ids of the BPF programs to which a process holds links. Empty for a child that has not executed `tccc` yet.
pub fn programs_of(process: u32) -> BTreeSet<u32> {
    // A child first holds its parent's descriptors. The kernel closes them before it changes the child's name.
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
