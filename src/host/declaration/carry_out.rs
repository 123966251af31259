//! Changes the host to the declared state, step by step. After a failed step, the following steps are still tried.

use std::process::Command;

use anyhow::{Context, Result};

use super::difference::{ApplyStep, concluded};
use super::{Declaration, Declared, DeclaredPolicy};
use crate::gate;
use crate::loader::LoadOptions;
use crate::policy::ending::TrialEnding;
use crate::policy::generation::Base;
use crate::policy::needs::PolicyNeeds;
use crate::policy::record::{PolicyOrigin, TrialSubject};
use crate::policy::{change, file};
use crate::state::{DeclaredIn, Requester};
use crate::trial::TrialPlan;
use shared::kernel::probe::Features;

/// What the steps need besides the declaration.
pub struct Tools<'a> {
    pub features: &'a Features,
    /// The command that runs [`crate::trial::guard::run`] in a process of its own.
    pub guard: &'a mut dyn FnMut() -> Command,
}

/// Makes the change of one step. Returns what could not be reached, one phrase for each.
///
/// Side effects: those of that verb.
///
/// # Errors
/// Those of the verb for the same change.
pub fn carry_out(step: &ApplyStep, declaration: &Declaration, tools: &mut Tools<'_>) -> Result<Vec<String>> {
    let features = tools.features;
    let no_notes = |()| Vec::new();
    match step {
        ApplyStep::Load(name) => load_declared(name, declaration, features).map(no_notes),
        ApplyStep::Reload(name) => {
            let declared = declared(declaration, name)?;
            let loaded = gate::reload(&declared.request(name), declared.receiver, features)?;
            keep(name, declaration).map(|()| loaded.adapted)
        }
        ApplyStep::Upgrade(name) => {
            let (upgraded, _) = gate::upgrade(&declared(declaration, name)?.request(name), features, false)?;
            keep(name, declaration).map(|()| upgraded.notes)
        }
        ApplyStep::Keep(name) => keep(name, declaration).map(no_notes),
        ApplyStep::ApplyPolicy => apply_policy(declaration, tools),
        ApplyStep::RemovePolicy => {
            let by = Requester::declaration(&declaration.folder);
            let ending = TrialEnding::interrupted("the policy is no longer declared").by(by);
            gate::remove_policy(false, ending)?.whole().map(|_| Vec::new())
        }
        ApplyStep::SetDefault(name) => {
            gate::make_default(name)?;
            keep(name, declaration).map(no_notes)
        }
        ApplyStep::RestoreDefault(name) => {
            gate::give_back_default(name, features)?;
            keep(name, declaration).map(no_notes)
        }
        ApplyStep::HandOver(name) => gate::hand_over(name, features).map(no_notes),
        ApplyStep::Unload(name) => gate::unload(name, features).map(|ended| ended.unloaded.unwrap_or_default().notes),
    }
}

/// Makes no change. Says whether the kernel and this host would refuse a step, as far as that is known beforehand.
///
/// # Errors
/// Those of [`carry_out`].
pub fn try_out(step: &ApplyStep, declaration: &Declaration, features: &Features) -> Result<()> {
    match step {
        ApplyStep::Load(name) => {
            let declared = declared(declaration, name)?;
            let load = if declared.receiver { gate::load_receiver } else { gate::load };
            let options = LoadOptions { dry_run: true, ..LoadOptions::default() };
            load(&declared.request(name), options, features).map(drop)
        }
        ApplyStep::ApplyPolicy => {
            let declared = declaration.policy.as_ref().context("find the policy in the declaration")?;
            let mut policy = declared.policy.clone();
            // An earlier step loads what is declared.
            let is_coming = |name: &str| declaration.algorithms.get(name).is_some_and(|declared| !declared.receiver);
            for rule in &mut policy.rules {
                rule.split.arms.retain(|arm| !arm.treatment.algorithm().is_some_and(is_coming));
            }
            change::plan(&policy, false).map(drop)
        }
        ApplyStep::Reload(name) if declared(declaration, name)?.receiver => Ok(PolicyNeeds::now()?.refuse_loss(name)?),
        _ => Ok(()),
    }
}

fn declared<'a>(declaration: &'a Declaration, name: &str) -> Result<&'a Declared> {
    declaration.algorithms.get(name).with_context(|| format!("find \"{name}\" in the declaration"))
}

fn load_declared(name: &str, declaration: &Declaration, features: &Features) -> Result<()> {
    let declared = declared(declaration, name)?;
    let load = if declared.receiver { gate::load_receiver } else { gate::load };
    load(&declared.request(name), LoadOptions::default(), features)?;
    keep(name, declaration)
}

/// Records that a name is declared, so that `tccc apply` unloads it once it no longer is.
fn keep(name: &str, declaration: &Declaration) -> Result<()> {
    let default = declaration.default.as_deref() == Some(name);
    gate::declare(name, DeclaredIn { folder: declaration.folder.clone(), default })
}

/// Returns a note if the policy is on trial now.
fn apply_policy(declaration: &Declaration, tools: &mut Tools<'_>) -> Result<Vec<String>> {
    let DeclaredPolicy { file: path, policy } =
        declaration.policy.as_ref().context("find the policy in the declaration")?;
    let origin = PolicyOrigin::declaration(&declaration.folder, path, file::digest(policy));
    let concluded = concluded(policy);
    let policy = concluded.as_ref().unwrap_or(policy);
    if policy.rules.iter().all(|rule| rule.trial.is_none()) {
        return gate::apply_policy(policy, &origin, false).map(|_| Vec::new());
    }
    let plan = TrialPlan {
        subject: TrialSubject::Policy,
        policy: policy.clone(),
        base: Base::Any,
        patience: None,
        live: false,
        loaded: Vec::new(),
    };
    gate::begin_trial(&plan, &origin, &mut (tools.guard)())?;
    Ok(vec!["the policy is on trial: `tccc confirm` keeps it, `tccc policy abort` ends it".to_owned()])
}
