//! Where arrivals come from: this host as it is, or a recording. Whoever shows or keeps them need not know which.

use std::time::Duration;

use anyhow::Result;

use super::arrival::Arrival;

/// A stream of arrivals with its own time.
pub trait EventSource {
    /// Waits up to `timeout` and hands over what has come.
    ///
    /// Errors: the stream is broken and does not go on.
    fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()>;

    /// The time of the stream, CLOCK_MONOTONIC of the host it is of, nanoseconds.
    fn now_ns(&self) -> u64;

    /// What it is of: "live", or the name of a recording with host and date.
    fn title(&self) -> String;

    /// What is missing or less precise, in sentences for people.
    fn notices(&self) -> Vec<String>;

    /// Whether the kernel counts the time of callbacks because this source asked it to.
    fn counts_costs(&self) -> bool {
        false
    }

    /// Has the kernel count the time of every BPF program, or lets it stop; a recording has nothing to count.
    ///
    /// Errors: not permitted.
    /// Side effects: the kernel's BPF statistics are on while the source counts; each call of a program costs more.
    fn count_costs(&mut self, _counts: bool) -> Result<()> {
        Ok(())
    }

    /// Whether everything was handed over; a host goes on.
    fn is_over(&self) -> bool {
        false
    }

    /// Its speed and place, when it is a recording.
    fn playback(&mut self) -> Option<&mut dyn Playback> {
        None
    }
}

/// A source for tests: each poll hands over one of the batches that are put into it.
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
}

/// A recording that is played.
pub trait Playback {
    /// First and last moment, CLOCK_MONOTONIC of the recorded host.
    fn span_ns(&self) -> (u64, u64);

    /// Recorded seconds per second; 0 is a pause.
    fn speed(&self) -> f64;

    /// Plays faster, slower or, with 0, not at all.
    fn set_speed(&mut self, speed: f64);

    /// Goes to another moment; the next poll begins with [`Arrival::Restart`].
    fn seek(&mut self, time_ns: u64);
}
