//! Registers an algorithm for good, as `tccc load` does. After a failure, undoes every step.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::object::{UpgradeInheritance, Verified, verify_for};
use super::request::{Request, check_name, companion_place, record_of};
use super::survey::{self, LoadState, LoadedName};
use super::unload::{sweep, undo};
use crate::state::pins::Pins;
use crate::state::{LockSubject, Locked, Owner, Record, Store, Unconfirmed};
use shared::failure::Failure;
use shared::fault;
use shared::interrupt;
use shared::kernel::probe::Features;
use shared::kernel::{bpf, bpffs, congestion, privilege, struct_ops};

#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// Also make it the host's default algorithm.
    pub make_default: bool,
    /// Replace our own registration of the same name.
    pub replace: bool,
    /// Stop before the first change of the host.
    pub dry_run: bool,
    /// A policy names the algorithm.
    pub with_policy: bool,
    /// Undone unless somebody confirms it.
    pub unconfirmed: Option<Unconfirmed>,
}

#[derive(Debug)]
pub struct LoadedAlgorithm {
    pub record: Record,
    /// One phrase for each callback that was adapted to this kernel.
    pub adapted: Vec<String>,
    /// One phrase for each change of the host, in order.
    pub changes: Vec<String>,
}

/// Whether the name is our own registration, which `options` replace.
///
/// # Errors
/// Those of [`load`] that are known beforehand.
pub(crate) fn replaces(request: &Request, options: LoadOptions, features: &Features) -> Result<bool> {
    check_name(request.name)?;
    privilege::require(&format!("load \"{}\"", request.name), &privilege::FOR_LOAD)?;
    Pins::writable()?;
    if options.make_default || congestion::default()? == request.name {
        congestion::check_settable()?;
    }
    let store = Store::of_host();
    // Under the lock, because another command may be removing the name.
    let _looking = (!options.dry_run).then(|| store.lock_name(request.name)).transpose()?;
    Ok(check_free(request.name, options, &store, features)?.is_some())
}

/// Registers an algorithm so that it outlives this process.
///
/// Side effects: pins, a record, and with `make_default` the host's default. [`super::unload`] undoes all of them.
///
/// # Errors
/// A capability or the BPF file system is missing; the name is taken; the kernel refuses the program.
pub(crate) fn load(request: &Request, options: LoadOptions, features: &Features) -> Result<LoadedAlgorithm> {
    check_name(request.name)?;
    privilege::require(&format!("load \"{}\"", request.name), &privilege::FOR_LOAD)?;
    let pins = Pins::writable()?;
    let place = companion_place(request)?;
    if options.make_default || congestion::default()? == request.name {
        congestion::check_settable()?;
    }
    let store = Store::of_host();
    // Checked before the verifier runs, and under the lock, because another command may be removing the name.
    let looking = (!options.dry_run).then(|| store.lock_name(request.name)).transpose()?;
    check_free(request.name, options, &store, features)?;
    drop(looking);
    let logs = (!options.dry_run).then_some(Path::new("."));
    let verified = verify_for(request, features, UpgradeInheritance::default(), logs)?;
    let LoadOptions { unconfirmed, with_policy, .. } = options;
    let record = Record { companion: place, unconfirmed, with_policy, ..record_of(request, verified.map_id()?) };
    let mut loaded = LoadedAlgorithm {
        changes: changes(&record, &pins, options, features)?,
        adapted: verified.adapted.clone(),
        record,
    };
    if options.dry_run {
        return Ok(loaded);
    }
    interrupt::check(|| format!("\"{}\" is not loaded", request.name))?;
    let locked = store.lock_name(request.name)?;
    fault::point("load.locked");
    sweep(&locked, features)?;
    // Again, because another process may have loaded the name meanwhile.
    if check_free(request.name, options, &store, features)?.is_some() {
        let what = format!("another command loaded \"{}\" meanwhile", request.name);
        bail!(Failure::again(what).hint("run the command again"));
    }
    loaded.record = register(loaded.record, verified, (&pins, &locked))?;
    fault::point("load.registered");
    if options.make_default
        && let Err(error) = note_default(&mut loaded.record, &locked)
    {
        if let Some(instance) = survey::find(request.name, &store, features)? {
            undo(instance, &locked)?;
        }
        return Err(error);
    }
    Ok(loaded)
}

fn changes(record: &Record, pins: &Pins, options: LoadOptions, features: &Features) -> Result<Vec<String>> {
    let name = &record.name;
    let kept = if features.links { pins.link(name) } else { pins.map(name) };
    let verb = if options.replace { "replace" } else { "register" };
    let mut changes: Vec<String> = bpffs::mount_phrase().into_iter().collect();
    changes.extend([
        format!("write the record {}/{name}.json", crate::state::FOLDER),
        format!("{verb} \"{name}\" with the kernel and pin it at {}", kept.display()),
    ]);
    changes.extend(attachment(record, pins));
    if options.make_default {
        let now = congestion::default()?;
        changes.push(format!("set net.ipv4.tcp_congestion_control from \"{now}\" to \"{name}\""));
    }
    Ok(changes)
}

pub(super) fn attachment(record: &Record, pins: &Pins) -> Option<String> {
    let attachment = record.companion.as_ref()?;
    let pin = pins.companion(&record.name);
    Some(format!("attach \"{}\" to {} and pin it at {}", attachment.program, attachment.place(), pin.display()))
}

