//! Both ends of one connection, and what the kernel says of each.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};

pub use crate::lab::socket::{algorithm_of, choose};
use nix::libc;
use nix::sys::socket::sockopt::{Ipv6V6Only, Linger, ReuseAddr};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, listen, setsockopt, socket,
};

/// Where a connection begins and ends; port 0 is any.
#[derive(Debug, Clone)]
pub struct Ends {
    pub from: SocketAddr,
    pub to: SocketAddr,
    /// The listener is at `[::]` and takes IPv4 too.
    pub is_dual: bool,
    /// What the client chooses before it connects.
    pub client: Option<&'static str>,
    /// What the listener chooses.
    pub listener: Option<&'static str>,
}

/// An address with or without its port.
pub fn address(text: &str) -> SocketAddr {
    text.parse().unwrap_or_else(|_| SocketAddr::new(text.parse().expect("an address"), 0))
}

impl Ends {
    pub fn new(from: &str, to: &str) -> Self {
        Ends { from: address(from), to: address(to), is_dual: false, client: None, listener: None }
    }
}

/// A connection; reset when dropped, so that its ports are free at once.
#[derive(Debug)]
pub struct Pair {
    pub client: TcpStream,
    pub server: TcpStream,
}

impl Pair {
    /// Connects within the network namespace that this thread is in.
    #[track_caller]
    pub fn open(ends: &Ends) -> Self {
        let listener = listen_at(ends.to, ends.is_dual, ends.listener);
        let to = SocketAddr::new(ends.to.ip(), listener.local_addr().unwrap().port());
        let client = connect_from(ends.from, to, ends.client);
        Pair { client, server: listener.accept().unwrap().0 }
    }

    /// Client and server.
    pub fn algorithms(&self) -> [String; 2] {
        [algorithm_of(&self.client), algorithm_of(&self.server)]
    }

    /// Sends bytes both ways and compares each.
    pub fn exchange(&mut self, bytes: usize) {
        let (client, server) = (&mut self.client, &mut self.server);
        send(client, server, bytes);
        send(server, client, bytes);
    }

    /// Cookies of client and server.
    pub fn cookies(&self) -> [u64; 2] {
        [&self.client, &self.server].map(|end| {
            let mut cookie = 0u64;
            let mut length = size_of::<u64>() as u32;
            // SAFETY: the descriptor is open; the number is as long as `length` says and outlives the call.
            let answer = unsafe {
                let at = (&raw mut cookie).cast();
                libc::getsockopt(end.as_raw_fd(), libc::SOL_SOCKET, libc::SO_COOKIE, at, &raw mut length)
            };
            assert_eq!(answer, 0);
            cookie
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for end in [&self.client, &self.server] {
            let _ = setsockopt(end, Linger, &libc::linger { l_onoff: 1, l_linger: 0 });
        }
    }
}

/// Each byte depends on its place, so that none can be lost, doubled or moved.
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

/// A listener with a short queue.
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

/// A connection from any port of an address to whoever listens, which accepts it.
#[track_caller]
pub fn join(from: impl Into<SocketAddr>, listener: &TcpListener) -> Pair {
    let client = connect_from(from.into(), listener.local_addr().unwrap(), None);
    Pair { client, server: listener.accept().unwrap().0 }
}

/// A client; an IPv6 one connects to IPv4 by the mapped address.
#[track_caller]
pub fn connect_from(from: SocketAddr, to: SocketAddr, chooses: Option<&str>) -> TcpStream {
    let socket = stream(from);
    setsockopt(&socket, ReuseAddr, &true).unwrap();
    chooses.into_iter().for_each(|name| choose(&socket, name).unwrap());
    bind(socket.as_raw_fd(), &SockaddrStorage::from(from)).unwrap_or_else(|error| panic!("bind to {from}: {error}"));
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to)).unwrap_or_else(|error| panic!("{from} to {to}: {error}"));
    socket.into()
}
