//! Open, set tunables, adapt to this kernel, load, register, pin, replace, unregister.
//!
//! A registration belongs to a [`Registration`] value and ends with it, also when the process is killed: a link that only
//! this process holds vanishes with it. [`load`] gives it to a pin instead. Where the kernel has no links the
//! map itself is the registration, so a record with the map's number is written first and `tccc` undoes it later.

pub mod adapt;
mod companion;
pub mod confirm;
mod load;
mod object;
mod receiver;
mod refusal;
mod request;
pub mod survey;
mod unload;
pub mod upgrade;

use std::os::fd::OwnedFd;

use anyhow::{Context, Result};

use self::object::Successor;
use self::request::{companion_place, record_of};
use crate::failure::Failure;
use crate::kernel::probe::Features;
use crate::kernel::{congestion, privilege, struct_ops};
use crate::state::{Record, Store};

pub use load::{LoadOptions, LoadedAlgorithm, load, make_default};
pub use object::{Verified, verify};
pub use receiver::load_receiver;
pub use request::{Request, check_name, digest};
pub use unload::{Unloaded, drain, give_back_default, ours, plan, sweep, unload, unload_all, unload_with_policy};

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
pub struct Registration {
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
pub fn register(request: &Request, features: &Features) -> Result<Registration> {
    privilege::require(&format!("load \"{}\"", request.name), &privilege::FOR_LOAD)?;
    let mut verified = object::verify_logged(request, features, Successor::default())?;
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
            Ok(Registration { record, hold, map, _companion: companion })
        }
        Err(error) => {
            locked.remove(&record.name)?;
            Err(error.context(format!("load \"{}\"", request.name)))
        }
    }
}

impl Registration {
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

impl Drop for Registration {
    fn drop(&mut self) {
        let _ = self.release(); // what stays is listed by `tccc status` and removed by the next command
    }
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
