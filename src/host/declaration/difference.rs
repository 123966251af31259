//! Compares the host with the declaration, and finds the step that removes each difference.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use derive_more::Display;

use super::{Declaration, Declared, DeclaredPolicy};
use crate::loader::survey::{self, LoadState, LoadedName};
use crate::policy::ending::TrialResult;
use crate::policy::needs::PolicyNeeds;
use crate::policy::record::{GenerationRecord, TrialRecord, TrialSubject};
use crate::policy::rule::{Policy, Rule};
use crate::policy::{change, file, resolve};
use crate::state::{Attachment, DeclaredIn, LockSubject, Record, Store};
use crate::trial::{self, journal, progress};
use shared::kernel::probe::Features;
use shared::kernel::{bpffs, cgroup, congestion};

/// One difference between the host and the declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The actual and the declared state, as one phrase.
    pub what: String,
    pub cure: Cure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cure {
    Step(ApplyStep),
    /// Only a person may change this. The text says why, or what to do.
    Person(String),
}

/// A change of the host.
#[derive(Debug, Clone, PartialEq, Eq, Display)]
pub enum ApplyStep {
    #[display("load \"{_0}\"")]
    Load(String),
    #[display("unload \"{_0}\" and load it as declared")]
    Reload(String),
    /// Replaces the code or the tunables of a loaded algorithm.
    #[display("upgrade \"{_0}\"")]
    Upgrade(String),
    /// Keeps an algorithm that a policy loaded.
    #[display("keep \"{_0}\" loaded when the policy is removed")]
    Keep(String),
    #[display("apply the policy")]
    ApplyPolicy,
    #[display("remove the policy")]
    RemovePolicy,
    #[display("make \"{_0}\" the default")]
    SetDefault(String),
    #[display("restore the default that was replaced by \"{_0}\"")]
    RestoreDefault(String),
    /// Keeps an algorithm that is no longer declared for as long as the policy gives it to connections.
    #[display("leave \"{_0}\" to the policy, whose rules need it")]
    HandOver(String),
    #[display("unload \"{_0}\"")]
    Unload(String),
}

/// All differences, in the order of their steps.
///
/// # Errors
/// The kernel has no TCP or no type information; a record is damaged.
pub fn between(declaration: &Declaration, features: &Features) -> Result<Vec<Difference>> {
    let store = Store::of_host();
    let mut instances = survey::instances(&store, features)?;
    if waits_for_changes(&store, &instances) {
        instances = survey::instances(&store, features)?;
    }
    let by_name: BTreeMap<&str, &LoadedName> = instances.iter().map(|it| (it.name.as_str(), it)).collect();
    let available = congestion::available()?;
    let now = congestion::default()?;
    let needs = PolicyNeeds::now()?;
    let mut differences = Vec::new();
    for (name, declared) in &declaration.algorithms {
        let loaded = by_name.get(name.as_str()).copied();
        let difference = of_algorithm(name, declared, loaded, (&available, features));
        let is_in_use = loaded.is_some_and(|instance| instance.standing() == LoadState::Pinned);
        differences.extend(difference.map(|it| if is_in_use { after_trial(it, &needs) } else { it }));
    }
    let policy = of_policy(declaration)?;
    // Only these two steps end what the policy gives now.
    let replaces = |it: &Difference| matches!(&it.cure, Cure::Step(ApplyStep::ApplyPolicy | ApplyStep::RemovePolicy));
    let stays = !policy.as_ref().is_some_and(replaces);
    differences.extend(of_default(declaration, &now, &instances)?);
    let is_undeclared = |it: &&LoadedName| {
        declared_here(declaration, it.record.as_ref()).is_some() && !declaration.algorithms.contains_key(&it.name)
    };
    let declared_rules = declaration.policy.as_ref().map(|declared| resolve::algorithms(&declared.policy));
    let declared_rules = declared_rules.unwrap_or_default();
    // The policy before a trial waits for its end.
    let is_tried = |policy: &Policy| policy.on_trial().next().is_some() && concluded(policy).is_none();
    let waits = policy.as_ref().is_some_and(|it| matches!(&it.cure, Cure::Step(ApplyStep::ApplyPolicy)))
        && declaration.policy.as_ref().is_some_and(|declared| is_tried(&declared.policy));
    differences.extend(policy);
    let unload = |LoadedName { name, .. }: &LoadedName| {
        let is_given = needs.rule_giving(name).is_some();
        let is_needed = if stays { is_given } else { declared_rules.contains(name) || (waits && is_given) };
        let change = if is_needed { ApplyStep::HandOver } else { ApplyStep::Unload };
        step(format!("\"{name}\" is loaded and is no longer declared"), change(name.clone()))
    };
    differences.extend(instances.iter().filter(is_undeclared).map(unload));
    Ok(differences)
}

/// A person first ends the trial that new code under a name would disturb.
fn after_trial(difference: Difference, needs: &PolicyNeeds) -> Difference {
    let changes_code = matches!(&difference.cure, Cure::Step(ApplyStep::Upgrade(_) | ApplyStep::Reload(_)));
    match &needs.trial {
        Some(trial) if changes_code => person(difference.what, on_trial(trial)),
        _ => difference,
    }
}

