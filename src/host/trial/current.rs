//! Finds and locks the running trial, and says why a trial that nobody ended is over.

use std::io::ErrorKind;

use anyhow::Result;
use derive_more::Display;

use super::progress::TOO_LATE;
use crate::policy::generation;
use crate::policy::lease;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{PolicyRecord, TrialRecord};
use crate::state::pins::Pins;
use crate::state::{LockSubject, Locked, Store};
use shared::kernel::{bpf, clock};

/// Waits for the lock that beginning, changing or ending a trial needs.
pub(super) fn lock() -> Result<Locked> {
    Store::of_host().lock(LockSubject::Trial)
}

/// The trial whose generation decides, for a command that changes it.
///
/// # Errors
/// Its pins are not in the BPF file system mounted here.
pub(super) fn within_reach() -> Result<Option<TrialRecord>> {
    generation::refuse_elsewhere(PolicyPins::of_host().as_ref(), &PolicyRecord::read(&Store::of_host())?)?;
    current()
}

/// Locks the policy and settles its record.
pub(super) fn settled() -> Result<(Locked, PolicyRecord)> {
    let locked = Store::of_host().lock(LockSubject::Policy)?;
    let record = generation::settle(&locked, &PolicyPins::of(Pins::writable()?))?;
    Ok((locked, record))
}

/// Changes the record of the trial `seen`. Returns false if that trial is over. Call it with the trial locked.
pub(super) fn note(seen: &TrialRecord, change: impl FnOnce(&mut TrialRecord)) -> Result<bool> {
    let (locked, mut record) = settled()?;
    let Some(trial) = record.trial.as_mut().filter(|trial| trial.began_ns == seen.began_ns) else { return Ok(false) };
    change(trial);
    record.write(&locked).map(|()| true)
}

/// The trial whose generation decides.
///
/// # Errors
/// The record is damaged.
pub fn current() -> Result<Option<TrialRecord>> {
    Ok(deciding(&PolicyRecord::read(&Store::of_host())?))
}

/// The trial whose generation decides. If this user may not see which one decides, the recorded trial.
fn deciding(record: &PolicyRecord) -> Option<TrialRecord> {
    let Some(pins) = PolicyPins::of_host().filter(may_look) else { return recorded(record) };
    let active = generation::active(&pins, record);
    let mut trials = [&record.next_trial, &record.trial].into_iter().flatten();
    trials.find(|trial| active == Some(trial.generation)).cloned()
}

fn recorded(record: &PolicyRecord) -> Option<TrialRecord> {
    record.trial.clone().or_else(|| record.next_trial.clone())
}

/// Whether this process has the right to see which generation decides.
fn may_look(pins: &PolicyPins) -> bool {
    match std::fs::symlink_metadata(pins.link()) {
        Ok(_) => bpf::open_pin(&pins.link()).is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Why a trial is over although nobody ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Display)]
pub enum Over {
    #[display("{TOO_LATE}")]
    TooLate,
    #[display("its guard was stopped, and the lease expired")]
    GuardStopped,
    #[display("its guard died, and the lease expired")]
    GuardDied,
    #[display("the command that began or ended it was killed")]
    CommandKilled,
}

impl Over {
    /// For example `the policy was on trial: its guard died, and the lease expired. New connections are …`.
    pub fn phrase(self, trial: &TrialRecord) -> String {
        let title = trial.subject.phrase();
        format!("{title} was on trial: {self}. New connections are decided as before; the next command clears it")
    }
}

/// A trial that is over although nobody ended it, and why.
pub(super) fn over(record: &PolicyRecord) -> Result<Option<(TrialRecord, Over)>> {
    if let Some(trial) = deciding(record) {
        return Ok(why_over(&trial)?.map(|why| (trial, why)));
    }
    let interrupted = recorded(record).filter(|trial| !trial.guard.lives());
    Ok(interrupted.map(|trial| (trial, Over::CommandKilled)))
}

/// Why a trial is over although nobody ended it. `None` while it runs.
///
/// # Errors
/// The lease cannot be read.
pub fn why_over(trial: &TrialRecord) -> Result<Option<Over>> {
    let Some(until_ns) = lease::of_trial(trial)? else {
        // The lease of a trial that another version of tccc began cannot be read. Without its guard, the lease runs out.
        let is_other = PolicyPins::of_host().is_some_and(|pins| pins.is_of_other_version(trial.generation));
        return Ok((is_other && !trial.guard.lives()).then_some(Over::GuardDied));
    };
    if clock::boottime_ns()? < until_ns {
        return Ok(None);
    }
    // A lease that was lost earlier ends before the deadline.
    let was_held = trial.deadline_ns.is_some_and(|deadline_ns| until_ns >= deadline_ns);
    Ok(Some(match (was_held, trial.guard.lives()) {
        (true, _) => Over::TooLate,
        (false, true) => Over::GuardStopped,
        (false, false) => Over::GuardDied,
    }))
}

/// Says that the attached trial is over, and why, although nobody ended it. `None` while it runs, or without one.
///
/// # Errors
/// The record is damaged; the lease cannot be read.
pub fn lapsed() -> Result<Option<String>> {
    let Some(trial) = current()? else { return Ok(None) };
    Ok(why_over(&trial)?.map(|why| why.phrase(&trial)))
}
