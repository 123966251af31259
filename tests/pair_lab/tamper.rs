//! A wire between two namespaces that a test can tamper with: it rewrites the receiver's pair option on its way back.

use std::collections::VecDeque;
use std::ffi::c_short;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tccc::kernel::netlink::set_up;
use tccc::kernel::netns::Netns;

use super::{IPV4_BYTES, REPLY};

nix::ioctl_write_int!(set_interface, b'T', 202);

/// What happens to the eight bytes of each reply.
pub type Tamper = fn(&mut [u8; 8]);

/// A TUN device at each end and a thread between them; both go when it is dropped.
pub struct Wire {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Packets pass without a rate; those from the second end to the first take `delay` and are tampered with.
    pub fn between(sides: &[Netns; 2], names: [&str; 2], delay: Duration, tamper: Tamper) -> Wire {
        let devices = [0, 1].map(|n| sides[n].run(|| Ok(tun(names[n]))).unwrap());
        for n in [0, 1] {
            set_up(&sides[n], names[n]).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || carry(devices, delay, tamper, &stop)
        });
        Wire { stop, thread: Some(thread) }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn tun(name: &str) -> File {
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: c_short,
        rest: [u8; 22],
    }
    let device = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open("/dev/net/tun");
    let device = device.unwrap();
    let mut request =
        Request { name: [0; 16], flags: (nix::libc::IFF_TUN | nix::libc::IFF_NO_PI) as c_short, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the descriptor is open and the request is a whole `struct ifreq` that outlives the call.
    unsafe { set_interface(device.as_raw_fd(), &raw const request as u64) }.unwrap();
    device
}

fn carry(devices: [File; 2], delay: Duration, tamper: Tamper, stop: &AtomicBool) {
    let mut late: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut packet = [0; 2048];
    while !stop.load(Ordering::Acquire) {
        let due =
            late.front().map_or(Duration::from_millis(5), |(due, _)| due.saturating_duration_since(Instant::now()));
        let wait = PollTimeout::try_from(due.min(Duration::from_millis(5))).unwrap();
        let mut ready = devices.each_ref().map(|device| PollFd::new(device.as_fd(), PollFlags::POLLIN));
        poll(&mut ready, wait).unwrap();
        while let Ok(length) = (&devices[0]).read(&mut packet) {
            let _ = (&devices[1]).write(&packet[..length]); // one that the interface refuses is lost
        }
        while let Ok(length) = (&devices[1]).read(&mut packet) {
            tamper_with(&mut packet[..length], tamper);
            late.push_back((Instant::now() + delay, packet[..length].to_vec()));
        }
        while late.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            let _ = late.pop_front().map(|(_, packet)| (&devices[0]).write(&packet));
        }
    }
}

fn tamper_with(packet: &mut [u8], tamper: Tamper) {
    if packet[0] >> 4 != 4 || packet[9] != 6 {
        return;
    }
    let tcp = &mut packet[IPV4_BYTES..];
    let header = usize::from(tcp[12] >> 4) * 4;
    // The kernel aligns its own options to four bytes, and this one comes after them.
    let Some(at) = (20..header).step_by(4).find(|&at| tcp[at..].starts_with(&REPLY)) else { return };
    let option: &mut [u8; 8] = (&mut tcp[at..at + 8]).try_into().unwrap();
    tamper(option);
    let checksum = checksum(packet);
    packet[IPV4_BYTES + 16..IPV4_BYTES + 18].copy_from_slice(&checksum.to_be_bytes());
}

/// TCP's, over the pseudo header and the segment.
fn checksum(packet: &[u8]) -> u16 {
    let tcp = &packet[IPV4_BYTES..];
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let without_its_own = tcp.chunks(2).map(word).sum::<u32>() - word(&tcp[16..18]);
    let pseudo = packet[12..IPV4_BYTES].chunks(2).map(word).sum::<u32>() + 6 + tcp.len() as u32;
    let mut sum = without_its_own + pseudo;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
