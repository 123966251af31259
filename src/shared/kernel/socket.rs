//! Finds the processes that hold TCP sockets, by the kernel's socket diagnostics in every namespace.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, send, socket,
};
use serde::Serialize;

use super::namespaces::{self, NamespaceSurvey};
use super::netns::Netns;
use super::process;
use crate::failure::Failure;

/// `struct nlmsghdr`, `struct inet_diag_req_v2` and `struct inet_diag_msg` in the kernel's headers.
const HEADER_BYTES: usize = 16;
const REQUEST_BYTES: usize = 56;
const ANSWER_BYTES: usize = 72;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `idiag_cookie` in `struct inet_diag_sockid`, after state, ports, addresses and interface.
const COOKIE_AT: usize = 44;
/// The attribute with the algorithm's name.
const INET_DIAG_CONG: u16 = 4;
const TCP_LISTEN: u8 = 10;

/// The sockets of one process that use an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// `None` for sockets that their process has closed already.
    pub pid: Option<u32>,
    pub command: String,
    /// Inode of the network namespace.
    pub netns: u32,
    pub sockets: usize,
    /// Listening sockets, which `sockets` leaves out. Connections that they accept use the algorithm too.
    pub listening: usize,
}

/// A socket with an algorithm.
struct TcpSocket {
    algorithm: String,
    cookie: u64,
    inode: u32,
    is_listening: bool,
    netns: u32,
}

/// Each algorithm with the holders of its sockets in all namespaces that can be entered, those with most sockets first.
///
/// # Errors
/// The kernel has no socket diagnostics.
pub fn holders() -> Result<BTreeMap<String, Vec<Holder>>> {
    let open = Descriptors::of_all_processes();
    let mut counts: BTreeMap<(String, Option<u32>, u32), (usize, usize)> = BTreeMap::new();
    for socket in sockets(&open.namespaces)? {
        let pid = open.sockets.get(&socket.inode).copied();
        let count = counts.entry((socket.algorithm, pid, socket.netns)).or_default();
        *if socket.is_listening { &mut count.1 } else { &mut count.0 } += 1;
    }
    let mut holders: BTreeMap<String, Vec<Holder>> = BTreeMap::new();
    for ((algorithm, pid, netns), (sockets, listening)) in counts {
        let command = pid.and_then(process::command).unwrap_or_else(|| "closed, not yet gone".into());
        holders.entry(algorithm).or_default().push(Holder { pid, command, netns, sockets, listening });
    }
    holders.values_mut().for_each(|list| list.sort_by_key(|holder| usize::MAX - holder.sockets));
    Ok(holders)
}

/// A connection and the first process found that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionOwner {
    pub cookie: u64,
    pub pid: u32,
    pub command: String,
}

/// The owners of TCP connections in all namespaces that can be entered. Connections that nobody holds are left out.
///
/// # Errors
/// The kernel has no socket diagnostics.
pub fn owners() -> Result<Vec<ConnectionOwner>> {
    let open = Descriptors::of_all_processes();
    let mut commands: HashMap<u32, Option<String>> = HashMap::new();
    let connections = sockets(&open.namespaces)?.into_iter().filter(|socket| !socket.is_listening);
    let owned = connections.filter_map(|socket| {
        let pid = *open.sockets.get(&socket.inode)?;
        let command = commands.entry(pid).or_insert_with(|| process::command(pid)).clone()?;
        Some(ConnectionOwner { cookie: socket.cookie, pid, command })
    });
    Ok(owned.collect())
}

/// Cookies of a process's TCP sockets, or of the one behind a descriptor.
///
/// # Errors
/// No such process; not permitted to read its descriptors; the kernel has no socket diagnostics.
pub fn cookies_of(pid: u32, descriptor: Option<u32>) -> Result<Vec<u64>> {
    let folder = PathBuf::from(format!("/proc/{pid}/fd"));
    let files = fs::read_dir(&folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!("no process {pid}")),
        _ => Failure::unmet(format!("cannot read the descriptors of process {pid}: permission denied"))
            .hint("run as root"),
    })?;
    let files = files.flatten().map(|file| file.path());
    let wanted = files.filter(|path| descriptor.is_none_or(|fd| path.ends_with(fd.to_string())));
    let inodes: Vec<u32> = wanted.filter_map(|path| inode_in(&fs::read_link(path).ok()?, "socket")).collect();
    let found = sockets(&Descriptors::of_all_processes().namespaces)?.into_iter();
    Ok(found.filter(|socket| inodes.contains(&socket.inode)).map(|socket| socket.cookie).collect())
}

/// The network namespaces that can be found, also those that only an open file holds.
///
/// # Errors
/// /proc is not mounted.
pub fn namespaces() -> Result<NamespaceSurvey> {
    with_held(&Descriptors::of_all_processes().namespaces)
}

