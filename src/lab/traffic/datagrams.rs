//! Datagrams at a constant rate.

use std::io::ErrorKind;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};

use super::socket::{now_ns, until_input_ends};
use shared::units::BitsPerSec;

/// How often a receiver checks for the end of its input.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// IPv4 and UDP headers.
pub(crate) const UDP_HEADER_BYTES: u32 = 28;
/// A datagram begins with its number, from 0.
const NUMBER_BYTES: usize = 8;
/// Most words kept, of 64 numbers each: 128 MB.
const NUMBER_WORDS_MAX: usize = 1 << 24;
/// Holds the datagrams that arrive while the receiver does not run.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DatagramsSent {
    pub packets: u64,
    /// The longest time by which a packet left late.
    pub latest: Duration,
}

/// Packets that arrived within the flow's length of the first, without duplicates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatagramsCounted {
    pub packets: u64,
    pub bytes: u64,
    /// Arrival of the first.
    pub first_ns: u64,
    /// Arrival of the last of these packets.
    pub last_ns: u64,
    /// Packets, including late ones.
    pub arrived_ever: u64,
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

/// Sends packets of this length, headers included, at a rate. A packet that a full queue of the device drops counts as
/// lost on the path.
///
/// # Errors
/// A socket cannot be opened; it cannot send.
pub fn send(ends: [SocketAddrV4; 2], rate: BitsPerSec, packet_bytes: u32, length: Duration) -> Result<DatagramsSent> {
    let socket = UdpSocket::bind(ends[0]).context("open a socket for datagrams")?;
    socket.connect(ends[1]).context("direct a socket for datagrams")?;
    let gap = Duration::from_secs_f64(8.0 * f64::from(packet_bytes) / rate.0 as f64);
    let mut packet = vec![0; (packet_bytes - UDP_HEADER_BYTES) as usize];
    let begin = Instant::now();
    let (mut packets, mut latest) = (0_u64, Duration::ZERO);
    loop {
        let due = gap.mul_f64(packets as f64);
        if due >= length {
            return Ok(DatagramsSent { packets, latest });
        }
        std::thread::sleep((begin + due).saturating_duration_since(Instant::now()));
        latest = latest.max(begin.elapsed().saturating_sub(due));
        packet[..NUMBER_BYTES].copy_from_slice(&packets.to_ne_bytes());
        match socket.send(&packet) {
            // Such as an ICMP error from a closed port: the receiver was stopped.
            Err(error) if error.raw_os_error() != Some(libc::ENOBUFS) => return Err(error).context("send a datagram"),
            _ => packets += 1,
        }
    }
}

/// Counts packets until standard input has ended and none came for `settle`.
///
/// # Errors
/// The address is not available.
pub fn receive(at: SocketAddrV4, length: Duration, settle: Duration) -> Result<DatagramsCounted> {
    let socket = UdpSocket::bind(at).context("open a socket for datagrams")?;
    setsockopt(&socket, sockopt::RcvBufForce, &DATAGRAM_BUFFER_BYTES).context("enlarge a socket's buffer")?;
    socket.set_read_timeout(Some(POLL_INTERVAL)).context("prepare a socket")?;
    let ended = until_input_ends();
    let (mut counted, mut numbers) = (DatagramsCounted::default(), SeenNumbers::default());
    let mut packet = [0; 1 << 16];
    let mut quiet_since = Instant::now();
    loop {
        match socket.recv(&mut packet) {
            Ok(bytes) => {
                let number = packet[..NUMBER_BYTES].try_into().map(u64::from_ne_bytes).expect("eight bytes");
                if numbers.insert(number) {
                    counted.add(now_ns(), bytes, length);
                }
                quiet_since = Instant::now();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error).context("receive a datagram"),
        }
        if ended.load(Ordering::Relaxed) && quiet_since.elapsed() >= settle {
            return Ok(counted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sender_of_datagrams_knows_how_many_it_sent() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ends = ["127.0.0.1:0".parse().unwrap(), receiver.local_addr().unwrap().to_string().parse().unwrap()];
        let DatagramsSent { packets, latest } = send(ends, BitsPerSec(800_000), 100, Duration::from_millis(5)).unwrap();
        assert!(packets == 5 && latest > Duration::ZERO, "{packets} {latest:?}");
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
        assert_eq!(counted, DatagramsCounted { packets: 3, bytes: 300, first_ns, last_ns, arrived_ever: 4 });
        assert!(numbers.insert(u64::MAX) && numbers.0.len() == 2, "a number above the limit takes no memory");
    }
}