fn on_trial(trial: &TrialRecord) -> String {
    format!("{} is on trial: confirm or abort it first", trial.subject.phrase())
}

/// Waits for the end of loads by other processes: their names look as if a run or a killed command had registered them.
/// Returns whether there was such a name.
fn waits_for_changes(store: &Store, instances: &[LoadedName]) -> bool {
    let is_half_loaded = |it: &&LoadedName| matches!(it.standing(), LoadState::Run | LoadState::Leftover);
    let half_loaded = instances.iter().filter(is_half_loaded).map(|it| LockSubject::Name(it.name.clone()));
    // A name that stays locked, or that this user may not lock, is reported as it is.
    half_loaded.map(|name| store.share_within(&name, name.patience()).is_ok()).fold(false, |any, one| any | one)
}

fn step(what: String, step: ApplyStep) -> Difference {
    Difference { what, cure: Cure::Step(step) }
}

fn person(what: String, why: impl Into<String>) -> Difference {
    Difference { what, cure: Cure::Person(why.into()) }
}

/// What an earlier `tccc apply` of the same folder recorded.
fn declared_here<'a>(declaration: &Declaration, record: Option<&'a Record>) -> Option<&'a DeclaredIn> {
    record?.declared.as_ref().filter(|declared| declared.folder == declaration.folder)
}

fn of_algorithm(
    name: &str,
    declared: &Declared,
    loaded: Option<&LoadedName>,
    (available, features): (&[String], &Features),
) -> Option<Difference> {
    let Some(instance) = loaded else {
        if available.iter().any(|other| other == name) {
            let what = format!("\"{name}\" is registered, but not by tccc");
            return Some(person(what, "remove it with the program that registered it, or declare another name"));
        }
        return Some(step(format!("\"{name}\" is not loaded"), ApplyStep::Load(name.to_owned())));
    };
    let name = name.to_owned();
    match instance.standing() {
        LoadState::Run => {
            let what = format!("\"{name}\" is registered by a tccc run ({})", instance.owner_identity());
            return Some(person(what, "wait until it ends"));
        }
        LoadState::Elsewhere => {
            let what = format!("\"{name}\" is registered, but {}", survey::ELSEWHERE);
            return Some(person(what, bpffs::way_to_lost_pins()));
        }
        LoadState::Leftover => return Some(step(format!("parts of \"{name}\" are left"), ApplyStep::Reload(name))),
        LoadState::Pinned => {}
    }
    let Some(record) = &instance.record else {
        return Some(step(format!("the record of \"{name}\" is lost"), ApplyStep::Reload(name)));
    };
    if record.unconfirmed.is_some() {
        let hint = format!("`tccc confirm {name}`, or wait until it is reverted");
        return Some(person(format!("\"{name}\" is not confirmed yet"), hint));
    }
    if record.receiver != declared.receiver || !is_where_declared(declared, record.companion.as_ref()) {
        return Some(step(format!("the companion of \"{name}\" is not as declared"), ApplyStep::Reload(name)));
    }
    if record.companion.is_some() && !instance.is_companion_attached {
        return Some(step(format!("the companion of \"{name}\" is no longer attached"), ApplyStep::Reload(name)));
    }
    if let Some(device) = instance.devices_without.first() {
        let what = format!("the companion of \"{name}\" is not attached to {device}");
        return Some(step(what, ApplyStep::Reload(name)));
    }
    let change = if features.link_update { ApplyStep::Upgrade(name.clone()) } else { ApplyStep::Reload(name.clone()) };
    if record.digest != declared.algorithm.digest() || !instance.is_as_recorded() {
        return Some(step(format!("\"{name}\" has other code than declared"), change));
    }
    if let Some(what) = other_tunables(declared, record) {
        return Some(step(format!("\"{name}\" has {what}"), change));
    }
    record.with_policy.then(|| step(format!("\"{name}\" is loaded only for the policy"), ApplyStep::Keep(name)))
}

fn is_where_declared(declared: &Declared, attachment: Option<&Attachment>) -> bool {
    let Some(place) = &declared.cgroup else { return true };
    attachment.is_some_and(|attachment| cgroup::resolve(place).is_ok_and(|path| Some(path) == attachment.cgroup))
}

/// Tunables with another value than declared, such as `keep_avoidance=768, declared 896`.
fn other_tunables(declared: &Declared, record: &Record) -> Option<String> {
    let tunables = &declared.algorithm.tunables;
    let wanted = |name: &str| declared.settings.iter().find(|it| it.name == name).map(|it| it.value);
    let differing = tunables.iter().filter_map(|tunable| {
        let is = record.tunables.get(&tunable.name).copied().unwrap_or(tunable.default);
        let declared = wanted(&tunable.name).unwrap_or(tunable.default);
        (is != declared).then(|| format!("{}={is}, declared {declared}", tunable.name))
    });
    let differing: Vec<String> = differing.collect();
    (!differing.is_empty()).then(|| differing.join("; "))
}

