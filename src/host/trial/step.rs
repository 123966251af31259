//! Applies the progress of a trial's rules: writes it to the record, and changes shares in the kernel.

use anyhow::{Context, Result};

use super::{current, progress};
use crate::policy::change;
use crate::policy::generation::{self, Base, GenerationRole, NewGeneration};
use crate::policy::record::{PolicyOrigin, RuleProgress, TrialRecord};
use crate::state::Locked;
use shared::kernel::clock;

/// Writes the rules' progress. If a share rises, a new generation decides from now on.
///
/// Returns false and does nothing if the trial differs from `seen`. Somebody then paused, promoted or ended it, or its
/// lease is over.
///
/// Side effects: those of [`generation::apply`].
///
/// # Errors
/// The kernel refuses the generation.
pub fn change_progress(_trial: &Locked, seen: &TrialRecord, rules: Vec<RuleProgress>, is_step: bool) -> Result<bool> {
    // Computed first, so that a process that is stopped in between does not renew a lease that runs out meanwhile.
    let until_ns = seen.lease_from(clock::boottime_ns()?);
    let applied = {
        let (locked, mut record) = current::settled()?;
        if record.trial.as_ref() != Some(seen) || current::why_over(seen)?.is_some() {
            return Ok(false);
        }
        let trial = TrialRecord { rules, ..seen.clone() };
        if !is_step {
            record.trial = Some(trial);
            return record.write(&locked).map(|()| true);
        }
        let generation = record.generation(seen.generation).cloned().context("find the generation on trial")?;
        let policy = progress::at_progress(&generation.policy, &trial.rules);
        let role = GenerationRole::Continues { trial, until_ns };
        let origin = &PolicyOrigin::of(Some(&generation));
        generation::apply(&locked, NewGeneration { policy: &policy, origin, role, base: Base::Any })?
    };
    if seen.live {
        change::move_open(&applied)?;
    }
    Ok(true)
}
