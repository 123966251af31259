//! Generations come and go: applied, replaced, removed; killed between any two steps, the next command continues.
//!
//! Which generation decides is what the cgroup's link attaches. Everything else is brought in line with that by
//! [`settle`], which every command that changes something calls first.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};

use super::pins::{PROGRAM, PolicyPins};
use super::program::{self, Lease, LoadedPolicy, Setup};
use super::record::{GenerationRecord, PolicyRecord, TrialRecord};
use super::resolve;
use super::rule::Policy;
use super::table::RuleTables;
use crate::failure::Failure;
use crate::fault;
use crate::kernel::bpf::CgroupLink;
use crate::kernel::{bpf, cgroup, clock};
use crate::state::Locked;
use crate::state::pins::Pins;

/// What stands before the reason why something of a detached policy could not be removed.
const LEFT: &str = "the policy no longer decides, but parts of it are left";

/// A policy that is to decide from now on.
#[derive(Debug)]
pub struct NewGeneration<'a> {
    /// Its rules, those of a trial included.
    pub policy: &'a Policy,
    pub file: Option<&'a Path>,
    /// What it is to a trial.
    pub role: GenerationRole,
}

#[derive(Debug)]
pub enum GenerationRole {
    /// It decides for good, and no trial goes on.
    Permanent,
    /// It begins a trial. Its generations are filled in when they are known.
    Begins(NewTrial),
    /// It takes the place of the generation on trial: another step, on the same lease.
    Continues(NewTrial),
    /// It ends the trial with success: the same rules, for good.
    Concludes,
}

#[derive(Debug)]
pub struct NewTrial {
    pub trial: TrialRecord,
    /// Until when it may decide at first, CLOCK_BOOTTIME, nanoseconds; none: a whole lease from when it is loaded.
    pub until_ns: Option<u64>,
}

impl GenerationRole {
    fn trial(&self) -> Option<&NewTrial> {
        match self {
            GenerationRole::Begins(trial) | GenerationRole::Continues(trial) => Some(trial),
            GenerationRole::Permanent | GenerationRole::Concludes => None,
        }
    }
}

/// Makes a policy decide, in the place of the one before.
///
/// Errors: a trial goes on; the kernel refuses; a program of somebody else is in the way. The policy before then decides
/// as it did.
/// Side effects: pins, a record, and a program on the root of the cgroups; [`remove`] undoes all of them.
pub fn apply(locked: &Locked, new: NewGeneration) -> Result<GenerationRecord> {
    let pins = PolicyPins::of(Pins::writable()?);
    let root = cgroup::mount_point()?;
    refuse_beside_another(&pins, &PolicyRecord::read(locked.store())?)?;
    let mut record = settle(locked, &pins)?;
    let within = record.trial.clone();
    match new.role {
        GenerationRole::Permanent | GenerationRole::Begins(_) => refuse_during_trial(&record)?,
        GenerationRole::Continues(_) | GenerationRole::Concludes => {
            ensure!(within.is_some(), "no trial is running");
        }
    }
    let before = active(&pins, &record);
    // What decides when the lease is over: the generation before the trial, whatever step it is at.
    let previous = within.as_ref().map_or(before, |trial| trial.previous);
    let number = record.next_number();
    record.number_arms(new.policy);
    let mut generation = GenerationRecord {
        number,
        program_id: 0,
        since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        file: new.file.map(PathBuf::from),
        policy: new.policy.clone(),
        cgroup: root.clone(),
    };
    record.generations.push(generation.clone());
    record.write(locked)?;
    fault::point("apply.noted");
    let now_ns = clock::boottime_ns()?;
    let until_ns = new.role.trial().map(|it| it.until_ns.unwrap_or_else(|| it.trial.lease_from(now_ns)));
    let brought_up = load(&record, number, &pins, (previous, until_ns)).and_then(|loaded| {
        pins.keep(number, &loaded)?;
        fault::point("apply.pinned");
        generation.program_id = bpf::program_id(&loaded.program)?;
        *record.generations.last_mut().context("find the new generation")? = generation.clone();
        record.next_trial = new.role.trial().map(|it| TrialRecord { generation: number, previous, ..it.trial.clone() });
        record.write(locked)?;
        fault::point("apply.numbered");
        attach(&loaded, before, (&record, &pins), &root)
    });
    if let Err(error) = brought_up {
        record.generations.retain(|generation| generation.number != number);
        record.next_trial = None;
        // What cannot be taken back now is cleared by the next command; why it failed matters more.
        let _ = pins.remove_generation(number).and_then(|()| clear_if_unused(&pins, &record));
        let _ = record.write(locked);
        return Err(error);
    }
    fault::point("apply.attached");
    // It decides already: what cannot be cleared now is cleared by the next command.
    let _ = settle(locked, &pins);
    fault::point("apply.settled");
    Ok(generation)
}

