//! Applies and removes a policy as a whole: the algorithms that its rules name, its generation, and open connections.

use std::fs::File;

use anyhow::{Context, Result};

use super::counts::{self, PolicyCounts};
use super::generation::{self, Base, GenerationRole, NewGeneration};
use super::lease;
use super::migrate::{self, Moves, SweepParts};
use super::pins::PolicyPins;
use super::record::{GenerationRecord, PolicyRecord, TrialRecord};
use super::resolve;
use super::rule::Policy;
use super::table::RuleTables;
use crate::loader::{self, LoadOptions, Request};
use crate::state::pins::Pins;
use crate::state::{LockSubject, Store};
use shared::failure::Failure;
use shared::fault;
use shared::interrupt;
use shared::kernel::netns::Netns;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::probe::Features;
use shared::kernel::{bpf, bpffs, cgroup, congestion};

/// Attempts to load algorithms that another command keeps unloading.
const LOADS_MAX: usize = 5;

#[derive(Debug)]
pub struct Applied {
    pub generation: GenerationRecord,
    pub loaded: Vec<String>,
    /// Algorithms of an earlier policy that no rule names now.
    pub unloaded: Vec<String>,
    /// `None` if open connections were not moved.
    pub moves: Option<Moves>,
    /// Open connections lost the labels of another version of tccc.
    pub lost_labels: bool,
}

#[derive(Debug, Default)]
pub struct Removed {
    /// There was a policy.
    pub was_there: bool,
    /// Algorithms that were loaded for it.
    pub unloaded: Vec<String>,
    /// `None` if open connections were not moved.
    pub moves: Option<Moves>,
    /// Why an algorithm that was loaded for it stays.
    pub left: Option<anyhow::Error>,
}

impl Removed {
    /// # Errors
    /// An algorithm that was loaded for the policy stays.
    pub fn whole(mut self) -> Result<Self> {
        self.left.take().map_or(Ok(self), Err)
    }
}

/// Loads the algorithms that the rules name and puts the rules into effect. With `live`, also for open connections.
///
/// Side effects: those of [`generation::apply`] and of [`loader::load`].
///
/// # Errors
/// A rule names an algorithm or a namespace that does not exist; a trial is running; the kernel refuses. The current
/// policy then stays, and the algorithms just loaded are unloaded. An error that says that the policy is applied is of
/// what follows: unloading, and moving open connections.
pub(crate) fn apply(new: NewGeneration, live: bool) -> Result<Applied> {
    let policy = new.policy;
    require_rights(policy, live)?;
    let features = resolve::features()?;
    interrupt::check(|| "the policy is not applied".to_owned())?;
    let lost_labels = PolicyPins::of_host().is_some_and(|pins| pins.has_labels_of_other_version());
    refuse_lost_names(&new)?;
    let loaded = load_missing(policy, features)?;
    fault::point("apply.algorithms");
    let begun = begin(new, loaded, features);
    let (generation, loaded) = begun.inspect_err(|_| drop(unload_unneeded()))?;
    let number = generation.number;
    let rest = || format!("the policy is applied (generation {number}), but not everything else is done");
    let unloaded = unload_unneeded().with_context(rest)?;
    let moves = live.then(|| move_open(&generation)).transpose().with_context(rest)?;
    Ok(Applied { generation, loaded, unloaded, moves, lost_labels })
}

/// # Errors
/// Another command unloaded what was loaded for the trial. No rule named it yet.
fn refuse_lost_names(new: &NewGeneration) -> Result<()> {
    let GenerationRole::Begins(trial) = &new.role else { return Ok(()) };
    let Some(lost) = missing(new.policy)?.into_iter().find(|name| trial.loaded.contains(name)) else { return Ok(()) };
    new.base.check(current()?.map(|generation| generation.number))?;
    Err(Failure::again(format!("another command unloaded \"{lost}\" meanwhile")).hint("run the command again").into())
}

