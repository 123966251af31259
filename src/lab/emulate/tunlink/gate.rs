//! Holds pure acknowledgements at the end of a direction and releases them together.
//!
//! A batch is always the end of the line: a packet behind it either joins it or releases it.

use std::collections::VecDeque;
use std::time::Duration;

use super::ack::Ack;
use super::lane::{ParcelLine, line_up};
use super::pool::Slot;
use super::port::EthernetFrame;
use crate::path::acks::{AckHold, AckKind};

#[derive(Debug)]
pub(crate) struct AckGate {
    hold: Option<AckHold>,
    /// Latest time at which the batch leaves; `None` if no ACK is held.
    release: Option<u64>,
    /// ACKs that joined the batch, including dropped ones.
    came: u32,
    /// The batch's ACKs in the line. They may have left the line when the batch's time is over.
    held: VecDeque<Ack>,
}

/// A packet that arrives at the gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comer {
    /// Arrival at the gate, never before the arrival of the previous packet.
    pub(crate) due: u64,
    /// `None` for any packet but a pure acknowledgement.
    pub(crate) ack: Option<Ack>,
    /// Whether it begins a batch if none is being held.
    pub(crate) begins_batch: bool,
}

/// The effects of one packet at the gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Packets that it overtakes and that no other packet has overtaken.
    pub(crate) reordered: u64,
    pub(crate) is_held: bool,
    /// Held ACKs that it replaced.
    pub(crate) thinned: u64,
}

impl AckGate {
    /// Without `hold`, the gate never holds a packet.
    pub(crate) fn new(hold: Option<AckHold>) -> Self {
        AckGate { hold, release: None, came: 0, held: VecDeque::new() }
    }

    /// Whether the gate treats acknowledgements differently.
    pub(crate) fn minds_acks(&self) -> bool {
        self.hold.is_some()
    }

    /// Puts a packet into its place in the line; slots of dropped packets go to `drop`.
    pub(crate) fn line_up(
        &mut self,
        line: &mut ParcelLine,
        comer: Comer,
        frame: EthernetFrame,
        drop: impl FnMut(Slot),
    ) -> Passed {
        let Some(hold) = self.hold else {
            return Passed { reordered: line_up(line, comer.due, frame), ..Passed::default() };
        };
        if self.release.is_some_and(|release| comer.due >= release) {
            self.end_batch();
        }
        if comer.ack.is_none() {
            self.open(line, comer.due);
        } else if self.release.is_none() && comer.begins_batch {
            self.release = Some(comer.due + nanos(hold.time));
        }
        let (Some(ack), Some(release)) = (comer.ack, self.release) else {
            return Passed { reordered: line_up(line, comer.due, frame), ..Passed::default() };
        };
        let thinned = if hold.kind == AckKind::Thinned { self.thin(line, &ack, drop) } else { 0 };
        let reordered = line_up(line, release, frame);
        self.held.push_back(ack);
        self.came += 1;
        if self.came >= hold.pkts {
            self.open(line, comer.due);
        }
        Passed { reordered, is_held: true, thinned }
    }

    /// Drops the ACKs that the newest one supersedes; returns their number.
    fn thin(&mut self, line: &mut ParcelLine, newest: &Ack, mut drop: impl FnMut(Slot)) -> u64 {
        let first = self.first_in(line);
        let mut thinned = 0;
        for place in (0..self.held.len()).rev() {
            if self.held[place].is_superseded_by(newest) {
                self.held.remove(place);
                if let Some(parcel) = line.remove(first + place) {
                    drop(parcel.slot);
                }
                thinned += 1;
            }
        }
        thinned
    }

    /// Index in the line of the first held ACK. Forgets those that have left.
    fn first_in(&mut self, line: &ParcelLine) -> usize {
        let gone = self.held.len().saturating_sub(line.len());
        self.held.drain(..gone);
        line.len() - self.held.len()
    }

