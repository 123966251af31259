//! What tests ask of one socket, and the path by which other processes find a namespace.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use anyhow::Result;
use nix::libc;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, setsockopt, socket};
use tccc::kernel::netns::Netns;

/// Valid while the namespace is open.
pub fn path_of(netns: &Netns) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), netns.as_raw_fd())
}

/// The algorithm that a socket has.
pub fn algorithm_of(socket: &impl AsFd) -> String {
    getsockopt(socket, TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0').to_owned()
}

/// A socket chooses its algorithm itself.
pub fn choose(socket: &impl AsFd, name: &str) -> nix::Result<()> {
    setsockopt(socket, TcpCongestion, &name.into())
}

/// A client that chooses its algorithm before it connects.
pub fn connect_with(address: SocketAddr, algorithm: &str) -> Result<TcpStream> {
    let client = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    choose(&client, algorithm)?;
    connect(client.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(client.into())
}

/// The kernel's `struct tcp_info`, which has only ever grown at its end: numbers at their places, 0 beyond the end.
pub struct RawTcpInfo {
    bytes: [u8; 256],
    pub length: usize,
}

impl RawTcpInfo {
    pub fn of(socket: &impl AsRawFd) -> RawTcpInfo {
        let mut bytes = [0; 256];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes to the buffer, and the written length to `length`.
        let answer = unsafe {
            let at = bytes.as_mut_ptr().cast();
            libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut length)
        };
        assert_eq!(answer, 0);
        RawTcpInfo { bytes, length: length as usize }
    }

    fn at<const N: usize>(&self, at: usize) -> [u8; N] {
        self.bytes[at..at + N].try_into().unwrap()
    }

    pub fn byte(&self, at: usize) -> u8 {
        self.bytes[at]
    }

    pub fn half(&self, at: usize) -> u16 {
        u16::from_ne_bytes(self.at(at))
    }

    pub fn word(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.at(at))
    }

    pub fn wide(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.at(at))
    }
}
