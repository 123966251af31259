//! The bounded history of one socket: points over time, and marks of losses and timeouts.

use std::collections::VecDeque;

use crate::event::CaState;

/// Points of all sockets together, 40 bytes each.
pub(super) const POINTS_MAX: usize = 500_000;
/// Marks of all sockets together, 16 bytes each.
const MARKS_MAX: usize = 500_000;
/// Length of the history.
pub const HISTORY_NS: u64 = 120_000_000_000;
/// Fewest and most points per socket.
const POINTS_OF_ONE: (usize, usize) = (48, 4096);
const MARKS_OF_ONE: (usize, usize) = (8, 512);

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Past {
    /// CLOCK_MONOTONIC.
    pub time_ns: u64,
    pub cwnd_pkts: u32,
    /// `None` before the first reduction.
    pub ssthresh_pkts: Option<std::num::NonZeroU32>,
    /// 0 before the first sample.
    pub srtt_us: u32,
    /// 0 before the first sample.
    pub min_rtt_us: u32,
    pub inflight_pkts: u32,
    pub goodput_bps: f32,
    /// First byte of the algorithm's state: the phase, if it declares phases.
    pub phase: u8,
    pub ca_state: CaState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// CLOCK_MONOTONIC of the first of the events merged into this mark.
    pub time_ns: u64,
    pub kind: MarkKind,
    /// Number of packets or timeouts.
    pub count: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    Loss,
    Timeout,
}

/// How much history one socket may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    points: usize,
    marks: usize,
    step_ns: u64,
}

impl Room {
    /// Divides the budget among this many sockets.
    pub fn shared_by(sockets: usize) -> Room {
        let points = (POINTS_MAX / sockets).clamp(POINTS_OF_ONE.0, POINTS_OF_ONE.1);
        let marks = (MARKS_MAX / sockets).clamp(MARKS_OF_ONE.0, MARKS_OF_ONE.1);
        Room { points, marks, step_ns: HISTORY_NS / points as u64 }
    }
}

/// The history of one socket.
///
/// Shape: sorted by time. Of points closer together than the room allows, only the latest is kept.
#[derive(Debug, Clone, Default)]
pub struct SocketHistory {
    points: VecDeque<Past>,
    marks: VecDeque<Mark>,
}

impl SocketHistory {
    /// Oldest first.
    pub fn points(&self) -> impl DoubleEndedIterator<Item = &Past> + ExactSizeIterator {
        self.points.iter()
    }

    /// Oldest first.
    pub fn marks(&self) -> impl DoubleEndedIterator<Item = &Mark> + ExactSizeIterator {
        self.marks.iter()
    }

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
            // Grow by half: doubling could hold twice the memory needed.
            self.points.reserve_exact((self.points.len() / 2).max(8));
        }
        self.points.push_back(point);
        if self.points.capacity() > room.points * 2 {
            self.points.shrink_to(room.points);
        }
    }

    /// Adds a mark, or merges it into the last one if that is of the same kind and close.
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

    /// Divides a time span into equal parts and stores the latest value of each; `None` for parts without a point.
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
        let mut history = SocketHistory::default();
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
        let mut history = SocketHistory::default();
        let room = Room::shared_by(1);
        (0..1000u64).for_each(|at| history.push(point(at * 100_000_000, 1), room));
        assert_eq!(history.points().len(), 1000);
    }

    #[test]
    fn marks_that_lie_close_are_one() {
        let mut history = SocketHistory::default();
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
        let mut history = SocketHistory::default();
        let room = Room::shared_by(1);
        for (at, cwnd) in [(0, 1), (400, 2), (900, 3), (1000, 4), (2500, 5)] {
            history.push(point(at * 1_000_000, cwnd), room);
        }
        let mut parts = [None; 4];
        history.resample(0, 4_000_000_000, |point| Some(point.cwnd_pkts.into()), &mut parts);
        assert_eq!(parts, [Some(3.0), Some(4.0), Some(5.0), None]);
    }
}
