//! The link's side of one interface: a packet socket that receives and sends whole frames in batches without copies.

use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};
use nix::errno::Errno;

use super::clock;
use super::pool::{FramePool, Slot};

/// Frames per system call.
pub const BATCH: usize = 64;
/// Bytes of the Ethernet header in front of every IP packet; not part of a packet's length on the link.
pub const HEADER: usize = 14;
/// Bytes that the kernel buffers for the engine: a tenth of a second of small packets at 1 Gbit/s.
const SOCKET_BUFFER: libc::c_int = 128 << 20;
const CONTROL_LEN: usize = 64;

#[derive(Debug, Clone, Copy)]
pub struct EthernetFrame {
    pub slot: Slot,
    /// Bytes with the Ethernet header.
    pub len: u32,
    /// Monotonic nanoseconds at which the kernel received it.
    pub arrival: u64,
}

/// A packet socket bound to one interface.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
    last_arrival: u64,
}

impl Port {
    /// Opens the interface with this index in the namespace of the calling thread.
    ///
    /// # Errors
    /// Not permitted (needs CAP_NET_RAW); no such interface.
    pub fn open(interface: u32) -> Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: a plain system call; the descriptor it returns is owned by nobody else.
        let socket = unsafe {
            // Protocol 0 receives nothing until the socket is bound to its one interface.
            let fd = Errno::result(libc::socket(libc::AF_PACKET, kind, 0)).context("open a packet socket")?;
            OwnedFd::from_raw_fd(fd)
        };
        let port = Port { socket, last_arrival: 0 };
        port.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        port.set(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        port.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        port.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER)?;
        port.set(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, SOCKET_BUFFER)?;
        port.bind(interface)?;
        Ok(port)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> Result<()> {
        let len = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the option value is a C int that outlives the call, with its true size.
        let answer =
            unsafe { libc::setsockopt(self.socket.as_raw_fd(), level, option, (&raw const value).cast(), len) };
        Errno::result(answer).with_context(|| format!("set option {level}/{option} of a packet socket"))?;
        Ok(())
    }

    fn bind(&self, interface: u32) -> Result<()> {
        // SAFETY: `sockaddr_ll` is plain data for which all zeroes is valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface as i32;
        let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is a whole `sockaddr_ll` that outlives the call.
        Errno::result(unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), len) })
            .context("bind a packet socket to its interface")?;
        Ok(())
    }

    /// Receives frames into free slots and passes each to `take`; returns their number, at most [`BATCH`].
    ///
    /// A frame longer than a slot has its true length and must not be sent.
    ///
    /// # Errors
    /// The interface was deleted.
    pub fn receive(
        &mut self,
        messages: &mut Messages,
        pool: &mut FramePool,
        mut take: impl FnMut(&mut FramePool, EthernetFrame),
    ) -> Result<usize, Errno> {
        let room = messages.point_at_free_slots(pool);
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: the first `room` headers point at distinct pool slots and control buffers that outlive the call.
        let answer = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.headers.as_mut_ptr(),
                room as u32,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let taken = match Errno::result(answer) {
            Ok(taken) => taken as usize,
            Err(Errno::EAGAIN | Errno::EINTR | Errno::ENOBUFS) => 0,
            Err(error) => {
                messages.give_back(0, room, pool);
                return Err(error);
            }
        };
        messages.give_back(taken, room, pool);
        let (now, offset) = (clock::now(), clock::wall_offset());
        for n in 0..taken {
            let stamp = messages.arrival(n).map_or(now, |wall| wall.wrapping_sub(offset));
            // The stamps of two processors may differ slightly, and the wall clock may be set.
            self.last_arrival = stamp.clamp(self.last_arrival, now.max(self.last_arrival));
            let frame =
                EthernetFrame { slot: messages.slots[n], len: messages.headers[n].msg_len, arrival: self.last_arrival };
            take(pool, frame);
        }
        Ok(taken)
    }

    /// Sends frames in order; returns how many the kernel accepted before it refused one.
    pub fn send(&self, messages: &mut Messages, pool: &FramePool, frames: &[(Slot, u32)]) -> usize {
        messages.point_at(pool, frames);
        // SAFETY: the first `frames.len()` headers point at pool slots of at least the given lengths.
        let answer = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.headers.as_mut_ptr(),
                frames.len() as u32,
                libc::MSG_DONTWAIT as _,
            )
        };
        answer.max(0) as usize
    }

    /// Packets that the kernel dropped since the last call because this socket's buffer was full.
    pub fn take_drops(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes into the whole struct it is given.
        let answer = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut len,
            )
        };
        if answer == 0 { statistics.tp_drops.into() } else { 0 }
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Holds one control message with a time stamp.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_LEN]);

