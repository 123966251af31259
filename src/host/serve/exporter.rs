//! Sweeps at a steady pace on a thread of its own. A scrape gets the counts of the latest sweep.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;

use super::heartbeat::{Heartbeat, ServerPart};
use super::metrics::{self, ProcessUsage, Scrape};
use super::overview::{self, HostConfig, LineSums, Overview};
use crate::trace::arms::FindLabels;
use crate::trace::cost::CallbackCost;
use crate::trace::filter::Filter;
use crate::trace::totals::{CountedGroup, GroupTotals};

/// Pause after each sweep, as a multiple of its duration: sweeps use at most a tenth of a processor.
const REST: u32 = 10;
/// Sampling has stalled after this many failed sweeps in a row.
const SWEEPS_MISSED: u32 = 3;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Reads the settings of the host and the costs of its algorithms.
pub type ReadHostConfig = Box<dyn FnMut() -> (HostConfig, Vec<CallbackCost>) + Send>;

pub struct ExporterSettings {
    pub filter: Filter,
    /// Shows only connections of these rules. Empty: all connections.
    pub rules: BTreeSet<String>,
    pub labels: FindLabels,
    /// Time between two sweeps. Longer if a sweep takes more than a tenth of it.
    pub every: Duration,
    pub look: ReadHostConfig,
    /// Called with the reason when sweeps start to fail.
    pub warn: Box<dyn FnMut(&str) + Send>,
}

/// The answers to a scrape, each encoded on first use.
#[derive(Debug)]
struct EncodedScrape {
    shown: Scrape,
    openmetrics: OnceLock<Bytes>,
    plain_text: OnceLock<Bytes>,
}

pub(super) struct Exporter {
    totals: GroupTotals,
    rules: BTreeSet<String>,
    every: Duration,
    look: ReadHostConfig,
    warn: Box<dyn FnMut(&str) + Send>,
    snapshot: SharedSnapshot,
    heartbeat: Heartbeat,
    failed_sweeps: u64,
}

/// The latest answers and the last hour, shared by all threads.
#[derive(Debug, Clone)]
pub(super) struct SharedSnapshot {
    answers: Arc<Mutex<Option<Arc<EncodedScrape>>>>,
    /// Events dropped by the page's tracer. `u64::MAX` without a page.
    dropped: Arc<AtomicU64>,
    overview: Arc<Mutex<Overview>>,
}

impl SharedSnapshot {
    pub(super) fn new() -> SharedSnapshot {
        let overview = Arc::new(Mutex::new(Overview::new(overview::STEP_NS)));
        SharedSnapshot { answers: Arc::default(), dropped: Arc::new(AtomicU64::new(u64::MAX)), overview }
    }

    pub(super) fn overview(&self) -> MutexGuard<'_, Overview> {
        self.overview.lock().expect("nobody panics with the overview")
    }

    pub(super) fn note_dropped(&self, events: u64) {
        self.dropped.store(events, Ordering::Relaxed);
    }

    fn latest(&self) -> MutexGuard<'_, Option<Arc<EncodedScrape>>> {
        self.answers.lock().expect("nobody panics with the snapshot")
    }

    fn put(&self, shown: Scrape) {
        *self.latest() =
            Some(Arc::new(EncodedScrape { shown, openmetrics: OnceLock::new(), plain_text: OnceLock::new() }));
    }

    /// Keeps the latest counts and updates the number of failed sweeps.
    fn note_failed(&self, failed_sweeps: u64) {
        let shown = self.latest().as_ref().map(|last| last.shown.clone());
        if let Some(shown) = shown {
            self.put(Scrape { failed_sweeps, ..shown });
        }
    }

    /// Returns OpenMetrics or the older text format. `None` before the first sweep.
    pub(super) fn answer(&self, is_openmetrics: bool) -> Option<Bytes> {
        let answers = self.latest().clone()?;
        let text = || Bytes::from(metrics::openmetrics(&answers.shown));
        let openmetrics = answers.openmetrics.get_or_init(text);
        if is_openmetrics {
            return Some(openmetrics.clone());
        }
        let plain = || metrics::plain_text(std::str::from_utf8(openmetrics).expect("we wrote text")).into();
        Some(answers.plain_text.get_or_init(plain).clone())
    }
}

