//! Unloads algorithms. After a kill between any two steps, the next command continues.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::confirm;
use super::defaults::{self, OtherDefaults};
use super::survey::{self, LoadState, LoadedName};
use crate::state::pins::Pins;
use crate::state::{LockSubject, Locked, Record, Store, is_held};
use crate::waits;
use shared::failure::Failure;
use shared::interrupt;
use shared::kernel::probe::Features;
use shared::kernel::socket::{self, Holder};
use shared::kernel::{bpf, bpffs, congestion, privilege, struct_ops};
use shared::poll::{POLL_INTERVAL, try_poll};

/// Longest wait for a name to vanish, because the kernel frees a link in the background.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// A command that is not stopped unlocks a name within this time.
const BUSY_WITHIN: Duration = Duration::from_secs(1);
/// The kernel always has it.
const LAST_RESORT: &str = "reno";

#[derive(Debug, Default)]
pub struct Unloaded {
    pub name: String,
    /// The host's new default if it was restored.
    pub default_restored: Option<String>,
    /// One phrase for each thing that stays, or that the user should know.
    pub notes: Vec<String>,
    /// Processes with sockets that use the algorithm.
    pub holders: Vec<Holder>,
    pub was_registered: bool,
    /// Only the companion program was attached.
    pub was_receiver: bool,
}

/// Unregisters one name and removes whatever is left of it.
///
/// Side effects: restores the earlier default if this name is the default; removes registration, pins and record.
///
/// # Errors
/// It is not ours; a running process keeps it; not permitted; the kernel still lists it afterwards.
pub(crate) fn unload(name: &str, features: &Features) -> Result<Unloaded> {
    privilege::require(&format!("unload \"{name}\""), &privilege::FOR_LOAD)?;
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let instance = ours(name, &store, features)?;
    undo(instance, &locked).with_context(|| format!("unload \"{name}\""))
}

/// # Errors
/// Nothing of that name is ours; a running process keeps it.
pub fn ours(name: &str, store: &Store, features: &Features) -> Result<LoadedName> {
    let Some(instance) = survey::find(name, store, features)? else {
        let why = if congestion::is_available(name)? { "tccc did not register it" } else { "it is not loaded" };
        bail!(Failure::failed(format!("cannot unload \"{name}\": {why}")).hint("`tccc status` shows what is loaded"));
    };
    if instance.standing() == LoadState::Run {
        let what = format!("cannot unload \"{name}\": a tccc run uses it ({})", instance.owner_identity());
        return Err(Failure::failed(what).hint("it unregisters when that process ends").into());
    }
    Ok(instance)
}

/// Like [`unload`]. `None` if it is gone, or a running process keeps it.
pub(crate) fn unload_if_free(name: &str, features: &Features) -> Result<Option<Unloaded>> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let instance = survey::find(name, &store, features)?.filter(|instance| instance.standing() != LoadState::Run);
    instance.map(|instance| undo(instance, &locked).with_context(|| format!("unload \"{name}\""))).transpose()
}

/// Unregisters algorithms that were loaded for a policy, except those that are needed. Returns their names.
///
/// An algorithm that another process is changing stays until the next command.
pub(crate) fn unload_with_policy(
    policy: &Locked,
    needed: &BTreeSet<String>,
    features: &Features,
) -> Result<Vec<String>> {
    let store = policy.store();
    let is_unneeded = |instance: &LoadedName| {
        let with_policy = instance.record.as_ref().is_some_and(|record| record.with_policy);
        with_policy && !needed.contains(&instance.name) && instance.standing() != LoadState::Run
    };
    let mut unloaded = Vec::new();
    for LoadedName { name, .. } in survey::instances(store, features)?.into_iter().filter(is_unneeded) {
        let locked = match store.lock_within(LockSubject::Name(name.clone()), BUSY_WITHIN) {
            Err(error) if is_held(&error) => continue,
            other => other?,
        };
        let Some(instance) = survey::find(&name, store, features)?.filter(is_unneeded) else { continue };
        unloaded.push(undo(instance, &locked).with_context(|| format!("unload \"{name}\""))?.name);
    }
    Ok(unloaded)
}

