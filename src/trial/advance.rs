//! Where the rules of a trial are: written down, and put into force where a share changes.

use anyhow::{Context, Result};

use super::turn::Turn;
use super::{progress, standing};
use crate::kernel::clock;
use crate::policy::change;
use crate::policy::generation::{self, GenerationRole, NewGeneration, NewTrial};
use crate::policy::pins::PolicyPins;
use crate::policy::record::{RuleProgress, TrialRecord};
use crate::state::pins::Pins;
use crate::state::{LockSubject, Store};

/// Writes the rules' progress down; where a share rises, another generation decides from now on.
///
/// Returns false, and does nothing, where the trial is not as it was `seen`: somebody paused, promoted or ended it
/// meanwhile, or its lease is over.
///
/// Errors: the kernel refuses the generation.
/// Side effects: those of [`generation::apply`].
pub fn change_progress(_turn: &Turn, seen: &TrialRecord, rules: Vec<RuleProgress>, is_step: bool) -> Result<bool> {
    let store = Store::of_host();
    // Read before the lease is: a process that is stopped in between does not renew a lease that ends meanwhile.
    let until_ns = seen.lease_from(clock::boottime_ns()?);
    let applied = {
        let locked = store.lock(LockSubject::Policy)?;
        let mut record = generation::settle(&locked, &PolicyPins::of(Pins::writable()?))?;
        if record.trial.as_ref() != Some(seen) || standing::why_over(seen)?.is_some() {
            return Ok(false);
        }
        let trial = TrialRecord { rules, ..seen.clone() };
        if !is_step {
            record.trial = Some(trial);
            return record.write(&locked).map(|()| true);
        }
        let generation = record.generation(seen.generation).cloned().context("find the generation on trial")?;
        let policy = progress::at_progress(&generation.policy, &trial.rules);
        let role = GenerationRole::Continues(NewTrial { trial, until_ns: Some(until_ns) });
        generation::apply(&locked, NewGeneration { policy: &policy, file: generation.file.as_deref(), role })?
    };
    if seen.live {
        change::move_open(&applied)?;
    }
    Ok(true)
}

/// Stops the steps of a trial, or lets them go on.
///
/// Returns false where the trial is not on any more.
///
/// Errors: the record cannot be written.
pub fn set_paused(_turn: &Turn, seen: &TrialRecord, paused: bool) -> Result<bool> {
    let store = Store::of_host();
    let locked = store.lock(LockSubject::Policy)?;
    let mut record = generation::settle(&locked, &PolicyPins::of(Pins::writable()?))?;
    let Some(trial) = record.trial.as_mut().filter(|trial| trial.began_ns == seen.began_ns) else { return Ok(false) };
    trial.paused = paused;
    record.write(&locked).map(|()| true)
}
