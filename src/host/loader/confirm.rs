//! Registrations on trial: a process undoes them at a set time unless a person confirms them before.
//!
//! The process starts before the host is changed. If it is killed, `tccc status` says so, and the next `tccc load` or `run`
//! undoes the registration.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::survey::{self, Instance};
use super::unload::{Unloaded, undo};
use crate::failure::Failure;
use crate::kernel::clock;
use crate::kernel::probe::Features;
use crate::kernel::process::Detached;
use crate::state::{LockSubject, Record, Store, Unconfirmed};

/// The process that undoes a registration when its time is over. Dropping this value kills it unless it is released.
#[derive(Debug)]
pub struct UndoGuard {
    process: Detached,
    unconfirmed: Unconfirmed,
}

impl UndoGuard {
    /// `command` must call [`expire`]. The deadline, in nanoseconds of CLOCK_BOOTTIME, becomes its last argument.
    ///
    /// Errors: the process cannot be started.
    /// Side effects: a process without terminal until the time is over, or somebody confirms or unloads.
    pub fn start(command: &mut Command, patience: Duration) -> Result<UndoGuard> {
        let until_ns = clock::boottime_ns()? + patience.as_nanos() as u64;
        command.arg(until_ns.to_string());
        let process = Detached::start(command).context("start the process that undoes it")?;
        Ok(UndoGuard { unconfirmed: Unconfirmed { until_ns, guard: process.process }, process })
    }

    pub fn unconfirmed(&self) -> Unconfirmed {
        self.unconfirmed
    }

    /// Lets the process outlive this one.
    ///
    /// Errors: the time is over or the process was killed, so that nothing guards the registration.
    pub fn release(self) -> Result<()> {
        if clock::boottime_ns()? >= self.unconfirmed.until_ns || !self.unconfirmed.guard.lives() {
            let what = "the time to confirm ended before it was loaded";
            return Err(Failure::failed(what).hint("choose a longer `--confirm`").into());
        }
        self.process.release();
        Ok(())
    }
}

/// Keeps a registration on trial, or all of them without a name. Returns their records, sorted by name.
///
/// Errors: nothing of that name waits to be confirmed; its time is over; not permitted.
/// Side effects: ends the processes that would have undone them.
pub fn confirm(name: Option<&str>) -> Result<Vec<Record>> {
    let store = Store::of_host();
    let on_trial = |record: &Record| record.unconfirmed.is_some() && name.is_none_or(|name| record.name == name);
    ensure!(store.records().iter().any(on_trial), nothing_waits(name, &store));
    let mut confirmed = Vec::new();
    for Record { name, .. } in store.records().into_iter().filter(on_trial) {
        let locked = store.lock_name(&name)?;
        let Some(mut record) = store.record(&name) else { continue };
        let Some(unconfirmed) = record.unconfirmed.take() else { continue };
        if clock::boottime_ns()? >= unconfirmed.until_ns {
            let what = format!("too late to confirm \"{}\": its time is over", record.name);
            bail!(Failure::failed(what).hint(format!("`tccc unload {}`, then load it again", record.name)));
        }
        locked.write(&record)?;
        end_guard(&unconfirmed);
        confirmed.push(record);
    }
    if confirmed.is_empty() {
        return Err(nothing_waits(name, &store).into()); // it was undone meanwhile
    }
    Ok(confirmed)
}

fn nothing_waits(name: Option<&str>, store: &Store) -> Failure {
    let what = match name {
        Some(name) if store.record(name).is_some() => format!("\"{name}\" needs no confirmation: it stays"),
        Some(name) => format!("cannot confirm \"{name}\": it is not loaded"),
        None => "nothing needs confirmation".to_owned(),
    };
    Failure::failed(what).hint("`tccc status` shows what is loaded")
}

/// Waits until the time is over and undoes the registration, unless it was confirmed or unloaded before.
pub fn expire(name: &str, until_ns: u64, features: &Features) -> Result<Option<Unloaded>> {
    clock::wait_until_boottime(until_ns)?;
    let store = Store::of_host();
    let locked = store.lock_within(LockSubject::Name(name.to_owned()), Duration::MAX)?;
    let Some(instance) = survey::find(name, &store, features)? else { return Ok(None) };
    let unconfirmed = instance.record.as_ref().and_then(|record| record.unconfirmed);
    if unconfirmed.is_none_or(|it| it.until_ns != until_ns) {
        return Ok(None);
    }
    undo(instance, &locked).map(Some)
}

/// Undoes what nobody confirmed in time if the process that should undo it is dead.
pub fn clear_overdue(features: &Features) -> Result<Vec<Unloaded>> {
    let store = Store::of_host();
    let mut cleared = Vec::new();
    for Record { name, .. } in store.records().into_iter().filter(is_late) {
        let locked = store.lock_name(&name)?;
        let instance = survey::find(&name, &store, features)?.filter(is_overdue);
        cleared.extend(instance.map(|instance| undo(instance, &locked)).transpose()?);
    }
    Ok(cleared)
}

/// Whether nobody confirmed it in time and nobody is left to undo it.
pub fn is_overdue(instance: &Instance) -> bool {
    instance.record.as_ref().is_some_and(is_late)
}

fn is_late(record: &Record) -> bool {
    record.unconfirmed.is_some_and(|it| seconds_left(&it) == 0.0 && !it.guard.lives())
}

/// 0 when the time to confirm is over.
pub fn seconds_left(unconfirmed: &Unconfirmed) -> f64 {
    let now_ns = clock::boottime_ns().unwrap_or(u64::MAX);
    unconfirmed.until_ns.saturating_sub(now_ns) as f64 / 1e9
}

/// Ends the waiting process unless it is this one.
pub(super) fn end_guard(unconfirmed: &Unconfirmed) {
    if unconfirmed.guard.pid != std::process::id() {
        unconfirmed.guard.end();
    }
}
