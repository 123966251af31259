//! Whether sampling is still running, for `/healthz` and systemd's watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tolerated delay of a part on a busy host.
const LATE: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
pub(super) enum ServerPart {
    /// The thread that watches sockets for the page.
    Page,
    /// The sweeps for `/metrics`.
    Metrics,
}

/// The heartbeats of all parts. Clones share them.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    begin: Instant,
    /// Deadline of each part's next beat, milliseconds after `begin`. 0: the part is not used.
    due_ms: Arc<[AtomicU64; 2]>,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Heartbeat { begin: Instant::now(), due_ms: Arc::default() }
    }
}

impl Heartbeat {
    /// Reports that a part works. Its next beat is due within `within` plus [`LATE`].
    pub(super) fn beat(&self, part: ServerPart, within: Duration) {
        let due = self.begin.elapsed().saturating_add(within).saturating_add(LATE);
        let due_ms = u64::try_from(due.as_millis()).unwrap_or(u64::MAX);
        self.due_ms[part as usize].store(due_ms, Ordering::Relaxed);
    }

    /// Describes the part that has stalled, if any, in a sentence.
    pub fn stalled(&self) -> Option<String> {
        let now_ms = self.begin.elapsed().as_millis() as u64;
        let parts = [(ServerPart::Page, "the page"), (ServerPart::Metrics, "/metrics")];
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

    fn after(elapsed: Duration) -> Heartbeat {
        Heartbeat { begin: Instant::now() - elapsed, ..Heartbeat::default() }
    }

    #[test]
    fn part_that_stopped_to_beat_is_named_and_one_that_is_not_used_is_not() {
        let minute = Duration::from_secs(60);
        let heartbeat = after(minute);
        assert_eq!(heartbeat.stalled(), None);
        heartbeat.due_ms[ServerPart::Metrics as usize].store(20_000, Ordering::Relaxed);
        assert_eq!(heartbeat.stalled().unwrap(), "sampling for /metrics has stalled: it is 40 s late");
        heartbeat.clone().beat(ServerPart::Metrics, Duration::ZERO);
        assert_eq!(heartbeat.stalled(), None);
        heartbeat.beat(ServerPart::Page, Duration::MAX);
        assert_eq!(heartbeat.stalled(), None);
    }
}
