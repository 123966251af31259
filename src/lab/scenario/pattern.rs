//! When a flow sends which datagrams: the same on every engine. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::datagrams::DatagramSpec;
use shared::units::{BitsPerSec, Bytes, duration_text};

/// IPv4 and UDP headers.
pub(crate) const UDP_HEADER_BYTES: u32 = 28;

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Least payload: the number of the datagram, and when it was sent.
const PAYLOAD_MIN: u64 = 16;

/// The datagrams of a flow, numbered from 0. Those of a frame leave at once; without frames each is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// From one frame to the next.
    #[serde(with = "duration_text")]
    pub interval: Duration,
    /// The first of every `every` frames, and the others.
    pub shapes: [FrameShape; 2],
    pub every: u64,
    #[serde(with = "duration_text")]
    pub deadline: Duration,
}

/// The datagrams of one frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameShape {
    pub pkts: u64,
    /// Payload of each datagram but the last.
    pub bytes: u64,
    /// Payload of the last.
    pub last_bytes: u64,
}

/// The place of a datagram among the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub frame: u64,
    pub shape: FrameShape,
    /// Payload of the datagram.
    pub bytes: u64,
}

impl Pattern {
    pub fn of(spec: &DatagramSpec) -> Pattern {
        let DatagramSpec { rate, packet_bytes, frames, deadline } = *spec;
        let payload = u64::from(packet_bytes - UDP_HEADER_BYTES);
        match frames {
            Some(frames) => {
                let (sizes, every) = frames.shape();
                let shapes = sizes.map(|size| FrameShape::of(size, payload));
                // Rounded up, so that no second has a frame too many.
                let interval = Duration::from_nanos(NANOS_PER_SEC.div_ceil(frames.per_second.into()));
                Pattern { interval, shapes, every: every.into(), deadline }
            }
            None => {
                let shape = FrameShape { pkts: 1, bytes: payload, last_bytes: payload };
                let interval = Duration::from_secs_f64(8.0 * f64::from(packet_bytes) / rate.0 as f64);
                Pattern { interval, shapes: [shape; 2], every: 1, deadline }
            }
        }
    }

    /// Whether datagrams are parts of frames.
    pub fn has_frames(&self) -> bool {
        self.shapes.iter().any(|shape| shape.pkts > 1)
    }

    fn pkts_per_cycle(&self) -> u64 {
        let [key, other] = self.shapes;
        key.pkts + (self.every - 1) * other.pkts
    }

    pub fn place(&self, number: u64) -> Place {
        let [key, other] = self.shapes;
        let (cycle, within) = (number / self.pkts_per_cycle(), number % self.pkts_per_cycle());
        let (frame, shape, index) = match within.checked_sub(key.pkts) {
            None => (0, key, within),
            Some(beyond) => (1 + beyond / other.pkts, other, beyond % other.pkts),
        };
        let bytes = if index + 1 == shape.pkts { shape.last_bytes } else { shape.bytes };
        Place { frame: cycle * self.every + frame, shape, bytes }
    }

    /// When a frame is sent, from the start of the flow.
    pub fn due(&self, frame: u64) -> Duration {
        self.interval.mul_f64(frame as f64)
    }

    /// Datagrams of a flow of this length, at most.
    pub fn most_pkts(&self, length: Duration) -> u128 {
        let frames = length.as_nanos() / self.interval.as_nanos().max(1) + 1;
        let cycles = frames / u128::from(self.every) + 1;
        cycles * u128::from(self.pkts_per_cycle())
    }

    /// Mean rate, IP headers included.
    pub fn rate(&self) -> BitsPerSec {
        let bytes = |shape: FrameShape| {
            (shape.pkts - 1) * shape.bytes + shape.last_bytes + shape.pkts * u64::from(UDP_HEADER_BYTES)
        };
        let [key, other] = self.shapes.map(bytes);
        let seconds = self.interval.as_secs_f64() * self.every as f64;
        BitsPerSec((8.0 * (key + (self.every - 1) * other) as f64 / seconds).round() as u64)
    }
}

impl FrameShape {
    fn of(Bytes(size): Bytes, payload: u64) -> FrameShape {
        let pkts = size.div_ceil(payload);
        FrameShape { pkts, bytes: payload, last_bytes: (size - (pkts - 1) * payload).max(PAYLOAD_MIN.min(payload)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(frames: &str) -> Pattern {
        let frames = Some(frames.parse().unwrap());
        let deadline = Duration::from_millis(100);
        Pattern::of(&DatagramSpec { rate: BitsPerSec(0), packet_bytes: 1028, frames, deadline })
    }

    #[test]
    fn datagrams_have_their_place_in_frames_and_key_frames() {
        let video = pattern("per_second=25,size=1500B,key=2001B,every=3");
        let places = (0..9).map(|number| video.place(number));
        let places: Vec<[u64; 3]> = places.map(|place| [place.frame, place.shape.pkts, place.bytes]).collect();
        let key = [[0, 3, 1000], [0, 3, 1000], [0, 3, 16]];
        let others = [[1, 2, 1000], [1, 2, 500], [2, 2, 1000], [2, 2, 500], [3, 3, 1000], [3, 3, 1000]];
        assert_eq!(places, [&key[..], &others].concat());
        assert_eq!((video.due(2), video.interval), (Duration::from_millis(80), Duration::from_millis(40)));
        assert_eq!(video.rate(), BitsPerSec(347_467), "(2016 + 2 * 1500 + 7 * 28) * 8 * 25 / 3");
        assert!(video.most_pkts(Duration::from_millis(80)) >= 7);
        assert!(video.has_frames() && !pattern("per_second=50,size=160B").has_frames());
    }

    #[test]
    fn constant_rate_is_one_datagram_a_frame() {
        let rate = BitsPerSec(800_000);
        let deadline = Duration::from_millis(150);
        let pattern = Pattern::of(&DatagramSpec { rate, packet_bytes: 1000, frames: None, deadline });
        assert_eq!((pattern.interval, pattern.rate()), (Duration::from_millis(10), rate));
        assert_eq!(pattern.place(7).frame, 7);
        assert_eq!(pattern.most_pkts(Duration::from_secs(1)), 102);
    }
}