/// The message headers of a batch, reused so that no packet needs an allocation.
pub struct Messages {
    headers: Box<[libc::mmsghdr]>,
    vectors: Box<[libc::iovec]>,
    controls: Box<[Control]>,
    slots: [Slot; BATCH],
}

impl Messages {
    pub fn new() -> Self {
        // SAFETY: `mmsghdr` and `iovec` are plain data for which all zeroes is valid: empty messages.
        let (header, vector) = unsafe {
            (MaybeUninit::<libc::mmsghdr>::zeroed().assume_init(), MaybeUninit::<libc::iovec>::zeroed().assume_init())
        };
        Messages {
            headers: vec![header; BATCH].into(),
            vectors: vec![vector; BATCH].into(),
            controls: vec![Control([0; CONTROL_LEN]); BATCH].into(),
            slots: [Slot::default(); BATCH],
        }
    }

    fn point_at_free_slots(&mut self, pool: &mut FramePool) -> usize {
        for n in 0..BATCH {
            let Some(slot) = pool.take() else { return n };
            self.slots[n] = slot;
            self.point(n, pool.address(slot), pool.slot_len());
            let header = &mut self.headers[n].msg_hdr;
            header.msg_control = (&raw mut self.controls[n]).cast();
            header.msg_controllen = CONTROL_LEN as _;
        }
        BATCH
    }

    fn point_at(&mut self, pool: &FramePool, frames: &[(Slot, u32)]) {
        for (n, &(slot, len)) in frames.iter().enumerate() {
            self.point(n, pool.address(slot), len as usize);
            let header = &mut self.headers[n].msg_hdr;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
        }
    }

    fn point(&mut self, n: usize, address: *mut u8, len: usize) {
        self.vectors[n] = libc::iovec { iov_base: address.cast(), iov_len: len };
        self.headers[n].msg_hdr.msg_iov = &raw mut self.vectors[n];
        self.headers[n].msg_hdr.msg_iovlen = 1;
    }

    fn give_back(&self, from: usize, to: usize, pool: &mut FramePool) {
        // In reverse order, so that the slots used last are reused first.
        self.slots[from..to].iter().rev().for_each(|&slot| pool.give_back(slot));
    }

    /// Wall-clock nanoseconds at which the kernel received the frame; `None` without a stamp.
    fn arrival(&self, n: usize) -> Option<u64> {
        let header = &raw const self.headers[n].msg_hdr;
        // SAFETY: the kernel filled `msg_control` of this header, which is alive and aligned, and set its length; a
        // message of this kind carries a `timespec`, read unaligned.
        let stamp: libc::timespec = unsafe {
            let message = libc::CMSG_FIRSTHDR(header);
            let is_stamp = !message.is_null()
                && (*message).cmsg_level == libc::SOL_SOCKET
                && (*message).cmsg_type == libc::SCM_TIMESTAMPNS;
            is_stamp.then(|| libc::CMSG_DATA(message).cast::<libc::timespec>().read_unaligned())?
        };
        Some(stamp.tv_sec as u64 * 1_000_000_000 + stamp.tv_nsec as u64)
    }
}
