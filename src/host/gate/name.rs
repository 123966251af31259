//! Changes of a name: what it registers, who has it as the default, and whether it goes.

use anyhow::{Context, Error, Result, ensure};

use crate::loader::defaults::{self, OtherDefaults};
use crate::loader::survey::{self, LoadState};
use crate::loader::upgrade::Upgraded;
use crate::loader::{self, LoadOptions, LoadedAlgorithm, Request, Unloaded};
use crate::policy::migrate::{self, Refreshes};
use crate::policy::needs::PolicyNeeds;
use crate::state::{DeclaredIn, LockSubject, Record, Requester, Store};
use crate::trial::journal::TrialEnd;
use crate::trial::{end, swap};
use shared::failure::Failure;
use shared::interrupt;
use shared::kernel::congestion;
use shared::kernel::namespaces;
use shared::kernel::privilege;
use shared::kernel::probe::Features;
use shared::sanitize::count;

/// Registers an algorithm so that it outlives this process. With `replace`, [`upgrade`]s our own of that name.
///
/// Side effects: pins, a record, and with `make_default` the host's default. [`unload`] undoes all of them.
///
/// # Errors
/// A capability or the BPF file system is missing; the name is taken; the kernel refuses the program.
pub fn load(request: &Request, options: LoadOptions, features: &Features) -> Result<LoadedAlgorithm> {
    let is_replacing = || -> Result<bool> { Ok(options.replace && loader::replaces(request, options, features)?) };
    if is_replacing()? {
        return replace(request, options, features);
    }
    let loaded = loader::load(request, options, features);
    // Another command may have loaded the name while the verifier ran.
    let must_replace = loaded.is_err() && is_replacing().unwrap_or(false);
    if must_replace { replace(request, options, features) } else { loaded }
}

fn replace(request: &Request, options: LoadOptions, features: &Features) -> Result<LoadedAlgorithm> {
    PolicyNeeds::now()?.refuse_new_code()?;
    if options.dry_run {
        return loader::load(request, options, features);
    }
    let (upgraded, refreshes) = upgrade(request, features, false)?;
    let Upgraded { mut record, adapted, notes, .. } = upgraded;
    if options.make_default {
        let name = request.name;
        let outcome = || format!("\"{name}\" is replaced, but did not become the default");
        record = make_default(name).with_context(outcome)?;
    }
    let reached = (refreshes.listening > 0)
        .then(|| format!("new code given to {}", count(refreshes.listening as usize, "listening socket")));
    let told = adapted.into_iter().chain(reached).chain(notes).collect();
    Ok(LoadedAlgorithm { record, adapted: told, changes: Vec::new() })
}

/// Attaches what a host needs to receive from senders of an algorithm. Registers no name.
///
/// Side effects: a program on a cgroup, a pin and a record. [`unload`] undoes all of them.
///
/// # Errors
/// The algorithm has no companion; a capability, the BPF file system or cgroup v2 is missing; the name is taken.
pub fn load_receiver(request: &Request, options: LoadOptions, features: &Features) -> Result<LoadedAlgorithm> {
    loader::load_receiver(request, options, features)
}

/// Puts other code under a loaded name and gives it to defaults and listening sockets. With `moves_open`, to connections
/// too.
///
/// Side effects: new sockets get the new code; existing sockets keep the old code, which stays pinned.
///
/// # Errors
/// The name is not loaded; a trial is running; the kernel cannot swap code, or refuses the new code. The current code
/// then stays.
pub fn upgrade(request: &Request, features: &Features, moves_open: bool) -> Result<(Upgraded, Refreshes)> {
    end::sweep()?;
    PolicyNeeds::now()?.refuse_new_code()?;
    let upgraded = if features.link_update {
        let code = loader::upgrade::prepare(request, features)?;
        let policy = PolicyNeeds::steady()?;
        policy.refuse_new_code()?;
        loader::upgrade::upgrade(code)?
    } else {
        swap::beside(request, features, None)?
    };
    Ok(give_to_listeners(upgraded, moves_open))
}