/// Refuses to change a policy while something is on trial.
///
/// Errors: a trial goes on; says how to end it.
pub fn refuse_during_trial(record: &PolicyRecord) -> Result<(), Failure> {
    let Some(trial) = &record.trial else { return Ok(()) };
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
    program::load(&tables, &Setup { labels: labels.as_ref().map(OwnedFd::as_fd), number, lease })
}

fn attach(
    loaded: &LoadedPolicy,
    before: Option<u32>,
    (record, pins): (&PolicyRecord, &PolicyPins),
    root: &Path,
) -> Result<()> {
    match before {
        Some(before) => swap(&program_of(before, record, pins)?, &loaded.program, pins),
        None => {
            let folder = File::open(root).with_context(|| format!("open the cgroup {}", root.display()))?;
            let link = bpf::attach_sock_ops(&loaded.program, &folder);
            let link = link.map_err(|error| attach_refusal(&error, root, &folder))?;
            bpf::pin(&link, &pins.link())
        }
    }
}

/// Puts a program in the place of the one that decides.
fn swap(expected: &OwnedFd, program: &OwnedFd, pins: &PolicyPins) -> Result<()> {
    let link = bpf::open_pin(&pins.link())?;
    bpf::replace_program(&link, program, expected).context("put the policy in the place of the one before")
}

/// The program of a generation; by its number where its pin is gone.
fn program_of(number: u32, record: &PolicyRecord, pins: &PolicyPins) -> Result<OwnedFd> {
    pins.open(number, PROGRAM).or_else(|error| {
        let id = record.generation(number).map(|generation| generation.program_id);
        id.and_then(|id| bpf::open_program(id).ok()).ok_or(error)
    })
}

/// A program that allows none beside it is the usual reason: which one is said.
fn attach_refusal(error: &io::Error, root: &Path, folder: &File) -> anyhow::Error {
    let place = root.display();
    if let Some(alone) = bpf::sock_ops_of(folder).ok().filter(|programs| !programs.allows_others) {
        let id = alone.ids.first().copied().unwrap_or_default();
        let name = bpf::program_name(id).unwrap_or_default();
        let what = format!(
            "cannot apply a policy: program {id} (\"{name}\") is attached to the cgroup {place} and allows no other \
             beside it"
        );
        let hint = "attach it with BPF_F_ALLOW_MULTI; `bpftool cgroup tree` shows it";
        return Failure::unmet(what).hint(hint).into();
    }
    Failure::unmet(format!("cannot apply a policy: the kernel refuses its program at the cgroup {place}: {error}"))
        .into()
}

/// The generation that decides: the one whose program the link attaches.
///
/// None: nothing decides, or a generation that the record does not know.
pub fn active(pins: &PolicyPins, record: &PolicyRecord) -> Option<u32> {
    let attached = linked(pins)?;
    let generation = record.generations.iter().find(|generation| generation.program_id == attached.program)?;
    Some(generation.number)
}

/// The program of this record that decides although no pin here attaches it: its pin is in another BPF file system.
///
/// None: there is none, or it may not be looked for.
pub fn decides_elsewhere(pins: Option<&PolicyPins>, record: &PolicyRecord) -> Option<u32> {
    let linked = pins.and_then(linked).map(|link| link.program);
    let root = File::open(cgroup::mount_point().ok()?).ok()?;
    let attached = bpf::sock_ops_of(&root).ok()?.ids;
    let ours = record.generations.iter().map(|generation| generation.program_id);
    ours.filter(|id| Some(*id) != linked).find(|id| attached.contains(id))
}

