//! Packets that a wire rewrites: the receiver's pair option on its way back, or every block of options.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng as _;

use super::{IPV4_BYTES, MARK, REPLY};
use crate::lab::wire::{Handle, folded, set_header_checksum};

pub type Tamper = fn(&mut [u8; 8]);

/// Packets of the second end travel for `delay`; those of the first end arrive at once.
fn delay_of(end: usize, delay: Duration) -> Duration {
    if end == 1 { delay } else { Duration::ZERO }
}

pub fn of_replies(tamper: Tamper, delay: Duration) -> Handle {
    Box::new(move |end, mut packet| {
        if end == 1 && is_tcp(&packet) {
            tamper_with(&mut packet, &REPLY, |option| tamper(option.try_into().expect("a reply has eight bytes")));
        }
        vec![(delay_of(end, delay), packet)]
    })
}

fn is_tcp(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4 && packet[9] == 6
}

fn header_bytes(tcp: &[u8]) -> usize {
    usize::from(tcp[12] >> 4) * 4
}

/// Changes the option that begins with these bytes. The second byte is the option's length.
fn tamper_with(packet: &mut [u8], option: &[u8; 4], change: impl FnOnce(&mut [u8])) {
    let tcp = &mut packet[IPV4_BYTES..];
    let header = header_bytes(tcp);
    // The kernel aligns its own options to four bytes, and this one follows them.
    let Some(at) = (20..header).step_by(4).find(|&at| tcp[at..].starts_with(option)) else { return };
    change(&mut tcp[at..at + usize::from(option[1])]);
    set_checksum(packet);
}

fn set_checksum(packet: &mut [u8]) {
    let checksum = checksum(packet);
    packet[IPV4_BYTES + 16..IPV4_BYTES + 18].copy_from_slice(&checksum.to_be_bytes());
}

/// Sends a copy with a malformed block of options before every packet, and removes the pair option from the packet itself.
/// Packets with SYN stay unchanged, because they negotiate the kernel's own options. `blocks` counts the copies.
pub fn of_all_options(seed: u64, blocks: Arc<AtomicU64>, delay: Duration) -> Handle {
    const SYN: u8 = 2;
    const NO_OPERATION: u8 = 1;
    let mut random = Pcg32::new(seed, 18);
    Box::new(move |end, mut packet| {
        let delay = delay_of(end, delay);
        if !is_tcp(&packet) || packet[IPV4_BYTES + 13] & SYN != 0 {
            return vec![(delay, packet)];
        }
        let mut hostile = packet.clone();
        replace_options(&mut hostile, &mut random);
        blocks.fetch_add(1, Ordering::Relaxed);
        for option in [&MARK, &REPLY] {
            tamper_with(&mut packet, option, |bytes| bytes.fill(NO_OPERATION));
        }
        vec![(delay, hostile), (delay, packet)]
    })
}

/// Keeps the timestamps, because the kernel may drop a packet without them, and fills the rest of the 40 bytes.
fn replace_options(packet: &mut Vec<u8>, random: &mut Pcg32) {
    const TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];
    let header = header_bytes(&packet[IPV4_BYTES..]);
    let options = IPV4_BYTES + 20..IPV4_BYTES + header;
    let mut block: Vec<u8> = match packet[options.clone()].starts_with(&TIMESTAMPS) {
        true => packet[options.start..options.start + 12].to_vec(),
        false => Vec::new(),
    };
    // The kernel drops many packets with wrong option lengths. Half of the blocks have right lengths and reach the program.
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

/// An option of our kind that is as long as it says, but no valid mark or reply; or a mark that nobody sent.
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

/// Any option except a valid reply, which a lying peer can send too, and options on which the kernel itself acts.
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

fn checksum(packet: &[u8]) -> u16 {
    let tcp = &packet[IPV4_BYTES..];
    let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    let without_its_own = tcp.chunks(2).map(word).sum::<u32>() - word(&tcp[16..18]);
    let pseudo = packet[12..IPV4_BYTES].chunks(2).map(word).sum::<u32>() + 6 + tcp.len() as u32;
    folded(without_its_own + pseudo)
}