fn of_policy(declaration: &Declaration) -> Result<Option<Difference>> {
    let standing = change::standing()?;
    let is_ours = |generation: &GenerationRecord| match &generation.by {
        Some(by) => by.declaration.as_ref() == Some(&declaration.folder),
        // A record of an earlier version.
        None => generation.file.as_ref().is_some_and(|file| declaration.owns(file)),
    };
    let Some(DeclaredPolicy { file, policy }) = &declaration.policy else {
        let undeclared = standing.generation.filter(is_ours);
        let what = "the policy is no longer declared";
        return Ok(undeclared.map(|_| step(what.to_owned(), ApplyStep::RemovePolicy)));
    };
    let now = standing.generation;
    let is_same = now.as_ref().is_some_and(|now| match &now.declared {
        // Other steps or limits are another trial, also after the trial before was kept.
        Some(digest) => *digest == file::digest(policy),
        None => is_same(policy, &now.policy),
    });
    if is_same && standing.drift.is_empty() {
        return Ok(None);
    }
    let what = match &now {
        None => format!("no policy is applied, and {} is declared", file.display()),
        Some(_) if is_same => format!("the policy: {}", standing.drift.join("; ")),
        Some(_) => format!("the applied policy is not that of {}", file.display()),
    };
    Ok(Some(match why_not_now(policy)? {
        Some(why) => person(what, why),
        None => step(what, ApplyStep::ApplyPolicy),
    }))
}

/// The reason not to apply a declared policy.
fn why_not_now(policy: &Policy) -> Result<Option<String>> {
    if let Some(trial) = trial::current()? {
        return Ok(Some(on_trial(&trial)));
    }
    let reverted = journal::last_of(&file::digest(policy)).filter(|end| end.ending.result == TrialResult::Reverted);
    Ok(reverted.map(|end| {
        format!(
            "its trial was reverted at {}: {}; change the file, or use `tccc policy apply`",
            end.at,
            end.ending.reason()
        )
    }))
}

/// The rules as they were at the end of a trial that was kept. `None` if no trial of them was kept.
pub(super) fn concluded(policy: &Policy) -> Option<Policy> {
    let kept = journal::last_of(&file::digest(policy)).filter(|end| end.ending.result == TrialResult::Kept)?;
    Some(progress::concluded(policy, &kept.steps?))
}

/// Whether a policy is the declared one, at any step of its trial.
fn is_same(declared: &Policy, now: &Policy) -> bool {
    let pairs = declared.rules.iter().zip(&now.rules);
    declared.rules.len() == now.rules.len() && pairs.into_iter().all(|(one, other)| is_same_rule(one, other))
}

fn is_same_rule(declared: &Rule, now: &Rule) -> bool {
    let rises = declared.trial.as_ref().is_some_and(|trial| !trial.steps.is_empty());
    let names = |rule: &Rule| rule.split.arms.iter().map(|arm| arm.treatment.clone()).collect::<Vec<_>>();
    let is_same_split = match rises {
        true => names(declared).iter().filter(|it| it.algorithm().is_some()).all(|it| names(now).contains(it)),
        false => declared.split == now.split,
    };
    let rest = |rule: &Rule| Rule { line: 0, split: declared.split.clone(), trial: None, ..rule.clone() };
    is_same_split && rest(declared) == rest(now)
}

fn of_default(declaration: &Declaration, now: &str, instances: &[LoadedName]) -> Result<Option<Difference>> {
    let difference = of_default_without_trial(declaration, now, instances);
    let Some(TrialSubject::Default { name }) = trial::current()?.map(|trial| trial.subject) else {
        return Ok(difference);
    };
    let why = format!("\"{name}\" is on trial as the default: `tccc confirm {name}`, or `tccc policy abort`");
    Ok(difference.map(|difference| person(difference.what, why)))
}

fn of_default_without_trial(declaration: &Declaration, now: &str, instances: &[LoadedName]) -> Option<Difference> {
    if let Some(wanted) = &declaration.default {
        let what = format!("the default is \"{now}\", and \"{wanted}\" is declared");
        return (now != wanted).then(|| step(what, ApplyStep::SetDefault(wanted.clone())));
    }
    let set_by_us = |it: &&LoadedName| {
        it.name == now && declared_here(declaration, it.record.as_ref()).is_some_and(|declared| declared.default)
    };
    let stays = instances.iter().find(set_by_us).filter(|it| declaration.algorithms.contains_key(&it.name));
    stays.map(|LoadedName { name, .. }| {
        let what = format!("\"{name}\" is the default, and no default is declared any more");
        step(what, ApplyStep::RestoreDefault(name.clone()))
    })
}

/// Like [`between`], for a folder that may be missing.
///
/// # Errors
/// As [`super::file::read`] and [`between`].
pub fn of_host(folder: &Path, features: &Features) -> Result<Vec<Difference>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    between(&super::file::read(folder)?, features)
}
