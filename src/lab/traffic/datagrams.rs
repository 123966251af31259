//! Datagrams: frames at equal intervals, or single datagrams at a constant rate.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use super::socket::{now_ns, until_input_ends};
use crate::load::Schedule;
use crate::scenario::pattern::Pattern;
use shared::model::run::Delays;
use shared::units::nanos;

/// How often a receiver checks for the end of its input.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A datagram begins with its number, from 0, and the time at which it was sent, if it has room for that.
const NUMBER_BYTES: usize = 8;
const STAMPED_BYTES: usize = 16;
/// Longest delay that counts with its length, and the digits that are kept.
const DELAY_MAX: Duration = Duration::from_secs(3_600);
const DELAY_DIGITS: u8 = 3;
/// Most words kept, of 64 numbers each: 128 MB.
const NUMBER_WORDS_MAX: usize = 1 << 24;
/// Holds the datagrams that arrive while the receiver does not run.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DatagramsSent {
    pub packets: u64,
    /// Frames of which at least one packet was sent.
    pub frames: u64,
    /// The longest time by which a packet left late.
    pub latest: Duration,
}

/// Packets that arrived within the flow's length of the first, without duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DatagramsCounted {
    pub packets: u64,
    pub bytes: u64,
    /// Arrival of the first.
    pub first_ns: u64,
    /// Arrival of the last of these packets.
    pub last_ns: u64,
    /// Packets, including late ones.
    pub arrived_ever: u64,
    /// How long all of these were on their way. `None` if they carry no time.
    pub delay_us: Option<Delays>,
    /// Frames all of whose packets arrived within the deadline. `None` if they carry no time.
    pub in_time: Option<u64>,
}

impl DatagramsCounted {
    fn add(&mut self, now_ns: u64, bytes: usize, length: Duration) {
        if self.arrived_ever == 0 {
            self.first_ns = now_ns;
        }
        self.arrived_ever += 1;
        if u128::from(now_ns - self.first_ns) <= length.as_nanos() {
            self.packets += 1;
            self.bytes += bytes as u64;
            self.last_ns = now_ns;
        }
    }
}

/// How long packets were on their way, and which frames were whole in time.
struct Arrivals<'a> {
    pattern: &'a Pattern,
    delays_ns: Histogram<u64>,
    /// Packets that arrived in time, of frames that are not whole yet.
    parts: HashMap<u64, u64>,
    in_time: u64,
}

impl<'a> Arrivals<'a> {
    fn new(pattern: &'a Pattern) -> Result<Self> {
        let delays_ns = Histogram::new_with_max(nanos(DELAY_MAX), DELAY_DIGITS).context("prepare a histogram")?;
        Ok(Arrivals { pattern, delays_ns, parts: HashMap::new(), in_time: 0 })
    }

    fn add(&mut self, number: u64, delay_ns: u64) {
        self.delays_ns.saturating_record(delay_ns);
        if delay_ns > nanos(self.pattern.deadline) {
            return;
        }
        let place = self.pattern.place(number);
        let part = self.parts.entry(place.frame).or_default();
        *part += 1;
        if *part == place.shape.pkts {
            self.parts.remove(&place.frame);
            self.in_time += 1;
        }
    }

    fn delay_us(&self) -> Option<Delays> {
        let at = |quantile| self.delays_ns.value_at_quantile(quantile) as f64 / 1e3;
        let [mean, max] = [self.delays_ns.mean(), self.delays_ns.max() as f64].map(|ns| ns / 1e3);
        (!self.delays_ns.is_empty()).then(|| Delays { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), max })
    }
}

/// One bit for each packet that arrived: 1 MB holds 100 s of full packets at 1 Gbit/s. Every number above
/// [`NUMBER_WORDS_MAX`] words counts as new.
#[derive(Debug, Default)]
struct SeenNumbers(Vec<u64>);

