//! Puts other code under the same name on trial.

use std::process::Command;

use anyhow::{Context, Result};

use super::begin::{ShareTrial, TrialPlan, begin};
use super::{current, end, rules, swap};
use crate::loader::{self, Request};
use crate::policy::change::{self, Applied};
use crate::policy::generation::{self, Base};
use crate::policy::record::{PolicyOrigin, TrialSubject};
use crate::state::Store;
use shared::kernel::probe::Features;

/// Clears a trial that is over.
///
/// # Errors
/// A trial is running.
fn refuse_during_trial() -> Result<()> {
    end::sweep()?;
    Ok(generation::refuse_during_trial(current::current()?.as_ref())?)
}

/// Loads new code beside the old one, and gives it to a share of the connections that would get the old one.
///
/// Side effects: those of [`super::begin`], and an algorithm under a name of its own.
///
/// # Errors
/// The name is not loaded; a trial is running; the kernel refuses the code.
pub fn on_trial(request: &Request, features: &Features, trial: &ShareTrial, guard: &mut Command) -> Result<Applied> {
    refuse_during_trial()?;
    let store = Store::of_host();
    let record = store.record(request.name).filter(|record| !record.receiver);
    let record = record
        .with_context(|| format!("find the algorithm \"{}\": `tccc status` shows what is loaded", request.name))?;
    let current = change::current()?;
    let base = Base::of(current.as_ref());
    let origin = PolicyOrigin::of(current.as_ref());
    let rules = current.map(|generation| generation.policy).unwrap_or_default();
    let trial_name = swap::free_name(request.name, record.generation + 1)?;
    let limits = Some(trial.limits.clone());
    let policy = rules::with_upgrade(&rules, [request.name, &trial_name], limits, trial.portion)?;
    let own = Request { name: &trial_name, ..*request };
    loader::load(&own, swap::FOR_RULES, features)?;
    let plan = TrialPlan {
        subject: TrialSubject::Upgrade { name: request.name.to_owned(), trial_name: trial_name.clone() },
        policy,
        base,
        patience: Some(trial.patience),
        live: false,
        loaded: vec![trial_name],
    };
    begin(&plan, &origin, guard)
}
