//! A wire between two TUN devices that hands every packet to the test, which may change, delay, copy or drop it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tccc::kernel::netlink::set_up;
use tccc::kernel::netns::Netns;

use crate::common::tun;

/// Takes a packet of the first (0) or the second (1) end; returns the packets that travel instead, each with its delay.
pub type Handle = Box<dyn FnMut(usize, Vec<u8>) -> Vec<(Duration, Vec<u8>)> + Send>;

/// How late the wire may notice its end, or the end of a hold.
const WATCH: Duration = Duration::from_millis(5);
const PACKET_MAX: usize = 2048;

/// The TUN devices and the thread between them. Both end when this is dropped.
pub struct Wire {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Connects two namespaces by interfaces that are called `prefix` and 0 or 1.
    ///
    /// `is_held`: while it holds, no packet arrives at either end.
    pub fn between(
        sides: &[Netns; 2],
        prefix: &str,
        handle: Handle,
        is_held: impl Fn() -> bool + Send + 'static,
    ) -> Wire {
        let ends = [0, 1].map(|n| {
            let name = format!("{prefix}{n}");
            let end = sides[n].run(|| Ok(tun::open(&name)?)).unwrap();
            set_up(&sides[n], &name).unwrap();
            end
        });
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = thread::spawn(move || carry(&ends, handle, is_held, &stop));
        Wire { is_over, thread: Some(thread) }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Arrival time, number, receiving end, bytes.
type Flying = Reverse<(Instant, u64, usize, Vec<u8>)>;

fn carry(ends: &[File; 2], mut handle: Handle, is_held: impl Fn() -> bool, is_over: &AtomicBool) {
    let mut flying: BinaryHeap<Flying> = BinaryHeap::new();
    let (mut buffer, mut number) = ([0; PACKET_MAX], 0);
    while !is_over.load(Ordering::Relaxed) {
        let next = flying.peek().map(|Reverse((due, ..))| due.saturating_duration_since(Instant::now()));
        let next = next.filter(|_| !is_held()).unwrap_or(WATCH).min(WATCH);
        let mut ready = ends.each_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
        // The packets are read next even if a signal interrupts the wait.
        let _ = poll(&mut ready, PollTimeout::from(next.as_micros().div_ceil(1000) as u16));
        for (from, mut end) in ends.iter().enumerate() {
            while let Ok(bytes) = end.read(&mut buffer) {
                for (delay, packet) in handle(from, buffer[..bytes].to_vec()) {
                    number += 1;
                    flying.push(Reverse((Instant::now() + delay, number, 1 - from, packet)));
                }
            }
        }
        while !is_held() && flying.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
            let Some(Reverse((_, _, to, packet))) = flying.pop() else { break };
            // An interface that is going down refuses packets. They are lost.
            let _ = (&ends[to]).write(&packet);
        }
    }
}

/// Writes the checksum into an IPv4 header.
pub fn set_header_checksum(header: &mut [u8]) {
    header[10..12].fill(0);
    let sum = folded(header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum());
    header[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// The Internet checksum of a sum of 16-bit words: RFC 1071.
pub fn folded(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
