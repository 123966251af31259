//! How a trial ends: everything as before, or for good.
//!
//! Connections come first: they are decided as before, or for good, before anything else is cleared. Killed after that, the
//! next command or the guard goes on.

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};

use super::turn::Turn;
use super::{journal, standing, swap, view};
use crate::failure::Failure;
use crate::fault;
use crate::kernel::probe::Features;
use crate::kernel::process::Process;
use crate::loader;
use crate::policy::change::{self, Removed};
use crate::policy::generation::{self, GenerationRole, NewGeneration};
use crate::policy::pins::PolicyPins;
use crate::policy::record::{PolicyRecord, TrialEnd, TrialRecord, TrialResult, TrialSubject};
use crate::policy::rule::Policy;
use crate::policy::sweep::{self, SweepParts};
use crate::policy::table::RuleTables;
use crate::state::pins::Pins;
use crate::state::{LockSubject, Record, Store};

/// A guard ends within this time after it is asked to, unless it is stopped.
const GUARD_GONE_WITHIN: Duration = Duration::from_secs(3);
/// How often it is looked whether the guard has ended.
const PAUSE: Duration = Duration::from_millis(5);

/// Ends the trial that goes on: connections are decided as before it.
///
/// Errors: not permitted; the generation before is gone.
/// None: there is no trial.
pub fn revert(why: &str) -> Result<Option<TrialEnd>> {
    revert_where(|_| true, why, None)
}

/// As [`revert`], for one trial alone; `incident` is the folder of what is known about a limit that was crossed.
///
/// Errors: as [`revert`].
pub(super) fn revert_where(
    is_meant: impl Fn(&TrialRecord) -> bool,
    why: &str,
    incident: Option<PathBuf>,
) -> Result<Option<TrialEnd>> {
    let turn = Turn::take()?;
    let Some(trial) = standing::current()?.filter(is_meant) else { return Ok(None) };
    let end = revert_in(&turn, &trial, why, incident)?;
    drop(turn);
    dismiss(&trial);
    Ok(Some(end))
}

/// Reverts, and goes on whatever fails; the first failure is returned at the end.
fn revert_in(_turn: &Turn, trial: &TrialRecord, why: &str, incident: Option<PathBuf>) -> Result<TrialEnd> {
    let store = Store::of_host();
    let pins = PolicyPins::of(Pins::writable()?);
    // Held open: the labels of open connections outlive the policy's pins.
    let shared = trial.live.then(|| change::shared(&pins, trial.generation).ok()).flatten();
    generation::revert(&store.lock(LockSubject::Policy)?, &pins)?;
    let rest = [
        shared.map_or(Ok(()), |shared| take_back(&shared)).context("move open connections back"),
        unload_all(&trial.loaded),
        change::unload_unneeded().map(drop),
    ];
    let end = finish(trial, TrialResult::Reverted, why, incident);
    rest.into_iter().collect::<Result<Vec<()>>>().map(|_| end)
}

/// Open connections that the trial moved get what the policy before says, or what they had.
fn take_back(shared: &SweepParts) -> Result<()> {
    match change::current()? {
        Some(before) => change::move_open(&before).map(drop),
        None => sweep::move_all(&RuleTables::default(), shared).map(drop),
    }
}

/// Unloads algorithms; those that are not loaded are no error.
///
/// Errors: as [`loader::unload`].
pub fn unload_all(names: &[String]) -> Result<()> {
    let store = Store::of_host();
    for name in names.iter().filter(|name| store.record(name).is_some()) {
        loader::unload(name, &Features::probe()?)?;
    }
    Ok(())
}

/// Undoes what there is of a trial that could not begin.
///
/// Errors: as [`revert`].
pub(super) fn undo_begin(turn: &Turn, began_ns: u64, loaded: &[String]) -> Result<()> {
    if let Some(trial) = standing::current()?.filter(|trial| trial.began_ns == began_ns) {
        revert_in(turn, &trial, "it could not begin", None)?;
    }
    unload_all(loaded)
}

/// Clears what a trial left whose guard is dead or was stopped past its lease: connections are decided as before already.
///
/// Errors: not permitted; the record is damaged.
pub fn sweep() -> Result<()> {
    let store = Store::of_host();
    let record = PolicyRecord::read(&store)?;
    if record.trial.is_none() && record.next_trial.is_none() {
        if view::is_there(&store) {
            view::tidy();
        }
        return Ok(());
    }
    if standing::over(&record)?.is_some() { clear() } else { Ok(()) }
}

/// As [`sweep`]; says what was on trial, and why it is over.
///
/// None: there was nothing to clear.
/// Errors: as [`sweep`].
pub fn clear_over() -> Result<Option<String>> {
    let record = PolicyRecord::read(&Store::of_host())?;
    let Some((trial, why)) = standing::over(&record)? else { return Ok(None) };
    clear()?;
    Ok(Some(format!("the trial of {} is over: {why}", trial.subject.phrase())))
}

/// Ends the trial that is over although nobody ended it; keeps it where that was begun.
///
/// Errors: as [`revert`].
fn clear() -> Result<()> {
    let turn = Turn::take()?;
    let Some((trial, why)) = standing::over(&PolicyRecord::read(&Store::of_host())?)? else { return Ok(()) };
    if !(trial.confirmed && carry_out(&trial).is_ok()) {
        revert_in(&turn, &trial, &why, None)?;
    } else {
        finish(&trial, TrialResult::Kept, CONFIRMED, None);
    }
    drop(turn);
    dismiss(&trial);
    Ok(())
}

