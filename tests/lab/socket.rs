//! Single sockets: their algorithm, `TCP_INFO`, time stamps, and a path to a namespace for other processes.

use std::io::IoSliceMut;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use anyhow::Result;
use nix::libc;
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, getsockopt, recvmsg,
    setsockopt, socket,
};
use tccc::kernel::netns::Netns;

/// A path by which other processes can open a namespace as long as this process holds it.
pub fn path_of(netns: &Netns) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), netns.as_raw_fd())
}

pub fn algorithm_of(socket: &impl AsFd) -> String {
    getsockopt(socket, TcpCongestion).unwrap().to_string_lossy().trim_end_matches('\0').to_owned()
}

pub fn choose(socket: &impl AsFd, name: &str) -> nix::Result<()> {
    setsockopt(socket, TcpCongestion, &name.into())
}

pub fn connect_with(address: SocketAddr, algorithm: &str) -> Result<TcpStream> {
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    let client = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    choose(&client, algorithm)?;
    connect(client.as_raw_fd(), &SockaddrStorage::from(address))?;
    Ok(client.into())
}

/// The `TCP_INFO` of a socket. An older kernel fills fewer fields; the rest are 0.
pub fn tcp_info(socket: &impl AsRawFd) -> libc::tcp_info {
    // SAFETY: a `tcp_info` consists of numbers, so zeros are valid.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`, and the written length to `length`.
    let answer = unsafe {
        let at = (&raw mut info).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut length)
    };
    assert_eq!(answer, 0);
    assert!(length >= 208, "TCP_INFO of {length} bytes lacks the bytes sent");
    info
}

/// Receives one packet; returns its length and the kernel's time stamp.
///
/// None: there is no packet within the socket's time limit.
pub fn receive_stamped(socket: &impl AsRawFd, packet: &mut [u8]) -> Option<(usize, Duration)> {
    let (mut control, mut slices) = (nix::cmsg_space!(libc::timespec), [IoSliceMut::new(packet)]);
    let read = recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut control), MsgFlags::empty()).ok()?;
    let stamp = read.cmsgs().unwrap().find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    });
    Some((read.bytes, stamp.expect("the socket asks for time stamps")))
}
