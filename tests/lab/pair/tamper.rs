//! A wire between two namespaces that a test can tamper with: it rewrites the receiver's pair option on its way back, or
//! every block of options.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;
use tccc::kernel::netlink::set_up;
use tccc::kernel::netns::Netns;

use crate::common::tun;

use super::{IPV4_BYTES, MARK, REPLY};

/// What happens to the eight bytes of each reply.
pub type Tamper = fn(&mut [u8; 8]);

/// What becomes of each packet of the first or the second end.
pub type Rewrite = Box<dyn FnMut(usize, Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// A TUN device at each end and a thread between them; both go when it is dropped.
pub struct Wire {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Packets pass without a rate; those from the second end to the first take `delay`.
    pub fn between(sides: &[Netns; 2], names: [&str; 2], delay: Duration, rewrite: Rewrite) -> Wire {
        let devices = [0, 1].map(|n| sides[n].run(|| Ok(tun::open(names[n])?)).unwrap());
        for n in [0, 1] {
            set_up(&sides[n], names[n]).unwrap();
        }
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let stop = Arc::clone(&stop);
            move || carry(devices, delay, rewrite, &stop)
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

fn carry(devices: [File; 2], delay: Duration, mut rewrite: Rewrite, stop: &AtomicBool) {
    let mut late: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    let mut packet = [0; 2048];
    while !stop.load(Ordering::Acquire) {
        let due =
            late.front().map_or(Duration::from_millis(5), |(due, _)| due.saturating_duration_since(Instant::now()));
        let wait = PollTimeout::try_from(due.min(Duration::from_millis(5))).unwrap();
        let mut ready = devices.each_ref().map(|device| PollFd::new(device.as_fd(), PollFlags::POLLIN));
        poll(&mut ready, wait).unwrap();
        while let Ok(length) = (&devices[0]).read(&mut packet) {
            for packet in rewrite(0, packet[..length].to_vec()) {
                let _ = (&devices[1]).write(&packet); // one that the interface refuses is lost
            }
        }
        while let Ok(length) = (&devices[1]).read(&mut packet) {
            let due = Instant::now() + delay;
            late.extend(rewrite(1, packet[..length].to_vec()).into_iter().map(|packet| (due, packet)));
        }
        while late.front().is_some_and(|(due, _)| *due <= Instant::now()) {
            let _ = late.pop_front().map(|(_, packet)| (&devices[0]).write(&packet));
        }
    }
}

/// Tampers with the replies of the second end.
pub fn of_replies(tamper: Tamper) -> Rewrite {
    Box::new(move |end, mut packet| {
        if end == 1 && is_tcp(&packet) {
            tamper_with(&mut packet, &REPLY, |option| tamper(option.try_into().expect("a reply has eight bytes")));
        }
        vec![packet]
    })
}

fn is_tcp(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4 && packet[9] == 6
}

fn header_bytes(tcp: &[u8]) -> usize {
    usize::from(tcp[12] >> 4) * 4
}

/// Changes the option that begins with these bytes, the second of which is its length.
fn tamper_with(packet: &mut [u8], option: &[u8; 4], change: impl FnOnce(&mut [u8])) {
    let tcp = &mut packet[IPV4_BYTES..];
    let header = header_bytes(tcp);
    // The kernel aligns its own options to four bytes, and this one comes after them.
    let Some(at) = (20..header).step_by(4).find(|&at| tcp[at..].starts_with(option)) else { return };
    change(&mut tcp[at..at + usize::from(option[1])]);
    set_checksum(packet);
}

fn set_checksum(packet: &mut [u8]) {
    let checksum = checksum(packet);
    packet[IPV4_BYTES + 16..IPV4_BYTES + 18].copy_from_slice(&checksum.to_be_bytes());
}

/// Sends a copy with a malformed block of options before every packet of both ends, and takes the pair option out of the
/// packet itself. The first packets of a connection, which agree on the kernel's own options, stay as they are.
pub fn of_all_options(seed: u64, blocks: Arc<AtomicU64>) -> Rewrite {
    const SYN: u8 = 2;
    const NO_OPERATION: u8 = 1;
    let mut random = Pcg32::new(seed, 18);
    Box::new(move |_, mut packet| {
        if !is_tcp(&packet) || packet[IPV4_BYTES + 13] & SYN != 0 {
            return vec![packet];
        }
        let mut hostile = packet.clone();
        replace_options(&mut hostile, &mut random);
        blocks.fetch_add(1, Ordering::Relaxed);
        for option in [&MARK, &REPLY] {
            tamper_with(&mut packet, option, |bytes| bytes.fill(NO_OPERATION));
        }
        vec![hostile, packet]
    })
}

/// Keeps the timestamps, without which the kernel may drop the packet, and fills the rest of the 40 bytes.
fn replace_options(packet: &mut Vec<u8>, random: &mut Pcg32) {
    const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
    let header = header_bytes(&packet[IPV4_BYTES..]);
    let options = IPV4_BYTES + 20..IPV4_BYTES + header;
    let mut block: Vec<u8> = match packet[options.clone()].starts_with(&TIMESTAMPS) {
        true => packet[options.start..options.start + 12].to_vec(),
        false => Vec::new(),
    };
    // The kernel itself drops many packets whose lengths are wrong: half of the blocks have right ones.
    let is_whole = random.next_u32().is_multiple_of(2);
    while block.len() < 40 {
        let option = if is_whole { wrong_option(random, 40 - block.len()) } else { broken_option(random) };
        block.extend(option);
    }
    block.truncate(40);
    packet.splice(options, block);
    packet[IPV4_BYTES + 12] = 15 << 4 | packet[IPV4_BYTES + 12] & 0xf;
    let length = packet.len() as u16;
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    set_header_checksum(&mut packet[..IPV4_BYTES]);
    set_checksum(packet);
}

const EXID: [u8; 2] = [0x53, 0x53];

/// An option of our kind with a length that its bytes have, but that none of ours has, or a mark that nobody sent.
fn wrong_option(random: &mut Pcg32, room: usize) -> Vec<u8> {
    const LENGTHS: [u8; 8] = [2, 3, 4, 5, 7, 9, 12, 28];
    let [choice, length, flags, pair] = random.next_u32().to_be_bytes();
    let length = LENGTHS[usize::from(length) % LENGTHS.len()];
    match choice % 4 {
        0 if room >= 6 => vec![254, 6, EXID[0], EXID[1], flags, pair],
        1 | 2 if room >= usize::from(length) => {
            let mut option = vec![254, length, EXID[0], EXID[1]];
            option.resize(length.into(), pair);
            option
        }
        _ => vec![1],
    }
}

/// Anything but a reply as it should be, which a liar can send too, and what the kernel itself acts on.
fn broken_option(random: &mut Pcg32) -> Vec<u8> {
    const LENGTHS: [u8; 12] = [0, 1, 2, 3, 4, 5, 7, 9, 12, 28, 40, 255];
    /// Selective acknowledgements, timestamps, signatures, authentication.
    const OF_THE_KERNEL: [u8; 4] = [5, 8, 19, 29];
    let [choice, kind, length, content] = random.next_u32().to_be_bytes();
    match choice % 5 {
        0 => vec![254, LENGTHS[usize::from(length) % LENGTHS.len()], EXID[0], EXID[1], kind, content, kind, content],
        1 => vec![253, length, EXID[0], EXID[1], kind],
        2 => vec![1; usize::from(length % 8)],
        3 if length < 32 => vec![0],
        _ if OF_THE_KERNEL.contains(&kind) => vec![1],
        _ => vec![kind, length % 41, content],
    }
}

/// Puts the checksum into a header of IPv4.
pub fn set_header_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = folded(header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum());
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// TCP's, over the pseudo header and the segment.
fn checksum(packet: &[u8]) -> u16 {
    let tcp = &packet[IPV4_BYTES..];
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let without_its_own = tcp.chunks(2).map(word).sum::<u32>() - word(&tcp[16..18]);
    let pseudo = packet[12..IPV4_BYTES].chunks(2).map(word).sum::<u32>() + 6 + tcp.len() as u32;
    folded(without_its_own + pseudo)
}
