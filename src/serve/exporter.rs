//! Sweeps at a steady pace on a thread of its own; a scrape shows the latest sweep and costs no sweep.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;

use super::metrics::{self, Own, Shown};
use super::overview::{self, Overview, Situation, Sums};
use super::pulse::{Part, Pulse};
use crate::trace::arms::FindLabels;
use crate::trace::cost::CallbackCost;
use crate::trace::filter::Filter;
use crate::trace::totals::{Group, GroupTotals};

/// Rest after each sweep, in times of what it took: at most a tenth of a processor is used.
const REST: u32 = 10;
/// So many sweeps in a row may fail before sampling has stalled.
const SWEEPS_MISSED: u32 = 3;
/// How soon a request to stop is seen.
const NAP: Duration = Duration::from_millis(50);

/// Finds what connections are set to at this moment, and what algorithms cost.
pub type Look = Box<dyn FnMut() -> (Situation, Vec<CallbackCost>) + Send>;

pub struct Settings {
    pub filter: Filter,
    /// Rules whose connections are shown; empty: all.
    pub rules: BTreeSet<String>,
    /// Finds the labels of the policy.
    pub labels: FindLabels,
    /// Time between two sweeps; more when a sweep takes more than a tenth of it.
    pub every: Duration,
    /// Finds algorithms and costs.
    pub look: Look,
    /// Takes the reason why sweeps fail, once while they do.
    pub warn: Box<dyn FnMut(&str) + Send>,
}

/// The answers to a scrape, each made when somebody wants it.
#[derive(Debug)]
struct Answers {
    shown: Shown,
    openmetrics: OnceLock<Bytes>,
    plain_text: OnceLock<Bytes>,
}

/// Counts; its answers are for all threads.
pub(super) struct Exporter {
    totals: GroupTotals,
    settings: Pace,
    shelf: Shelf,
    pulse: Pulse,
    failed_sweeps: u64,
}

/// What is needed of the settings once connections are counted.
struct Pace {
    rules: BTreeSet<String>,
    every: Duration,
    look: Look,
    warn: Box<dyn FnMut(&str) + Send>,
}

/// The latest answers, and the last hour.
#[derive(Debug, Clone)]
pub(super) struct Shelf {
    answers: Arc<Mutex<Option<Arc<Answers>>>>,
    /// Events that the page's tracer could not send; all ones while there is no page.
    dropped: Arc<AtomicU64>,
    overview: Arc<Mutex<Overview>>,
}

impl Shelf {
    /// Before the page's tracer has said anything.
    pub(super) fn new() -> Shelf {
        let overview = Arc::new(Mutex::new(Overview::new(overview::STEP_NS)));
        Shelf { answers: Arc::default(), dropped: Arc::new(AtomicU64::new(u64::MAX)), overview }
    }