/// Restores the previous code under its name, as [`upgrade`] gives new code.
///
/// Side effects: as [`upgrade`]. The replaced code is kept, so that a second rollback undoes the first.
///
/// # Errors
/// The name is not loaded; no earlier code is kept; a trial is running; the kernel refuses.
pub fn rollback(name: &str, features: &Features, moves_open: bool) -> Result<(Upgraded, Refreshes)> {
    end::sweep()?;
    PolicyNeeds::now()?.refuse_new_code()?;
    let upgraded = if features.link_update {
        let policy = PolicyNeeds::steady()?;
        policy.refuse_new_code()?;
        loader::upgrade::rollback(name, features)?
    } else {
        swap::rollback_beside(name, features)?
    };
    Ok(give_to_listeners(upgraded, moves_open))
}

/// A failure is a note, because the name has the new code already.
fn give_to_listeners(mut upgraded: Upgraded, moves_open: bool) -> (Upgraded, Refreshes) {
    let refreshes = refresh(&upgraded.record.name, moves_open, &mut upgraded.notes);
    (upgraded, refreshes)
}

fn refresh(name: &str, moves_open: bool, notes: &mut Vec<String>) -> Refreshes {
    let what = format!("sockets that listen with \"{name}\" keep the old code, and so do connections that they accept");
    match migrate::refresh(name, moves_open) {
        Ok(refreshes) => {
            let hidden = (refreshes.hidden > 0).then(|| namespaces::uninspected(refreshes.hidden));
            notes.extend(hidden.map(|hidden| format!("{hidden}: there, {what}")));
            refreshes
        }
        Err(error) => {
            notes.push(format!("{what}: {error:#}; restart their programs"));
            Refreshes::default()
        }
    }
}

/// Unloads a name and loads it again as requested, because its companion or its registration has to change.
///
/// Defaults and listening sockets get the new registration. Connections get none while the name is missing.
///
/// # Errors
/// A trial is running; the kernel refuses the new code, and the present one stays; those of [`load`].
pub fn reload(request: &Request, is_receiver: bool, features: &Features) -> Result<LoadedAlgorithm> {
    let name = request.name;
    let refuse = |policy: &PolicyNeeds| -> Result<()> {
        let instance = survey::find(name, &Store::of_host(), features)?;
        let is_in_use = instance.is_some_and(|instance| instance.standing() == LoadState::Pinned);
        if is_in_use { Ok(policy.refuse_new_code()?) } else { Ok(()) }
    };
    refuse(&PolicyNeeds::now()?)?;
    if is_receiver {
        let policy = PolicyNeeds::steady()?;
        refuse(&policy)?;
        policy.refuse_loss(name)?;
        loader::unload(name, features)?;
        return loader::load_receiver(request, LoadOptions::default(), features);
    }
    loader::verify(request, features)?;
    let policy = PolicyNeeds::steady()?;
    refuse(&policy)?;
    interrupt::check(|| format!("\"{name}\" stays as it is"))?;
    let was_default = congestion::default()? == name;
    let others = OtherDefaults::of(name)?.having;
    loader::unload(name, features)?;
    let mut loaded = loader::load(request, LoadOptions::default(), features)
        .with_context(|| format!("\"{name}\" is unloaded, and cannot be loaded again"))?;
    if was_default {
        loaded.record = loader::make_default(name)?;
    }
    drop(policy);
    for netns in &others {
        if let Err(why) = defaults::set(netns, name) {
            let lost = format!("\"{name}\" is no longer the default of network namespace {}", defaults::label(netns));
            loaded.adapted.push(format!("{lost}: {why:#}; `{}` restores it", defaults::command(netns, name)));
        }
    }
    refresh(name, false, &mut loaded.adapted);
    Ok(loaded)
}

/// What became of a name, and of the trial for which it was loaded.
#[derive(Debug)]
pub struct EndedName {
    pub trial: Option<TrialEnd>,
    /// `None` if the end of the trial unloaded it.
    pub unloaded: Option<Unloaded>,
}

