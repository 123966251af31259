//! The past of one socket in bounded room: points over time, and marks of losses and timeouts.

use std::collections::VecDeque;

use crate::trace::event::CaState;

/// Points of the past over all sockets: 40 bytes each.
pub(super) const POINTS_MAX: usize = 500_000;
/// Marks over all sockets: 16 bytes each.
const MARKS_MAX: usize = 500_000;
/// The past that is kept of a socket.
pub const HISTORY_NS: u64 = 120_000_000_000;
/// Points that a socket keeps at most, however few there are.
const POINTS_OF_ONE: (usize, usize) = (48, 4096);
const MARKS_OF_ONE: (usize, usize) = (8, 512);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Past {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    pub cwnd_pkts: u32,
    /// Slow-start threshold; none before the first reduction.
    pub ssthresh_pkts: Option<std::num::NonZeroU32>,
    /// Smoothed RTT, microseconds; 0: no sample yet.
    pub srtt_us: u32,
    /// Lowest RTT, microseconds; 0: no sample yet.
    pub min_rtt_us: u32,
    pub inflight_pkts: u32,
    /// Payload acknowledged per second, bits.
    pub goodput_bps: f32,
    /// First byte of the algorithm's state: its phase, when it declares phases.
    pub phase: u8,
    pub ca_state: CaState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// CLOCK_MONOTONIC, nanoseconds: the first of those that are shown as one.
    pub time_ns: u64,
    pub kind: MarkKind,
    /// Packets marked lost or retransmitted; timeouts.
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// Packets were marked lost or retransmitted.
    Loss,
    /// The retransmission timer ran out.
    Timeout,
}

/// How much of the past a socket may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    points: usize,
    marks: usize,
    step_ns: u64,
}

impl Room {
    /// Each one's part when so many sockets share what there is.
    pub fn shared_by(sockets: usize) -> Room {
        let points = (POINTS_MAX / sockets).clamp(POINTS_OF_ONE.0, POINTS_OF_ONE.1);
        let marks = (MARKS_MAX / sockets).clamp(MARKS_OF_ONE.0, MARKS_OF_ONE.1);
        Room { points, marks, step_ns: HISTORY_NS / points as u64 }
    }
}

/// The past of one socket.
///
/// Shape: sorted by time; points that lie closer than there is room for are one, the later of them.
#[derive(Debug, Clone, Default)]
pub struct History {
    points: VecDeque<Past>,
    marks: VecDeque<Mark>,
}

impl History {
    /// The points, oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Past> + ExactSizeIterator {
        self.points.iter()
    }

    /// The marks, oldest first.
    pub fn marks(&self) -> impl DoubleEndedIterator<Item = &Mark> + ExactSizeIterator {
        self.marks.iter()
    }

    /// Adds a point and lets go what is too old or too much.
    pub fn push(&mut self, point: Past, room: Room) {
        let step = |before: &Past| point.time_ns.saturating_sub(before.time_ns) < room.step_ns;
        let is_crowded = self.points.len() >= 2 && step(&self.points[self.points.len() - 2]);
        if is_crowded {
            self.points.pop_back();
        }
        let oldest = point.time_ns.saturating_sub(HISTORY_NS);
        while self.points.front().is_some_and(|first| first.time_ns < oldest) || self.points.len() >= room.points {
            self.points.pop_front();
        }
        if self.points.len() == self.points.capacity() {
            // Growing by half: doubling would hold twice what is needed in the middle.
            self.points.reserve_exact((self.points.len() / 2).max(8));
        }
        self.points.push_back(point);
        if self.points.capacity() > room.points * 2 {
            self.points.shrink_to(room.points);
        }
    }

    /// Adds a mark, to the last one when that is of the same kind and close.
    pub fn mark(&mut self, mark: Mark, room: Room) {
        if let Some(last) = self.marks.back_mut()
            && last.kind == mark.kind
            && mark.time_ns.saturating_sub(last.time_ns) < room.step_ns
        {
            last.count = last.count.saturating_add(mark.count);
            return;
        }
        let oldest = mark.time_ns.saturating_sub(HISTORY_NS);
        while self.marks.front().is_some_and(|first| first.time_ns < oldest) || self.marks.len() >= room.marks {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// One value per equal part of a time, the latest in each; none where there is no point.
    pub fn resample(&self, from_ns: u64, to_ns: u64, value: impl Fn(&Past) -> Option<f64>, parts: &mut [Option<f64>]) {
        parts.fill(None);
        let length = to_ns.saturating_sub(from_ns).max(1);
        for point in self.points.iter().rev() {
            if point.time_ns < from_ns {
                break;
            }
            let at = u128::from(point.time_ns - from_ns) * parts.len() as u128 / u128::from(length);
            if let Some(part @ None) = parts.get_mut(at as usize) {
                *part = value(point);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(time_ns: u64, cwnd_pkts: u32) -> Past {
        Past {
            time_ns,
            cwnd_pkts,
            ssthresh_pkts: None,
            srtt_us: 0,
            min_rtt_us: 0,
            inflight_pkts: 0,
            goodput_bps: 0.0,
            phase: 0,
            ca_state: CaState::Open,
        }
    }

    #[test]
    fn a_point_is_as_small_as_the_budget_assumes() {
        assert_eq!((size_of::<Past>(), size_of::<Mark>()), (40, 16));
    }

    #[test]
    fn past_stays_within_its_room_and_its_time() {
        let mut history = History::default();
        let room = Room::shared_by(10_000);
        for at in 0..100_000u64 {
            history.push(point(at * 10_000_000, at as u32), room);
        }
        let points: Vec<&Past> = history.points().collect();
        assert!(points.len() <= room.points && points.len() > room.points * 3 / 4, "{} points", points.len());
        assert_eq!(points.last().unwrap().cwnd_pkts, 99_999);
        assert!(points.last().unwrap().time_ns - points[0].time_ns <= HISTORY_NS);
        assert!(points.windows(2).all(|pair| pair[0].time_ns < pair[1].time_ns));
        assert!(history.points.capacity() <= room.points * 2);
    }

    #[test]
    fn few_sockets_keep_every_point() {
        let mut history = History::default();
        let room = Room::shared_by(1);
        (0..1000u64).for_each(|at| history.push(point(at * 100_000_000, 1), room));
        assert_eq!(history.points().len(), 1000);
    }

    #[test]
    fn marks_that_lie_close_are_one() {
        let mut history = History::default();
        let room = Room::shared_by(1);
        let mark = |time_ns, kind| Mark { time_ns, kind, count: 2 };
        for at in [0, 1_000_000, 2_000_000] {
            history.mark(mark(at, MarkKind::Loss), room);
        }
        history.mark(mark(3_000_000, MarkKind::Timeout), room);
        history.mark(mark(9_000_000_000, MarkKind::Loss), room);
        assert_eq!(history.marks().map(|mark| mark.count).collect::<Vec<_>>(), [6, 2, 2]);
    }

    #[test]
    fn resampling_takes_the_latest_of_each_part() {
        let mut history = History::default();
        let room = Room::shared_by(1);
        for (at, cwnd) in [(0, 1), (400, 2), (900, 3), (1000, 4), (2500, 5)] {
            history.push(point(at * 1_000_000, cwnd), room);
        }
        let mut parts = [None; 4];
        history.resample(0, 4_000_000_000, |point| Some(point.cwnd_pkts.into()), &mut parts);
        assert_eq!(parts, [Some(3.0), Some(4.0), Some(5.0), None]);
    }
}
