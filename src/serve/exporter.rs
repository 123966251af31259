//! Sweeps at a steady pace on a thread of its own; a scrape shows the latest sweep and costs no sweep.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bytes::Bytes;

use super::metrics::{self, Own, Registered, Shown};
use crate::trace::cost::Cost;
use crate::trace::filter::Filter;
use crate::trace::totals::Totals;

/// Rest after each sweep, in times of what it took: at most a tenth of a processor is used.
const REST: u32 = 10;
/// How soon a request to stop is seen.
const NAP: Duration = Duration::from_millis(50);

/// Finds what sockets can choose at this moment, and what it costs.
pub type Look = Box<dyn FnMut() -> (Vec<Registered>, Vec<Cost>) + Send>;

/// How connections are counted.
pub struct Settings {
    /// Which connections.
    pub filter: Filter,
    /// Time between two sweeps; more when a sweep takes more than a tenth of it.
    pub every: Duration,
    /// Finds algorithms and costs.
    pub look: Look,
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
    totals: Totals,
    settings: Settings,
    shelf: Shelf,
}

/// The latest answers.
#[derive(Debug, Clone, Default)]
pub(super) struct Shelf {
    answers: Arc<Mutex<Option<Arc<Answers>>>>,
    /// Events that the page's tracer could not send; all ones while there is no page.
    dropped: Arc<AtomicU64>,
}

impl Shelf {
    /// Before the page's tracer has said anything.
    pub(super) fn new() -> Shelf {
        Shelf { answers: Arc::default(), dropped: Arc::new(AtomicU64::new(u64::MAX)) }
    }

    /// Notes how many events the page's tracer could not send.
    pub(super) fn note_dropped(&self, events: u64) {
        self.dropped.store(events, Ordering::Relaxed);
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
    /// Errors: those of [`Totals::start`] and [`Totals::count`].
    pub(super) fn start(settings: Settings, shelf: Shelf) -> Result<Exporter> {
        let totals = Totals::start(settings.filter.clone())?;
        let mut exporter = Exporter { totals, settings, shelf };
        exporter.sweep()?;
        Ok(exporter)
    }

    /// What its numbers lack on this kernel.
    pub(super) fn notices(&self) -> &[String] {
        self.totals.notices()
    }

    /// Sweeps until `stop` is set.
    ///
    /// Errors: those of [`Totals::count`].
    pub(super) fn run(mut self, stop: &AtomicBool) -> Result<()> {
        let mut took = Duration::ZERO;
        loop {
            let due = Instant::now() + self.settings.every.max(took * REST);
            while Instant::now() < due {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                std::thread::sleep(due.saturating_duration_since(Instant::now()).min(NAP));
            }
            took = self.sweep()?;
        }
    }

    fn sweep(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        let counted = self.totals.count()?;
        let took = begin.elapsed();
        let (registered, costs) = (self.settings.look)();
        let dropped = Some(self.shelf.dropped.load(Ordering::Relaxed)).filter(|&events| events != u64::MAX);
        let (own, kernel) = (own(), kernel_release());
        let shown = Shown { counted, registered, costs, dropped, sweep_s: took.as_secs_f64(), own, kernel };
        let answers = Answers { shown, openmetrics: OnceLock::new(), plain_text: OnceLock::new() };
        *self.shelf.answers.lock().expect("nobody panics with the shelf") = Some(Arc::new(answers));
        Ok(begin.elapsed())
    }
}

fn own() -> Own {
    use nix::sys::resource::{UsageWho, getrusage};
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let cpu_s = getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |it| seconds(it.user_time()) + seconds(it.system_time()));
    Own { cpu_s, resident_bytes: resident_bytes().unwrap_or(0) }
}

fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status").context("read the size of this process")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("find the size of this process")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>().context("read the size of this process")? * 1024)
}

fn kernel_release() -> String {
    nix::sys::utsname::uname().map_or_else(|_| String::new(), |name| name.release().to_string_lossy().into_owned())
}
