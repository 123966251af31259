//! Applies, replaces and removes generations of the policy. If a command is killed, the next one continues.
//!
//! The program that the cgroup's link attaches shows which generation decides. [`settle`] adjusts everything else to
//! that. Every command that changes something calls [`settle`] first.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::label::LabelReader;
use super::lease;
use super::pins::{PROGRAM, PolicyPins};
use super::program::{self, Lease, LoadedPolicy};
use super::record::{GenerationRecord, PolicyOrigin, PolicyRecord, TrialRecord, TrialSubject};
use super::resolve;
use super::rule::Policy;
use super::table::RuleTables;
use crate::state::Locked;
use crate::state::pins::Pins;
use shared::failure::Failure;
use shared::fault;
use shared::kernel::bpf::CgroupLink;
use shared::kernel::{bpf, cgroup, clock};

const LEFT: &str = "the policy is no longer in effect, but parts of it are left";

#[derive(Debug)]
pub struct NewGeneration<'a> {
    /// Includes the rules of a trial.
    pub policy: &'a Policy,
    pub origin: &'a PolicyOrigin,
    pub role: GenerationRole,
    pub base: Base,
}

/// The policy whose rules a new policy contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The new policy replaces any other.
    Any,
    /// The number of the generation, or `None` if there was no policy. During a trial, that from before the trial.
    Is(Option<u32>),
}

impl Base {
    /// The base of a policy that extends `current`.
    pub fn of(current: Option<&GenerationRecord>) -> Self {
        Base::Is(current.map(|generation| generation.number))
    }

    /// # Errors
    /// Another generation decides by now. Its rules would be lost.
    pub fn check(self, now: Option<u32>) -> Result<(), Failure> {
        if self == Base::Any || self == Base::Is(now) {
            return Ok(());
        }
        let now = now.map_or("it was removed".to_owned(), |number| format!("generation {number} decides now"));
        Err(Failure::again(format!("the policy changed meanwhile: {now}")).hint("run the command again"))
    }
}

#[derive(Debug)]
pub enum GenerationRole {
    /// Decides until another policy replaces it. Refused while a trial runs.
    Permanent,
    /// Begins a trial with a full lease. [`apply`] fills in the trial's generations.
    Begins(TrialRecord),
    /// Replaces the generation on trial with its next step. The lease ends at `until_ns` (CLOCK_BOOTTIME, nanoseconds).
    Continues { trial: TrialRecord, until_ns: u64 },
    /// Ends the trial with success: the same rules become permanent.
    Concludes,
}

/// Puts a policy into effect instead of the current one.
///
/// Side effects: pins, a record, and a program on the root of the cgroups. [`remove`] undoes all of them.
///
/// # Errors
/// A trial is running; the policy is no longer the base of the new one; the kernel refuses; another program allows none
/// beside it. The current policy stays.
pub(crate) fn apply(locked: &Locked, new: NewGeneration) -> Result<GenerationRecord> {
    let pins = PolicyPins::of(Pins::writable()?);
    let root = cgroup::root()?;
    refuse_beside_another(&pins, &PolicyRecord::read(locked.store())?)?;
    let mut record = settle(locked, &pins)?;
    let within = record.trial.clone();
    match new.role {
        GenerationRole::Permanent | GenerationRole::Begins(_) => refuse_during_trial(record.trial.as_ref())?,
        GenerationRole::Continues { .. } | GenerationRole::Concludes => {
            ensure!(within.is_some(), "no trial is running")
        }
    }
    let before = active(&pins, &record);
    // At every step of a trial, the generation from before the trial decides once the lease expires.
    let previous = within.as_ref().map_or(before, |trial| trial.previous);
    new.base.check(previous)?;
    let number = record.take_number();
    record.number_arms(new.policy);
    let mut generation = GenerationRecord {
        number,
        program_id: 0,
        since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        file: new.origin.file.clone(),
        by: new.origin.by.clone(),
        declared: new.origin.declared.clone(),
        policy: new.policy.clone(),
        cgroup: root.clone(),
    };
    record.generations.push(generation.clone());
    record.write(locked)?;
    fault::point("apply.noted");
    let now_ns = clock::boottime_ns()?;
    let (trial, until_ns) = match &new.role {
        GenerationRole::Begins(trial) => (Some(trial), Some(trial.lease_from(now_ns))),
        GenerationRole::Continues { trial, until_ns } => (Some(trial), Some(*until_ns)),
        GenerationRole::Permanent | GenerationRole::Concludes => (None, None),
    };
    let brought_up = load(&record, number, &pins, (previous, until_ns)).and_then(|loaded| {
        pins.keep(number, &loaded)?;
        fault::point("apply.pinned");
        generation.program_id = bpf::program_id(&loaded.program)?;
        *record.generations.last_mut().context("find the new generation")? = generation.clone();
        record.next_trial = trial.map(|trial| TrialRecord { generation: number, previous, ..trial.clone() });
        record.write(locked)?;
        fault::point("apply.numbered");
        attach(&loaded, before, (&record, &pins), &root)
    });
    if let Err(error) = brought_up {
        record.generations.retain(|generation| generation.number != number);
        record.next_trial = None;
        // The next command clears what cannot be undone now. The first error matters more.
        let _ = pins.remove_generation(number).and_then(|()| clear_unused(&pins, &mut record));
        let _ = record.write(locked);
        return Err(error);
    }
    fault::point("apply.attached");
    // The new generation decides already. The next command clears what cannot be cleared now.
    let _ = settle(locked, &pins);
    fault::point("apply.settled");
    Ok(generation)
}