impl SeenNumbers {
    /// Returns whether the number is new.
    fn insert(&mut self, number: u64) -> bool {
        let (word, bit) = ((number / 64) as usize, 1 << (number % 64));
        if word >= NUMBER_WORDS_MAX {
            return true;
        }
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}

/// Sends datagrams as the pattern says, in the bursts of the schedule. A packet that a full queue of the device drops counts
/// as lost on the path.
///
/// # Errors
/// A socket cannot be opened; it cannot send.
pub fn send(
    ends: [SocketAddrV4; 2],
    pattern: &Pattern,
    schedule: &Schedule,
    length: Duration,
) -> Result<DatagramsSent> {
    let socket = UdpSocket::bind(ends[0]).context("open a socket for datagrams")?;
    socket.connect(ends[1]).context("direct a socket for datagrams")?;
    let longest = pattern.shapes.iter().map(|shape| shape.bytes.max(shape.last_bytes)).max().unwrap_or_default();
    let mut packet = vec![0; longest as usize];
    let begin = Instant::now();
    let mut sent = DatagramsSent { packets: 0, frames: 0, latest: Duration::ZERO };
    loop {
        let place = pattern.place(sent.packets);
        let due = schedule.due(pattern.due(place.frame));
        if due >= length {
            return Ok(sent);
        }
        std::thread::sleep((begin + due).saturating_duration_since(Instant::now()));
        sent.latest = sent.latest.max(begin.elapsed().saturating_sub(due));
        let packet = &mut packet[..place.bytes as usize];
        packet[..NUMBER_BYTES].copy_from_slice(&sent.packets.to_ne_bytes());
        if let Some(stamp) = packet.get_mut(NUMBER_BYTES..STAMPED_BYTES) {
            stamp.copy_from_slice(&now_ns().to_ne_bytes());
        }
        match socket.send(packet) {
            // Such as an ICMP error from a closed port: the receiver was stopped.
            Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return Err(error).context("send a datagram"),
            _ => sent.packets += 1,
        }
        sent.frames = place.frame + 1;
    }
}

/// The number at a place of a packet. `None`: the packet is shorter.
fn number_at(packet: &[u8], from: usize) -> Option<u64> {
    let bytes = packet.get(from..from + NUMBER_BYTES)?;
    bytes.try_into().ok().map(u64::from_ne_bytes)
}

/// Counts packets until standard input has ended and none came for `settle`.
///
/// # Errors
/// The address is not available.
pub fn receive(at: SocketAddrV4, pattern: &Pattern, length: Duration, settle: Duration) -> Result<DatagramsCounted> {
    let socket = UdpSocket::bind(at).context("open a socket for datagrams")?;
    setsockopt(&socket, sockopt::RcvBufForce, &DATAGRAM_BUFFER_BYTES).context("enlarge a socket's buffer")?;
    socket.set_read_timeout(Some(POLL_INTERVAL)).context("prepare a socket")?;
    let ended = until_input_ends();
    let (mut counted, mut numbers) = (DatagramsCounted::default(), SeenNumbers::default());
    let mut arrivals = Arrivals::new(pattern)?;
    let mut packet = [0; 1 << 16];
    let mut quiet_since = Instant::now();
    loop {
        match socket.recv(&mut packet) {
            Ok(bytes) => {
                let (packet, now) = (&packet[..bytes], now_ns());
                if let Some(number) = number_at(packet, 0).filter(|number| numbers.insert(*number)) {
                    counted.add(now, bytes, length);
                    if let Some(sent_ns) = number_at(packet, NUMBER_BYTES) {
                        arrivals.add(number, now.saturating_sub(sent_ns));
                    }
                }
                quiet_since = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error).context("receive a datagram"),
        }
        if ended.load(Ordering::Relaxed) && quiet_since.elapsed() >= settle {
            let is_stamped =
                pattern.shapes.iter().all(|shape| shape.bytes.min(shape.last_bytes) >= STAMPED_BYTES as u64);
            counted.delay_us = arrivals.delay_us();
            counted.in_time = is_stamped.then_some(arrivals.in_time);
            return Ok(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::DatagramSpec;
    use shared::units::BitsPerSec;

    /// A packet of 100 B every millisecond.
    fn pattern() -> Pattern {
        let deadline = Duration::from_millis(150);
        Pattern::of(&DatagramSpec { rate: BitsPerSec(800_000), packet_bytes: 100, frames: None, deadline })
    }

    #[test]
    fn frame_is_in_time_if_all_of_its_packets_are() {
        let frames = Some("per_second=25,size=1500B".parse().unwrap());
        let deadline = Duration::from_millis(100);
        let pattern = Pattern::of(&DatagramSpec { rate: BitsPerSec(0), packet_bytes: 1028, frames, deadline });
        let mut arrivals = Arrivals::new(&pattern).unwrap();
        for (number, delay_ms) in [(0, 20), (3, 100), (2, 30), (4, 20), (5, 101), (6, 40)] {
            arrivals.add(number, delay_ms * 1_000_000);
        }
        assert_eq!(arrivals.in_time, 1, "0 and 6 lack a packet, 5 came late");
        let delays = arrivals.delay_us().unwrap();
        assert!((29_900.0..30_100.0).contains(&delays.p50) && delays.max > 100_900.0, "{delays:?}");
    }

    #[test]
    fn sender_of_datagrams_knows_how_many_it_sent() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ends = ["127.0.0.1:0".parse().unwrap(), receiver.local_addr().unwrap().to_string().parse().unwrap()];
        let sent = send(ends, &pattern(), &Schedule::default(), Duration::from_millis(5)).unwrap();
        assert!((sent.packets, sent.frames) == (5, 5) && sent.latest > Duration::ZERO, "{sent:?}");
    }

    #[test]
    fn datagrams_count_once_and_only_for_the_length() {
        let (mut counted, mut numbers) = (DatagramsCounted::default(), SeenNumbers::default());
        for (number, at_ms) in [(0, 10), (70, 500), (70, 510), (1, 1010), (2, 1011), (0, 1100)] {
            if numbers.insert(number) {
                counted.add(at_ms * 1_000_000, 100, Duration::from_secs(1));
            }
        }
        let (first_ns, last_ns) = (10_000_000, 1_010_000_000);
        let expected = DatagramsCounted { packets: 3, bytes: 300, first_ns, last_ns, arrived_ever: 4, ..counted };
        assert_eq!(counted, expected);
        assert!(numbers.insert(u64::MAX) && numbers.0.len() == 2, "a number above the limit takes no memory");
    }
}
