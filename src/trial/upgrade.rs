//! Other code under the same name: at once, on trial, or beside the old code where the kernel cannot swap it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{end, overlay};
use crate::catalog::{self, Algorithm, NAME_LENGTH_MAX};
use crate::failure::Failure;
use crate::fault;
use crate::kernel::congestion;
use crate::kernel::probe::Features;
use crate::loader::upgrade::Upgraded;
use crate::loader::{self, Options, Request};
use crate::policy::change::{self, Applied};
use crate::policy::generation::{Role, refuse_during_trial as refuse};
use crate::policy::record::{GenerationRecord, PolicyRecord, TrialSubject};
use crate::policy::rule::{Policy, Portion, RuleTrial};
use crate::policy::sweep::{self, Refreshes};
use crate::state::pins::Pins;
use crate::state::{Record, Store};

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
    super::sweep()?;
    refuse_during_trial()?;
    let upgraded = if features.link_update {
        loader::upgrade::upgrade(request, features)?
    } else {
        beside(request, features, None)?
    };
    Ok(Done { refreshes: sweep::refresh(request.name, moves_open)?, upgraded })
}

/// Puts the code before under its name again; the rest as [`at_once`].
///
/// Errors: as [`loader::upgrade::rollback`]; a trial goes on.
pub fn rollback(name: &str, features: &Features, moves_open: bool) -> Result<Done> {
    super::sweep()?;
    refuse_during_trial()?;
    let upgraded = if features.link_update {
        loader::upgrade::rollback(name, features)?
    } else {
        rollback_beside(name, features)?
    };
    Ok(Done { refreshes: sweep::refresh(name, moves_open)?, upgraded })
}

fn refuse_during_trial() -> Result<()> {
    let record = PolicyRecord { trial: super::current()?, ..PolicyRecord::default() };
    Ok(refuse(&record)?)
}

/// Loads new code beside the old one, and gives it to a part of the connections that would get the old one.
///
/// Errors: the name is not loaded; a trial goes on; the kernel refuses the code.
/// Side effects: those of [`super::begin`], and an algorithm under a name of its own.
pub fn on_trial(request: &Request, features: &Features, trial: &UpgradeTrial, guard: &mut Command) -> Result<Applied> {
    super::sweep()?;
    refuse_during_trial()?;
    let store = Store::of_host();
    let record = store.record(request.name).filter(|record| !record.receiver);
    let record = record
        .with_context(|| format!("find the algorithm \"{}\": `tccc status` shows what is loaded", request.name))?;
    let current = change::current()?;
    let file = current.as_ref().and_then(|generation| generation.file.clone());
    let base = current.map(|generation| generation.policy).unwrap_or_default();
    let trial_name = free_name(request.name, record.generation + 1)?;
    let limits = Some(trial.limits.clone().unwrap_or_default());
    let policy = overlay::with_upgrade(&base, [request.name, &trial_name], limits, trial.portion)?;
    let own = Request { name: &trial_name, ..*request };
    loader::load(&own, FOR_RULES, features)?;
    super::begin(&plan_of(request.name, &trial_name, policy, trial.patience), file.as_deref(), guard)
}

/// Code under a name of its own goes when no rule names it any more.
const FOR_RULES: Options =
    Options { make_default: false, replace: false, dry_run: false, with_policy: true, unconfirmed: None };

fn plan_of(name: &str, trial_name: &str, policy: Policy, patience: Duration) -> super::Plan {
    super::Plan {
        subject: TrialSubject::Upgrade { name: name.to_owned(), trial_name: trial_name.to_owned() },
        policy,
        patience: Some(patience),
        live: false,
        loaded: vec![trial_name.to_owned()],
    }
}

/// `NAME_g2`, cut to what the kernel takes, and not taken.
fn free_name(name: &str, generation: u32) -> Result<String> {
    let taken = congestion::available()?;
    let names = (generation..).map(|number| {
        let ending = format!("_g{number}");
        format!("{}{ending}", &name[..name.len().min(NAME_LENGTH_MAX - ending.len())])
    });
    names.take(100).find(|name| !taken.contains(name)).context("find a free name for the new code")
}

/// The upgrade on trial becomes the code of its name, and the trial is over.
///
/// Errors: the object file changed since the trial began; as [`loader::upgrade::upgrade`].
pub fn conclude(name: &str, trial_name: &str, features: &Features) -> Result<()> {
    let store = Store::of_host();
    let record = store.record(trial_name).with_context(|| format!("find \"{trial_name}\", which was on trial"))?;
    let source = Source::of(&record)?;
    if features.link_update {
        // Where a command was killed after this step the code before must not be forgotten by a second upgrade.
        let now = loader::upgrade::settled(name, (&Pins::writable()?, &store.lock_name(name)?), features)?;
        let is_done = now.generation > 1 && now.digest == record.digest && now.tunables == record.tunables;
        if !is_done {
            loader::upgrade::upgrade(&source.request(name)?, features)?;
        }
        fault::point("confirm.upgraded");
        sweep::refresh(name, false)?;
        end::swap_back()?;
        return end::unload_all(&[trial_name.to_owned()]);
    }
    beside(&source.request(name)?, features, Some(trial_name))?;
    sweep::refresh(name, false).map(drop)
}

