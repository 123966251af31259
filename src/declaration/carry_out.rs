//! Makes the host what is declared, step by step. A step that fails does not keep those after it from being tried.

use std::fs::File;
use std::process::Command;

use anyhow::{Context, Result};
use nix::fcntl::{Flock, FlockArg};

use super::difference::Step;
use super::{Declaration, Declared, DeclaredPolicy};
use crate::failure::Failure;
use crate::kernel::bpffs;
use crate::kernel::probe::Features;
use crate::loader::{self, Options, load};
use crate::policy::change;
use crate::policy::generation::Role;
use crate::policy::record::TrialSubject;
use crate::state::{Record, Store};
use crate::trial::{self, Plan};

/// The right to make a host what a folder declares: held by one process at a time, and gone with it.
#[derive(Debug)]
pub struct Turn {
    _lock: Flock<File>,
}

impl Turn {
    /// Takes it.
    ///
    /// Errors: another `tccc apply` of the same folder works.
    pub fn take(declaration: &Declaration) -> Result<Self> {
        let folder = declaration.folder.display();
        let file = File::open(&declaration.folder).with_context(|| format!("open {folder}"))?;
        let busy = || Failure::failed(format!("another `tccc apply` of {folder} is at work")).hint("try again");
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| busy())?;
        Ok(Turn { _lock: lock })
    }
}

/// What carrying out needs besides the declaration.
pub struct Tools<'a> {
    /// What this kernel can do.
    pub features: &'a Features,
    /// This program with the words that make it call [`crate::trial::guard::run`].
    pub guard: &'a mut dyn FnMut() -> Command,
}

/// Makes one change.
///
/// Errors: those of the verb that makes the same change by hand.
/// Side effects: those of that verb.
pub fn carry_out(step: &Step, declaration: &Declaration, tools: &mut Tools<'_>) -> Result<()> {
    let features = tools.features;
    match step {
        Step::Mount => bpffs::mount_missing().map(drop),
        Step::Load(name) => load_declared(name, declared(declaration, name)?, features),
        Step::Reload(name) => {
            loader::unload(name, features)?;
            load_declared(name, declared(declaration, name)?, features)
        }
        Step::Upgrade(name) => {
            loader::upgrade::upgrade(&declared(declaration, name)?.request(name), features)?;
            keep(name)
        }
        Step::Keep(name) => keep(name),
        Step::ApplyPolicy => apply_policy(declaration, tools),
        Step::RemovePolicy => change::remove(false).map(drop),
        Step::SetDefault(name) => loader::make_default(name).map(drop),
        Step::RestoreDefault(name) => loader::give_back_default(name, features),
        Step::Unload(name) => loader::unload(name, features).map(drop),
    }
}

fn declared<'a>(declaration: &'a Declaration, name: &str) -> Result<&'a Declared> {
    declaration.algorithms.get(name).with_context(|| format!("find \"{name}\" in the declaration"))
}

fn load_declared(name: &str, declared: &Declared, features: &Features) -> Result<()> {
    let load = if declared.receiver { loader::load_receiver } else { load };
    load(&declared.request(name), Options::default(), features)?;
    keep(name)
}

/// Notes that a name is declared, so that it is unloaded when it is declared no more, and not before.
fn keep(name: &str) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock()?;
    let record = store.record(name).with_context(|| format!("find the record of \"{name}\""))?;
    locked.write(&Record { declared: true, with_policy: false, ..record })
}

fn apply_policy(declaration: &Declaration, tools: &mut Tools<'_>) -> Result<()> {
    let DeclaredPolicy { file, policy } = declaration.policy.as_ref().context("find the policy in the declaration")?;
    if policy.rules.iter().all(|rule| rule.trial.is_none()) {
        return change::apply(policy, Some(file), Role::Permanent, false).map(drop);
    }
    let plan =
        Plan { subject: TrialSubject::Policy, policy: policy.clone(), patience: None, live: false, loaded: Vec::new() };
    trial::begin(&plan, Some(file), &mut (tools.guard)()).map(drop)
}
