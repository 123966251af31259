//! Other code under the same name: at once, on trial, or beside the old code where the kernel cannot swap it.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::begin::{TrialPlan, begin};
use super::{end, overlay, standing, swap};
use crate::kernel::probe::Features;
use crate::loader::upgrade::Upgraded;
use crate::loader::{self, Request};
use crate::policy::change::{self, Applied};
use crate::policy::generation::refuse_during_trial as refuse;
use crate::policy::record::{PolicyRecord, TrialSubject};
use crate::policy::rule::{Policy, Portion, RuleTrial};
use crate::policy::sweep::{self, Refreshes};
use crate::state::Store;

pub use super::swap::conclude;

#[derive(Debug)]
pub struct Done {
    /// What became of the name.
    pub upgraded: Upgraded,
    /// Sockets that got the new code.
    pub refreshes: Refreshes,
}

#[derive(Debug, Clone)]
pub struct UpgradeTrial {
    pub patience: Duration,
    /// The part of the connections that get the new code.
    pub portion: Portion,
    pub limits: Option<RuleTrial>,
}

/// Puts other code under a name, points defaults and listening sockets to it, and with `moves_open` connections too.
///
/// Errors: as [`loader::upgrade::upgrade`]; a trial goes on.
pub fn at_once(request: &Request, features: &Features, moves_open: bool) -> Result<Done> {
    refuse_during_trial()?;
    let upgraded = if features.link_update {
        loader::upgrade::upgrade(request, features)?
    } else {
        swap::beside(request, features, None)?
    };
    Ok(Done { refreshes: sweep::refresh(request.name, moves_open)?, upgraded })
}

/// Puts the code before under its name again; the rest as [`at_once`].
///
/// Errors: as [`loader::upgrade::rollback`]; a trial goes on.
pub fn rollback(name: &str, features: &Features, moves_open: bool) -> Result<Done> {
    refuse_during_trial()?;
    let upgraded = if features.link_update {
        loader::upgrade::rollback(name, features)?
    } else {
        swap::rollback_beside(name, features)?
    };
    Ok(Done { refreshes: sweep::refresh(name, moves_open)?, upgraded })
}

/// Clears a trial that is over, and refuses while one goes on.
fn refuse_during_trial() -> Result<()> {
    end::sweep()?;
    let record = PolicyRecord { trial: standing::current()?, ..PolicyRecord::default() };
    Ok(refuse(&record)?)
}

/// Loads new code beside the old one, and gives it to a part of the connections that would get the old one.
///
/// Errors: the name is not loaded; a trial goes on; the kernel refuses the code.
/// Side effects: those of [`super::begin`], and an algorithm under a name of its own.
pub fn on_trial(request: &Request, features: &Features, trial: &UpgradeTrial, guard: &mut Command) -> Result<Applied> {
    refuse_during_trial()?;
    let store = Store::of_host();
    let record = store.record(request.name).filter(|record| !record.receiver);
    let record = record
        .with_context(|| format!("find the algorithm \"{}\": `tccc status` shows what is loaded", request.name))?;
    let current = change::current()?;
    let file = current.as_ref().and_then(|generation| generation.file.clone());
    let base = current.map(|generation| generation.policy).unwrap_or_default();
    let trial_name = swap::free_name(request.name, record.generation + 1)?;
    let limits = Some(trial.limits.clone().unwrap_or_default());
    let policy = overlay::with_upgrade(&base, [request.name, &trial_name], limits, trial.portion)?;
    let own = Request { name: &trial_name, ..*request };
    loader::load(&own, swap::FOR_RULES, features)?;
    begin(&plan_of(request.name, &trial_name, policy, trial.patience), file.as_deref(), guard)
}

fn plan_of(name: &str, trial_name: &str, policy: Policy, patience: Duration) -> TrialPlan {
    TrialPlan {
        subject: TrialSubject::Upgrade { name: name.to_owned(), trial_name: trial_name.to_owned() },
        policy,
        patience: Some(patience),
        live: false,
        loaded: vec![trial_name.to_owned()],
    }
}
