//! The lease of a trial: until when the kernel lets its generation decide.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::pins::PolicyPins;
use super::record::TrialRecord;
use shared::kernel::clock;

/// The end of a trial's lease in the kernel, CLOCK_BOOTTIME, nanoseconds.
///
/// None: the generation is gone, or this user may not look at it.
///
/// # Errors
/// The lease cannot be read.
pub fn of_trial(trial: &TrialRecord) -> Result<Option<u64>> {
    let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
    let place = pins.part(trial.generation, "lease");
    let Ok(lease) = MapHandle::from_pinned_path(place) else { return Ok(None) };
    let bytes = lease.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).context("read the lease")?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes))
}

/// Whether the kernel no longer lets a trial decide. False if the lease cannot be read.
pub fn is_over(trial: &TrialRecord) -> bool {
    let until_ns = of_trial(trial).ok().flatten();
    until_ns.is_some_and(|until_ns| clock::boottime_ns().is_ok_and(|now_ns| now_ns >= until_ns))
}
