//! The process that guards a trial: renews the lease, looks at both arms, and ends the trial.

mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use self::watch::{Tick, TrialWatch};
use super::{end, view};
use crate::policy::ending::TrialEnding;
use crate::policy::generation;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{CachedRecord, GenerationRecord, PolicyRecord, TrialRecord};
use crate::state::Store;
use crate::trace::gather::Layouts;
use crate::waits;
use shared::kernel::probe::Features;
use shared::kernel::process::Process;

/// Interval between renewals of the lease.
const TICK: Duration = Duration::from_secs(1);
/// Interval between checks for a signal, or for the start of the trial.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Consecutive ticks that may fail. A passing problem, such as a held lock, ends no trial.
const FAILURES_MAX: u32 = 3;

/// Guards the trial that began at `began_ns` until it is over. The process `starter` begins the trial.
///
/// Side effects: ends the trial, or raises its share.
///
/// # Errors
/// The kernel refuses the guard's programs, or a part of the trial is gone. The trial is over then.
pub fn run(began_ns: u64, starter: Process, layouts: fn() -> Layouts) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("take signals")?;
    }
    let mut guard = Guard { began_ns, stop, layouts, cache: CachedRecord::default(), watch: None };
    if !guard.has_begun(starter)? {
        return Ok(());
    }
    let guarded = guard.guard();
    drop(guard); // removes the recording's files, before another guard can create its own
    let ended = guarded.inspect_err(|error| {
        // Until the first look, the starter holds the lock. It undoes the trial when this process dies.
        if starter.lives() && view::read(&Store::of_host()).is_none() {
            return;
        }
        // Ends the trial at once. If this fails too, the lease runs out.
        let ending = TrialEnding::interrupted(format!("its guard failed: {error:#}"));
        let _ = end::revert_where(|trial| trial.began_ns == began_ns, ending);
    });
    view::tidy();
    ended
}

struct Guard {
    began_ns: u64,
    stop: Arc<AtomicBool>,
    layouts: fn() -> Layouts,
    cache: CachedRecord,
    watch: Option<TrialWatch>,
}

impl Guard {
    /// Waits until the starter has begun the trial. Returns false if the starter failed or died.
    fn has_begun(&mut self, starter: Process) -> Result<bool> {
        loop {
            // In this order, because the starter may begin the trial as the last thing it does.
            let is_waited_for = starter.lives();
            self.cache.refresh(&Store::of_host())?;
            let has_begun = trial_of(&self.cache.record, self.began_ns).is_some();
            if has_begun || !is_waited_for {
                return Ok(has_begun);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn guard(&mut self) -> Result<()> {
        let mut failures = 0;
        loop {
            match self.tick() {
                Ok(Tick::On) => failures = 0,
                Ok(Tick::Over) => return Ok(()),
                // The tick may fail because somebody else ended the trial.
                Err(_)
                    if self.cache.refresh(&Store::of_host()).is_ok()
                        && trial_of(&self.cache.record, self.began_ns).is_none() =>
                {
                    return Ok(());
                }
                Err(error) if failures == FAILURES_MAX => return Err(error),
                Err(_) => failures += 1,
            }
            for _ in 0..waits::time_of("guard.tick", TICK).as_millis() / POLL_INTERVAL.as_millis() {
                if self.stop.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    }

    fn tick(&mut self) -> Result<Tick> {
        let is_own = |trial: &TrialRecord| trial.began_ns == self.began_ns;
        self.cache.refresh(&Store::of_host())?;
        let Some((trial, generation)) = trial_of(&self.cache.record, self.began_ns) else { return Ok(Tick::Over) };
        if self.stop.load(Ordering::Relaxed) {
            let ending = TrialEnding::interrupted("its guard received a signal to end");
            return end::revert_where(is_own, ending).map(|_| Tick::Over);
        }
        let record = &self.cache.record;
        if self.watch.as_ref().is_none_or(|watch| watch.generation != generation.number) {
            let earlier = self.watch.take();
            self.watch = Some(TrialWatch::start(trial, (generation, record), (earlier, self.layouts))?);
        }
        let watch = self.watch.as_mut().context("find the state of the guard")?;
        if let Some(gap) = watch.renew(trial)? {
            let why = format!("its guard did not run for {:.0} s, and the lease expired", gap.as_secs_f64());
            return end::revert_where(is_own, TrialEnding::interrupted(why)).map(|_| Tick::Over);
        }
        if trial.confirmed {
            // The command that confirmed the trial holds the lock. If it was killed, this finishes its work.
            let ending = TrialEnding::kept(end::CONFIRMED);
            return end::keep_where(is_own, ending, &Features::probe()?).map(|_| Tick::Over);
        }
        if let Some(ending) = &trial.ending {
            return end::revert_where(is_own, ending.clone()).map(|_| Tick::Over);
        }
        watch.act(trial, generation, record)
    }
}

/// The trial that began at `began_ns` and its generation, if that generation decides.
fn trial_of(record: &PolicyRecord, began_ns: u64) -> Option<(&TrialRecord, &GenerationRecord)> {
    let active = generation::active(&PolicyPins::of_host()?, record)?;
    let mut trials = [&record.next_trial, &record.trial].into_iter().flatten();
    let trial = trials.find(|trial| trial.generation == active && trial.began_ns == began_ns)?;
    Some((trial, record.generation(active)?))
}