/// # Errors
/// A trial is running. The hint says how to end it.
pub fn refuse_during_trial(trial: Option<&TrialRecord>) -> Result<(), Failure> {
    let Some(trial) = trial else { return Ok(()) };
    let what = format!("{} is on trial", trial.subject.phrase());
    Err(Failure::failed(what).hint("`tccc confirm` keeps it, `tccc policy abort` ends it; `tccc status` shows it"))
}

fn load(
    record: &PolicyRecord,
    number: u32,
    pins: &PolicyPins,
    (before, until_ns): (Option<u32>, Option<u64>),
) -> Result<LoadedPolicy> {
    let policy = &record.generation(number).context("find the new generation")?.policy;
    let tables = RuleTables::of(policy, &resolve::resolve(policy, record)?);
    let labels = bpf::open_pin(&pins.labels()).ok();
    let before = before.filter(|_| until_ns.is_some());
    let fallback = before.map(|number| program_of(number, record, pins)).transpose()?;
    let lease = until_ns.map(|until_ns| Lease { until_ns, fallback: fallback.as_ref().map(OwnedFd::as_fd) });
    program::load(&tables, number, labels.as_ref().map(OwnedFd::as_fd), lease)
}

fn attach(
    loaded: &LoadedPolicy,
    before: Option<u32>,
    (record, pins): (&PolicyRecord, &PolicyPins),
    root: &Path,
) -> Result<()> {
    if let Some(before) = before {
        return swap(&program_of(before, record, pins)?, &loaded.program, pins);
    }
    let folder = File::open(root).with_context(|| format!("open the cgroup {}", root.display()))?;
    let link = bpf::attach_sock_ops(&loaded.program, &folder);
    bpf::pin(&link.map_err(|error| attach_refusal(&error, root, &folder))?, &pins.link())
}

/// Replaces the attached program `expected`.
fn swap(expected: &OwnedFd, program: &OwnedFd, pins: &PolicyPins) -> Result<()> {
    let link = bpf::open_pin(&pins.link())?;
    bpf::replace_program(&link, program, expected).context("replace the earlier policy")
}

/// Opens a generation's program by its pin, or by its id if the pin is gone.
fn program_of(number: u32, record: &PolicyRecord, pins: &PolicyPins) -> Result<OwnedFd> {
    pins.open(number, PROGRAM).or_else(|error| {
        let id = record.generation(number).map(|generation| generation.program_id);
        id.and_then(|id| bpf::open_program(id).ok()).ok_or(error)
    })
}

/// The usual reason is a program attached without `BPF_F_ALLOW_MULTI`.
fn attach_refusal(error: &io::Error, root: &Path, folder: &File) -> anyhow::Error {
    let place = root.display();
    let refused = || {
        Failure::unmet(format!("cannot apply a policy: the kernel refuses its program at the cgroup {place}: {error}"))
    };
    refuse_beside_exclusive(root, folder).err().unwrap_or_else(refused).into()
}

/// # Errors
/// A program is attached without `BPF_F_ALLOW_MULTI`. The error names that program.
pub fn refuse_beside_exclusive(root: &Path, folder: &File) -> Result<(), Failure> {
    let alone = bpf::sock_ops_of(folder).ok().filter(|programs| !programs.allows_others);
    let Some(alone) = alone else { return Ok(()) };
    let id = alone.ids.first().copied().unwrap_or_default();
    let name = bpf::program_name(id).unwrap_or_default();
    let what = format!(
        "cannot apply a policy: program {id} (\"{name}\") is attached to the cgroup {} and allows no other beside it",
        root.display()
    );
    Err(Failure::unmet(what).hint("attach it with BPF_F_ALLOW_MULTI; `bpftool cgroup tree` shows it"))
}