/// # Errors
/// This process may not apply a policy (unmet).
pub fn require_rights(policy: &Policy, live: bool) -> Result<(), Failure> {
    privilege::require("apply a policy", &rights(policy, live))
}

/// Entering network namespaces, for their cookies or for open connections, takes one more capability.
fn rights(policy: &Policy, live: bool) -> Vec<Capability> {
    let enters = live || policy.rules.iter().any(|rule| !rule.when.netns.is_empty());
    privilege::FOR_LOAD.into_iter().chain(enters.then_some(Capability::SysAdmin)).collect()
}

fn missing(policy: &Policy) -> Result<Vec<String>> {
    let available = congestion::available()?;
    Ok(resolve::algorithms(policy).into_iter().filter(|name| !available.contains(name)).collect())
}

/// Applies the generation once all its algorithms are registered. Also returns the names that were loaded for it.
fn begin(new: NewGeneration, mut loaded: Vec<String>, features: &Features) -> Result<(GenerationRecord, Vec<String>)> {
    let store = Store::of_host();
    for _ in 0..LOADS_MAX {
        let locked = store.lock(LockSubject::Policy)?;
        if missing(new.policy)?.is_empty() {
            return Ok((generation::apply(&locked, new)?, loaded));
        }
        drop(locked);
        // Meanwhile, another command unloaded an algorithm that no rule named yet.
        loaded.extend(load_missing(new.policy, features)?);
    }
    let gone = missing(new.policy)?.first().cloned().unwrap_or_default();
    let what = format!("another command keeps unloading \"{gone}\"");
    Err(Failure::failed(what).hint("apply the policy again").into())
}

/// Returns the names of the algorithms that were loaded.
fn load_missing(policy: &Policy, features: &Features) -> Result<Vec<String>> {
    let mut loaded: Vec<String> = Vec::new();
    for algorithm in resolve::to_load(policy)? {
        let options = LoadOptions { with_policy: true, ..LoadOptions::default() };
        match loader::load(&Request::of(algorithm), options, features) {
            Ok(_) => loaded.push(algorithm.id.clone()),
            // Another command loaded it first.
            Err(_) if congestion::available()?.contains(&algorithm.id) => {}
            Err(error) => {
                let _ = unload_unneeded();
                return Err(error);
            }
        }
    }
    Ok(loaded)
}

/// Unloads algorithms that were loaded for a policy and that no generation names now. Returns their names.
///
/// # Errors
/// The kernel still lists one afterwards.
pub(crate) fn unload_unneeded() -> Result<Vec<String>> {
    let store = Store::of_host();
    if !store.records().iter().any(|record| record.with_policy) {
        return Ok(Vec::new());
    }
    let locked = store.lock(LockSubject::Policy)?;
    let record = PolicyRecord::read(&store)?;
    let needed = record.generations.iter().flat_map(|it| resolve::algorithms(&it.policy)).collect();
    loader::unload_with_policy(&locked, &needed, resolve::features()?)
}