fn with_held(held: &BTreeMap<u32, PathBuf>) -> Result<NamespaceSurvey> {
    let mut survey = namespaces::all()?;
    let is_new = |inode: &u32| !survey.reachable.iter().any(|netns| netns.inode() == *inode);
    let held: Vec<Netns> =
        held.iter().filter(|(inode, _)| is_new(inode)).filter_map(|(_, path)| Netns::open(path).ok()).collect();
    survey.reachable.extend(held);
    Ok(survey)
}

fn sockets(held: &BTreeMap<u32, PathBuf>) -> Result<Vec<TcpSocket>> {
    let own = Netns::current()?.inode();
    let mut found = dump(own).map_err(explained)?;
    for netns in with_held(held)?.reachable.iter().filter(|netns| netns.inode() != own) {
        let others = netns.run(|| Ok(dump(netns.inode())?));
        found.extend(others.unwrap_or_default()); // a namespace may belong to another user
    }
    Ok(found)
}

/// Without its module, the kernel answers "no such file".
fn explained(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::NotFound {
        let unmet = Failure::unmet("cannot ask the kernel for its TCP sockets: its module tcp_diag is not loaded");
        return unmet.hint("`modprobe tcp_diag`").into();
    }
    anyhow::Error::new(error).context("ask the kernel for its TCP sockets")
}

fn dump(netns: u32) -> io::Result<Vec<TcpSocket>> {
    let diag = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkSockDiag)?;
    bind(diag.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    let mut found = Vec::new();
    for family in [libc::AF_INET, libc::AF_INET6] {
        send(diag.as_raw_fd(), &request(family as u8), MsgFlags::empty())?;
        read_answers(&diag, netns, &mut found)?;
    }
    Ok(found)
}

fn request(family: u8) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER_BYTES + REQUEST_BYTES);
    message.extend_from_slice(&((HEADER_BYTES + REQUEST_BYTES) as u32).to_ne_bytes());
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&[family, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_CONG - 1), 0]);
    message.extend_from_slice(&u32::MAX.to_ne_bytes()); // every state
    message.resize(HEADER_BYTES + REQUEST_BYTES, 0);
    message
}

fn read_answers(diag: &OwnedFd, netns: u32, found: &mut Vec<TcpSocket>) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = recv(diag.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
        let mut rest = &buffer[..length];
        while rest.len() >= HEADER_BYTES {
            let size = (word(rest, 0) as usize).clamp(HEADER_BYTES, rest.len());
            let body = &rest[HEADER_BYTES..size];
            match i32::from(u16::from_ne_bytes([rest[4], rest[5]])) {
                libc::NLMSG_DONE => return Ok(()),
                libc::NLMSG_ERROR => return Err(io::Error::from_raw_os_error(-(word(body, 0) as i32))),
                _ => found.extend(tcp_socket(body, netns)),
            }
            rest = &rest[size.next_multiple_of(4).min(rest.len())..];
        }
    }
}

/// `None` for a socket without an algorithm, such as one in TIME_WAIT.
fn tcp_socket(body: &[u8], netns: u32) -> Option<TcpSocket> {
    let mut at = ANSWER_BYTES;
    while let Some(head) = body.get(at..at + 4) {
        let length = u16::from_ne_bytes([head[0], head[1]]) as usize;
        if u16::from_ne_bytes([head[2], head[3]]) == INET_DIAG_CONG {
            let name = body.get(at + 4..at + length)?;
            let algorithm = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
            let is_listening = body[1] == TCP_LISTEN;
            let cookie = u64::from(word(body, COOKIE_AT)) | u64::from(word(body, COOKIE_AT + 4)) << 32;
            return Some(TcpSocket { algorithm, cookie, inode: word(body, ANSWER_BYTES - 4), is_listening, netns });
        }
        at += length.max(4).next_multiple_of(4);
    }
    None
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
}

/// Links in /proc read `socket:[INODE]` and `net:[INODE]`.
fn inode_in(target: &Path, kind: &str) -> Option<u32> {
    target.to_str()?.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
}

#[derive(Debug, Default)]
struct Descriptors {
    /// Inode of a socket to the id of a process that holds it.
    sockets: HashMap<u32, u32>,
    /// Inode of a network namespace to a path that opens it.
    namespaces: BTreeMap<u32, PathBuf>,
}

impl Descriptors {
    fn of_all_processes() -> Self {
        let mut open = Descriptors::default();
        for pid in process::all() {
            open.note(pid, &PathBuf::from(format!("/proc/{pid}/ns/net")));
            let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
            files.for_each(|file| open.note(pid, &file.path()));
        }
        open
    }

    fn note(&mut self, pid: u32, path: &Path) {
        let Ok(target) = fs::read_link(path) else { return };
        if let Some(inode) = inode_in(&target, "socket") {
            self.sockets.entry(inode).or_insert(pid);
        } else if let Some(inode) = inode_in(&target, "net") {
            self.namespaces.entry(inode).or_insert_with(|| path.to_owned());
        }
    }
}
