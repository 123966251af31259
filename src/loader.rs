//! Open, set tunables, adapt to this kernel, load, register, pin, replace, unregister.
//!
//! A registration belongs to a [`Registered`] value and ends with it, also when the process is killed: a link that only
//! this process holds vanishes with it. [`load`] gives it to a pin instead. Where the kernel has no links the
//! map itself is the registration, so a record with the map's number is written first and `tccc` undoes it later.

pub mod adapt;
mod companion;
pub mod confirm;
mod load;
mod object;
mod receiver;
mod refusal;
pub mod survey;
mod unload;
pub mod upgrade;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::catalog::{Algorithm, Setting};
use crate::failure::Failure;
use crate::kernel::probe::Features;
use crate::kernel::{cgroup, congestion, privilege, struct_ops};
use crate::state::{Attachment, Locked, Owner, RECORD_SCHEMA, Record, Store, Subject, is_held};

pub use load::{Loaded, Options, load, make_default};
pub use object::{Verified, digest, verify};
pub use receiver::load_receiver;
pub use unload::{Unloaded, drain, give_back_default, ours, plan, unload, unload_all, unload_with_policy};

#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The algorithm: of the catalogue, or read from a user's file.
    pub algorithm: &'a Algorithm,
    /// Its name in the kernel; the algorithm's id unless another is wanted.
    pub name: &'a str,
    /// Tunables with another value than their default.
    pub settings: &'a [Setting],
    /// The user's own object file; none for an algorithm of the catalogue.
    pub file: Option<&'a Path>,
    /// Where its companion program is attached; none for every socket of this host.
    pub cgroup: Option<&'a Path>,
}

impl<'a> Request<'a> {
    /// The algorithm under its own name with its defaults.
    pub fn of(algorithm: &'a Algorithm) -> Self {
        Request { algorithm, name: &algorithm.id, settings: &[], file: None, cgroup: None }
    }
}

/// What keeps a registration.
#[derive(Debug)]
enum Hold {
    /// The link: closing it unregisters.
    Link(OwnedFd),
    /// The map: deleting its entry unregisters.
    Map,
}

/// An algorithm that sockets can choose for as long as this value lives.
#[derive(Debug)]
pub struct Registered {
    record: Record,
    hold: Option<Hold>,
    map: OwnedFd,
    /// The companion's link: closing it detaches.
    _companion: Option<OwnedFd>,
}

/// Registers an algorithm for as long as the returned value lives.
///
/// Errors: what [`verify`] refuses; the name is taken; records cannot be kept.
/// Side effects: sockets of every network namespace can choose the algorithm; a record under `/run/tccc`.
pub fn register(request: &Request, features: &Features) -> Result<Registered> {
    privilege::require(&format!("load \"{}\"", request.name), &privilege::FOR_LOAD)?;
    let mut verified = object::verify_logged(request, features)?;
    let store = Store::of_host();
    let locked = store.lock_name(request.name)?;
    sweep(&locked, features)?;
    if congestion::available()?.iter().any(|other| other == request.name) {
        return Err(Failure::failed(format!("\"{}\" is already registered", request.name))
            .hint("`tccc status` shows who did; another name is free")
            .into());
    }
    let record = Record { companion: companion_place(request)?, ..record_of(request, verified.map_id()?) };
    let companion = verified.attach_companion(record.companion.as_ref())?;
    locked.create(&record)?;
    let map = verified.map()?;
    match verified.attach() {
        Ok(link) => {
            let hold = Some(link.map_or(Hold::Map, Hold::Link));
            Ok(Registered { record, hold, map, _companion: companion })
        }
        Err(error) => {
            locked.remove(&record.name)?;
            Err(error.context(format!("load \"{}\"", request.name)))
        }
    }
}

