//! Loads algorithms: opens an object, sets tunables, adapts it to this kernel, registers, pins, replaces and unregisters.
//!
//! A [`Registration`] ends when it is dropped or the process is killed, because a link vanishes with its last holder.
//! [`load`] pins the link instead. On a kernel without links, the map itself is the registration. A record with the map's id
//! is then written first, and a later command undoes the registration.

pub mod adapt;
mod companion;
pub mod confirm;
pub(crate) mod defaults;
mod load;
mod object;
mod receiver;
mod refusal;
mod request;
pub mod survey;
mod unload;
pub mod upgrade;

use std::os::fd::OwnedFd;
use std::path::Path;

use anyhow::{Context, Result};

use self::companion::CompanionLink;
use self::object::UpgradeInheritance;
use self::request::{companion_place, record_of};
use crate::state::{Record, Store};
use shared::failure::Failure;
use shared::kernel::probe::Features;
use shared::kernel::{congestion, privilege, struct_ops};

pub use load::{LoadOptions, LoadedAlgorithm};
pub(crate) use load::{load, make_default, replaces};
pub use object::{Verified, verify};
pub(crate) use receiver::load_receiver;
pub use request::{Request, check_name};
use unload::sweep;
pub use unload::{Unloaded, drain, ours, plan};
pub(crate) use unload::{give_back_default, unload, unload_if_free, unload_with_policy};

/// An algorithm that sockets can choose while this value lives.
#[derive(Debug)]
pub struct Registration {
    record: Record,
    /// Closing the link unregisters. Without links, deleting the map's entry does.
    link: Option<OwnedFd>,
    map: OwnedFd,
    /// Closing the companion's links detaches it.
    _companion: Vec<CompanionLink>,
    is_registered: bool,
}

/// Registers an algorithm for as long as the returned value lives.
///
/// Side effects: sockets of every network namespace can choose the algorithm; a record under `/run/tccc`.
///
/// # Errors
/// As [`verify`]; the name is taken; records cannot be written.
pub fn register(request: &Request, features: &Features) -> Result<Registration> {
    privilege::require(&format!("load \"{}\"", request.name), &privilege::FOR_LOAD)?;
    let mut verified = object::verify_for(request, features, UpgradeInheritance::default(), Some(Path::new(".")))?;
    let store = Store::of_host();
    let locked = store.lock_name(request.name)?;
    sweep(&locked, features)?;
    if congestion::is_available(request.name)? {
        return Err(Failure::failed(format!("\"{}\" is already registered", request.name))
            .hint("`tccc status` shows who registered it; choose another name")
            .into());
    }
    let record = Record { companion: companion_place(request)?, ..record_of(request, verified.map_id()?) };
    let companion = verified.attach_companion(record.companion.as_ref())?;
    locked.create(&record)?;
    let map = verified.map()?;
    match verified.attach() {
        Ok(link) => Ok(Registration { record, link, map, _companion: companion, is_registered: true }),
        Err(error) => {
            locked.remove(&record.name)?;
            Err(error.context(format!("load \"{}\"", request.name)))
        }
    }
}

impl Registration {
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The name in the kernel, for `setsockopt(TCP_CONGESTION)`.
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// # Errors
    /// The kernel refuses; the record cannot be removed.
    pub fn unregister(mut self) -> Result<()> {
        self.release()
    }

    fn release(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.is_registered) {
            return Ok(());
        }
        let link = self.link.take();
        let locked = Store::of_host().lock_name(&self.record.name)?;
        match link {
            Some(link) => drop(link),
            None => struct_ops::delete_registration(&self.map)?,
        }
        locked.remove(&self.record.name)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = self.release(); // `tccc status` lists what is left, and the next command removes it
    }
}

/// Records the previous code of a name, for a kernel that cannot swap code.
///
/// # Errors
/// The name is not loaded; the record cannot be written.
pub(crate) fn succeed(name: &str, earlier: &Record) -> Result<Record> {
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    let record = store.record(name).with_context(|| format!("find the record of \"{name}\""))?;
    let generation = earlier.previous.as_ref().map_or(0, |code| code.generation).max(earlier.generation) + 1;
    let record = Record { generation, previous: Some(earlier.code()), ..record };
    locked.write(&record)?;
    Ok(record)
}