/// The generation whose program the link attaches.
///
/// None: nothing decides, or the record does not contain the generation.
pub fn active(pins: &PolicyPins, record: &PolicyRecord) -> Option<u32> {
    let attached = linked(pins)?;
    let generation = record.generations.iter().find(|generation| generation.program_id == attached.program)?;
    Some(generation.number)
}

/// The generation that decides about new connections: the one that the link attaches, or the one from before a trial
/// whose lease is over.
///
/// None: nothing decides, or the record does not contain the generation.
pub fn deciding(pins: &PolicyPins, record: &PolicyRecord) -> Option<u32> {
    let active = active(pins, record)?;
    let trials = [&record.next_trial, &record.trial].into_iter().flatten();
    match trials.into_iter().find(|trial| trial.generation == active) {
        Some(trial) if lease::is_over(trial) => trial.previous,
        _ => Some(active),
    }
}

/// The recorded program that is attached through a pin in another BPF file system.
///
/// None: there is none, or this user may not look for it.
pub fn decides_elsewhere(pins: Option<&PolicyPins>, record: &PolicyRecord) -> Option<u32> {
    let linked = pins.and_then(linked).map(|link| link.program);
    let root = File::open(cgroup::root().ok()?).ok()?;
    let attached = bpf::sock_ops_of(&root).ok()?.ids;
    let ours = record.generations.iter().map(|generation| generation.program_id);
    ours.filter(|id| Some(*id) != linked).find(|id| attached.contains(id))
}

/// None: no link is pinned, or the link is detached.
pub fn linked(pins: &PolicyPins) -> Option<CgroupLink> {
    let link = bpf::open_pin(&pins.link()).ok()?;
    bpf::cgroup_link(&link).ok().filter(|link| link.cgroup != 0)
}

/// Whether a link is pinned that somebody has detached, for example with `bpftool link detach`.
pub fn was_detached(pins: &PolicyPins) -> bool {
    let link = bpf::open_pin(&pins.link()).ok();
    link.and_then(|link| bpf::cgroup_link(&link).ok()).is_some_and(|link| link.cgroup == 0)
}

/// Refuses a second policy. Both would decide, and nobody could tell which one did.
///
/// # Errors
/// A policy is in effect whose pins cannot be opened here. The hint says how to end it.
pub fn refuse_beside_another(pins: &PolicyPins, record: &PolicyRecord) -> Result<(), Failure> {
    if decides_elsewhere(Some(pins), record).is_none() {
        return Ok(());
    }
    let what =
        "cannot apply a policy: one is already in effect, and its pins are not in the BPF file system mounted here";
    Err(Failure::failed(what).hint("`tccc policy remove` detaches it; then apply again"))
}

/// Refuses a change of a policy or trial whose pins cannot be opened here.
///
/// # Errors
/// There is one. The hint says where its pins are.
pub fn refuse_elsewhere(pins: Option<&PolicyPins>, record: &PolicyRecord) -> Result<(), Failure> {
    if decides_elsewhere(pins, record).is_none() {
        return Ok(());
    }
    let guard = record.trial.iter().chain(&record.next_trial).find_map(|trial| trial.guard.number());
    let place = match guard {
        Some(pid) => format!("in that of its guard: `nsenter --target {pid} --mount tccc …`"),
        None => "where it was applied".to_owned(),
    };
    let what = "cannot change the policy: its pins are not in the BPF file system mounted here; nothing is changed";
    let hint =
        format!("run the command in another mount namespace, {place}; or `tccc policy remove` detaches the policy");
    Err(Failure::failed(what).hint(hint))
}

/// Removes what interrupted commands left: generations that neither decide nor wait behind a trial. Returns the record.
///
/// # Errors
/// The record is damaged; not permitted.
pub(crate) fn settle(locked: &Locked, pins: &PolicyPins) -> Result<PolicyRecord> {
    let (record, cleared) = settled(locked, pins)?;
    cleared.map(|()| record)
}

/// The record as it is to be, and whether everything else is so now.
fn settled(locked: &Locked, pins: &PolicyPins) -> Result<(PolicyRecord, Result<()>)> {
    let read = PolicyRecord::read(locked.store())?;
    refuse_elsewhere(Some(pins), &read)?; // what decides would look like something left over
    let mut record = read.clone();
    let active = active(pins, &record);
    // Only the trial of the generation that decides is running. Any other never began or is over.
    let trials = [record.next_trial.take(), record.trial.take()];
    record.trial = trials.into_iter().flatten().find(|trial| active == Some(trial.generation));
    let waiting = record.trial.as_ref().and_then(|trial| trial.previous);
    let is_needed = |number: u32| Some(number) == active || Some(number) == waiting;
    let unneeded: Vec<u32> = pins.generations().into_iter().filter(|&number| !is_needed(number)).collect();
    record.generations.retain(|generation| is_needed(generation.number));
    let clear = || {
        unneeded.into_iter().try_for_each(|number| pins.remove_generation(number))?;
        clear_unused(pins, &mut record)?;
        if record != read || record.generations.is_empty() { record.write(locked) } else { Ok(()) }
    };
    let cleared = clear();
    Ok((record, cleared))
}

