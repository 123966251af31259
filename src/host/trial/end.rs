//! Ends a trial: restores the state before it, or keeps the change for good.
//!
//! The decision about connections changes first, and everything else is cleared afterwards. If a command is killed in
//! between, the next command or the guard continues.

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

use super::current::Over;
use super::journal::TrialEnd;
use super::{current, journal, shown, swap, view};
use crate::loader;
use crate::policy::change::{self, Removed};
use crate::policy::ending::{TrialEnding, TrialResult};
use crate::policy::generation::{self, Base, GenerationRole, NewGeneration};
use crate::policy::migrate::{self, SweepParts};
use crate::policy::needs::PolicyNeeds;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{self, CachedRecord, PolicyOrigin, PolicyRecord, TrialRecord, TrialSubject};
use crate::policy::table::RuleTables;
use crate::state::pins::Pins;
use crate::state::{LockSubject, Locked, Record, Requester, Store};
use shared::failure::Failure;
use shared::fault;
use shared::kernel::probe::Features;
use shared::kernel::process::Process;
use shared::kernel::system_log::{self, Severity};
use shared::poll::{POLL_INTERVAL, poll};

/// A guard that is not stopped ends within this time after a signal.
const GUARD_GONE_WITHIN: Duration = Duration::from_secs(3);
pub(super) const CONFIRMED: &str = "a person confirmed it";

/// A trial that was reverted. Connections are decided as before, even if something of it could not be cleared.
pub(super) struct Reverted {
    end: TrialEnd,
    pub rest: Result<()>,
}

impl Reverted {
    /// # Errors
    /// Something could not be cleared.
    fn whole(self) -> Result<TrialEnd> {
        let what = || format!("clear the trial of {}, which is over", self.end.subject.phrase());
        self.rest.with_context(what).map(|()| self.end)
    }
}

fn ending_of(over: Over) -> TrialEnding {
    match over {
        Over::TooLate => TrialEnding::reverted(over.to_string()),
        Over::GuardStopped | Over::GuardDied | Over::CommandKilled => TrialEnding::interrupted(over.to_string()),
    }
}

/// Reverts the running trial, because a person judged it: the previous generation decides again. `None` without a trial.
///
/// # Errors
/// Not permitted; the previous generation is gone.
pub fn abort() -> Result<Option<TrialEnd>> {
    let ending = TrialEnding::reverted("a person ended it").by(Requester::command());
    revert_where(|_| true, ending)?.map(Reverted::whole).transpose()
}

/// Reverts the running trial without a judgement. `None` without a trial.
///
/// # Errors
/// As [`abort`].
pub fn interrupt(why: &str) -> Result<Option<TrialEnd>> {
    let ending = TrialEnding::interrupted(why).by(Requester::command());
    revert_where(|_| true, ending)?.map(Reverted::whole).transpose()
}

/// Reverts the running trial if it is the one that is meant.
pub(super) fn revert_where(is_meant: impl Fn(&TrialRecord) -> bool, ending: TrialEnding) -> Result<Option<Reverted>> {
    let lock = current::lock()?;
    let Some(trial) = current::within_reach()?.filter(is_meant) else { return Ok(None) };
    let ending = judged(&trial).unwrap_or(ending);
    let reverted = revert_locked(&lock, &trial, ending)?;
    dismiss(lock, &trial);
    Ok(Some(reverted))
}

/// A judgement that a guard noted, and died before it could revert the trial.
fn judged(trial: &TrialRecord) -> Option<TrialEnding> {
    trial.ending.clone().filter(|ending| ending.result != TrialResult::Interrupted)
}

/// Once the previous generation decides again, later steps run even if one fails.
///
/// # Errors
/// The previous generation does not decide.
fn revert_locked(_trial: &Locked, trial: &TrialRecord, ending: TrialEnding) -> Result<Reverted> {
    let store = Store::of_host();
    let ending = with_limits(trial, ending);
    if trial.ending.is_none() {
        let _ = current::note(trial, |noted| noted.ending = Some(ending.clone())); // the disk may be full
    }
    let pins = PolicyPins::of(Pins::writable()?);
    // Held open, because the labels of open connections outlive the policy's pins.
    let shared = trial.live.then(|| change::shared(&pins, trial.generation).ok()).flatten();
    let mut end = None;
    let locked = store.lock(LockSubject::Policy)?;
    let cleared = generation::revert(&locked, &pins, || end = Some(finish(trial, ending)))?;
    drop(locked);
    let rest = [
        cleared,
        shared.map_or(Ok(()), |shared| take_back(&shared)).context("move open connections back"),
        unload_all(&trial.loaded),
        change::unload_unneeded().map(drop),
    ];
    let rest = rest.into_iter().collect::<Result<Vec<()>>>().map(drop);
    Ok(Reverted { end: end.context("note the end of the trial")?, rest })
}

