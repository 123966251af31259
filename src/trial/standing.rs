//! Which trial goes on, and why one is over that nobody ended.

use std::io::ErrorKind;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::progress;
use crate::kernel::{bpf, clock};
use crate::policy::generation;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{PolicyRecord, TrialRecord};
use crate::state::Store;

/// The trial that goes on, if any: the one whose generation decides.
///
/// Errors: the record is damaged.
pub fn current() -> Result<Option<TrialRecord>> {
    Ok(deciding(&PolicyRecord::read(&Store::of_host())?))
}

/// The trial of the generation that decides; where that may not be looked at, the one that is written down.
fn deciding(record: &PolicyRecord) -> Option<TrialRecord> {
    let mut trials = [&record.next_trial, &record.trial].into_iter().flatten();
    match PolicyPins::of_host().filter(may_look) {
        Some(pins) => {
            let active = generation::active(&pins, record);
            trials.find(|trial| active == Some(trial.generation)).cloned()
        }
        None => record.trial.clone().or_else(|| record.next_trial.clone()),
    }
}

/// Whether this process can see which generation decides: false without the rights to, as for anybody but root.
fn may_look(pins: &PolicyPins) -> bool {
    match std::fs::symlink_metadata(pins.link()) {
        Ok(_) => bpf::open_pin(&pins.link()).is_ok(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    }
}

/// Until when a trial may decide, by the kernel's own lease.
///
/// None: the generation is gone, or may not be looked at.
/// Errors: the lease cannot be read.
pub fn lease_of(trial: &TrialRecord) -> Result<Option<u64>> {
    let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
    let place = pins.part(trial.generation, "lease");
    let Ok(lease) = MapHandle::from_pinned_path(place) else { return Ok(None) };
    let bytes = lease.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).context("read the lease")?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes))
}

/// A trial that nobody ended although it is over, and why it is.
///
/// Errors: the lease cannot be read.
pub(super) fn over(record: &PolicyRecord) -> Result<Option<(TrialRecord, String)>> {
    if let Some(trial) = deciding(record) {
        return Ok(why_over(&trial)?.map(|why| (trial, why)));
    }
    let written = record.trial.clone().or_else(|| record.next_trial.clone());
    let interrupted = written.filter(|trial| !trial.guard.lives());
    Ok(interrupted.map(|trial| (trial, "the command that began or ended it was killed".to_owned())))
}

/// Why a trial is over although nobody ended it.
///
/// None: it goes on.
/// Errors: the lease cannot be read.
pub fn why_over(trial: &TrialRecord) -> Result<Option<String>> {
    let Some(until_ns) = lease_of(trial)? else { return Ok(None) };
    let now_ns = clock::boottime_ns()?;
    if now_ns < until_ns {
        return Ok(None);
    }
    let is_late = trial.deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns);
    Ok(Some(match (is_late, trial.guard.lives()) {
        (true, _) => progress::TOO_LATE.to_owned(),
        (false, true) => "its guard was stopped, and the lease was over".to_owned(),
        (false, false) => "its guard died, and the lease was over".to_owned(),
    }))
}
