//! A pool of workers for runs that do not disturb each other: those of the simulator and of virtual time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::cost::Jobs;
use crate::plan::PlannedRun;
use crate::results::Finished;
use crate::room;
use crate::work::{Forecast, Progress, interrupted};

/// Processors that this process may use.
pub fn processors() -> u32 {
    thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// Workers on this host: one for each processor if automatic.
pub fn workers(jobs: Jobs) -> u32 {
    match jobs {
        Jobs::Auto => processors(),
        Jobs::Fixed(jobs) => jobs.max(1),
    }
}

/// Forecasts the unfinished runs of a part; `time` is the processor time of one run.
pub fn forecast(
    part: &[&PlannedRun],
    finished: &Finished,
    jobs: Jobs,
    time: &dyn Fn(&PlannedRun) -> Duration,
) -> Forecast {
    let to_do = finished.left(part);
    let all: Duration = to_do.iter().map(|run| time(run)).sum();
    let at_once = to_do.len().min(workers(jobs) as usize);
    let expected = all / workers(jobs).min(processors());
    Forecast { paths: 0, to_do: to_do.len(), finished: part.len() - to_do.len(), expected, at_once }
}

/// Makes a run and writes its results. Takes the number of the worker, from 0, and a function that says when to stop.
type Make<'a> = dyn Fn(&PlannedRun, usize, &dyn Fn() -> bool) -> Result<()> + Sync + 'a;

pub struct Pool<'a> {
    /// Runs at once, at least 1.
    pub workers: u32,
    /// Set by the caller to interrupt.
    pub stop: &'a AtomicBool,
    /// Whether the first failure ends all other runs, as a full disk does in any case.
    pub gives_up: bool,
    pub make: &'a Make<'a>,
}

impl Pool<'_> {
    /// Starts the runs in their order; returns the ids and errors of those that failed.
    ///
    /// # Errors
    /// `stop` was set.
    pub fn make(&self, to_do: &[&PlannedRun], tell: &mut dyn FnMut(Progress)) -> Result<Vec<(String, anyhow::Error)>> {
        let (next, given_up) = (AtomicUsize::new(0), AtomicBool::new(false));
        let is_stopped = || self.stop.load(Ordering::Relaxed) || given_up.load(Ordering::Relaxed);
        let begun = Instant::now();
        let (sender, ended) = mpsc::channel();
        let workers = self.workers.min(to_do.len() as u32) as usize;
        let (mut done, mut failed) = (0, Vec::new());
        thread::scope(|scope| {
            for worker in 0..workers {
                let (sender, next, is_stopped) = (sender.clone(), &next, &is_stopped);
                scope.spawn(move || {
                    while !is_stopped()
                        && let Some(run) = to_do.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let _ = sender.send((run.id.clone(), (self.make)(run, worker, is_stopped)));
                    }
                });
            }
            drop(sender);
            for (id, ended) in ended {
                done += 1;
                match ended {
                    Ok(()) => tell(Progress::Finished(id)),
                    Err(error) => {
                        given_up.fetch_or(self.gives_up || room::is_full(&error), Ordering::Relaxed);
                        failed.push((id, error));
                    }
                }
                let left = begun.elapsed() * (to_do.len() - done) as u32 / done as u32;
                tell(Progress::Left { going: workers, left });
            }
        });
        if self.stop.load(Ordering::Relaxed) { Err(interrupted()) } else { Ok(failed) }
    }
}
