//! How a trial ends: everything as before, or for good.

use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::{journal, upgrade, view};
use crate::failure::Failure;
use crate::fault;
use crate::kernel::clock;
use crate::kernel::probe::Features;
use crate::kernel::process::Process;
use crate::loader;
use crate::policy::change::{self, Removed};
use crate::policy::generation::{self, NewGeneration, Role};
use crate::policy::pins::PolicyPins;
use crate::policy::record::{PolicyRecord, TrialEnd, TrialRecord, TrialResult, TrialSubject};
use crate::policy::rule::Policy;
use crate::policy::sweep::{self, Shared};
use crate::policy::table::RuleTables;
use crate::state::Store;
use crate::state::pins::Pins;

/// Ends the trial that goes on: connections are decided as before it.
///
/// Errors: not permitted; the generation before is gone.
/// None: there is no trial.
pub fn revert(why: &str) -> Result<Option<TrialEnd>> {
    revert_with(why, None)
}

/// As [`revert`], for a limit that was crossed: `incident` is the folder of what is known about it.
///
/// Errors: as [`revert`].
pub fn revert_with(why: &str, incident: Option<PathBuf>) -> Result<Option<TrialEnd>> {
    let store = Store::of_host();
    let pins = PolicyPins::of(Pins::writable()?);
    let Some(trial) = super::current()? else { return Ok(None) };
    // Held open: the labels of open connections outlive the policy's pins.
    let shared = trial.live.then(|| change::shared(&pins, trial.generation)).transpose()?;
    let reverted = {
        let locked = store.lock()?;
        generation::revert(&locked, &pins)?
    };
    let trial = reverted.unwrap_or(trial);
    if let Some(shared) = shared {
        take_back(&shared)?;
    }
    let features = Features::probe()?;
    for name in trial.loaded.iter().filter(|name| store.record(name).is_some()) {
        loader::unload(name, &features)?;
    }
    change::unload_unneeded()?;
    finish(&trial, TrialResult::Reverted, why, incident).map(Some)
}

/// Open connections that the trial moved get what the policy before says, or what they had.
fn take_back(shared: &Shared) -> Result<()> {
    match change::current()? {
        Some(before) => change::move_open(&before).map(drop),
        None => sweep::move_all(&RuleTables::default(), shared).map(drop),
    }
}

/// Removes the policy, and ends the trial of it that goes on.
///
/// Errors: as [`change::remove`].
pub fn remove_policy(live: bool) -> Result<Removed> {
    let trial = super::current().unwrap_or_default(); // a record that cannot be read is removed with the rest
    let removed = change::remove(live)?;
    if let Some(trial) = trial {
        let features = Features::probe()?;
        let store = Store::of_host();
        for name in trial.loaded.iter().filter(|name| store.record(name).is_some()) {
            loader::unload(name, &features)?;
        }
        finish(&trial, TrialResult::Reverted, "the policy was removed", None)?;
    }
    view::remove(&Store::of_host());
    Ok(removed)
}

/// Keeps what is on trial; with a name only if that is what is on trial.
///
/// Errors: there is no such trial; its time is over; not permitted.
pub fn keep(name: Option<&str>, why: &str) -> Result<TrialEnd> {
    super::sweep()?;
    let trial = super::current()?.filter(|trial| name.is_none_or(|name| trial.subject.name() == name));
    let trial = trial.ok_or_else(|| nothing_waits(name))?;
    let now_ns = clock::boottime_ns()?;
    if trial.deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns) {
        let what = format!("too late to confirm {}: its time is over", trial.subject.phrase());
        return Err(Failure::failed(what).hint("begin the trial again, with more time").into());
    }
    match &trial.subject {
        TrialSubject::Policy => conclude()?,
        TrialSubject::Default { name } => {
            loader::make_default(name)?;
            fault::point("confirm.default");
            swap_back()?;
        }
        TrialSubject::Upgrade { name, trial_name } => {
            upgrade::conclude(name, trial_name)?;
            swap_back()?;
            upgrade::drop_trial_name(trial_name)?;
        }
    }
    fault::point("confirm.noted");
    finish(&trial, TrialResult::Kept, why, None)
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
    let locked = store.lock()?;
    let record = PolicyRecord::read(&store)?;
    let trial = record.trial.as_ref().or(record.next_trial.as_ref()).context("find the trial")?;
    let generation = record.generation(trial.generation).context("find the generation on trial")?;
    let policy = without_trials(&generation.policy);
    let file = generation.file.clone();
    generation::apply(&locked, NewGeneration { policy: &policy, file: file.as_deref(), role: Role::Concludes })?;
    fault::point("confirm.swapped");
    Ok(())
}

/// The rules as they are now, without what made them a trial.
fn without_trials(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.rules.iter_mut().for_each(|rule| rule.trial = None);
    policy
}

/// The generation before decides again, with what the trial tried in the place of what was before.
fn swap_back() -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock()?;
    generation::revert(&locked, &PolicyPins::of(Pins::writable()?))?;
    fault::point("confirm.swapped");
    Ok(())
}

fn finish(trial: &TrialRecord, result: TrialResult, why: &str, incident: Option<PathBuf>) -> Result<TrialEnd> {
    let end = TrialEnd {
        subject: trial.subject.clone(),
        generation: trial.generation,
        result,
        at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        why: why.to_owned(),
        incident,
    };
    view::remove(&Store::of_host());
    if Process::this() != Some(trial.guard) {
        trial.guard.end();
    }
    // The trial is over whether or not that can be written down.
    let _ = journal::note(&end);
    Ok(end)
}
