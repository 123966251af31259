//! Sets up only the receiving side: attaches and pins an algorithm's companion program, and registers no algorithm.

use anyhow::{Context, Result};

use super::companion::LoadedCompanion;
use super::load::{LoadOptions, LoadedAlgorithm, attachment};
use super::request::{Request, check_name, companion_place, record_of};
use super::survey::{self, LoadState};
use super::unload::sweep;
use crate::state::pins::Pins;
use crate::state::{Locked, Owner, Record, Store};
use shared::failure::Failure;
use shared::kernel::privilege;
use shared::kernel::probe::Features;

/// Sets up what a host needs to receive from senders of an algorithm. The setup outlives this process.
///
/// Side effects: a program on a cgroup, a pin and a record. [`super::unload`] undoes all of them.
///
/// # Errors
/// The algorithm has no companion program; a capability, the BPF file system or cgroup v2 is missing; the name is
/// taken; the kernel refuses the program.
pub(crate) fn load_receiver(request: &Request, options: LoadOptions, features: &Features) -> Result<LoadedAlgorithm> {
    check_name(request.name)?;
    let Some(wanted) = request.algorithm.companion_of_both_ends() else {
        let what = format!("\"{}\" needs nothing at the receiver", request.algorithm.id);
        return Err(Failure::usage(what).hint("leave `--receiver` out: it works at the sender alone").into());
    };
    privilege::require(&format!("load \"{}\"", request.name), &privilege::FOR_LOAD)?;
    let pins = Pins::writable()?;
    let record = Record {
        companion: companion_place(request)?,
        receiver: true,
        unconfirmed: options.unconfirmed,
        ..record_of(request, 0)
    };
    let store = Store::of_host();
    // As in [`super::load()`], another command may be removing the name.
    let looking = (!options.dry_run).then(|| store.lock_name(request.name)).transpose()?;
    check_free(request.name, &store, features)?;
    drop(looking);
    let companion = LoadedCompanion::verify(wanted, request.name, None)?;
    let mut changes = vec![format!("write the record {}/{}.json", crate::state::FOLDER, request.name)];
    changes.extend(attachment(&record, &pins));
    let mut loaded = LoadedAlgorithm { record, adapted: Vec::new(), changes };
    if options.dry_run {
        return Ok(loaded);
    }
    let locked = store.lock_name(request.name)?;
    sweep(&locked, features)?;
    check_free(request.name, &store, features)?;
    keep(&mut loaded.record, companion, (&pins, &locked)).with_context(|| format!("load \"{}\"", request.name))?;
    Ok(loaded)
}

fn check_free(name: &str, store: &Store, features: &Features) -> Result<()> {
    let Some(instance) = survey::find(name, store, features)? else { return Ok(()) };
    if instance.is_of_the_dead() && instance.standing() == LoadState::Leftover {
        return Ok(()); // the sweep removes it
    }
    let why = if instance.is_receiver() { "already, as `--receiver`" } else { "already: its companion receives too" };
    Err(Failure::failed(format!("\"{name}\" is loaded {why}")).hint("`tccc status` shows it").into())
}

/// Writes the record, the pin, and the record again. After a kill in between, everything is listed and can be removed.
fn keep(record: &mut Record, companion: LoadedCompanion, (pins, locked): (&Pins, &Locked)) -> Result<()> {
    locked.create(record)?;
    let place = record.companion.clone().context("know the cgroup")?;
    let pin = pins.companion(&record.name);
    let pinned = pins
        .prepare()
        .and_then(|()| companion.attach(&place)?.iter().try_for_each(|link| link.pin(pins, &record.name).map(drop)));
    record.owner = Owner::Pinned;
    pinned.and_then(|()| locked.write(record)).inspect_err(|_| {
        let _ = std::fs::remove_file(&pin); // `tccc status` lists it if it stays
        let _ = locked.remove(&record.name);
    })
}