/// Gives open connections what the previous policy says. Without one, gives back the algorithms that they had.
fn take_back(shared: &SweepParts) -> Result<()> {
    match change::current()? {
        Some(before) => change::move_open(&before).map(drop),
        None => migrate::move_all(&RuleTables::default(), shared).map(drop),
    }
}

/// Unloads what a trial loaded. Leaves what is not loaded, and what a rule gives to connections.
///
/// # Errors
/// As [`loader::unload`].
pub(crate) fn unload_all(names: &[String]) -> Result<()> {
    let store = Store::of_host();
    for name in names.iter().filter(|name| store.record(name).is_some()) {
        let policy = PolicyNeeds::steady()?;
        if policy.rule_giving(name).is_none() {
            loader::unload(name, &Features::probe()?)?;
        }
    }
    Ok(())
}

/// Undoes the steps of a trial that could not begin.
pub(super) fn undo_begin(lock: &Locked, began_ns: u64, loaded: &[String]) -> Result<()> {
    if let Some(trial) = current::current()?.filter(|trial| trial.began_ns == began_ns) {
        let trial = TrialRecord { policy: None, ..trial }; // it says nothing about its rules
        revert_locked(lock, &trial, TrialEnding::interrupted("it could not begin"))?.whole()?;
    }
    unload_all(loaded)
}

/// Clears what is left of a trial whose guard died, or was stopped until the lease expired.
///
/// # Errors
/// Not permitted; the record is damaged.
pub fn sweep() -> Result<()> {
    let store = Store::of_host();
    let record = PolicyRecord::read(&store)?;
    if record.trial.is_none() && record.next_trial.is_none() {
        if view::is_there(&store) {
            view::tidy();
        }
        return Ok(());
    }
    if current::over(&record)?.is_some() { clear() } else { Ok(()) }
}

/// Like [`sweep`]. Returns a message if there was a trial to clear. Keeps the record in `cache` for the next call.
///
/// # Errors
/// Not permitted; the record is damaged.
pub fn clear_over(cache: &mut CachedRecord) -> Result<Option<String>> {
    cache.refresh(&Store::of_host())?;
    if cache.record.trial.is_none() && cache.record.next_trial.is_none() {
        return Ok(None);
    }
    let Some((trial, why)) = current::over(&cache.record)? else { return Ok(None) };
    clear()?;
    Ok(Some(format!("the trial of {} is over: {why}", trial.subject.phrase())))
}

/// Ends a trial that is over although nobody ended it. Keeps it if a person confirmed it.
fn clear() -> Result<()> {
    let lock = current::lock()?;
    let Some((trial, why)) = current::over(&PolicyRecord::read(&Store::of_host())?)? else { return Ok(()) };
    let kept = with_limits(&trial, TrialEnding::kept(CONFIRMED));
    let rest = if trial.confirmed && Features::probe().and_then(|features| carry_out(&trial, &features)).is_ok() {
        finish(&trial, kept);
        Ok(())
    } else {
        let noted = trial.ending.clone();
        revert_locked(&lock, &trial, noted.unwrap_or_else(|| ending_of(why)))?.rest
    };
    dismiss(lock, &trial);
    rest
}

/// The ending of a trial whose policy a person removes.
pub fn removed() -> TrialEnding {
    TrialEnding::interrupted("the policy was removed").by(Requester::command())
}

/// Removes the policy, and interrupts its trial if one is running.
///
/// # Errors
/// As [`change::remove`].
pub fn remove_policy(live: bool, ending: TrialEnding) -> Result<Removed> {
    let store = Store::of_host();
    if PolicyPins::of_host().is_none() && !record::path(&store).exists() {
        return change::remove(live, Base::Any);
    }
    let lock = current::lock()?;
    let record = PolicyRecord::read(&store).unwrap_or_default(); // a damaged record is removed with the rest
    let trial = record.trial.or(record.next_trial);
    let ending = trial.as_ref().map(|trial| with_limits(trial, judged(trial).unwrap_or(ending)));
    let mut removed = change::remove(live, Base::Any)?;
    if let (Some(trial), Some(ending)) = (&trial, ending) {
        finish(trial, ending);
        removed.left = removed.left.or(unload_all(&trial.loaded).err());
        dismiss(lock, trial);
    } else {
        drop(lock);
        view::tidy();
    }
    Ok(removed)
}

/// Keeps the running trial. With a name, only a trial of that name.
///
/// # Errors
/// There is no such trial; its time is over; not permitted.
pub fn keep(name: Option<&str>, features: &Features) -> Result<TrialEnd> {
    let is_meant = |trial: &TrialRecord| name.is_none_or(|name| trial.subject.name() == name);
    let what = name.map_or("nothing is on trial".to_owned(), |name| format!("\"{name}\" is not on trial"));
    let nothing_waits = || Failure::failed(what).hint("`tccc status` shows what is loaded and what is on trial");
    let ending = TrialEnding::kept(CONFIRMED).by(Requester::command());
    keep_where(is_meant, ending, features)?.ok_or_else(|| nothing_waits().into())
}