/// Removes the policy, and ends the trial of it that goes on.
///
/// Errors: as [`change::remove`].
pub fn remove_policy(live: bool) -> Result<Removed> {
    if PolicyPins::of_host().is_none() {
        return change::remove(live);
    }
    let turn = Turn::take()?;
    let record = PolicyRecord::read(&Store::of_host()).unwrap_or_default(); // a damaged one is removed with the rest
    let trial = record.trial.or(record.next_trial);
    let removed = change::remove(live)?;
    if let Some(trial) = &trial {
        unload_all(&trial.loaded)?;
        finish(trial, TrialResult::Reverted, "the policy was removed", None);
    }
    drop(turn);
    match &trial {
        Some(trial) => dismiss(trial),
        None => view::tidy(),
    }
    Ok(removed)
}

/// Why a trial stays.
pub(super) const CONFIRMED: &str = "a person confirmed it";

/// Keeps what is on trial; with a name only if that is what is on trial.
///
/// Errors: there is no such trial; its time is over; not permitted.
pub fn keep(name: Option<&str>) -> Result<TrialEnd> {
    let is_meant = |trial: &TrialRecord| name.is_none_or(|name| trial.subject.name() == name);
    keep_where(is_meant, CONFIRMED)?.ok_or_else(|| nothing_waits(name).into())
}

/// As [`keep`], for one trial alone.
///
/// None: there is no such trial.
/// Errors: as [`keep`].
pub(super) fn keep_where(is_meant: impl Fn(&TrialRecord) -> bool, why: &str) -> Result<Option<TrialEnd>> {
    let turn = Turn::take()?;
    let Some(trial) = standing::current()?.filter(is_meant) else { return Ok(None) };
    if let Some(over) = standing::why_over(&trial)?.filter(|_| !trial.confirmed) {
        revert_in(&turn, &trial, &over, None)?;
        drop(turn);
        dismiss(&trial);
        let what = format!("too late to confirm {}: {over}", trial.subject.phrase());
        return Err(Failure::failed(what).hint("begin the trial again, with more time").into());
    }
    note_confirmed(&trial, true)?;
    fault::point("confirm.noted");
    carry_out(&trial).inspect_err(|_| drop(note_confirmed(&trial, false)))?;
    let end = finish(&trial, TrialResult::Kept, why, None);
    drop(turn);
    dismiss(&trial);
    Ok(Some(end))
}

/// From here on the trial is kept, whoever does it.
fn note_confirmed(trial: &TrialRecord, confirmed: bool) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock(LockSubject::Policy)?;
    let mut record = generation::settle(&locked, &PolicyPins::of(Pins::writable()?))?;
    let Some(noted) = record.trial.as_mut().filter(|noted| noted.began_ns == trial.began_ns) else { return Ok(()) };
    noted.confirmed = confirmed;
    record.write(&locked)
}

/// Makes what is on trial hold for good. Begun again after it was interrupted, it does what is left.
fn carry_out(trial: &TrialRecord) -> Result<()> {
    match &trial.subject {
        TrialSubject::Policy => conclude(),
        TrialSubject::Default { name } => {
            loader::make_default(name)?;
            stay(name)?;
            fault::point("confirm.default");
            swap_back()
        }
        TrialSubject::Upgrade { name, trial_name } => swap::conclude(name, trial_name, &Features::probe()?),
    }
}

fn nothing_waits(name: Option<&str>) -> Failure {
    let what = match name {
        Some(name) => format!("\"{name}\" is not on trial"),
        None => "nothing is on trial".to_owned(),
    };
    Failure::failed(what).hint("`tccc status` shows what is loaded and what waits")
}

/// The same rules, for good.
fn conclude() -> Result<()> {
    let store = Store::of_host();
    {
        let locked = store.lock(LockSubject::Policy)?;
        let record = generation::settle(&locked, &PolicyPins::of(Pins::writable()?))?;
        let trial = record.trial.as_ref().context("find the trial")?;
        let generation = record.generation(trial.generation).context("find the generation on trial")?;
        let policy = without_trials(&generation.policy);
        let file = generation.file.clone();
        generation::apply(
            &locked,
            NewGeneration { policy: &policy, file: file.as_deref(), role: GenerationRole::Concludes },
        )?;
    }
    fault::point("confirm.swapped");
    change::unload_unneeded().map(drop)
}

/// The rules as they are now, without what made them a trial.
fn without_trials(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.rules.iter_mut().for_each(|rule| rule.trial = None);
    policy
}

/// An algorithm that was loaded for a trial stays when no rule names it any more.
fn stay(name: &str) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let Some(record) = store.record(name) else { return Ok(()) };
    locked.write(&Record { with_policy: false, ..record })
}

/// The generation before decides again, with what the trial tried in the place of what was before.
pub(super) fn swap_back() -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock(LockSubject::Policy)?;
    generation::revert(&locked, &PolicyPins::of(Pins::writable()?))?;
    fault::point("confirm.swapped");
    Ok(())
}

/// Writes down how the trial ended; it is over whether or not that can be written.
fn finish(trial: &TrialRecord, result: TrialResult, why: &str, incident: Option<PathBuf>) -> TrialEnd {
    let end = TrialEnd {
        subject: trial.subject.clone(),
        generation: trial.generation,
        result,
        at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        why: why.to_owned(),
        incident,
        policy: trial.policy.clone(),
    };
    let _ = journal::note(&end);
    end
}

/// Ends the guard of a trial that is over, and removes its files. The guard itself does so when it ends.
///
/// Called without the turn: the guard may be waiting for it.
fn dismiss(trial: &TrialRecord) {
    if Process::this() == Some(trial.guard) {
        return;
    }
    trial.guard.end();
    let deadline = Instant::now() + GUARD_GONE_WITHIN;
    while trial.guard.lives() && Instant::now() < deadline {
        std::thread::sleep(PAUSE);
    }
    view::tidy();
}
