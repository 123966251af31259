//! Start and end of each packet's serialisation, by a rate that may change or by the opportunities of a trace.

use std::sync::Arc;

use crate::path::rate_trace::{OPPORTUNITY_BYTES, RateTrace};
use crate::path::steps::Steps;

const NANOS_PER_SEC: u128 = 1_000_000_000;
const NANOS_PER_MS: u64 = 1_000_000;
const BITS_PER_BYTE: u128 = 8;

#[derive(Debug)]
enum LinkPace {
    /// Bits per second; `None` takes no time.
    Rate(Steps<Option<u64>>),
    Trace(Opportunities),
}

/// The serialiser of one direction on its virtual clock: one packet at a time, in order.
#[derive(Debug)]
pub struct Serialiser {
    pace: LinkPace,
    /// When the last accepted packet has left.
    pub(super) free_at: u64,
    /// Work that whole nanoseconds left undone, in bits times nanoseconds.
    rest: u128,
}

impl Serialiser {
    pub fn new(rate: Steps<Option<u64>>) -> Self {
        Serialiser { pace: LinkPace::Rate(rate), free_at: 0, rest: 0 }
    }

    /// Continues at another rate; packets accepted before keep their times.
    pub fn follow_rate(&mut self, rate: Steps<Option<u64>>) {
        self.pace = LinkPace::Rate(rate);
    }

    /// Continues by the opportunities of a trace that begins at this moment.
    pub fn follow_trace(&mut self, trace: &RateTrace, begin: u64) {
        self.pace = LinkPace::Trace(Opportunities::new(trace, begin));
        self.rest = 0;
    }

    /// When a packet begins to leave; called for packets in arrival order.
    pub fn begins_at(&mut self, arrival: u64) -> u64 {
        let from = self.free_at.max(arrival);
        match &mut self.pace {
            LinkPace::Rate(_) => from,
            // A packet may share the opportunity of the one before it.
            LinkPace::Trace(opportunities) => opportunities.first_from(arrival).max(self.free_at),
        }
    }

    /// Accepts a packet that begins to leave at `from`; returns when it has left.
    pub fn take(&mut self, from: u64, bytes: u32) -> u64 {
        match &mut self.pace {
            LinkPace::Rate(rate) => {
                if from > self.free_at {
                    self.rest = 0;
                }
                (self.free_at, self.rest) =
                    at_rate(rate, from, u128::from(bytes) * BITS_PER_BYTE * NANOS_PER_SEC + self.rest);
            }
            LinkPace::Trace(opportunities) => self.free_at = self.free_at.max(opportunities.send(bytes)),
        }
        self.free_at
    }
}

/// When work (bits times nanoseconds) that begins at a moment is done, and the exact rest below a nanosecond, which
/// carries over while the serialiser is busy.
fn at_rate(rate: &mut Steps<Option<u64>>, mut from: u64, mut work: u128) -> (u64, u128) {
    loop {
        let Some(bits_per_sec) = rate.at(from).map(u128::from) else { return (from, 0) };
        let done = u128::from(from) + work / bits_per_sec;
        if done <= u128::from(rate.next_at()) {
            return (done as u64, work % bits_per_sec);
        }
        work -= u128::from(rate.next_at() - from) * bits_per_sec;
        from = rate.next_at();
    }
}

/// The opportunities of a trace, which repeats forever.
#[derive(Debug)]
struct Opportunities {
    times_ms: Arc<[u32]>,
    length_ms: u64,
    begin: u64,
    /// The current opportunity, counted over all rounds.
    index: u64,
    /// Bytes that the current opportunity still carries.
    left: u32,
}

impl Opportunities {
    fn new(trace: &RateTrace, begin: u64) -> Self {
        let (times_ms, length_ms) = (Arc::clone(&trace.times_ms), u64::from(trace.length_ms));
        Opportunities { times_ms, length_ms, begin, index: 0, left: OPPORTUNITY_BYTES }
    }

    fn time(&self, index: u64) -> u64 {
        let in_round = self.times_ms.len() as u64;
        let ms = index / in_round * self.length_ms + u64::from(self.times_ms[(index % in_round) as usize]);
        self.begin + ms * NANOS_PER_MS
    }

    /// The first opportunity at or after this moment that has room.
    fn first_from(&mut self, moment: u64) -> u64 {
        if self.left == 0 {
            self.go_to(self.index + 1);
        }
        if self.time(self.index) < moment {
            // Usually the next one is right; after a pause it must be searched.
            let next = self.index + 1;
            let index = if self.time(next) >= moment { next } else { self.search(moment) };
            self.go_to(index);
        }
        self.time(self.index)
    }

    fn search(&self, moment: u64) -> u64 {
        let ms = (moment - self.begin).div_ceil(NANOS_PER_MS);
        let round = ms.saturating_sub(1) / self.length_ms;
        let rest = ms - round * self.length_ms;
        round * self.times_ms.len() as u64 + self.times_ms.partition_point(|at| u64::from(*at) < rest) as u64
    }

    fn go_to(&mut self, index: u64) {
        (self.index, self.left) = (index, OPPORTUNITY_BYTES);
    }

