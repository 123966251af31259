//! When packets left late and when the queue was full, for judging whether the one led to the other.

use crate::model::run::{LinkMoments, STALL_MIN_NS, Stall};

/// Moments closer than this are one, nanoseconds.
const RESOLUTION: u64 = 1_000_000;
/// Most moments kept of each kind: two minutes of a queue that is always full, or of stalls.
const KEPT: usize = 1 << 17;

#[derive(Debug, Clone)]
pub struct MomentsRecord {
    moments: LinkMoments,
    is_whole: bool,
}

impl Default for MomentsRecord {
    fn default() -> Self {
        MomentsRecord { moments: LinkMoments::default(), is_whole: true }
    }
}

impl MomentsRecord {
    /// Notes a packet that left at a moment, so late.
    pub fn sent(&mut self, left_at: u64, late_by: u64) {
        if late_by < STALL_MIN_NS {
            return;
        }
        let stalls = &mut self.moments.stalls;
        if let Some(last) = stalls.last_mut().filter(|last| left_at - last.end_ns < RESOLUTION) {
            *last = Stall { end_ns: left_at, length_ns: last.length_ns.max(late_by) };
        } else if stalls.len() < KEPT {
            stalls.push(Stall { end_ns: left_at, length_ns: late_by });
        } else {
            self.is_whole = false;
        }
    }

    /// Notes that the queue was full for a packet that came at a moment.
    pub fn overflowed(&mut self, at: u64) {
        let overflows = &mut self.moments.overflows_ns;
        match overflows.last() {
            Some(last) if at.saturating_sub(*last) < RESOLUTION => {}
            _ if overflows.len() < KEPT => overflows.push(at),
            _ => self.is_whole = false,
        }
    }

    /// What was noted; none when there was too much.
    pub fn moments(&self) -> Option<LinkMoments> {
        self.is_whole.then(|| self.moments.clone())
    }

    /// Nothing noted, in the same room.
    pub fn restarted(mut self) -> Self {
        self.moments.stalls.clear();
        self.moments.overflows_ns.clear();
        MomentsRecord { is_whole: true, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn packets_that_one_stall_held_up_are_one_stall() {
        let mut record = MomentsRecord::default();
        [(10 * MS, 100_000), (50 * MS, 9 * MS), (50 * MS + 20_000, 8 * MS), (60 * MS, 2 * MS)]
            .iter()
            .for_each(|(left_at, late_by)| record.sent(*left_at, *late_by));
        let stall = |end_ns, length_ns| Stall { end_ns, length_ns };
        assert_eq!(record.moments().unwrap().stalls, [stall(50 * MS + 20_000, 9 * MS), stall(60 * MS, 2 * MS)]);
        [5 * MS, 5 * MS + 1, 7 * MS].iter().for_each(|at| record.overflowed(*at));
        assert_eq!(record.moments().unwrap().overflows_ns, [5 * MS, 7 * MS]);
        assert_eq!(record.restarted().moments(), Some(LinkMoments::default()));
    }

    #[test]
    fn more_than_can_be_kept_is_said() {
        let mut record = MomentsRecord::default();
        (0..=KEPT as u64).for_each(|number| record.overflowed(number * MS));
        assert_eq!(record.moments(), None);
        assert_eq!(record.restarted().moments(), Some(LinkMoments::default()));
    }
}
