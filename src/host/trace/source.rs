//! The common interface of a live host and a recording.

use std::time::Duration;

use anyhow::Result;

use super::arrival::Arrival;

/// A stream of arrivals with its own time.
pub trait EventSource {
    /// Waits up to `timeout` and calls `take` with the arrivals.
    ///
    /// # Errors
    /// The stream is broken.
    fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()>;

    /// The time of the stream: CLOCK_MONOTONIC of its host, nanoseconds.
    fn now_ns(&self) -> u64;

    /// "live", or the name of a recording, with host and date.
    fn title(&self) -> String;

    /// Notices about missing or less precise data.
    fn notices(&self) -> Vec<String>;

    /// Whether this source has switched the kernel's BPF statistics on.
    fn counts_costs(&self) -> bool {
        false
    }

    /// Switches the kernel's BPF statistics on or off. Does nothing for a recording.
    ///
    /// Side effects: while statistics are on, each call of any BPF program costs more.
    ///
    /// # Errors
    /// Not permitted.
    fn count_costs(&mut self, _counts: bool) -> Result<()> {
        Ok(())
    }

    /// Whether the stream has ended. A live host never ends.
    fn is_over(&self) -> bool;

    /// The playback control of a recording.
    fn playback(&mut self) -> Option<&mut dyn Playback> {
        None
    }
}

/// A source for tests. Each poll returns one of the batches.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Batches {
    pub batches: std::collections::VecDeque<Vec<Arrival>>,
    pub now_ns: u64,
}

#[cfg(test)]
impl EventSource for Batches {
    fn poll(&mut self, _: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        self.batches.pop_front().into_iter().flatten().for_each(take);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn title(&self) -> String {
        "made".into()
    }

    fn notices(&self) -> Vec<String> {
        Vec::new()
    }

    fn is_over(&self) -> bool {
        self.batches.is_empty()
    }
}

pub trait Playback {
    /// First and last moment, CLOCK_MONOTONIC of the recorded host.
    fn span_ns(&self) -> (u64, u64);

    /// Recorded seconds per second. 0: paused.
    fn speed(&self) -> f64;

    fn set_speed(&mut self, speed: f64);

    /// Jumps to another moment. The next poll starts with [`Arrival::Restart`].
    fn seek(&mut self, time_ns: u64);
}