    /// What the host did in the last hour.
    pub(super) fn overview(&self) -> MutexGuard<'_, Overview> {
        self.overview.lock().expect("nobody panics with the overview")
    }

    /// Notes how many events the page's tracer could not send.
    pub(super) fn note_dropped(&self, events: u64) {
        self.dropped.store(events, Ordering::Relaxed);
    }

    fn put(&self, shown: Shown) {
        let answers = Answers { shown, openmetrics: OnceLock::new(), plain_text: OnceLock::new() };
        *self.answers.lock().expect("nobody panics with the shelf") = Some(Arc::new(answers));
    }

    /// Goes on to show what was shown last, and that so many sweeps failed.
    fn note_failed(&self, failed_sweeps: u64) {
        let last = self.answers.lock().expect("nobody panics with the shelf").clone();
        if let Some(last) = last {
            self.put(Shown { failed_sweeps, ..last.shown.clone() });
        }
    }

    /// OpenMetrics, or the format before it; none before the first sweep.
    pub(super) fn answer(&self, is_openmetrics: bool) -> Option<Bytes> {
        let answers = self.answers.lock().expect("nobody panics with the shelf").clone()?;
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
    /// Begins to count, and sweeps once, so that the first scrape has an answer.
    ///
    /// Errors: those of [`GroupTotals::start`] and [`GroupTotals::count`].
    pub(super) fn start(settings: Settings, shelf: Shelf, pulse: Pulse) -> Result<Exporter> {
        let Settings { filter, rules, labels, every, look, warn } = settings;
        let totals = GroupTotals::start(filter, labels)?;
        let settings = Pace { rules, every, look, warn };
        let mut exporter = Exporter { totals, settings, shelf, pulse, failed_sweeps: 0 };
        exporter.sweep()?;
        exporter.pulse.beat(Part::Metrics, SWEEPS_MISSED * exporter.settings.every);
        Ok(exporter)
    }

    pub(super) fn notices(&self) -> &[String] {
        self.totals.notices()
    }

    /// Sweeps until `stop` is set. A sweep that fails is counted, and tried again when the next is due: it fails for
    /// want of memory or descriptors, which passes.
    pub(super) fn run(mut self, stop: &AtomicBool) {
        let mut took = Duration::ZERO;
        let mut is_failing = false;
        loop {
            let due = Instant::now() + self.settings.every.max(took * REST);
            while Instant::now() < due {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(NAP));
            }
            let begin = Instant::now();
            let swept = self.sweep();
            if let Err(error) = &swept {
                self.note_failed(error, is_failing);
            }
            is_failing = swept.is_err();
            took = begin.elapsed();
            if !is_failing {
                self.pulse.beat(Part::Metrics, SWEEPS_MISSED * self.settings.every.max(took * REST));
            }
        }
    }

    fn note_failed(&mut self, error: &anyhow::Error, is_known: bool) {
        self.failed_sweeps += 1;
        self.shelf.note_failed(self.failed_sweeps);
        if !is_known {
            (self.settings.warn)(&format!("/metrics shows old counts: a sweep failed, and is tried again: {error:#}"));
        }
    }

    fn sweep(&mut self) -> Result<()> {
        let begin = Instant::now();
        let mut counted = self.totals.count()?;
        let rules = &self.settings.rules;
        let is_ours = |group: &Group| group.arm.as_ref().is_some_and(|arm| rules.contains(&arm.rule));
        counted.groups.retain(|group| rules.is_empty() || is_ours(group));
        let sweep_s = begin.elapsed().as_secs_f64();
        let (situation, costs) = (self.settings.look)();
        let sums = Sums::of(&counted.groups);
        let mut overview = self.shelf.overview();
        overview.observe(counted.time_ns, sums);
        overview.note_situation(counted.time_ns, situation.clone());
        drop(overview);
        let dropped = Some(self.shelf.dropped.load(Ordering::Relaxed)).filter(|&events| events != u64::MAX);
        let (own, kernel, failed_sweeps) = (own(), kernel_release(), self.failed_sweeps);
        self.shelf.put(Shown { counted, situation, costs, dropped, sweep_s, failed_sweeps, own, kernel });
        Ok(())
    }
}

fn own() -> Own {
    use nix::sys::resource::{UsageWho, getrusage};
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu_s = getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |it| seconds(it.user_time()) + seconds(it.system_time()));
    let status = procfs::process::Process::myself().and_then(|process| process.status()).ok();
    Own { cpu_s, resident_bytes: status.and_then(|status| status.vmrss).unwrap_or(0) * 1024 }
}

fn kernel_release() -> String {
    nix::sys::utsname::uname().map_or_else(|_| String::new(), |name| name.release().to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::totals::CountedGroups;

    /// One sweep that found no descriptors ended the server.
    #[test]
    fn failed_sweep_leaves_the_last_answer_and_is_counted() {
        let shelf = Shelf::new();
        shelf.note_failed(1);
        assert_eq!(shelf.answer(true), None, "there is nothing to show yet");
        let counted = CountedGroups { time_ns: 0, groups: Vec::new(), hidden: 0, uncounted: 7 };
        let (situation, costs, own, kernel) = (Situation::default(), Vec::new(), Own::default(), String::new());
        shelf.put(Shown { counted, situation, costs, dropped: None, sweep_s: 0.25, failed_sweeps: 1, own, kernel });
        for (failed, is_openmetrics) in [(1, true), (2, true), (3, false)] {
            shelf.note_failed(failed);
            let answer = shelf.answer(is_openmetrics).unwrap();
            let text = std::str::from_utf8(&answer).unwrap();
            for line in [format!("tccc_failed_sweeps_total {failed}.0"), "tccc_uncounted_total 7.0".to_owned()] {
                assert!(text.lines().any(|it| it == line), "no line {line:?} in\n{text}");
            }
        }
    }
}
