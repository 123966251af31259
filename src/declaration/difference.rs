//! How the host differs from what is declared, and the step that makes it so.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use super::{Declaration, Declared, DeclaredPolicy};
use crate::kernel::probe::Features;
use crate::kernel::{cgroup, congestion};
use crate::loader;
use crate::loader::survey::{self, Instance, Standing};
use crate::policy::record::{GenerationRecord, TrialResult, TrialSubject};
use crate::policy::rule::{Policy, Rule};
use crate::policy::{change, file};
use crate::state::{Attachment, DeclaredIn, Record, Store};
use crate::trial::{self, journal};

/// One thing that is not as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// How it is, and how it is declared: one phrase.
    pub what: String,
    /// What makes it as declared.
    pub cure: Cure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cure {
    /// A step of [`super::carry_out`].
    Step(Step),
    /// Nothing that may be done without a person: why.
    Person(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Load(String),
    /// Unload what is left of it or is otherwise than declared, then load it.
    Reload(String),
    /// Put other code, or other tunables, under a loaded name.
    Upgrade(String),
    /// Keep an algorithm that a policy loaded, whatever becomes of the policy.
    Keep(String),
    ApplyPolicy,
    /// Remove a policy that was declared and is no more.
    RemovePolicy,
    SetDefault(String),
    /// Put the default back that was there before this one.
    RestoreDefault(String),
    /// Unload what was declared and is no more.
    Unload(String),
}

impl Step {
    pub fn phrase(&self) -> String {
        match self {
            Step::Load(name) => format!("load \"{name}\""),
            Step::Reload(name) => format!("unload \"{name}\" and load it as declared"),
            Step::Upgrade(name) => format!("upgrade \"{name}\""),
            Step::Keep(name) => format!("keep \"{name}\" loaded when the policy goes"),
            Step::ApplyPolicy => "apply the policy".to_owned(),
            Step::RemovePolicy => "remove the policy".to_owned(),
            Step::SetDefault(name) => format!("make \"{name}\" the default"),
            Step::RestoreDefault(name) => format!("put the default back that was there before \"{name}\""),
            Step::Unload(name) => format!("unload \"{name}\""),
        }
    }
}

/// Everything that is not as declared, in the order in which it is to be changed.
///
/// Errors: the kernel has no TCP or shows no type information; a record is damaged.
pub fn between(declaration: &Declaration, features: &Features) -> Result<Vec<Difference>> {
    let store = Store::of_host();
    let instances = survey::instances(&store, features)?;
    let by_name: BTreeMap<&str, &Instance> = instances.iter().map(|it| (it.name.as_str(), it)).collect();
    let available = congestion::available()?;
    let now = congestion::default()?;
    let mut differences = Vec::new();
    for (name, declared) in &declaration.algorithms {
        let loaded = by_name.get(name.as_str()).copied();
        differences.extend(of_algorithm(name, declared, loaded, (&available, features)));
    }
    differences.extend(of_policy(declaration)?);
    differences.extend(of_default(declaration, &now, &instances)?);
    let undeclared = |it: &&Instance| {
        declared_here(declaration, it.record.as_ref()).is_some() && !declaration.algorithms.contains_key(&it.name)
    };
    let undeclared = instances
        .iter()
        .filter(undeclared)
        .map(|it| step(format!("\"{}\" is loaded and is no longer declared", it.name), Step::Unload(it.name.clone())));
    differences.extend(undeclared);
    Ok(differences)
}

fn step(what: String, step: Step) -> Difference {
    Difference { what, cure: Cure::Step(step) }
}

fn person(what: String, why: impl Into<String>) -> Difference {
    Difference { what, cure: Cure::Person(why.into()) }
}

/// What an earlier `tccc apply` of the same folder noted of it.
fn declared_here<'a>(declaration: &Declaration, record: Option<&'a Record>) -> Option<&'a DeclaredIn> {
    record?.declared.as_ref().filter(|declared| declared.folder == declaration.folder)
}