/// Where code that was loaded before can be loaded from again.
struct Source<'a> {
    algorithm: Algorithm,
    file: Option<&'a Path>,
    settings: Vec<catalog::Setting>,
    cgroup: Option<&'a Path>,
}

impl<'a> Source<'a> {
    /// Errors: the object is not there any more, or another one.
    fn of(record: &'a Record) -> Result<Self> {
        let file = record.file.as_deref();
        let algorithm = match file {
            Some(file) => catalog::open(file)?,
            None => catalog::find(&record.algorithm)?.clone(),
        };
        if loader::digest_of(&algorithm) != record.digest {
            let from = file.map_or("this tccc".to_owned(), |file| file.display().to_string());
            let what = format!("the code of \"{}\" in {from} is not the one that was loaded", record.name);
            return Err(Failure::failed(what).hint("`tccc upgrade` with the code that is wanted").into());
        }
        let texts: Vec<String> = record.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = algorithm.settings(&texts)?;
        let cgroup = record.companion.as_ref().map(|companion| companion.cgroup.as_path());
        Ok(Source { algorithm, file, settings, cgroup })
    }

    fn request(&'a self, name: &'a str) -> Result<Request<'a>> {
        let Source { algorithm, file, settings, cgroup } = self;
        Ok(Request { algorithm, name, settings, file: *file, cgroup: *cgroup })
    }
}

/// The nearest safe thing where the kernel has no links: the new code under a name of its own serves rules and defaults
/// while the old name is given to it. A program that asks for the name in that moment gets an error.
///
/// `on_trial` is the name that the new code has already, where it is on trial: the trial is over then.
///
/// Errors: as [`loader::load`] and [`change::apply`].
fn beside(request: &Request, features: &Features, on_trial: Option<&str>) -> Result<Upgraded> {
    let name = request.name;
    let earlier = Store::of_host().record(name).with_context(|| format!("find the algorithm \"{name}\""))?;
    let policy = without_trial()?;
    let base = policy.as_ref().map(|generation| generation.policy.clone()).unwrap_or_default();
    let file = policy.as_ref().and_then(|generation| generation.file.clone());
    let bridge = match on_trial {
        Some(name) => name.to_owned(),
        None => free_name(name, earlier.generation + 1)?,
    };
    let bridged = overlay::with_upgrade(&base, [name, &bridge], None, Portion::ALL)?;
    if on_trial.is_none() {
        loader::load(&Request { name: &bridge, ..*request }, FOR_RULES, features)?;
    }
    let was_default = congestion::default()? == name;
    if was_default {
        loader::make_default(&bridge)?;
    }
    let role = if on_trial.is_some() { Role::Concludes } else { Role::Permanent };
    change::apply(&bridged, file.as_deref(), role, false)?;
    fault::point("beside.bridged");
    end::unload_all(&[name.to_owned()])?; // the rules may have unloaded it already, since none names it
    let loaded = loader::load(request, Options { with_policy: earlier.with_policy, ..FOR_RULES }, features)?;
    fault::point("beside.loaded");
    let mut record = loader::succeed(name, &earlier)?;
    if was_default {
        record = loader::make_default(name)?;
    }
    match &policy {
        Some(generation) => drop(change::apply(&generation.policy, file.as_deref(), Role::Permanent, false)?),
        None => drop(change::remove(false)?),
    }
    fault::point("beside.restored");
    end::unload_all(&[bridge])?;
    let record = Store::of_host().record(name).unwrap_or(record); // which default was before is known without the bridge
    Ok(Upgraded { record, adapted: loaded.adapted, defaults: Vec::new(), notes: Vec::new() })
}

/// The policy as it is without the trial that goes on.
fn without_trial() -> Result<Option<GenerationRecord>> {
    match super::current()? {
        Some(trial) => {
            let record = PolicyRecord::read(&Store::of_host())?;
            Ok(trial.previous.and_then(|number| record.generation(number).cloned()))
        }
        None => change::current(),
    }
}

fn rollback_beside(name: &str, features: &Features) -> Result<Upgraded> {
    let store = Store::of_host();
    let record = store.record(name).with_context(|| format!("find the algorithm \"{name}\""))?;
    let Some(previous) = record.previous.clone() else {
        let what = format!("cannot roll back \"{name}\": no earlier code is known");
        return Err(Failure::failed(what).hint("`tccc upgrade` remembers the code that it replaces").into());
    };
    let earlier = record.with_code(previous);
    beside(&Source::of(&earlier)?.request(name)?, features, None)
}
