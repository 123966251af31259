//! Whether sampling goes on: the answer of `/healthz`, and the sign for systemd's watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Beyond its own pace, a part may be late by this much on a busy host.
const LATE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// The thread that watches sockets for the page.
    Page,
    /// The sweeps for `/metrics`.
    Metrics,
}

/// The heartbeat of every part; its copies are one.
#[derive(Debug, Clone)]
pub struct Pulse {
    begin: Instant,
    /// When each part has to beat again, milliseconds after the beginning; 0: it is not used.
    due_ms: Arc<[AtomicU64; 2]>,
}

impl Default for Pulse {
    fn default() -> Self {
        Pulse { begin: Instant::now(), due_ms: Arc::default() }
    }
}

impl Pulse {
    /// A part works; it beats again within this time, and a while that busy hosts are given.
    pub(super) fn beat(&self, part: Part, within: Duration) {
        let due = self.begin.elapsed().saturating_add(within).saturating_add(LATE);
        let due_ms = u64::try_from(due.as_millis()).unwrap_or(u64::MAX);
        self.due_ms[part as usize].store(due_ms, Ordering::Relaxed);
    }

    /// What has stalled, in a sentence.
    ///
    /// None: everything that was begun goes on.
    pub fn stalled(&self) -> Option<String> {
        let now_ms = self.begin.elapsed().as_millis() as u64;
        let parts = [(Part::Page, "the page"), (Part::Metrics, "/metrics")];
        let late = parts.into_iter().find_map(|(part, name)| {
            let due_ms = self.due_ms[part as usize].load(Ordering::Relaxed);
            (due_ms > 0 && now_ms > due_ms).then(|| (name, (now_ms - due_ms) / 1000))
        });
        late.map(|(name, seconds)| format!("sampling for {name} has stalled: it is {seconds} s late"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(elapsed: Duration) -> Pulse {
        Pulse { begin: Instant::now() - elapsed, ..Pulse::default() }
    }

    #[test]
    fn part_that_stopped_to_beat_is_named_and_one_that_is_not_used_is_not() {
        let minute = Duration::from_secs(60);
        let pulse = after(minute);
        assert_eq!(pulse.stalled(), None);
        pulse.due_ms[Part::Metrics as usize].store(20_000, Ordering::Relaxed);
        assert_eq!(pulse.stalled().unwrap(), "sampling for /metrics has stalled: it is 40 s late");
        pulse.clone().beat(Part::Metrics, Duration::ZERO);
        assert_eq!(pulse.stalled(), None);
        pulse.beat(Part::Page, Duration::MAX);
        assert_eq!(pulse.stalled(), None);
    }
}
