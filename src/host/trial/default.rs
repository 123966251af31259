//! Loads an algorithm as the default, on trial.

use std::process::Command;

use anyhow::{Error, Result};

use super::begin::{ShareTrial, TrialPlan, begin};
use super::{end, rules, swap};
use crate::loader::{self, LoadedAlgorithm, Request};
use crate::policy::change::{self, Applied};
use crate::policy::generation::Base;
use crate::policy::record::{PolicyOrigin, TrialSubject};
use shared::kernel::congestion;
use shared::kernel::probe::Features;

/// Loads an algorithm, and adds a rule that gives it to a share of the connections that choose none.
///
/// Side effects: those of [`begin`], and a registered algorithm.
///
/// # Errors
/// Not in the initial network namespace; another trial is running; the policy has no room; those of a load and of a
/// policy. Nothing stays then, or the error says what.
pub fn on_trial(
    request: &Request,
    features: &Features,
    trial: &ShareTrial,
    guard: &mut Command,
) -> Result<(LoadedAlgorithm, Applied)> {
    congestion::check_settable()?;
    let loaded = loader::load(request, swap::FOR_RULES, features)?;
    let applied = begin_for(request.name, trial, guard).map_err(|error| undone(request.name, error))?;
    Ok((loaded, applied))
}

fn begin_for(name: &str, trial: &ShareTrial, guard: &mut Command) -> Result<Applied> {
    let current = change::current()?;
    let base = Base::of(current.as_ref());
    let origin = PolicyOrigin::of(current.as_ref());
    let rules = current.map(|generation| generation.policy).unwrap_or_default();
    let policy = rules::with_default(&rules, name, Some(trial.limits.clone()), trial.portion)?;
    let plan = TrialPlan {
        subject: TrialSubject::Default { name: name.to_owned() },
        policy,
        base,
        patience: Some(trial.patience),
        live: false,
        loaded: vec![name.to_owned()],
    };
    begin(&plan, &origin, guard)
}

/// Unloads an algorithm whose trial could not begin. Returns why it could not.
fn undone(name: &str, error: Error) -> Error {
    // Does nothing if the trial unloaded it already.
    match end::unload_all(&[name.to_owned()]) {
        Ok(()) => error,
        Err(left) => {
            let what = format!("the trial did not begin, and \"{name}\" is still loaded, because unloading it failed");
            error.context(format!("{what} ({left:#})"))
        }
    }
}
