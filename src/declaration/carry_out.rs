//! Changes the host to the declared state, step by step. After a failed step, the following steps are still tried.

use std::process::Command;

use anyhow::{Context, Result};

use super::difference::ApplyStep;
use super::{Declaration, Declared, DeclaredPolicy};
use crate::gate;
use crate::kernel::probe::Features;
use crate::loader::{self, LoadOptions, load};
use crate::policy::file;
use crate::policy::generation::Base;
use crate::policy::record::TrialSubject;
use crate::policy::rule::Policy;
use crate::state::{DeclaredIn, Record, Store};
use crate::trial::journal::{self, TrialResult};
use crate::trial::{self, TrialPlan, end, progress};

/// What the steps need besides the declaration.
pub struct Tools<'a> {
    pub features: &'a Features,
    /// The command that runs [`crate::trial::guard::run`] in a process of its own.
    pub guard: &'a mut dyn FnMut() -> Command,
}

/// Makes the change of one step.
///
/// Errors: those of the verb for the same change.
/// Side effects: those of that verb.
pub fn carry_out(step: &ApplyStep, declaration: &Declaration, tools: &mut Tools<'_>) -> Result<()> {
    let features = tools.features;
    match step {
        ApplyStep::Load(name) => load_declared(name, declaration, features),
        ApplyStep::Reload(name) => {
            loader::unload(name, features)?;
            load_declared(name, declaration, features)
        }
        ApplyStep::Upgrade(name) => {
            loader::upgrade::upgrade(&declared(declaration, name)?.request(name), features)?;
            keep(name, declaration)
        }
        ApplyStep::Keep(name) => keep(name, declaration),
        ApplyStep::ApplyPolicy => apply_policy(declaration, tools),
        ApplyStep::RemovePolicy => end::remove_policy(false, "the policy is no longer declared").map(drop),
        ApplyStep::SetDefault(name) => {
            loader::make_default(name)?;
            keep(name, declaration)
        }
        ApplyStep::RestoreDefault(name) => {
            loader::give_back_default(name, features)?;
            keep(name, declaration)
        }
        ApplyStep::Unload(name) => loader::unload(name, features).map(drop),
    }
}

fn declared<'a>(declaration: &'a Declaration, name: &str) -> Result<&'a Declared> {
    declaration.algorithms.get(name).with_context(|| format!("find \"{name}\" in the declaration"))
}

fn load_declared(name: &str, declaration: &Declaration, features: &Features) -> Result<()> {
    let declared = declared(declaration, name)?;
    let load = if declared.receiver { loader::load_receiver } else { load };
    load(&declared.request(name), LoadOptions::default(), features)?;
    keep(name, declaration)
}

/// Records that a name is declared, so that `tccc apply` unloads it once it no longer is.
fn keep(name: &str, declaration: &Declaration) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let record = store.record(name).with_context(|| format!("find the record of \"{name}\""))?;
    let default = declaration.default.as_deref() == Some(name) && record.previous_default.is_some();
    let declared = Some(DeclaredIn { folder: declaration.folder.clone(), default });
    locked.write(&Record { declared, with_policy: false, ..record })
}

fn apply_policy(declaration: &Declaration, tools: &mut Tools<'_>) -> Result<()> {
    let DeclaredPolicy { file: path, policy } =
        declaration.policy.as_ref().context("find the policy in the declaration")?;
    let concluded = concluded(policy);
    let policy = concluded.as_ref().unwrap_or(policy);
    if policy.rules.iter().all(|rule| rule.trial.is_none()) {
        return gate::apply_policy(policy, Some(path), false).map(drop);
    }
    let plan = TrialPlan {
        subject: TrialSubject::Policy,
        policy: policy.clone(),
        base: Base::Any,
        patience: None,
        live: false,
        loaded: Vec::new(),
    };
    trial::begin(&plan, Some(path), &mut (tools.guard)()).map(drop)
}

/// The rules as they were at the end of a trial that was kept. `None` if no trial of them was kept.
fn concluded(policy: &Policy) -> Option<Policy> {
    let kept = journal::last_of(&file::digest(policy)).filter(|end| end.result == TrialResult::Kept)?;
    Some(progress::concluded(policy, &kept.steps?))
}