/// Like [`keep`], but only the trial that is meant. `None` if there is no such trial.
pub(super) fn keep_where(
    is_meant: impl Fn(&TrialRecord) -> bool,
    ending: TrialEnding,
    features: &Features,
) -> Result<Option<TrialEnd>> {
    let lock = current::lock()?;
    let Some(trial) = current::within_reach()?.filter(is_meant) else { return Ok(None) };
    let over = current::why_over(&trial)?.filter(|_| !trial.confirmed).map(ending_of);
    if let Some(over) = trial.ending.clone().or(over) {
        let what = format!("too late to confirm {}: {}", trial.subject.phrase(), over.why);
        let reverted = revert_locked(&lock, &trial, over)?;
        dismiss(lock, &trial);
        reverted.rest?;
        return Err(Failure::failed(what).hint("begin the trial again, with more time").into());
    }
    let ending = with_limits(&trial, ending);
    // After a kill from here on, the guard or the next command keeps the trial.
    current::note(&trial, |noted| noted.confirmed = true)?;
    fault::point("confirm.noted");
    carry_out(&trial, features).inspect_err(|_| drop(current::note(&trial, |noted| noted.confirmed = false)))?;
    let end = finish(&trial, ending);
    dismiss(lock, &trial);
    Ok(Some(end))
}

/// Makes the change permanent. After an interruption, a second call completes the change.
fn carry_out(trial: &TrialRecord, features: &Features) -> Result<()> {
    match &trial.subject {
        TrialSubject::Policy => conclude(),
        TrialSubject::Default { name } => {
            loader::make_default(name)?;
            stay(name)?;
            fault::point("confirm.default");
            swap_back()
        }
        TrialSubject::Upgrade { name, trial_name } => swap::conclude(name, trial_name, features),
    }
}

/// Makes the current rules permanent.
fn conclude() -> Result<()> {
    {
        let (locked, record) = current::settled()?;
        // A command that was killed may have made them permanent already.
        let Some(trial) = &record.trial else { return Ok(()) };
        let generation = record.generation(trial.generation).context("find the generation on trial")?;
        let mut policy = generation.policy.clone();
        policy.rules.iter_mut().for_each(|rule| rule.trial = None);
        let (origin, role) = (&PolicyOrigin::of(Some(generation)), GenerationRole::Concludes);
        generation::apply(&locked, NewGeneration { policy: &policy, origin, role, base: Base::Any })?;
    }
    fault::point("confirm.swapped");
    change::unload_unneeded().map(drop)
}

/// Keeps an algorithm loaded after its trial, although no rule names it then.
fn stay(name: &str) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let Some(record) = store.record(name) else { return Ok(()) };
    locked.write(&Record { with_policy: false, ..record })
}

/// Makes the previous generation decide again, once the change is permanent and needs no rules.
pub(super) fn swap_back() -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock(LockSubject::Policy)?;
    generation::revert(&locked, &PolicyPins::of(Pins::writable()?), || {})??;
    fault::point("confirm.swapped");
    Ok(())
}

/// Writes the end of the trial to the journal. A failure to write it does not matter.
fn finish(trial: &TrialRecord, ending: TrialEnding) -> TrialEnd {
    let steps = trial.rules.iter().map(|progress| (progress.rule.clone(), progress.step));
    let end = TrialEnd {
        subject: trial.subject.clone(),
        generation: trial.generation,
        began_ns: trial.began_ns,
        at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ending,
        policy: trial.policy.clone(),
        steps: Some(steps.collect()),
    };
    if let Err(error) = journal::note(&end) {
        let what = format!("the end of the trial of {} is not recorded: {error:#}", end.subject.phrase());
        system_log::write(Severity::Error, &what);
    }
    end
}

/// Adds what the guard's latest look showed, unless the ending says what was shown.
fn with_limits(trial: &TrialRecord, ending: TrialEnding) -> TrialEnding {
    let limits = if ending.limits.is_empty() { shown::by_latest_look(trial) } else { ending.limits };
    TrialEnding { limits, ..ending }
}

/// Ends the guard of a trial that is over, and removes its files. In the guard's own process, does nothing: the guard
/// removes them when it ends.
///
/// Releases the lock first, because the guard may be waiting for it.
fn dismiss(lock: Locked, trial: &TrialRecord) {
    drop(lock);
    if Process::this() == Some(trial.guard) {
        return;
    }
    trial.guard.end();
    poll(GUARD_GONE_WITHIN, POLL_INTERVAL, || !trial.guard.lives());
    view::tidy();
}
