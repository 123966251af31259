//! Two requests to the kernel's routing socket: add netem to the loopback interface, list all queueing disciplines.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};

const HEADER_BYTES: usize = size_of::<nix::libc::nlmsghdr>();
/// `struct tcmsg`: family and padding, interface, handle, parent, info.
const TC_BYTES: usize = 20;
const TC_ROOT: u32 = 0xffff_ffff;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

/// Adds netem with no delay and no loss to the loopback interface of this thread's namespace.
pub fn add_netem_to_loopback() -> io::Result<()> {
    /// `struct tc_netem_qopt`: latency, limit, loss, gap, duplicate, jitter; a limit of one packet.
    const OPTIONS: [u32; 6] = [0, 1, 0, 0, 0, 0];
    const LOOPBACK: i32 = 1;
    let mut body = tc_message(LOOPBACK, TC_ROOT);
    push_attribute(&mut body, TCA_KIND, b"netem\0");
    push_attribute(&mut body, TCA_OPTIONS, &OPTIONS.map(u32::to_ne_bytes).concat());
    let flags = (nix::libc::NLM_F_CREATE | nix::libc::NLM_F_EXCL | nix::libc::NLM_F_ACK) as u16;
    request(nix::libc::RTM_NEWQDISC, flags, &body).map(drop)
}

/// Every queueing discipline of this thread's namespace as (interface number, kind, parent).
pub fn qdiscs() -> io::Result<Vec<(i32, String, u32)>> {
    let answers = request(nix::libc::RTM_GETQDISC, nix::libc::NLM_F_DUMP as u16, &tc_message(0, 0))?;
    Ok(answers.iter().filter_map(|body| read_qdisc(body)).collect())
}

fn read_qdisc(body: &[u8]) -> Option<(i32, String, u32)> {
    let word = |at: usize| Some(u32::from_ne_bytes(body.get(at..at + 4)?.try_into().ok()?));
    let mut at = TC_BYTES;
    while let Some(head) = body.get(at..at + 4) {
        let length = u16::from_ne_bytes([head[0], head[1]]) as usize;
        if u16::from_ne_bytes([head[2], head[3]]) == TCA_KIND {
            let kind = body.get(at + 4..at + length)?;
            let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned();
            return Some((word(4)? as i32, kind, word(12)?));
        }
        at += length.max(4).next_multiple_of(4);
    }
    None
}

fn tc_message(interface: i32, parent: u32) -> Vec<u8> {
    let mut body = vec![0; TC_BYTES];
    body[4..8].copy_from_slice(&interface.to_ne_bytes());
    body[12..16].copy_from_slice(&parent.to_ne_bytes());
    body
}

fn push_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    body.extend_from_slice(&kind.to_ne_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

/// Sends one message and returns the bodies of the answers.
fn request(kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let route = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    bind(route.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut message = Vec::with_capacity(HEADER_BYTES + body.len());
    message.extend_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    message.extend_from_slice(&kind.to_ne_bytes());
    message.extend_from_slice(&(flags | nix::libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(body);
    send(route.as_raw_fd(), &message, MsgFlags::empty())?;
    answers(&route)
}

fn answers(route: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let mut bodies = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = recv(route.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while rest.len() >= HEADER_BYTES {
            let size = u32::from_ne_bytes(rest[..4].try_into().expect("four bytes")) as usize;
            let body = &rest[HEADER_BYTES..size.clamp(HEADER_BYTES, rest.len())];
            match i32::from(u16::from_ne_bytes([rest[4], rest[5]])) {
                nix::libc::NLMSG_DONE => return Ok(bodies),
                nix::libc::NLMSG_ERROR => return acknowledged(body).map(|()| bodies),
                _ => bodies.push(body.to_vec()),
            }
            rest = &rest[size.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// The kernel acknowledges with error 0, refuses with a negative error number.
fn acknowledged(body: &[u8]) -> io::Result<()> {
    match i32::from_ne_bytes(body[..4].try_into().expect("an error message holds its number")) {
        0 => Ok(()),
        refusal => Err(io::Error::from_raw_os_error(-refusal)),
    }
}
