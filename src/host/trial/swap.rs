//! Puts new code under a name: for good after a trial, or through a second name if the kernel cannot swap code.

use std::path::Path;

use anyhow::{Context, Result};

use super::{current, end, rules};
use crate::loader::upgrade::Upgraded;
use crate::loader::{self, LoadOptions, Request};
use crate::policy::change;
use crate::policy::generation::{Base, GenerationRole, NewGeneration};
use crate::policy::migrate;
use crate::policy::needs::PolicyNeeds;
use crate::policy::record::{GenerationRecord, PolicyOrigin, PolicyRecord};
use crate::policy::rule::Portion;
use crate::state::pins::Pins;
use crate::state::{Record, Store};
use shared::catalog::{self, Algorithm, NAME_LENGTH_MAX};
use shared::failure::Failure;
use shared::fault;
use shared::kernel::congestion;
use shared::kernel::probe::Features;

/// For new code under its own name, which is unloaded once no rule names it.
pub(super) const FOR_RULES: LoadOptions =
    LoadOptions { make_default: false, replace: false, dry_run: false, with_policy: true, unconfirmed: None };

/// Finds a free name such as `NAME_g2`. Cuts `name` to fit the kernel's limit.
pub(super) fn free_name(name: &str, generation: u32) -> Result<String> {
    let taken = congestion::available()?;
    let names = (generation..).map(|number| {
        let ending = format!("_g{number}");
        format!("{}{ending}", &name[..name.len().min(NAME_LENGTH_MAX - ending.len())])
    });
    names.take(100).find(|name| !taken.contains(name)).context("find a free name for the new code")
}

/// Ends the trial of an upgrade with success: the new code replaces the old code.
///
/// # Errors
/// The object file changed since the trial began; as [`loader::upgrade::upgrade`].
pub(super) fn conclude(name: &str, trial_name: &str, features: &Features) -> Result<()> {
    let store = Store::of_host();
    let record = store.record(trial_name).with_context(|| format!("find \"{trial_name}\", which was on trial"))?;
    let source = CodeSource::of(&record)?;
    if features.link_update {
        // If a command was killed after the upgrade, a second upgrade would forget the previous code.
        let now = loader::upgrade::settled(name, (&Pins::writable()?, &store.lock_name(name)?), features)?;
        let is_done = now.generation > 1 && now.digest == record.digest && now.tunables == record.tunables;
        if !is_done {
            let request = source.request(name);
            let code = loader::upgrade::prepare(&request, features)?;
            let _policy = PolicyNeeds::steady()?;
            loader::upgrade::upgrade(code)?;
        }
        fault::point("confirm.upgraded");
        migrate::refresh(name, false)?;
        end::swap_back()?;
        return end::unload_all(&[trial_name.to_owned()]);
    }
    beside(&source.request(name), features, Some(trial_name))?;
    migrate::refresh(name, false).map(drop)
}

/// Everything needed to load recorded code again.
struct CodeSource<'a> {
    algorithm: Algorithm,
    file: Option<&'a Path>,
    settings: Vec<catalog::Setting>,
    cgroup: Option<&'a Path>,
}

impl<'a> CodeSource<'a> {
    /// # Errors
    /// The object is gone, or has changed.
    fn of(record: &'a Record) -> Result<Self> {
        let file = record.file.as_deref();
        let algorithm = match file {
            Some(file) => catalog::open(file)?,
            None => catalog::find(&record.algorithm)?.clone(),
        };
        if algorithm.digest() != record.digest {
            let from = file.map_or("this tccc".to_owned(), |file| file.display().to_string());
            let what = format!("the code of \"{}\" in {from} is not the one that was loaded", record.name);
            return Err(Failure::failed(what).hint("run `tccc upgrade` with the code that you want").into());
        }
        let settings = algorithm.recorded(&record.tunables)?;
        let cgroup = record.companion.as_ref().and_then(|companion| companion.cgroup.as_deref());
        Ok(CodeSource { algorithm, file, settings, cgroup })
    }

    fn request(&'a self, name: &'a str) -> Request<'a> {
        let CodeSource { algorithm, file, settings, cgroup } = self;
        Request { algorithm, name, settings, file: *file, cgroup: *cgroup }
    }
}

/// Replaces code on a kernel without struct_ops links. The bridge, a copy of the new code under another name, serves
/// rules and defaults while the name is registered again. A program that asks for the name meanwhile gets an error.
///
/// `on_trial` is the name of new code whose trial ends now. That name is then the bridge.
///
/// # Errors
/// As [`loader::load`] and [`change::apply`].
pub(crate) fn beside(request: &Request, features: &Features, on_trial: Option<&str>) -> Result<Upgraded> {
    let name = request.name;
    let earlier = Store::of_host().record(name).with_context(|| format!("find the algorithm \"{name}\""))?;
    let policy = without_trial()?;
    let base = Base::of(policy.as_ref());
    let rules = policy.as_ref().map(|generation| generation.policy.clone()).unwrap_or_default();
    let origin = &PolicyOrigin::of(policy.as_ref());
    let bridge = match on_trial {
        Some(name) => name.to_owned(),
        None => free_name(name, earlier.generation + 1)?,
    };
    let bridged = rules::with_upgrade(&rules, [name, &bridge], None, Portion::ALL)?;
    if on_trial.is_none() {
        loader::load(&Request { name: &bridge, ..*request }, FOR_RULES, features)?;
    }
    let was_default = congestion::default()? == name;
    if was_default {
        loader::make_default(&bridge)?;
    }
    let role = if on_trial.is_some() { GenerationRole::Concludes } else { GenerationRole::Permanent };
    let applied = change::apply(NewGeneration { policy: &bridged, origin, role, base }, false)?;
    fault::point("beside.bridged");
    end::unload_all(&[name.to_owned()])?; // may be unloaded already, because no rule names it
    let loaded = loader::load(request, LoadOptions { with_policy: earlier.with_policy, ..FOR_RULES }, features)?;
    fault::point("beside.loaded");
    let mut record = loader::succeed(name, &earlier)?;
    if was_default {
        record = loader::make_default(name)?;
    }
    let base = Base::of(Some(&applied.generation));
    match &policy {
        Some(GenerationRecord { policy, .. }) => {
            let role = GenerationRole::Permanent;
            change::apply(NewGeneration { policy, origin, role, base }, false)?;
        }
        None => drop(change::remove(false, base)?.whole()?),
    }
    fault::point("beside.restored");
    end::unload_all(&[bridge])?;
    let record = Store::of_host().record(name).unwrap_or(record); // without the bridge as the previous default
    Ok(Upgraded { record, adapted: loaded.adapted, defaults: Vec::new(), notes: Vec::new() })
}

/// The policy without the running trial.
fn without_trial() -> Result<Option<GenerationRecord>> {
    let Some(trial) = current::current()? else { return change::current() };
    let record = PolicyRecord::read(&Store::of_host())?;
    Ok(trial.previous.and_then(|number| record.generation(number).cloned()))
}

pub(crate) fn rollback_beside(name: &str, features: &Features) -> Result<Upgraded> {
    let store = Store::of_host();
    let record = store.record(name).with_context(|| format!("find the algorithm \"{name}\""))?;
    let Some(previous) = record.previous.clone() else {
        let what = format!("cannot roll back \"{name}\": no earlier code is known");
        return Err(Failure::failed(what).hint("`tccc upgrade` remembers the code that it replaces").into());
    };
    let earlier = record.with_code(previous);
    beside(&CodeSource::of(&earlier)?.request(name), features, None)
}