/// Returns our own earlier registration if it is to be replaced.
///
/// # Errors
/// The name is taken.
fn check_free(name: &str, options: LoadOptions, store: &Store, features: &Features) -> Result<Option<LoadedName>> {
    let Some(instance) = survey::find(name, store, features)? else {
        ensure!(!congestion::is_available(name)?, foreign(name, features));
        return Ok(None);
    };
    if instance.is_receiver() {
        let what = format!("\"{name}\" is already loaded with `--receiver` only");
        bail!(Failure::failed(what).hint(format!("`tccc unload {name}`, then load it again: it then receives too")));
    }
    let refusal = match instance.standing() {
        LoadState::Pinned if options.replace && features.link_update => return Ok(Some(instance)),
        LoadState::Pinned if options.replace => {
            let what = format!("cannot replace \"{name}\": this kernel cannot swap code under a registered name");
            Failure::unmet(what).hint(format!("`tccc unload {name}`, then load again"))
        }
        LoadState::Pinned => Failure::failed(format!("\"{name}\" is loaded already"))
            .hint("`--replace` replaces it; `--as NAME` loads it under another name"),
        LoadState::Run => {
            let who = instance.owner_identity();
            let what = format!("\"{name}\" is already registered by another process ({who}, a tccc run)");
            Failure::failed(what).hint("`--as NAME` loads it under another name")
        }
        LoadState::Elsewhere => Failure::failed(format!("\"{name}\" is loaded already, but {}", survey::ELSEWHERE))
            .hint(bpffs::way_to_lost_pins()),
        LoadState::Leftover if instance.is_registered && instance.is_of_the_dead() => return Ok(None), // swept later
        LoadState::Leftover => Failure::failed(format!("\"{name}\" was loaded, and parts of it are left"))
            .hint(format!("`tccc unload {name}` removes it; `tccc status` shows it")),
    };
    Err(refusal.into())
}

fn foreign(name: &str, features: &Features) -> Failure {
    let tables = struct_ops::tables(features).unwrap_or_default();
    let table = tables.iter().find(|table| table.name == name);
    let what = match table.map(|table| survey::holder_of(table.map_id)) {
        Some(Some((pid, command))) => {
            format!("\"{name}\" is already registered by another process (pid {pid}, {command})")
        }
        Some(None) => format!("\"{name}\" is already registered by another program's pin"),
        None => format!("\"{name}\" is an algorithm of the kernel itself"),
    };
    Failure::failed(what).hint("`--as NAME` loads it under another name")
}

/// Writes record, map pin, companion, registration, link pin, and the record again. After a kill between any two steps,
/// everything is listed and can be removed.
fn register(mut record: Record, mut verified: Verified, (pins, locked): (&Pins, &Locked)) -> Result<Record> {
    let name = record.name.clone();
    locked.create(&record)?;
    let mut made = Vec::new();
    if let Err(error) = keep(&mut record, &mut verified, (pins, locked), &mut made) {
        made.iter().for_each(|pin| drop(std::fs::remove_file(pin))); // `tccc status` lists one that stays
        let _ = std::fs::remove_dir(pins.companion(&name)); // only that of devices is a folder
        locked.remove(&name)?;
        return Err(error.context(format!("load \"{name}\"")));
    }
    Ok(record)
}

/// Appends each pin to `made` as soon as it exists.
fn keep(
    record: &mut Record,
    verified: &mut Verified,
    (pins, locked): (&Pins, &Locked),
    made: &mut Vec<PathBuf>,
) -> Result<()> {
    pins.prepare()?;
    let (map, place) = (verified.map()?, pins.map(&record.name));
    bpf::pin(&map, &place)?;
    made.push(place);
    for companion in verified.attach_companion(record.companion.as_ref())? {
        made.push(companion.pin(pins, &record.name)?);
        fault::point("load.companion");
    }
    if let Some(link) = verified.attach()? {
        let place = pins.link(&record.name);
        bpf::pin(&link, &place)?;
        made.push(place);
    }
    record.owner = Owner::Pinned;
    locked.write(record).inspect_err(|_| drop(struct_ops::delete_registration(&map)))
}

/// Makes a loaded algorithm the host's default.
///
/// Side effects: new sockets get it unless they choose another. [`super::unload`] undoes it.
///
/// # Errors
/// It is not loaded; not permitted; not in the initial network namespace.
pub(crate) fn make_default(name: &str) -> Result<Record> {
    congestion::check_settable()?;
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let not_loaded = || Failure::failed(format!("\"{name}\" is not loaded")).hint("`tccc status` shows what is loaded");
    let mut record = store.record(name).ok_or_else(not_loaded)?;
    note_default(&mut record, &locked)?;
    Ok(record)
}

/// Changes the default, after recording the previous one.
fn note_default(record: &mut Record, locked: &Locked) -> Result<()> {
    let default = locked.store().lock(LockSubject::Default)?;
    let now = congestion::default()?;
    if now == record.name {
        return Ok(());
    }
    record.previous_default = Some(now);
    default.remember(&record.name, record.previous_default.clone())?;
    congestion::set_default(&record.name).with_context(|| format!("make \"{}\" the default", record.name))
}
