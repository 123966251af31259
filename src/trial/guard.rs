//! The process that guards a trial: it renews the lease, looks at both arms, and ends the trial.

mod watch;

use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use self::watch::{Tick, TrialWatch};
use super::{end, view};
use crate::kernel::process::Process;
use crate::policy::generation;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{self, GenerationRecord, PolicyRecord, TrialRecord};
use crate::state::Store;
use crate::trace::gather::Layouts;

/// Between two signs of life.
const TICK: Duration = Duration::from_secs(1);
/// How often it looks whether a signal came, or the trial began.
const NAP: Duration = Duration::from_millis(50);
/// So many ticks in a row may fail: what passes by itself, such as a held lock, ends no trial.
const FAILURES_MAX: u32 = 3;

/// Guards the trial that began at `began_ns`, until it is over. `starter` is the process that begins it.
///
/// Errors: the kernel refuses the guard's programs, or a part of the trial is gone: the trial is over then.
/// Side effects: ends the trial, or lets its share rise.
pub fn run(began_ns: u64, starter: Process, layouts: fn() -> Layouts) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("take signals")?;
    }
    let mut known = Known::default();
    if !has_begun(&mut known, began_ns, starter)? {
        return Ok(());
    }
    let guarded = guard(&mut known, began_ns, &stop, layouts);
    let ended = guarded.inspect_err(|error| {
        // Whoever begins the trial waits for the first look, holds the turn, and undoes it when this process dies.
        if starter.lives() && view::read(&Store::of_host()).is_none() {
            return;
        }
        // At once, and not when the lease is over; where this fails too, the lease does it.
        let _ = end::revert_where(|trial| trial.began_ns == began_ns, &format!("its guard failed: {error:#}"), None);
    });
    view::tidy();
    ended
}

fn guard(known: &mut Known, began_ns: u64, stop: &AtomicBool, layouts: fn() -> Layouts) -> Result<()> {
    let mut watch: Option<TrialWatch> = None;
    let mut failures = 0;
    loop {
        match tick(known, &mut watch, began_ns, (stop, layouts)) {
            Ok(Tick::On) => failures = 0,
            Ok(Tick::Over) => return Ok(()),
            Err(_) if known.is_over(began_ns) => return Ok(()),
            Err(error) => {
                failures += 1;
                if failures > FAILURES_MAX {
                    return Err(error);
                }
            }
        }
        nap(TICK, stop);
    }
}

fn tick(
    known: &mut Known,
    watch: &mut Option<TrialWatch>,
    began_ns: u64,
    (stop, layouts): (&AtomicBool, fn() -> Layouts),
) -> Result<Tick> {
    let is_own = |trial: &TrialRecord| trial.began_ns == began_ns;
    known.read_again()?;
    let Some((trial, generation)) = known.of_trial(began_ns) else { return Ok(Tick::Over) };
    if stop.load(Ordering::Relaxed) {
        return end::revert_where(is_own, "its guard was told to end", None).map(|_| Tick::Over);
    }
    if watch.as_ref().is_none_or(|watch| watch.generation != generation.number) {
        *watch = Some(TrialWatch::start(trial, (generation, &known.record), (watch.take(), layouts))?);
    }
    let watch = watch.as_mut().context("find what the guard knows")?;
    if let Some(gap) = watch.renew(trial)? {
        let why = format!("its guard did not run for {:.0} s, so that the lease was over", gap.as_secs_f64());
        return end::revert_where(is_own, &why, None).map(|_| Tick::Over);
    }
    if trial.confirmed {
        // Whoever confirmed it holds the turn, or was killed: then this goes on with it.
        return end::keep_where(is_own, end::CONFIRMED).map(|_| Tick::Over);
    }
    watch.act(trial, generation, &known.record)
}

/// Waits until the process that started this one has begun the trial; false where it failed or died.
fn has_begun(known: &mut Known, began_ns: u64, starter: Process) -> Result<bool> {
    loop {
        // In this order: it may begin the trial as the last thing it does.
        let is_waited_for = starter.lives();
        known.read_again()?;
        if known.of_trial(began_ns).is_some() {
            return Ok(true);
        }
        if !is_waited_for {
            return Ok(false);
        }
        std::thread::sleep(NAP);
    }
}

fn nap(time: Duration, stop: &AtomicBool) {
    let naps = time.as_millis() / NAP.as_millis();
    for _ in 0..naps {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(NAP);
    }
}

/// The policy's record, read again only when it has changed: one with many prefixes has megabytes.
#[derive(Default)]
struct Known {
    record: PolicyRecord,
    stamp: Option<Stamp>,
}

/// Device, inode, size and time of the record's file. Each change makes another file.
type Stamp = (u64, u64, u64, i64, i64);

impl Known {
    /// The trial and the generation that decides, if it is this one.
    fn of_trial(&self, began_ns: u64) -> Option<(&TrialRecord, &GenerationRecord)> {
        let record = &self.record;
        let active = generation::active(&PolicyPins::of_host()?, record)?;
        let mut trials = [&record.next_trial, &record.trial].into_iter().flatten();
        let trial = trials.find(|trial| trial.generation == active && trial.began_ns == began_ns)?;
        Some((trial, record.generation(active)?))
    }

    /// Somebody else ended the trial, which may be why a tick failed.
    fn is_over(&mut self, began_ns: u64) -> bool {
        self.read_again().is_ok() && self.of_trial(began_ns).is_none()
    }

    fn read_again(&mut self) -> Result<()> {
        let store = Store::of_host();
        let stamp = std::fs::metadata(record::path(&store)).ok();
        let stamp = stamp.map(|it| (it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()));
        if stamp.is_none() || stamp != self.stamp {
            self.record = PolicyRecord::read(&store)?;
            self.stamp = stamp; // of a file that is as old as what was read, or older
        }
        Ok(())
    }
}