/// What [`unload`] would change, in order.
///
/// # Errors
/// The kernel has no TCP; /proc is not mounted.
pub fn plan(instance: &LoadedName) -> Result<Vec<String>> {
    let name = &instance.name;
    let mut changes = Vec::new();
    if congestion::default()? == *name {
        let remembered = instance.record.as_ref().and_then(|record| record.previous_default.as_deref());
        let target = fallback(name, remembered)?;
        changes.push(format!("set net.ipv4.tcp_congestion_control from \"{name}\" to \"{target}\""));
    }
    if instance.is_registered {
        changes.push(format!("unregister \"{name}\""));
    }
    if let Some(attachment) = instance.record.as_ref().and_then(|record| record.companion.as_ref()) {
        changes.push(format!("detach \"{}\" from {}", attachment.program, attachment.place()));
    }
    if let Some(pins) = Pins::of_host() {
        let present = pins.all_of(name).into_iter().filter(|pin| pin.exists());
        changes.extend(present.map(|pin| format!("remove the pin {}", pin.display())));
    }
    if instance.record.is_some() {
        changes.push(format!("remove the record {}/{name}.json", crate::state::FOLDER));
    }
    let others = OtherDefaults::of(name).unwrap_or_default().having.into_iter();
    changes.extend(others.map(|netns| format!("change the default of network namespace {}", defaults::label(&netns))));
    Ok(changes)
}

/// Restores the default, unregisters, removes pins, checks that the name is gone, and removes the record.
pub(super) fn undo(instance: LoadedName, locked: &Locked) -> Result<Unloaded> {
    let mut done = Unloaded {
        name: instance.name.clone(),
        was_registered: instance.is_registered,
        was_receiver: instance.is_receiver(),
        ..Unloaded::default()
    };
    if instance.is_held_elsewhere() {
        prove_gone(&instance)?; // before any change; the kernel may be about to free it
    }
    let was_allowed = congestion::is_allowed(&instance.name)?;
    restore_default(&instance, locked, &mut done)?;
    match socket::holders() {
        Ok(mut all) => done.holders = all.remove(&instance.name).unwrap_or_default(),
        Err(error) => done.notes.push(format!("the processes that hold sockets with it are unknown: {error:#}")),
    }
    if let (true, Some(table)) = (instance.is_map_held(), &instance.table) {
        struct_ops::delete_registration(&table.map)?;
    }
    if let Some(pins) = Pins::of_host() {
        let registration = bpf::open_pin(&pins.link(&instance.name)).ok();
        registration.iter().chain(&pins.companion_links(&instance.name)).for_each(bpf::detach_link);
        pins.remove(&instance.name)?;
    }
    if instance.is_registered {
        prove_gone(&instance)?;
    }
    locked.remove(&instance.name)?;
    if let Some(unconfirmed) = instance.record.as_ref().and_then(|record| record.unconfirmed) {
        confirm::end_guard(&unconfirmed);
    }
    if !done.was_receiver {
        restore_other_defaults(&instance, was_allowed, &mut done)?;
    }
    Ok(done)
}

/// Gives namespaces whose default is this name the default that was there before it, or else that of this host.
///
/// Runs once the name is gone, so that nobody can make it a default any more.
fn restore_other_defaults(instance: &LoadedName, was_allowed: bool, done: &mut Unloaded) -> Result<()> {
    let name = &instance.name;
    let others = OtherDefaults::of(name)?;
    let previous = instance.record.as_ref().and_then(|record| record.previous_default.clone());
    let target = match &done.default_restored {
        Some(restored) => restored.clone(),
        None => fallback(name, Some(&previous.map_or_else(congestion::default, Ok)?))?,
    };
    for netns in &others.having {
        done.notes.push(match defaults::set(netns, &target) {
            Ok(()) => format!("the default of network namespace {} is \"{target}\" now", defaults::label(netns)),
            Err(why) => {
                let still = format!("network namespace {} still has it as its default", defaults::label(netns));
                format!("{still}: {why:#}; `{}` changes it", defaults::command(netns, &target))
            }
        });
    }
    // No other namespace can have a default that not everybody may choose.
    done.notes.extend(others.note("its code").filter(|_| was_allowed));
    Ok(())
}