/// Removes what dead processes left: records without a registration, registrations that only a map holds, and what
/// nobody confirmed in time. What another process is changing is left to it.
///
/// Errors: not permitted.
pub fn sweep(locked: &Locked, features: &Features) -> Result<()> {
    let dead =
        |instance: &survey::Instance| instance.is_of_the_dead() && instance.standing() == survey::Standing::Leftover;
    let void = |instance: &survey::Instance| dead(instance) || confirm::is_overdue(instance);
    let store = locked.store();
    for instance in survey::instances(store, features)?.into_iter().filter(void) {
        if locked.is_for(&instance.name) {
            unload::undo(instance, locked)?;
            continue;
        }
        let Some(other) = store.try_lock(&Subject::Name(instance.name.clone()))? else { continue };
        let Some(instance) = survey::find(&instance.name, store, features)?.filter(void) else { continue };
        match unload::undo(instance, &other) {
            Err(error) if is_held(&error) => {}
            undone => drop(undone?),
        }
    }
    Ok(())
}

fn record_of(request: &Request, map_id: u32) -> Record {
    let algorithm = request.algorithm;
    Record {
        schema: RECORD_SCHEMA,
        name: request.name.to_owned(),
        algorithm: algorithm.id.clone(),
        title: algorithm.title.clone(),
        // Whoever upgrades later may stand in another folder.
        file: request.file.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.to_owned())),
        digest: object::digest(&algorithm.object),
        tunables: request.settings.iter().map(|setting| (setting.name.clone(), setting.value)).collect(),
        since: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        generation: 1,
        owner: Owner::this_process(),
        map_id,
        layout: algorithm.layout.clone(),
        ..Record::default()
    }
}

/// The cgroup where the companion of an algorithm goes; none when it needs none.
///
/// Errors: no cgroup v2 is mounted; no such cgroup; a cgroup was given where there is nothing to attach.
fn companion_place(request: &Request) -> Result<Option<Attachment>> {
    let Some(companion) = &request.algorithm.companion else {
        if request.cgroup.is_some() {
            let what = format!("\"{}\" has no companion program, so there is nothing to attach", request.algorithm.id);
            return Err(Failure::usage(what).hint("leave `--cgroup` out").into());
        }
        return Ok(None);
    };
    let cgroup = match request.cgroup {
        Some(path) => cgroup::resolve(path)?,
        None => cgroup::mount_point()?,
    };
    Ok(Some(Attachment { program: companion.program.clone(), cgroup }))
}

impl Registered {
    /// The record of this registration: name, algorithm, digest, state layout.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Its name in the kernel, to pass to `setsockopt(TCP_CONGESTION)`.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// Ends the registration now.
    ///
    /// Errors: the kernel refuses; the record cannot be removed.
    pub fn unregister(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        let Some(hold) = self.hold.take() else { return Ok(()) };
        let locked = Store::of_host().lock_name(&self.record.name)?;
        match hold {
            Hold::Link(link) => drop(link),
            Hold::Map => struct_ops::delete_registration(&self.map)?,
        }
        locked.remove(&self.record.name)
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _ = self.release(); // what stays is listed by `tccc status` and removed by the next command
    }
}

/// SHA-256 of an algorithm's object, in hexadecimal.
pub fn digest_of(algorithm: &Algorithm) -> String {
    object::digest(&algorithm.object)
}

/// Notes in the record of a name what its code followed, where the kernel could not swap the two.
///
/// Errors: the name is not loaded; the record cannot be written.
pub fn succeed(name: &str, earlier: &Record) -> Result<Record> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let record = store.record(name).with_context(|| format!("find the record of \"{name}\""))?;
    let generation = earlier.previous.as_ref().map_or(0, |code| code.generation).max(earlier.generation) + 1;
    let record = Record { generation, previous: Some(earlier.code()), ..record };
    locked.write(&record)?;
    Ok(record)
}

/// Notes which default [`unload`] restores.
///
/// Errors: the record cannot be written.
pub fn remember_default(record: Record, previous: Option<String>) -> Result<Record> {
    let record = Record { previous_default: previous, ..record };
    let default = Store::of_host().lock(Subject::Default)?;
    default.remember(&record.name, record.previous_default.clone())?;
    Ok(record)
}

/// Refuses a name that the kernel cannot carry.
///
/// Errors: too long, or with other characters than the kernel takes.
pub fn check_name(name: &str) -> Result<(), Failure> {
    crate::catalog::check_name(name).map_err(Failure::usage)
}
