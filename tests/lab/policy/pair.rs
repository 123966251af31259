//! Connections between chosen addresses whose ends may choose algorithms.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::lab::socket::{algorithm_of, choose};
use nix::libc;
use nix::sys::socket::sockopt::{Ipv6V6Only, Linger, ReuseAddr};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt, socket,
};

/// The addresses of a connection, and the choices of its ends. Port 0 means any port.
#[derive(Debug, Clone)]
pub struct Endpoints {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// The listener is at `[::]` and accepts IPv4 too.
    pub is_dual: bool,
    pub client: Option<&'static str>,
    pub listener: Option<&'static str>,
}

/// Parses an address with or without a port.
pub fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|_| SocketAddr::new(text.parse().expect("an address"), 0))
}

impl Endpoints {
    pub fn new(from: &str, to: &str) -> Self {
        Endpoints { from: address(from), to: address(to), is_dual: false, client: None, listener: None }
    }

    pub fn loopback() -> Self {
        Self::new("127.0.0.1", "127.0.0.2")
    }

    pub fn choosing(name: &'static str) -> Self {
        Endpoints { client: Some(name), listener: Some(name), ..Self::loopback() }
    }
}

/// A connection. It is reset when dropped, so that its ports are free at once.
#[derive(Debug)]
pub struct SocketPair {
    pub client: TcpStream,
    pub server: TcpStream,
}

impl SocketPair {
    #[track_caller]
    pub fn open(ends: &Endpoints) -> Self {
        let listener = listen_at(ends.to, ends.is_dual, ends.listener);
        let to = SocketAddr::new(ends.to.ip(), listener.local_addr().unwrap().port());
        let client = connect_from(ends.from, to, ends.client);
        SocketPair { client, server: listener.accept().unwrap().0 }
    }

    pub fn algorithms(&self) -> [String; 2] {
        [algorithm_of(&self.client), algorithm_of(&self.server)]
    }

    /// Sends bytes in both directions and compares them.
    pub fn exchange(&mut self, bytes: usize) {
        let (client, server) = (&mut self.client, &mut self.server);
        send(client, server, bytes);
        send(server, client, bytes);
    }
}

impl Drop for SocketPair {
    fn drop(&mut self) {
        for end in [&self.client, &self.server] {
            let _ = setsockopt(end, Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
        }
    }
}

/// Each byte depends on its position, so that a lost, repeated or moved byte is found.
fn send(from: &mut TcpStream, to: &mut TcpStream, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| from.write_all(&sent).unwrap());
        let mut received = vec![0; bytes];
        to.read_exact(&mut received).unwrap();
        assert!(received == sent, "the bytes arrive as they were sent");
    });
}

fn stream(family: SocketAddr) -> OwnedFd {
    let family = if family.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap()
}

#[track_caller]
pub fn listen_at(at: SocketAddr, is_dual: bool, chooses: Option<&str>) -> TcpListener {
    let at = if is_dual { SocketAddr::new("::".parse().unwrap(), at.port()) } else { at };
    let socket = stream(at);
    setsockopt(&socket, ReuseAddr, &true).unwrap();
    if at.is_ipv6() {
        setsockopt(&socket, Ipv6V6Only, &!is_dual).unwrap();
    }
    chooses.into_iter().for_each(|name| choose(&socket, name).unwrap());
    bind(socket.as_raw_fd(), &SockaddrStorage::from(at)).unwrap();
    listen(&socket, Backlog::new(64).unwrap()).unwrap();
    socket.into()
}

#[track_caller]
pub fn join(from: impl Into<SocketAddr>, listener: &TcpListener) -> SocketPair {
    let client = connect_from(from.into(), listener.local_addr().unwrap(), None);
    SocketPair { client, server: listener.accept().unwrap().0 }
}

/// Connects a client. An IPv6 client connects to IPv4 by the mapped address.
#[track_caller]
pub fn connect_from(from: SocketAddr, to: SocketAddr, chooses: Option<&str>) -> TcpStream {
    let socket = stream(from);
    setsockopt(&socket, ReuseAddr, &true).unwrap();
    chooses.into_iter().for_each(|name| choose(&socket, name).unwrap());
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from)).unwrap_or_else(|error| panic!("bind to {from}: {error}"));
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
    socket.into()
}