/// Removes what dead processes left: records without a registration, and registrations without a link.
///
/// Skips names that another process is changing.
pub(crate) fn sweep(locked: &Locked, features: &Features) -> Result<()> {
    let void = |instance: &LoadedName| instance.is_of_the_dead() && instance.standing() == LoadState::Leftover;
    let store = locked.store();
    for instance in survey::instances(store, features)?.into_iter().filter(void) {
        if locked.is_for(&instance.name) {
            undo(instance, locked)?;
            continue;
        }
        let Some(other) = store.try_lock(&LockSubject::Name(instance.name.clone()))? else { continue };
        let Some(instance) = survey::find(&instance.name, store, features)?.filter(void) else { continue };
        match undo(instance, &other) {
            Err(error) if is_held(&error) => {}
            undone => drop(undone?),
        }
    }
    Ok(())
}

/// Restores the default that this name replaced. The name stays loaded.
pub(crate) fn give_back_default(name: &str, features: &Features) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let instance = ours(name, &store, features)?;
    restore_default(&instance, &locked, &mut Unloaded::default())?;
    store.lock(LockSubject::Default)?.remember(name, None)
}

/// Changes the default only if it still is this instance.
fn restore_default(instance: &LoadedName, locked: &Locked, done: &mut Unloaded) -> Result<()> {
    let store = locked.store();
    let is_heir = |other: &Record| other.previous_default.as_ref() == Some(&instance.name);
    let is_needed = congestion::default()? == instance.name || store.records().iter().any(is_heir);
    // Most names never were the default. They need no lock.
    let default = is_needed.then(|| store.lock(LockSubject::Default)).transpose()?;
    let now = congestion::default()?;
    let previous = store.record(&instance.name).and_then(|record| record.previous_default);
    if now == instance.name {
        let target = fallback(&instance.name, previous.as_deref())?;
        congestion::set_default(&target).with_context(|| format!("make \"{target}\" the default again"))?;
        done.default_restored = Some(target);
    } else if previous.as_ref().is_some_and(|previous| *previous != now) {
        done.notes.push(format!("the default has since been changed to \"{now}\", and stays"));
    }
    // Records that remember this name as the previous default get this name's own previous default.
    let Some(default) = default else { return Ok(()) };
    let mut heirs = store.records().into_iter().filter(is_heir);
    heirs.try_for_each(|heir| default.remember(&heir.name, previous.clone()))
}

/// The remembered default if it still exists, or else cubic, or else reno.
fn fallback(name: &str, remembered: Option<&str>) -> Result<String> {
    let available = congestion::available()?;
    let candidates = remembered.into_iter().chain(["cubic", LAST_RESORT]);
    let mut possible = candidates.filter(|other| *other != name && available.iter().any(|it| it == other));
    Ok(possible.next().unwrap_or(LAST_RESORT).to_owned())
}

fn prove_gone(instance: &LoadedName) -> Result<()> {
    let name = &instance.name;
    let limit = waits::time_of("unload.gone", GONE_WITHIN);
    let is_gone = try_poll(limit, POLL_INTERVAL, || Ok(!congestion::is_available(name)?))?;
    ensure!(is_gone, still_held(instance));
    Ok(())
}

fn still_held(instance: &LoadedName) -> Failure {
    let refuse = |why: &str| Failure::failed(format!("\"{}\" is still registered: {why}", instance.name));
    match instance.table.as_ref().and_then(|table| survey::holder_of(table.map_id)) {
        Some((pid, command)) => refuse(&format!("process {pid} ({command}) holds its link"))
            .hint("it is removed when that process ends; then run `tccc unload` again"),
        None => refuse("its pin is not in a BPF file system that is mounted here").hint(bpffs::way_to_lost_pins()),
    }
}

/// Waits up to `patience` until no socket uses an unregistered algorithm. Returns the remaining holders. A signal ends
/// the wait.
///
/// # Errors
/// The kernel has no socket diagnostics.
pub fn drain(name: &str, patience: Duration) -> Result<Vec<Holder>> {
    const POLL_INTERVAL: Duration = Duration::from_millis(100); // each look walks all processes
    let mut left = Vec::new();
    try_poll(patience, POLL_INTERVAL, || {
        left = socket::holders()?.remove(name).unwrap_or_default();
        Ok(left.is_empty() || interrupt::came())
    })?;
    Ok(left)
}