/// Unregisters a name and removes whatever is left of it. Ends the trial for which it was loaded.
///
/// Side effects: restores earlier defaults; removes registration, pins and record.
///
/// # Errors
/// It is not ours; a rule gives it to connections, now or after a trial; a running process keeps it; not permitted; the
/// kernel still lists it afterwards.
pub fn unload(name: &str, features: &Features) -> Result<EndedName> {
    privilege::require(&format!("unload \"{name}\""), &privilege::FOR_LOAD)?;
    let trial = {
        let policy = PolicyNeeds::now()?;
        policy.refuse_loss(name)?;
        match policy.trial_of(name) {
            Some(_) => end::interrupt("it was unloaded")?,
            None => None,
        }
    };
    if trial.is_some() && survey::find(name, &Store::of_host(), features)?.is_none() {
        return Ok(EndedName { trial, unloaded: None });
    }
    let policy = PolicyNeeds::steady()?;
    policy.refuse_loss(name)?;
    ensure!(policy.trial_of(name).is_none(), began_meanwhile(name));
    Ok(EndedName { trial, unloaded: Some(loader::unload(name, features)?) })
}

fn began_meanwhile(name: &str) -> Failure {
    let what = format!("cannot unload \"{name}\": a trial that needs it began meanwhile");
    Failure::again(what).hint("run the command again")
}

/// Unregisters everything of ours that no running process keeps. Continues after the failure of one instance.
///
/// # Errors
/// Not permitted; for each instance as [`unload`].
pub fn unload_all(features: &Features) -> Result<Vec<Result<Unloaded>>> {
    privilege::require("unload", &privilege::FOR_LOAD)?;
    let store = Store::of_host();
    let is_free = |instance: &survey::LoadedName| instance.standing() != LoadState::Run;
    let free = survey::instances(&store, features)?.into_iter().filter(is_free);
    let unload_one = |name: String| -> Result<Option<Unloaded>> {
        let policy = PolicyNeeds::steady()?;
        policy.refuse_loss(&name)?;
        loader::unload_if_free(&name, features)
    };
    let undone = free.filter_map(|instance| unload_one(instance.name).transpose()).collect();
    drop(store.try_lock(&LockSubject::Policy)?); // removes empty folders
    Ok(undone)
}

/// Makes a loaded algorithm the host's default.
///
/// Side effects: new sockets get it unless they choose another. [`unload`] undoes it.
///
/// # Errors
/// It is not loaded; not permitted; not in the initial network namespace.
pub fn make_default(name: &str) -> Result<Record> {
    loader::make_default(name)
}

/// Restores the default that this name replaced. The name stays loaded.
///
/// # Errors
/// It is not ours; not permitted.
pub fn give_back_default(name: &str, features: &Features) -> Result<()> {
    loader::give_back_default(name, features)
}

/// Records that a declaration wants the name, and whether as the default. The policy no longer unloads it.
///
/// # Errors
/// It is not loaded; the record cannot be written.
pub fn declare(name: &str, declared: DeclaredIn) -> Result<()> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let record = store.record(name).with_context(|| format!("find the record of \"{name}\""))?;
    let default = declared.default && record.previous_default.is_some();
    let by = Some(Requester::declaration(&declared.folder));
    let declared = Some(DeclaredIn { default, ..declared });
    locked.write(&Record { by, declared, with_policy: false, ..record })
}

/// Leaves a name that is no longer declared to the policy that needs it. Its default is given back if it was declared.
///
/// # Errors
/// No rule gives the name to connections any more; the record cannot be written.
pub fn hand_over(name: &str, features: &Features) -> Result<()> {
    let policy = PolicyNeeds::steady()?;
    ensure!(policy.rule_giving(name).is_some(), not_needed(name));
    let store = Store::of_host();
    let read = || store.record(name).with_context(|| format!("find the record of \"{name}\""));
    if read()?.declared.is_some_and(|declared| declared.default) {
        loader::give_back_default(name, features)?;
    }
    let locked = store.lock_name(name)?;
    locked.write(&Record { declared: None, with_policy: true, ..read()? })
}

fn not_needed(name: &str) -> Error {
    let what = format!("no rule of the policy gives \"{name}\" to connections any more");
    Failure::again(what).hint("run the command again").into()
}
