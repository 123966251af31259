//! Registrations on trial: a process undoes them at a set time unless a person confirms them before.
//!
//! The process starts before the host is changed. If it is killed, `tccc status` says so, and the next `tccc load` or `run`
//! undoes the registration.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::survey;
use super::unload::{Unloaded, undo};
use crate::state::{Locked, Record, Store, Unconfirmed};
use shared::failure::Failure;
use shared::kernel::clock;
use shared::kernel::probe::Features;
use shared::kernel::process::Detached;
use shared::units::nanos;

/// The process that undoes a registration when its time is over. Dropping this value kills it unless it is released.
#[derive(Debug)]
pub struct UndoGuard {
    process: Detached,
    unconfirmed: Unconfirmed,
}

impl UndoGuard {
    /// `command` must call [`crate::gate::expire`]. The deadline, in nanoseconds of CLOCK_BOOTTIME, becomes its last argument.
    ///
    /// Side effects: a process without terminal until the time is over, or somebody confirms or unloads.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(command: &mut Command, patience: Duration) -> Result<UndoGuard> {
        let until_ns = clock::boottime_ns()? + nanos(patience);
        command.arg(until_ns.to_string());
        let process = Detached::start(command).context("start the process that undoes it")?;
        Ok(UndoGuard { unconfirmed: Unconfirmed { until_ns, guard: process.process }, process })
    }

    pub fn unconfirmed(&self) -> Unconfirmed {
        self.unconfirmed
    }

    /// Lets the process outlive this one.
    ///
    /// # Errors
    /// The time is over or the process was killed, so that nothing guards the registration.
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
/// Side effects: ends the processes that would have undone them.
///
/// # Errors
/// Nothing of that name waits to be confirmed; its time is over; not permitted.
pub(crate) fn confirm(name: Option<&str>) -> Result<Vec<Record>> {
    let store = Store::of_host();
    let on_trial = |record: &Record| record.unconfirmed.is_some() && name.is_none_or(|name| record.name == name);
    ensure!(store.records().iter().any(on_trial), nothing_waits(name, &store));
    let mut confirmed = Vec::new();
    for Record { name, .. } in store.records().into_iter().filter(on_trial) {
        let locked = store.lock_name(&name)?;
        let Some(mut record) = store.record(&name) else { continue };
        let Some(unconfirmed) = record.unconfirmed.take() else { continue };
        if clock::boottime_ns()? >= unconfirmed.until_ns {
            let others: Vec<String> = confirmed.iter().map(|it: &Record| format!("\"{}\"", it.name)).collect();
            let stay = if others.is_empty() { String::new() } else { format!("; confirmed: {}", others.join(", ")) };
            let what = format!("too late to confirm \"{}\": its time is over{stay}", record.name);
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

/// Undoes a registration that nobody confirmed in time, unless `rule` of the policy gives it to connections. The policy
/// then keeps it. Returns what happened. `None` if the registration is gone or is not the one that is meant.
pub(crate) fn end_wait(
    locked: &Locked,
    name: &str,
    is_meant: impl Fn(&Unconfirmed) -> bool,
    rule: Option<&str>,
    features: &Features,
) -> Result<Option<String>> {
    let Some(instance) = survey::find(name, locked.store(), features)? else { return Ok(None) };
    let unconfirmed = instance.record.as_ref().and_then(|record| record.unconfirmed);
    let Some(unconfirmed) = unconfirmed.filter(is_meant) else { return Ok(None) };
    let late = format!("nobody confirmed \"{name}\" in time");
    if let (Some(rule), Some(record)) = (rule, &instance.record) {
        locked.write(&Record { unconfirmed: None, with_policy: true, ..record.clone() })?;
        end_guard(&unconfirmed);
        return Ok(Some(format!("{late}: it stays loaded for rule \"{rule}\" of the policy")));
    }
    let Unloaded { notes, .. } = undo(instance, locked)?;
    Ok(Some([vec![format!("{late}: it is unloaded")], notes].concat().join("; ")))
}

/// Whether nobody confirmed it in time and nobody is left to undo it.
pub fn is_overdue(unconfirmed: &Unconfirmed) -> bool {
    seconds_left(unconfirmed) == 0.0 && !unconfirmed.guard.lives()
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