/// Removes pins that no generation of the record needs.
///
/// Labels stay while tccc set the algorithm of an open connection. Otherwise the next policy would take that algorithm for
/// the choice of the program, and leave the connection alone.
fn clear_unused(pins: &PolicyPins, record: &mut PolicyRecord) -> Result<()> {
    if !record.generations.is_empty() {
        return pins.remove_other_versions();
    }
    // Without the last number, labels could have the number of a later generation.
    let labels = bpf::open_pin(&pins.labels()).ok().filter(|_| record.last_number != 0);
    if labels.is_some_and(|labels| LabelReader::any_is_ours(&labels).unwrap_or(false)) {
        return pins.detach();
    }
    forget(pins, record)
}

/// Removes every pin, and the numbers that labels have.
fn forget(pins: &PolicyPins, record: &mut PolicyRecord) -> Result<()> {
    (record.last_number, record.slots) = (0, Vec::new());
    if pins.folder().exists() { pins.remove_all() } else { Ok(()) }
}

/// Forgets which open connections an earlier policy changed, if no policy decides.
///
/// # Errors
/// Not permitted; the BPF file system is read-only.
pub(crate) fn forget_labels(locked: &Locked, pins: &PolicyPins) -> Result<()> {
    let mut record = settle(locked, pins)?;
    if record.generations.is_empty() {
        forget(pins, &mut record)?;
        record.write(locked)?;
    }
    Ok(())
}

/// Ends the policy: detaches its program, and removes its pins and its record.
///
/// With `keeps_labels`, the labels and the record stay while tccc set the algorithm of an open connection.
///
/// # Errors
/// Not permitted; the BPF file system is read-only.
pub(crate) fn remove(locked: &Locked, pins: Option<&PolicyPins>, keeps_labels: bool) -> Result<()> {
    // If the record cannot be read, the pins show what to remove.
    let mut record = PolicyRecord::read(locked.store()).unwrap_or_default();
    if decides_elsewhere(pins, &record).is_some() {
        detach_unpinned(&record)?;
    }
    (record.generations, record.trial, record.next_trial) = (Vec::new(), None, None);
    match pins {
        Some(pins) if keeps_labels => clear_unused(pins, &mut record).context(LEFT)?,
        Some(pins) => forget(pins, &mut record).context(LEFT)?,
        None => record.last_number = 0,
    }
    fault::point("remove.detached");
    record.write(locked).context(LEFT)?;
    fault::point("remove.cleared");
    Ok(())
}

/// Detaches the programs of a record whose pins are not in the BPF file system mounted here.
fn detach_unpinned(record: &PolicyRecord) -> Result<()> {
    let ids: Vec<u32> = record.generations.iter().map(|generation| generation.program_id).collect();
    let links = bpf::cgroup_links_of(&ids).context("find the policy, which is pinned in another BPF file system")?;
    links.iter().for_each(bpf::detach_link);
    match decides_elsewhere(None, record) {
        None => Ok(()),
        Some(id) => {
            let what = format!("the policy's program {id} is still attached, by something other than tccc");
            Err(Failure::failed(what).hint("`bpftool cgroup tree` shows it").into())
        }
    }
}

/// Makes the previous generation decide again, and removes the one on trial. Calls `decided` in between.
///
/// A failure after that, for example because the disk is full, is the inner result. The next command clears the rest.
///
/// # Errors
/// Not permitted; the previous generation is gone.
pub(crate) fn revert(locked: &Locked, pins: &PolicyPins, decided: impl FnOnce()) -> Result<Result<()>> {
    let (mut record, _) = settled(locked, pins)?; // what was not written now is written below
    let Some(trial) = record.trial.take() else {
        decided();
        return Ok(Ok(()));
    };
    let removed = match trial.previous {
        Some(previous) => {
            let program = |number| program_of(number, &record, pins);
            swap(&program(trial.generation)?, &program(previous)?, pins).map(Ok)?
        }
        None => {
            let removed = if trial.subject == TrialSubject::Policy { pins.detach() } else { forget(pins, &mut record) };
            match removed {
                Err(error) if linked(pins).is_some() => return Err(error),
                removed => removed,
            }
        }
    };
    fault::point("revert.swapped");
    decided();
    record.generations.retain(|generation| Some(generation.number) == trial.previous);
    let written = record.write(locked);
    fault::point("revert.noted");
    let settled = settle(locked, pins).map(drop);
    fault::point("revert.cleared");
    Ok(removed.and(written).and(settled))
}