fn of_algorithm(
    name: &str,
    declared: &Declared,
    loaded: Option<&Instance>,
    (available, features): (&[String], &Features),
) -> Option<Difference> {
    let Some(instance) = loaded else {
        if available.iter().any(|other| other == name) {
            let what = format!("\"{name}\" is registered, but not by tccc");
            return Some(person(what, "who registered it must remove it, or declare yours under another name"));
        }
        return Some(step(format!("\"{name}\" is not loaded"), Step::Load(name.to_owned())));
    };
    let name = name.to_owned();
    match instance.standing() {
        Standing::Run => {
            let pid = instance.owner_pid().unwrap_or_default();
            return Some(person(format!("\"{name}\" is registered by a tccc run (pid {pid})"), "wait until it ends"));
        }
        Standing::Leftover => return Some(step(format!("parts of \"{name}\" are left"), Step::Reload(name))),
        Standing::Pinned => {}
    }
    let Some(record) = &instance.record else {
        return Some(step(format!("the record of \"{name}\" is lost"), Step::Reload(name)));
    };
    if record.unconfirmed.is_some() {
        let hint = format!("`tccc confirm {name}`, or wait until it is undone");
        return Some(person(format!("\"{name}\" waits to be confirmed"), hint));
    }
    if record.receiver != declared.receiver || !is_where_declared(declared, record.companion.as_ref()) {
        return Some(step(format!("the companion of \"{name}\" is not as declared"), Step::Reload(name)));
    }
    if record.companion.is_some() && !instance.is_companion_attached {
        return Some(step(format!("the companion of \"{name}\" is no longer attached"), Step::Reload(name)));
    }
    let change = if features.link_update { Step::Upgrade(name.clone()) } else { Step::Reload(name.clone()) };
    if record.digest != loader::digest(&declared.algorithm.object) || !instance.is_as_recorded() {
        return Some(step(format!("\"{name}\" has other code than declared"), change));
    }
    if let Some(what) = other_tunables(declared, record) {
        return Some(step(format!("\"{name}\" has {what}"), change));
    }
    record.with_policy.then(|| step(format!("\"{name}\" is loaded for the policy alone"), Step::Keep(name)))
}

fn is_where_declared(declared: &Declared, attachment: Option<&Attachment>) -> bool {
    let Some(place) = &declared.cgroup else { return true };
    attachment.is_some_and(|attachment| cgroup::resolve(place).is_ok_and(|path| path == attachment.cgroup))
}

/// Which tunables have another value than declared: `keep_avoidance=768, declared 896`.
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
    let is_ours = |generation: &GenerationRecord| generation.file.as_ref().is_some_and(|file| declaration.owns(file));
    let Some(DeclaredPolicy { file, policy }) = &declaration.policy else {
        let undeclared = standing.generation.filter(is_ours);
        let what = "the policy is no longer declared";
        return Ok(undeclared.map(|_| step(what.to_owned(), Step::RemovePolicy)));
    };
    let now = standing.generation.map(|it| it.policy);
    let is_same = now.as_ref().is_some_and(|now| is_same(policy, now));
    if is_same && standing.drift.is_empty() {
        return Ok(None);
    }
    let what = match &now {
        None => format!("no policy decides, and {} is declared", file.display()),
        Some(_) if is_same => format!("the policy: {}", standing.drift.join("; ")),
        Some(_) => format!("the policy that decides is not the one of {}", file.display()),
    };
    Ok(Some(match why_not_now(policy)? {
        Some(why) => person(what, why),
        None => step(what, Step::ApplyPolicy),
    }))
}

/// Why a policy is not applied although it is declared.
fn why_not_now(policy: &Policy) -> Result<Option<String>> {
    if let Some(trial) = trial::current()? {
        return Ok(Some(format!("{} is on trial: confirm or abort it first", trial.subject.phrase())));
    }
    let digest = file::digest(policy);
    let taken_back = journal::last().filter(|end| {
        let is_it = end.subject == TrialSubject::Policy && end.policy.as_deref() == Some(digest.as_str());
        is_it && end.result == TrialResult::Reverted
    });
    Ok(taken_back.map(|end| {
        format!("its trial was taken back at {}: {}; change the file, or use `tccc policy apply`", end.at, end.why)
    }))
}

/// Whether a policy decides as declared, wherever its trial has come to.
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

fn of_default(declaration: &Declaration, now: &str, instances: &[Instance]) -> Result<Option<Difference>> {
    if let Some(TrialSubject::Default { name }) = trial::current()?.map(|trial| trial.subject) {
        let why = format!("`tccc confirm {name}`, or `tccc policy abort`");
        return Ok(Some(person(format!("\"{name}\" is on trial as the default"), why)));
    }
    if let Some(wanted) = &declaration.default {
        let what = format!("the default is \"{now}\", declared \"{wanted}\"");
        return Ok((now != wanted).then(|| step(what, Step::SetDefault(wanted.clone()))));
    }
    let set_by_us = |it: &&Instance| {
        it.name == now && declared_here(declaration, it.record.as_ref()).is_some_and(|declared| declared.default)
    };
    let stays = instances.iter().find(set_by_us).filter(|it| declaration.algorithms.contains_key(&it.name));
    Ok(stays.map(|it| {
        step(
            format!("\"{}\" is the default, and a default is no longer declared", it.name),
            Step::RestoreDefault(it.name.clone()),
        )
    }))
}

/// What differs, where the folder has files; nothing where it has none.
///
/// Errors: as [`super::file::read`] and [`between`].
pub fn of_host(folder: &Path, features: &Features) -> Result<Vec<Difference>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let declaration = super::file::read(folder)?;
    between(&declaration, features)
}
