//! A wire between two TUN devices whose conditions a test changes while packets are on it: what no link of tccc does.
//!
//! It loses, marks and delays packets of data at will, goes dark, or holds everything back and lets it go again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use crate::lab::pair::tamper::set_header_checksum;

/// One way.
const DELAY: Duration = Duration::from_millis(5);
/// What a late packet takes in addition: so many packets overtake it that it counts as lost.
const LATE: Duration = Duration::from_millis(15);
/// Longer packets carry data; handshakes and ACKs are left alone.
const DATA_BYTES: usize = 200;
/// How soon a change of conditions is seen at the latest.
const WATCH: Duration = Duration::from_millis(5);
const PACKET_MAX: usize = 2048;

/// What the wire does to packets of data from its first end; all off at first.
#[derive(Default)]
pub struct Conditions {
    /// Share of packets lost, 1/1000.
    pub lost_permille: AtomicU32,
    /// Every n-th packet arrives late.
    pub late_every: AtomicU32,
    /// Every n-th packet that can carry a congestion mark gets it.
    pub marked_every: AtomicU32,
    /// All that the first end sends is lost; what is on its way arrives, and is acknowledged.
    pub is_dark: AtomicBool,
    /// Nothing arrives, both ways, until this ends.
    pub is_held: AtomicBool,
    is_over: AtomicBool,
}

/// The wire; it ends when this is dropped.
pub struct Wire {
    pub conditions: Arc<Conditions>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    pub fn between(ends: [File; 2]) -> Wire {
        let conditions = Arc::new(Conditions::default());
        let mut carrier = Carrier::new(ends, Arc::clone(&conditions));
        let thread = thread::Builder::new().name("wire".into()).spawn(move || carrier.run()).unwrap();
        Wire { conditions, thread: Some(thread) }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.conditions.is_over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// When it arrives, its number, the end it goes to, its bytes.
type Flying = Reverse<(Instant, u64, usize, Vec<u8>)>;

struct Carrier {
    ends: [File; 2],
    conditions: Arc<Conditions>,
    flying: BinaryHeap<Flying>,
    packets: u64,
    data_packets: u32,
    dice: Pcg32,
}

impl Carrier {
    fn new(ends: [File; 2], conditions: Arc<Conditions>) -> Carrier {
        let dice = Pcg32::new(1, 0);
        Carrier { ends, conditions, flying: BinaryHeap::new(), packets: 0, data_packets: 0, dice }
    }

    fn run(&mut self) {
        while !self.conditions.is_over.load(Relaxed) {
            self.wait();
            (0..2).for_each(|from| self.take(from));
            if !self.conditions.is_held.load(Relaxed) {
                self.give();
            }
        }
    }

    fn wait(&self) {
        let next = self.flying.peek().map(|Reverse((due, ..))| due.saturating_duration_since(Instant::now()));
        let next = next.filter(|_| !self.conditions.is_held.load(Relaxed)).unwrap_or(WATCH).min(WATCH);
        let mut ends = self.ends.each_ref().map(|end| PollFd::new(end.as_fd(), PollFlags::POLLIN));
        // Interrupted or not, the packets are looked at next.
        let _ = poll(&mut ends, PollTimeout::from(next.as_micros().div_ceil(1000) as u16));
    }

    fn take(&mut self, from: usize) {
        let mut buffer = [0; PACKET_MAX];
        while let Ok(bytes) = (&self.ends[from]).read(&mut buffer) {
            let mut packet = buffer[..bytes].to_vec();
            let is_data = from == 0 && bytes > DATA_BYTES;
            let Some(extra) = (if is_data { self.meet(&mut packet) } else { Some(Duration::ZERO) }) else { continue };
            if from == 0 && self.conditions.is_dark.load(Relaxed) {
                continue;
            }
            self.packets += 1;
            self.flying.push(Reverse((Instant::now() + DELAY + extra, self.packets, 1 - from, packet)));
        }
    }

    /// What a packet of data meets: none when it is lost, else what it takes longer.
    fn meet(&mut self, packet: &mut [u8]) -> Option<Duration> {
        self.data_packets += 1;
        let is_turn = |every: &AtomicU32| self.data_packets.checked_rem(every.load(Relaxed)) == Some(0);
        if is_turn(&self.conditions.marked_every) {
            mark(packet);
        }
        let extra = if is_turn(&self.conditions.late_every) { LATE } else { Duration::ZERO };
        (self.dice.next_u32() % 1000 >= self.conditions.lost_permille.load(Relaxed)).then_some(extra)
    }

    fn give(&mut self) {
        while let Some(Reverse((due, ..))) = self.flying.peek() {
            if *due > Instant::now() {
                return;
            }
            let Some(Reverse((_, _, to, packet))) = self.flying.pop() else { return };
            // A device that is going down takes nothing: then nobody waits for the packet either.
            let _ = (&self.ends[to]).write(&packet);
        }
    }
}

/// Congestion Experienced in an IPv4 header whose sender can be told so: RFC 3168, section 5.
fn mark(packet: &mut [u8]) {
    const ECN: u8 = 0b11;
    let header = usize::from(packet[0] & 15) * 4;
    if packet[0] >> 4 != 4 || packet[1] & ECN == 0 {
        return;
    }
    packet[1] |= ECN;
    set_header_checksum(&mut packet[..header]);
}