impl Exporter {
    /// Starts counting, and sweeps once, so that the first scrape has an answer.
    ///
    /// # Errors
    /// Those of [`GroupTotals::start`] and [`GroupTotals::count`].
    pub(super) fn start(
        settings: ExporterSettings,
        snapshot: SharedSnapshot,
        heartbeat: Heartbeat,
    ) -> Result<Exporter> {
        let ExporterSettings { filter, rules, labels, every, look, warn } = settings;
        let totals = GroupTotals::start(filter, labels)?;
        let mut exporter = Exporter { totals, rules, every, look, warn, snapshot, heartbeat, failed_sweeps: 0 };
        exporter.sweep()?;
        exporter.heartbeat.beat(ServerPart::Metrics, SWEEPS_MISSED * every);
        Ok(exporter)
    }

    pub(super) fn notices(&self) -> &[String] {
        self.totals.notices()
    }

    /// Sweeps until `stop` is set. A sweep may fail because memory or descriptors run out for a while: the failure is
    /// counted, and the next sweep is on time.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let mut took = Duration::ZERO;
        let mut is_failing = false;
        loop {
            let due = Instant::now() + self.every.max(took * REST);
            while Instant::now() < due {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(POLL_INTERVAL));
            }
            let begin = Instant::now();
            let was_failing = is_failing;
            let swept = self.sweep();
            (is_failing, took) = (swept.is_err(), begin.elapsed());
            let Err(error) = swept else {
                self.heartbeat.beat(ServerPart::Metrics, SWEEPS_MISSED * self.every.max(took * REST));
                continue;
            };
            self.failed_sweeps += 1;
            self.snapshot.note_failed(self.failed_sweeps);
            if !was_failing {
                (self.warn)(&format!("/metrics shows old counts: a sweep failed and will be retried: {error:#}"));
            }
        }
    }

    fn sweep(&mut self) -> Result<()> {
        let begin = Instant::now();
        let mut counted = self.totals.count()?;
        let rules = &self.rules;
        let is_ours = |group: &CountedGroup| group.arm.as_ref().is_some_and(|arm| rules.contains(&arm.rule));
        counted.groups.retain(|group| rules.is_empty() || is_ours(group));
        let sweep_s = begin.elapsed().as_secs_f64();
        let (situation, costs) = (self.look)();
        let sums = LineSums::of(&counted.groups);
        let mut overview = self.snapshot.overview();
        overview.observe(counted.time_ns, sums);
        overview.note_situation(counted.time_ns, situation.clone());
        drop(overview);
        let dropped = Some(self.snapshot.dropped.load(Ordering::Relaxed)).filter(|&events| events != u64::MAX);
        let release = nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
        let (own, kernel, failed_sweeps) = (own(), release.unwrap_or_default(), self.failed_sweeps);
        self.snapshot.put(Scrape { counted, situation, costs, dropped, sweep_s, failed_sweeps, own, kernel });
        Ok(())
    }
}

fn own() -> ProcessUsage {
    use nix::sys::resource::{UsageWho, getrusage};
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu_s = getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |it| seconds(it.user_time()) + seconds(it.system_time()));
    let status = procfs::process::Process::myself().and_then(|process| process.status()).ok();
    ProcessUsage { cpu_s, resident_bytes: status.and_then(|status| status.vmrss).unwrap_or(0) * 1024 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::totals::CountedGroups;

    /// Regression: one sweep without free descriptors ended the server.
    #[test]
    fn failed_sweep_leaves_the_last_answer_and_is_counted() {
        let snapshot = SharedSnapshot::new();
        snapshot.note_failed(1);
        assert_eq!(snapshot.answer(true), None, "there is nothing to show yet");
        let counted = CountedGroups { time_ns: 0, groups: Vec::new(), hidden: 0, is_partial: false, uncounted: 7 };
        let (situation, costs, own, kernel) =
            (HostConfig::default(), Vec::new(), ProcessUsage::default(), String::new());
        snapshot.put(Scrape { counted, situation, costs, dropped: None, sweep_s: 0.25, failed_sweeps: 1, own, kernel });
        for (failed, is_openmetrics) in [(1, true), (2, true), (3, false)] {
            snapshot.note_failed(failed);
            let answer = snapshot.answer(is_openmetrics).unwrap();
            let text = std::str::from_utf8(&answer).unwrap();
            for line in [format!("tccc_failed_sweeps_total {failed}.0"), "tccc_uncounted_total 7.0".to_owned()] {
                assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
            }
        }
    }
}
