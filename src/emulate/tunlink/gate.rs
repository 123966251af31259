//! What holds pure acknowledgements at the end of a direction, and lets them go together.
//!
//! A batch is always the end of the line: whatever comes behind it either joins it or lets it go.

use std::collections::VecDeque;
use std::time::Duration;

use super::ack::Ack;
use super::lane::{Line, line_up};
use super::pool::Slot;
use super::port::Frame;
use crate::path::acks::{AckHold, AckKind};

#[derive(Debug)]
pub(crate) struct Gate {
    hold: Option<AckHold>,
    /// When the batch leaves at the latest; none where no ACK is held.
    release: Option<u64>,
    /// ACKs of the batch that came.
    came: u32,
    /// Those that are in the line; they may have left it when the batch's time is over.
    held: VecDeque<Ack>,
}

/// A packet that comes to the gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comer {
    /// When it comes: never before an earlier one.
    pub(crate) due: u64,
    /// None: it is anything but a pure acknowledgement.
    pub(crate) ack: Option<Ack>,
    /// Whether it begins a batch where there is none.
    pub(crate) begins_batch: bool,
}

/// What became of a packet at the gate, and of others because of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Packets that it overtakes that no other has.
    pub(crate) reordered: u64,
    pub(crate) is_held: bool,
    /// Held ones that were dropped because of it.
    pub(crate) thinned: u64,
}

impl Gate {
    /// A gate that holds nothing yet; without a description it never does.
    pub(crate) fn new(hold: Option<AckHold>) -> Self {
        Gate { hold, release: None, came: 0, held: VecDeque::new() }
    }

    /// Whether it matters which packets are acknowledgements.
    pub(crate) fn minds_acks(&self) -> bool {
        self.hold.is_some()
    }

    /// Puts a packet into its place in the line. Slots of packets that are dropped go to `drop`.
    pub(crate) fn line_up(&mut self, line: &mut Line, comer: Comer, frame: Frame, drop: impl FnMut(Slot)) -> Passed {
        let Some(hold) = self.hold else {
            return Passed { reordered: line_up(line, comer.due, frame), ..Passed::default() };
        };
        if self.release.is_some_and(|release| comer.due >= release) {
            self.end_batch();
        }
        let Some(ack) = comer.ack else {
            self.open(line, comer.due);
            return Passed { reordered: line_up(line, comer.due, frame), ..Passed::default() };
        };
        if self.release.is_none() && comer.begins_batch {
            self.release = Some(comer.due + nanos(hold.time));
        }
        let Some(release) = self.release else {
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

    /// Drops what the newest one tells as well; returns how many those are.
    fn thin(&mut self, line: &mut Line, newest: &Ack, mut drop: impl FnMut(Slot)) -> u64 {
        let first = self.first_in(line);
        let mut thinned = 0;
        for place in (0..self.held.len()).rev() {
            if self.held[place].is_told_by(newest) {
                self.held.remove(place);
                if let Some(parcel) = line.remove(first + place) {
                    drop(parcel.slot);
                }
                thinned += 1;
            }
        }
        thinned
    }

    /// Place in the line of the first one that is held. Those that have left by now are forgotten.
    fn first_in(&mut self, line: &Line) -> usize {
        let gone = self.held.len().saturating_sub(line.len());
        self.held.drain(..gone);
        line.len() - self.held.len()
    }

    /// Lets all go that are held.
    fn open(&mut self, line: &mut Line, at: u64) {
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

    /// What comes at a moment, and leaves at another as number 1, 2, …
    struct Bench {
        gate: Gate,
        line: Line,
        came: u32,
        dropped: u64,
    }

    impl Bench {
        fn new(hold: &str) -> Self {
            Bench { gate: Gate::new(Some(hold.parse().unwrap())), line: Line::new(), came: 0, dropped: 0 }
        }

        fn comes(&mut self, due: u64, ack: Option<u32>) -> &mut Self {
            self.came += 1;
            let mut packet =
                vec![0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 80, 1, 2, 0, 0, 0, 9];
            packet.extend(ack.unwrap_or(0).to_be_bytes());
            packet.extend([0x50, 0x10, 1, 1, 0, 0, 0, 0]);
            let ack = ack.and_then(|_| Ack::of(&packet));
            let comer = Comer { due: due * 1_000_000, ack, begins_batch: true };
            let frame = Frame { slot: Slot::default(), len: self.came, arrival: 0 };
            let dropped = &mut self.dropped;
            let passed = self.gate.line_up(&mut self.line, comer, frame, |_| *dropped += 1);
            assert_eq!((passed.reordered, passed.is_held), (0, ack.is_some()));
            self
        }

        /// Number and moment, milliseconds.
        fn leaving(&self) -> Vec<(u32, u64)> {
            assert!(self.line.iter().is_sorted_by_key(|parcel| parcel.due));
            self.line.iter().map(|parcel| (parcel.len, parcel.due / 1_000_000)).collect()
        }
    }

    #[test]
    fn batch_leaves_when_its_time_is_over_and_the_next_one_has_its_own() {
        let mut bench = Bench::new("aggregated:time=5ms");
        bench.comes(10, Some(1)).comes(12, Some(2)).comes(14, Some(3)).comes(15, Some(4)).comes(19, Some(5));
        assert_eq!(bench.leaving(), [(1, 15), (2, 15), (3, 15), (4, 20), (5, 20)]);
    }

    #[test]
    fn batch_leaves_with_its_last_acknowledgement_or_before_another_packet() {
        let mut bench = Bench::new("aggregated:time=9ms,pkts=3");
        bench.comes(10, Some(1)).comes(11, Some(2)).comes(12, Some(3)).comes(13, Some(4)).comes(16, None);
        assert_eq!(bench.leaving(), [(1, 12), (2, 12), (3, 12), (4, 16), (5, 16)]);
    }

    #[test]
    fn thinning_lets_the_newest_leave_and_every_duplicate() {
        let mut bench = Bench::new("thinned:time=9ms,pkts=5");
        bench.comes(10, Some(1)).comes(11, Some(2)).comes(12, Some(3)).comes(13, Some(3)).comes(18, Some(3));
        assert_eq!((bench.leaving(), bench.dropped), (vec![(3, 18), (4, 18), (5, 18)], 2));
        bench.comes(20, Some(4)).comes(21, Some(9));
        assert_eq!((bench.leaving(), bench.dropped), (vec![(3, 18), (4, 18), (5, 18), (7, 29)], 3));
    }

    /// The engine may look late: the batch has left in part, and one that came in time is still to be lined up.
    #[test]
    fn acknowledgement_that_is_seen_late_joins_what_is_left_of_its_batch() {
        let mut bench = Bench::new("thinned:time=9ms");
        bench.comes(10, Some(1)).comes(11, Some(1)).comes(12, Some(1));
        bench.line.drain(..2);
        bench.comes(13, Some(2));
        assert_eq!((bench.leaving(), bench.dropped), (vec![(4, 19)], 1));
        bench.line.clear();
        bench.comes(14, Some(3)).comes(30, None);
        assert_eq!(bench.leaving(), [(5, 19), (6, 30)]);
    }
}