    /// Uses as many opportunities as the bytes need; returns the time of the last one.
    fn send(&mut self, mut bytes: u32) -> u64 {
        while bytes > self.left {
            bytes -= self.left;
            self.go_to(self.index + 1);
        }
        self.left -= bytes;
        self.time(self.index)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = NANOS_PER_MS;

    /// Packets by arrival (ms) and bytes; returns when each has left, in ms.
    fn leave(serialiser: &mut Serialiser, packets: &[(u64, u32)]) -> Vec<f64> {
        let send = |(at, bytes): &(u64, u32)| {
            let from = serialiser.begins_at(at * MS);
            serialiser.take(from, *bytes) as f64 / MS as f64
        };
        packets.iter().map(send).collect()
    }

    fn traced(times: &[u32]) -> Serialiser {
        let mut serialiser = Serialiser::new(Steps::fixed(None));
        serialiser.follow_trace(&RateTrace::new("x".into(), times.to_vec()).unwrap(), 0);
        serialiser
    }

    #[test]
    fn rate_that_changes_within_a_packet_sends_each_part_at_its_rate() {
        // 12 000 bits: 1 ms at 6 Mbit/s sends half, the rest takes 6 ms at 1 Mbit/s.
        let rates = Steps::new(Some(6_000_000), [(MS, Some(1_000_000)), (20 * MS, None)].into_iter());
        let mut serialiser = Serialiser::new(rates);
        assert_eq!(leave(&mut serialiser, &[(0, 1500), (0, 1500)]), [7.0, 19.0]);
        // After the last change a packet takes no time.
        assert_eq!(leave(&mut serialiser, &[(19, 1500), (30, 1500)]), [20.0, 30.0]);
    }

    #[test]
    fn packets_leave_at_the_opportunities_of_the_trace_round_after_round() {
        let mut serialiser = traced(&[2, 5, 5, 10]);
        let burst = [(0, 1500); 6];
        assert_eq!(leave(&mut serialiser, &burst), [2.0, 5.0, 5.0, 10.0, 12.0, 15.0]);
        // Unused opportunities are lost.
        assert_eq!(leave(&mut serialiser, &[(31, 1500), (999, 1500), (1000, 1500)]), [32.0, 1000.0, 1002.0]);
    }

    #[test]
    fn small_packets_share_an_opportunity_that_comes_after_they_arrived() {
        let mut serialiser = traced(&[2, 5, 10]);
        assert_eq!(leave(&mut serialiser, &[(0, 500), (1, 500), (2, 500), (2, 500)]), [2.0, 2.0, 2.0, 5.0]);
        // At 6 ms the rest of the opportunity at 5 ms is gone; a large packet needs one and a half.
        assert_eq!(leave(&mut serialiser, &[(6, 2250), (6, 700), (6, 100)]), [12.0, 12.0, 15.0]);
    }

    proptest! {
        /// Whatever arrives: packets leave in order, never early, only at opportunities, and no opportunity is
        /// overused.
        #[test]
        fn any_arrivals_use_each_opportunity_once(
            packets in prop::collection::vec((0u64..40, 1u32..4000), 1..200),
            times in prop::collection::vec(0u32..60, 1..30),
        ) {
            let mut times = times;
            times.sort_unstable();
            times.push(60);
            let mut serialiser = traced(&times);
            let (mut now, mut last, mut bytes_sent) = (0, 0, 0u64);
            for (gap, bytes) in packets {
                now += gap * MS / 2;
                let from = serialiser.begins_at(now);
                let left = serialiser.take(from, bytes);
                prop_assert!(from >= now && left >= from && left >= last);
                let in_round = left / MS % 60;
                prop_assert!(left.is_multiple_of(MS) && (in_round == 0 || times.contains(&(in_round as u32))));
                bytes_sent += u64::from(bytes);
                last = left;
                let ms = left / MS;
                let rounds = (0..=ms / 60).flat_map(|round| times.iter().map(move |at| round * 60 + u64::from(*at)));
                let most = rounds.filter(|at| *at <= ms).count() as u64 * u64::from(OPPORTUNITY_BYTES);
                prop_assert!(bytes_sent <= most, "{bytes_sent} bytes by {ms} ms, at most {most}");
            }
        }

        /// A rate written as steps of one value is that rate.
        #[test]
        fn steps_of_equal_rates_change_nothing(packets in prop::collection::vec((0u64..4, 20u32..1500), 1..100), rate in 1_000u64..100_000_000) {
            let mut steady = Serialiser::new(Steps::fixed(Some(rate)));
            let steps = Steps::new(Some(rate), (1..50).map(|n| (n * 3 * MS + 7, Some(rate))));
            let mut stepped = Serialiser::new(steps);
            let mut now = 0;
            for (gap, bytes) in packets {
                now += gap * MS;
                let [one, other] = [&mut steady, &mut stepped].map(|serialiser| {
                    let from = serialiser.begins_at(now);
                    serialiser.take(from, bytes)
                });
                prop_assert_eq!(one, other);
            }
        }
    }
}