    /// Releases the batch.
    fn open(&mut self, line: &mut ParcelLine, at: u64) {
        let first = self.first_in(line);
        line.range_mut(first..).for_each(|parcel| parcel.due = at);
        self.end_batch();
    }

    fn end_batch(&mut self) {
        (self.release, self.came) = (None, 0);
        self.held.clear();
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets are numbered 1, 2, … in the order of their arrival.
    struct GateBench {
        gate: AckGate,
        line: ParcelLine,
        came: u32,
        dropped: u64,
    }

    impl GateBench {
        /// Each packet has an arrival (ms) and, if it is an ACK, a number.
        fn comes(&mut self, packets: &[(u64, Option<u32>)]) {
            for (due, ack) in packets {
                self.came += 1;
                let mut packet =
                    vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 80, 1, 2, 0, 0, 0, 9];
                packet.extend(ack.unwrap_or(0).to_be_bytes());
                packet.extend([0x50, 0x10, 1, 1, 0, 0, 0, 0]);
                let ack = ack.and_then(|_| Ack::of(&packet));
                let comer = Comer { due: due * 1_000_000, ack, begins_batch: true };
                let frame = EthernetFrame { slot: Slot::default(), len: self.came, arrival: 0 };
                let dropped = &mut self.dropped;
                let passed = self.gate.line_up(&mut self.line, comer, frame, |_| *dropped += 1);
                assert_eq!((passed.reordered, passed.is_held), (0, ack.is_some()));
            }
        }

        /// Number and departure (ms) of each packet in the line.
        #[track_caller]
        fn check(&self, leaving: &[(u32, u64)], dropped: u64) {
            assert!(self.line.iter().is_sorted_by_key(|parcel| parcel.due));
            let own: Vec<_> = self.line.iter().map(|parcel| (parcel.len, parcel.due / 1_000_000)).collect();
            assert_eq!((own.as_slice(), self.dropped), (leaving, dropped));
        }
    }

    fn bench(hold: &str, packets: &[(u64, Option<u32>)]) -> GateBench {
        let gate = AckGate::new(Some(hold.parse().unwrap()));
        let mut bench = GateBench { gate, line: ParcelLine::new(), came: 0, dropped: 0 };
        bench.comes(packets);
        bench
    }

    #[test]
    fn batch_leaves_after_its_time_with_its_last_acknowledgement_or_before_another_packet() {
        let acks = [(10, Some(1)), (12, Some(2)), (14, Some(3)), (15, Some(4)), (19, Some(5))];
        bench("aggregated:time=5ms", &acks).check(&[(1, 15), (2, 15), (3, 15), (4, 20), (5, 20)], 0);
        let acks = [(10, Some(1)), (11, Some(2)), (12, Some(3)), (13, Some(4)), (16, None)];
        bench("aggregated:time=9ms,pkts=3", &acks).check(&[(1, 12), (2, 12), (3, 12), (4, 16), (5, 16)], 0);
    }

    #[test]
    fn thinning_lets_the_newest_leave_and_every_duplicate() {
        let acks = [(10, Some(1)), (11, Some(2)), (12, Some(3)), (13, Some(3)), (18, Some(3))];
        let mut bench = bench("thinned:time=9ms,pkts=5", &acks);
        bench.check(&[(3, 18), (4, 18), (5, 18)], 2);
        bench.comes(&[(20, Some(4)), (21, Some(9))]);
        bench.check(&[(3, 18), (4, 18), (5, 18), (7, 29)], 3);
    }

    /// The engine may look late: part of the batch has left before it lines up an ACK that arrived on time.
    #[test]
    fn acknowledgement_that_is_seen_late_joins_what_is_left_of_its_batch() {
        let mut bench = bench("thinned:time=9ms", &[(10, Some(1)), (11, Some(1)), (12, Some(1))]);
        bench.line.drain(..2);
        bench.comes(&[(13, Some(2))]);
        bench.check(&[(4, 19)], 1);
        bench.line.clear();
        bench.comes(&[(14, Some(3)), (30, None)]);
        bench.check(&[(5, 19), (6, 30)], 1);
    }
}
