//! The queue of each direction of a link over time, as a run records it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Most samples of one direction in a run.
const SAMPLES_MAX: usize = 100_000;
/// Most samples of all directions in a run.
const RUN_SAMPLES_MAX: usize = 2_000_000;

/// The interval of the samples of a run whose links have this many directions: that of its events, or longer if the run
/// would have too many samples.
pub fn sample_interval(asked: Duration, length: Duration, directions: usize) -> Duration {
    let most = SAMPLES_MAX.min(RUN_SAMPLES_MAX / directions.max(1)).max(1);
    asked.max(length / most as u32)
}

/// The queue of one direction at one moment. The fields are those of [`QueueSample`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    pub time_ns: u64,
    pub queue_pkts: u64,
    pub wait_ns: u64,
    pub overflow_pkts: u64,
    pub marked_pkts: u64,
}

/// The queue of one direction at one moment: a line of `queues.jsonl` in a run's folder.
///
/// Shape of the file: by direction, then by time, at equal intervals from the start of the run until its traffic has ended. A
/// direction in which no sample found a packet waiting, and nothing was dropped or marked, has its first and last sample
/// only.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueSample {
    /// On the clock of the run's events.
    pub time_ns: u64,
    /// The node that sends into this direction of the link.
    pub from: String,
    pub to: String,
    /// Packets in the queue, without the one that is being sent.
    pub queue_pkts: u64,
    /// How long a packet that arrives now would wait until its first bit is sent.
    pub wait_ns: u64,
    /// Packets dropped by the full queue, or by its discipline, since the start of the run.
    pub overflow_pkts: u64,
    /// Packets marked since the start of the run.
    pub marked_pkts: u64,
}

impl QueueSample {
    /// A state of the direction between two nodes.
    pub fn of([from, to]: [&str; 2], state: QueueState) -> QueueSample {
        let QueueState { time_ns, queue_pkts, wait_ns, overflow_pkts, marked_pkts } = state;
        let (from, to) = (from.to_owned(), to.to_owned());
        QueueSample { time_ns, from, to, queue_pkts, wait_ns, overflow_pkts, marked_pkts }
    }

    /// `left-right`.
    pub fn direction(&self) -> String {
        format!("{}-{}", self.from, self.to)
    }
}

/// The samples of one direction; empty if it has none.
pub fn of_direction<'s>(samples: &'s [QueueSample], [from, to]: [&str; 2]) -> &'s [QueueSample] {
    let mut directions = by_direction(samples).into_iter();
    directions.find(|samples| samples[0].from == from && samples[0].to == to).unwrap_or_default()
}

/// Leaves out the samples between the first and the last of each direction in which no sample found a packet waiting, and
/// nothing was dropped or marked.
pub fn without_idle(samples: &[QueueSample]) -> Vec<&QueueSample> {
    let is_idle = |sample: &QueueSample| (sample.queue_pkts, sample.overflow_pkts, sample.marked_pkts) == (0, 0, 0);
    let mut kept = Vec::new();
    for direction in by_direction(samples) {
        match direction {
            [first, .., last] if direction.iter().all(is_idle) => kept.extend([first, last]),
            _ => kept.extend(direction),
        }
    }
    kept
}

/// Splits samples by direction.
///
/// Shape: as [`QueueSample`] says.
pub fn by_direction(samples: &[QueueSample]) -> Vec<&[QueueSample]> {
    samples.chunk_by(|one, next| (&one.from, &one.to) == (&next.from, &next.to)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_direction_keeps_its_first_and_last_sample() {
        let sample = |to: &str, time_ns, queue_pkts| {
            QueueSample::of(["a", to], QueueState { time_ns, queue_pkts, wait_ns: 5, ..QueueState::default() })
        };
        let all: Vec<QueueSample> = [("b", 0), ("b", 0), ("b", 0), ("c", 0), ("c", 1), ("c", 0)]
            .into_iter()
            .enumerate()
            .map(|(at, (to, pkts))| sample(to, at as u64, pkts))
            .collect();
        let kept: Vec<u64> = without_idle(&all).into_iter().map(|sample| sample.time_ns).collect();
        assert_eq!(kept, [0, 2, 3, 4, 5]);
        assert_eq!(of_direction(&all, ["a", "c"]).len(), 3);
        assert!(of_direction(&all, ["c", "a"]).is_empty());
    }
}