/// Removes the policy and unloads its algorithms. With `live`, open connections get back their earlier algorithms, and their
/// labels stay. So a later policy does not take these algorithms for choices of the programs.
///
/// # Errors
/// Another policy than `base` decides; not permitted; the BPF file system is read-only.
pub(crate) fn remove(live: bool, base: Base) -> Result<Removed> {
    privilege::require("remove the policy", &rights(&Policy::default(), live))?;
    bpffs::check_reachable()?;
    let pins = PolicyPins::of_host();
    let store = Store::of_host();
    let read = PolicyRecord::read(&store);
    let is_noted = read.as_ref().map_or(true, |record| !record.generations.is_empty());
    let was_there = pins.as_ref().is_some_and(|pins| !pins.is_empty()) || is_noted;
    // Opened before the pins are removed, because the sweep below needs the labels. They may be those of an earlier policy.
    let labels = pins.as_ref().filter(|_| live).and_then(|pins| bpf::open_pin(&pins.labels()).ok());
    if was_there {
        let locked = store.lock(LockSubject::Policy)?;
        if base != Base::Any {
            base.check(current()?.map(|generation| generation.number))?;
        }
        generation::remove(&locked, pins.as_ref(), live)?;
    } else if let Some(pins) = pins.as_ref().filter(|pins| pins.folder().exists()) {
        let locked = store.lock(LockSubject::Policy)?;
        if live { generation::settle(&locked, pins).map(drop)? } else { generation::forget_labels(&locked, pins)? }
    }
    let take_back = |labels| migrate::move_all(&RuleTables::default(), &SweepParts::without_rules(labels));
    let moves = labels.map(take_back).transpose()?;
    let (unloaded, left) = match unload_unneeded() {
        Ok(unloaded) => (unloaded, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    Ok(Removed { was_there, unloaded, moves, left })
}

/// Applies a generation's rules to open connections.
///
/// # Errors
/// The generation is gone; the kernel refuses the sweep.
pub(crate) fn move_open(generation: &GenerationRecord) -> Result<Moves> {
    let pins = PolicyPins::of(Pins::writable()?);
    let record = PolicyRecord::read(&Store::of_host())?;
    let tables = RuleTables::of(&generation.policy, &resolve::resolve_present(&generation.policy, &record)?);
    migrate::move_all(&tables, &shared(&pins, generation.number)?)
}

/// # Errors
/// The generation is not pinned; another version of tccc pinned it.
pub fn shared(pins: &PolicyPins, number: u32) -> Result<SweepParts> {
    if pins.is_of_other_version(number) {
        let what = "another version of tccc applied the policy, and its maps cannot be read";
        return Err(Failure::failed(what).hint("apply the policy again").into());
    }
    Ok(SweepParts { labels: bpf::open_pin(&pins.labels())?, cgroups: Some(pins.open(number, "cgroups")?), number })
}

/// What [`apply`] would change, in order.
///
/// # Errors
/// Those of [`apply`] that are known beforehand.
pub fn plan(policy: &Policy, live: bool) -> Result<Vec<String>> {
    require_rights(policy, live)?;
    let pins = PolicyPins::of(Pins::writable()?);
    let store = Store::of_host();
    let record = PolicyRecord::read(&store)?;
    generation::refuse_beside_another(&pins, &record)?;
    generation::refuse_during_trial(record.trial.as_ref().filter(|trial| !lease::is_over(trial)))?;
    resolve::resolve(policy, &record)?;
    resolve::check_limits(policy)?;
    let before = generation::deciding(&pins, &record);
    let root = cgroup::root()?;
    if generation::active(&pins, &record).is_none() {
        generation::refuse_beside_exclusive(&root, &File::open(&root).context("open the root of the cgroups")?)?;
    }
    let to_load = resolve::to_load(policy)?;
    for algorithm in &to_load {
        let options = LoadOptions { with_policy: true, dry_run: true, ..LoadOptions::default() };
        loader::load(&Request::of(algorithm), options, resolve::features()?)?;
    }
    let mut changes: Vec<String> = bpffs::mount_phrase().into_iter().collect();
    if pins.has_labels_of_other_version() {
        changes.push("remove the labels of open connections, which another version of tccc wrote".to_owned());
    }
    changes.extend(to_load.iter().map(|algorithm| format!("load \"{}\"", algorithm.id)));
    changes.push(format!("write the record {}", super::record::path(&store).display()));
    let verb = match before {
        Some(number) => format!("replace generation {number} of the policy"),
        None => "attach a policy".to_owned(),
    };
    changes.push(format!("{verb} at the cgroup {} and pin it at {}", root.display(), pins.link().display()));
    if live {
        changes.push("change the algorithm of open connections".to_owned());
    }
    Ok(changes)
}

#[derive(Debug, Default)]
pub struct AppliedPolicy {
    pub generation: Option<GenerationRecord>,
    /// `None` if this user may not read them.
    pub counts: Option<PolicyCounts>,
    pub trial: Option<TrialRecord>,
    /// One phrase for each difference from what was applied.
    pub drift: Vec<String>,
}

/// The generation that is attached. Unless a trial is over and not cleared yet, it decides.
///
/// # Errors
/// The record is damaged; the BPF file system is hidden.
pub fn current() -> Result<Option<GenerationRecord>> {
    bpffs::check_reachable()?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let number = PolicyPins::of_host().and_then(|pins| generation::active(&pins, &record));
    Ok(number.and_then(|number| record.generation(number).cloned()))
}

/// Refuses to describe a policy whose pins are in another BPF file system.
///
/// # Errors
/// There is one; the record is damaged.
pub fn refuse_hidden() -> Result<()> {
    let record = PolicyRecord::read(&Store::of_host())?;
    if generation::decides_elsewhere(PolicyPins::of_host().as_ref(), &record).is_none() {
        return Ok(());
    }
    let what = "a policy decides, but its pins are not in a BPF file system that is mounted here";
    Err(Failure::failed(what).hint("run the command in the mount namespace where it was applied").into())
}

/// The generation that decides about new connections now.
///
/// # Errors
/// The record is damaged; the BPF file system is hidden.
pub fn deciding() -> Result<Option<GenerationRecord>> {
    bpffs::check_reachable()?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let number = PolicyPins::of_host().and_then(|pins| generation::deciding(&pins, &record));
    Ok(number.and_then(|number| record.generation(number).cloned()))
}

/// Counts the open connections of each rule that have another algorithm than it gives, because they are older than the
/// rules. `--live` moves them.
///
/// Shape: rule by rule.
///
/// # Errors
/// Not permitted; the generation is gone; the kernel refuses the program.
pub fn count_older(generation: &GenerationRecord) -> Result<Vec<u64>> {
    let GenerationRecord { number, policy, .. } = generation;
    privilege::require("count open connections", &[Capability::SysAdmin])?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let tables = RuleTables::of(policy, &resolve::resolve_present(policy, &record)?);
    let pins = PolicyPins::of_host().context("find the pins of the policy")?;
    let counts = migrate::count_older(&tables, &shared(&pins, *number)?)?;
    Ok(counts[..policy.rules.len()].to_vec())
}

/// What is attached, as [`current`] finds it.
///
/// # Errors
/// The record is damaged; the BPF file system is hidden.
pub fn standing() -> Result<AppliedPolicy> {
    standing_of(generation::active)
}

/// Like [`standing`], of what decides about new connections now.
///
/// # Errors
/// As [`standing`].
pub fn standing_now() -> Result<AppliedPolicy> {
    standing_of(generation::deciding)
}

fn standing_of(which: fn(&PolicyPins, &PolicyRecord) -> Option<u32>) -> Result<AppliedPolicy> {
    bpffs::check_reachable()?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let pins = PolicyPins::of_host();
    let active = pins.as_ref().and_then(|pins| which(pins, &record));
    let generation = active.and_then(|number| record.generation(number).cloned());
    let (Some(pins), Some(generation)) = (&pins, generation) else {
        let is_attached = pins.as_ref().is_some_and(|pins| generation::active(pins, &record).is_some());
        let drift = if is_attached { Vec::new() } else { without_policy(pins.as_ref(), &record) };
        return Ok(AppliedPolicy { drift, ..AppliedPolicy::default() });
    };
    let counts = counts::read(pins, generation.number, &generation.policy).ok();
    let trial = record.trial.or(record.next_trial).filter(|trial| Some(trial.generation) == active);
    Ok(AppliedPolicy { drift: drift_of(&generation, pins), generation: Some(generation), counts, trial })
}

/// The drift if no recorded generation is in effect through a pin of this host.
fn without_policy(pins: Option<&PolicyPins>, record: &PolicyRecord) -> Vec<String> {
    let has_pins = pins.is_some_and(|pins| !pins.is_empty());
    let what = if generation::decides_elsewhere(pins, record).is_some() {
        "it is in effect, but its pins are in another BPF file system than the one mounted here, or in a read-only \
         one: `tccc policy remove` detaches it"
    } else if pins.and_then(generation::linked).is_some() {
        "the policy in effect is not in the record, which was lost: `tccc policy remove` ends it"
    } else if pins.is_some_and(|pins| !pins.may_be_seen()) {
        "only root can read its pins"
    } else if !record.generations.is_empty() && pins.is_some_and(generation::was_detached) {
        "it was detached by somebody, and has no effect: apply it again, or `tccc policy remove` removes what is left"
    } else if has_pins || !record.generations.is_empty() {
        "parts of a policy that has no effect are left: `tccc policy remove` removes them"
    } else if pins.is_some_and(|pins| pins.labels().exists()) {
        "labels of open connections that it changed are kept for the next policy: `tccc policy remove --live` gives these \
         connections back what they had, `tccc policy remove` only removes the labels"
    } else {
        return Vec::new();
    };
    vec![what.to_owned()]
}

fn drift_of(generation: &GenerationRecord, pins: &PolicyPins) -> Vec<String> {
    let available = congestion::available().unwrap_or_default();
    let gone = resolve::algorithms(&generation.policy).into_iter().filter(|name| !available.contains(name));
    let mut drift: Vec<String> =
        gone.map(|name| format!("a rule of the policy gives \"{name}\", which is no longer registered")).collect();
    let names = generation.policy.rules.iter().flat_map(|rule| &rule.when.netns);
    for name in names.filter(|name| Netns::find(name).is_err()) {
        drift.push(format!("a rule of the policy is for the network namespace \"{name}\", which is gone"));
    }
    if pins.is_of_other_version(generation.number) {
        drift.push("another version of tccc applied it, and its maps cannot be read: apply it again".to_owned());
    } else if !pins.is_whole(generation.number) {
        drift.push("some of its pins are gone: apply it again".to_owned());
    }
    drift
}

/// What [`remove`] would change, in order. Empty without a policy.
///
/// # Errors
/// A capability is missing; the BPF file system is hidden.
pub fn removal_plan(live: bool) -> Result<Vec<String>> {
    privilege::require("remove the policy", &rights(&Policy::default(), live))?;
    bpffs::check_reachable()?;
    let store = Store::of_host();
    let pins = PolicyPins::of_host();
    let keeps_labels = live && pins.as_ref().is_some_and(|pins| pins.labels().exists());
    let mut changes = Vec::new();
    if keeps_labels {
        changes.push("give open connections back the algorithm that they had".to_owned());
    }
    match &pins {
        Some(pins) if !pins.is_empty() => {
            changes.push(format!("detach the policy and remove the pins in {}", pins.folder().display()));
        }
        Some(pins) if !live && pins.folder().exists() => {
            changes.push("forget which open connections earlier policies changed".to_owned());
        }
        _ => {}
    }
    let record = PolicyRecord::read(&store).unwrap_or_default();
    if generation::decides_elsewhere(pins.as_ref(), &record).is_some() {
        changes.push("detach the policy, whose pins are in another BPF file system".to_owned());
    }
    if keeps_labels {
        changes.push("keep the labels of these connections, and the record, for a later policy".to_owned());
    }
    let path = super::record::path(&store);
    if path.exists() && !keeps_labels {
        changes.push(format!("remove the record {}", path.display()));
    }
    let loaded = store.records().into_iter().filter(|record| record.with_policy);
    changes.extend(loaded.map(|record| format!("unload \"{}\"", record.name)));
    Ok(changes)
}