/// What the pinned link attaches.
///
/// None: no link is pinned, or it attaches nothing any more.
pub fn linked(pins: &PolicyPins) -> Option<CgroupLink> {
    let link = bpf::open_pin(&pins.link()).ok()?;
    bpf::cgroup_link(&link).ok().filter(|link| link.cgroup != 0)
}

/// Refuses a second policy: both would decide, and nobody could tell which one did.
///
/// Errors: one decides whose pins cannot be opened here; says how to end it.
pub fn refuse_beside_another(pins: &PolicyPins, record: &PolicyRecord) -> Result<(), Failure> {
    if decides_elsewhere(Some(pins), record).is_none() {
        return Ok(());
    }
    let what = "cannot apply a policy: one decides already whose pins are not in the BPF file system mounted here";
    Err(Failure::failed(what).hint("`tccc policy remove` detaches it; then apply again"))
}

/// Removes whatever interrupted commands left: generations that neither decide nor wait behind a trial.
///
/// Errors: the record is damaged; not permitted.
/// Shape: the record afterwards.
pub fn settle(locked: &Locked, pins: &PolicyPins) -> Result<PolicyRecord> {
    let read = PolicyRecord::read(locked.store())?;
    let mut record = read.clone();
    let active = active(pins, &record);
    // The trial of a generation that came to decide is the one that goes on; of any other it never began, or is over.
    let trials = [record.next_trial.take(), record.trial.take()];
    record.trial = trials.into_iter().flatten().find(|trial| active == Some(trial.generation));
    let waiting = record.trial.as_ref().and_then(|trial| trial.previous);
    let is_needed = |number: u32| Some(number) == active || Some(number) == waiting;
    let unneeded: Vec<u32> = pins.generations().into_iter().filter(|&number| !is_needed(number)).collect();
    for number in unneeded {
        pins.remove_generation(number)?;
    }
    record.generations.retain(|generation| is_needed(generation.number));
    clear_if_unused(pins, &record)?;
    if record != read || record.generations.is_empty() {
        record.write(locked)?;
    }
    Ok(record)
}

/// Without a generation neither link nor labels are needed.
fn clear_if_unused(pins: &PolicyPins, record: &PolicyRecord) -> Result<()> {
    if record.generations.is_empty() && !pins.is_empty() { pins.remove_all() } else { Ok(()) }
}

/// Ends the policy: connections are decided by no rule any more. Without pins of this host only what is attached ends.
///
/// Errors: not permitted; the BPF file system is read-only.
pub fn remove(locked: &Locked, pins: Option<&PolicyPins>) -> Result<()> {
    // A record that cannot be read says nothing that the pins did not.
    let record = PolicyRecord::read(locked.store()).unwrap_or_default();
    if decides_elsewhere(pins, &record).is_some() {
        detach_unpinned(&record)?;
    }
    pins.map_or(Ok(()), PolicyPins::remove_all).context(LEFT)?;
    fault::point("remove.detached");
    PolicyRecord { generations: Vec::new(), trial: None, next_trial: None, ..record }.write(locked).context(LEFT)?;
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
            let what = format!("the policy's program {id} is attached still, by something that is not tccc");
            Err(Failure::failed(what).hint("`bpftool cgroup tree` shows it").into())
        }
    }
}

/// Makes the generation before decide again, and forgets the one on trial.
///
/// Errors: not permitted; the generation before is gone.
/// Shape: the trial that was reverted; none: there was none.
pub fn revert(locked: &Locked, pins: &PolicyPins) -> Result<Option<TrialRecord>> {
    let mut record = settle(locked, pins)?;
    let Some(trial) = record.trial.take() else { return Ok(None) };
    match trial.previous {
        Some(previous) => {
            let program = |number| program_of(number, &record, pins);
            swap(&program(trial.generation)?, &program(previous)?, pins)?;
        }
        None => pins.remove_all()?,
    }
    fault::point("revert.swapped");
    record.generations.retain(|generation| Some(generation.number) == trial.previous);
    record.write(locked)?;
    fault::point("revert.noted");
    settle(locked, pins)?;
    fault::point("revert.cleared");
    Ok(Some(trial))
}
