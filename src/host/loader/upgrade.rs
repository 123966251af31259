//! Swaps the code under a registered name and back. The name stays available throughout.
//!
//! The previous code stays pinned for [`rollback`]. After a kill between any two steps, the next command continues. The
//! kernel's link shows which code is registered, and the record lists every code that this may be.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Error, Result, bail, ensure};

use super::defaults::{self, OtherDefaults};
use super::object::{self, UpgradeInheritance, Verified};
use super::request::{Request, check_name, companion_place, record_of};
use super::survey::{self, LoadState, LoadedName};
use super::unload::sweep;
use crate::state::pins::Pins;
use crate::state::{Attachment, Code, LockSubject, Locked, Record, Store};
use shared::failure::Failure;
use shared::fault;
use shared::interrupt;
use shared::kernel::netns::Netns;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::probe::Features;
use shared::kernel::{bpf, congestion, struct_ops};

#[derive(Debug)]
pub struct Upgraded {
    pub record: Record,
    /// One phrase for each callback that was adapted to this kernel.
    pub adapted: Vec<String>,
    /// Network namespaces whose default now is the new code, each by its name or its inode.
    pub defaults: Vec<String>,
    /// One phrase for each thing that still has the old code, with the reason.
    pub notes: Vec<String>,
}

/// New code that the kernel verified, not registered yet.
pub(crate) struct PreparedCode<'a> {
    request: &'a Request<'a>,
    features: &'a Features,
    verified: Verified,
    ground: Ground,
}

/// State that new code inherits from the registered code.
#[derive(Debug)]
struct Ground {
    /// The map that the attached companion shares with its algorithm.
    companion_map: Option<OwnedFd>,
    is_allowed: bool,
}

impl Ground {
    fn of(request: &Request, pins: &Pins) -> Result<Self> {
        let link = bpf::open_pin(&pins.companion(request.name)).ok();
        let companion_map = shared_map(request, link.as_ref());
        Ok(Ground { companion_map, is_allowed: congestion::is_allowed(request.name)? })
    }

    fn is_same(&self, other: &Ground) -> bool {
        let id = |ground: &Ground| ground.companion_map.as_ref().and_then(|map| bpf::map_id(map).ok());
        (id(self), self.is_allowed) == (id(other), other.is_allowed)
    }
}

/// Verifies code for a loaded name, which takes seconds and needs no lock.
///
/// # Errors
/// The name is not loaded; the kernel cannot swap code, or refuses the new code.
pub(crate) fn prepare<'a>(request: &'a Request, features: &'a Features) -> Result<PreparedCode<'a>> {
    check_name(request.name)?;
    privilege::require(&format!("upgrade \"{}\"", request.name), &rights(request))?;
    let pins = Pins::writable()?;
    let ground = {
        let locked = Store::of_host().lock_name(request.name)?;
        sweep(&locked, features)?;
        settled(request.name, (&pins, &locked), features)?;
        Ground::of(request, &pins)?
    };
    let companion_map = ground.companion_map.as_ref().map(AsFd::as_fd);
    let inheritance = UpgradeInheritance { companion_map, is_allowed: ground.is_allowed };
    let verified = object::verify_for(request, features, inheritance, Some(Path::new(".")))?;
    Ok(PreparedCode { request, features, verified, ground })
}

/// Replaces the code under a loaded name.
///
/// Side effects: new sockets and defaults get the new code; existing sockets keep the old code, which stays pinned.
///
/// # Errors
/// The name is not loaded, or another command changed it meanwhile; the kernel refuses the new code. The current code
/// then stays.
pub(crate) fn upgrade(code: PreparedCode) -> Result<Upgraded> {
    let PreparedCode { request, features, mut verified, ground } = code;
    let pins = Pins::writable()?;
    let locked = Store::of_host().lock_name(request.name)?;
    let record = settled(request.name, (&pins, &locked), features)?;
    if !ground.is_same(&Ground::of(request, &pins)?) {
        let what = format!("another command changed \"{}\" meanwhile", request.name);
        bail!(Failure::again(what).hint("run the command again"));
    }
    let companion = place_of_companion(request, &record)?;
    let companion_link = bpf::open_pin(&pins.companion(request.name)).ok();
    interrupt::check(|| format!("\"{}\" keeps its code", request.name))?;
    let map = verified.publish()?;
    let generation = highest(&record) + 1;
    let next = Code { generation, ..record_of(request, bpf::map_id(&map)?).code() };
    let before = record.companion.clone();
    let record = Record { next: Some(next), companion, ..record };
    pins.prepare()?;
    replace_pin(&map, &pins.next(request.name))?;
    locked.write(&record)?;
    fault::point("upgrade.noted");
    let place = (before.as_ref(), companion_link.as_ref());
    let swapped = swap_companion(&record, &verified, place, &pins).and_then(|()| {
        fault::point("upgrade.companion");
        point_link(request.name, &pins, &map)
    });
    swapped.inspect_err(|_| drop(settled(request.name, (&pins, &locked), features)))?;
    fault::point("upgrade.linked");
    finish(request.name, ground.is_allowed, (&pins, &locked), verified.adapted.clone(), features)
}

/// Replacing a companion program takes one more capability, to open it by its id.
fn rights(request: &Request) -> Vec<Capability> {
    let opens = request.algorithm.companion.is_some();
    privilege::FOR_LOAD.into_iter().chain(opens.then_some(Capability::SysAdmin)).collect()
}

/// Restores the previous code under its name.
///
/// Side effects: as [`upgrade`]. The replaced code is kept, so that a second rollback undoes the first.
///
/// # Errors
/// The name is not loaded; no earlier code is kept; the kernel refuses.
pub(crate) fn rollback(name: &str, features: &Features) -> Result<Upgraded> {
    privilege::require(&format!("roll back \"{name}\""), &privilege::FOR_LOAD)?;
    let pins = Pins::writable()?;
    let store = Store::of_host();
    let locked = store.lock_name(name)?;
    sweep(&locked, features)?;
    let record = settled(name, (&pins, &locked), features)?;
    let (Some(previous), Ok(map)) = (record.previous.clone(), bpf::open_pin(&pins.previous(name))) else {
        return Err(nothing_kept(name).into());
    };
    let was_allowed = congestion::is_allowed(name)?;
    pins.prepare()?;
    replace_pin(&map, &pins.next(name))?;
    locked.write(&Record { next: Some(previous), ..record })?;
    let pointed = point_link(name, &pins, &map);
    pointed.inspect_err(|_| drop(settled(name, (&pins, &locked), features)))?;
    fault::point("rollback.linked");
    let rolled_back = finish(name, was_allowed, (&pins, &locked), Vec::new(), features)?;
    fault::point("rollback.pinned");
    Ok(rolled_back)
}

/// The record of a name that can be upgraded, or with `back` rolled back. Changes nothing.
///
/// # Errors
/// Those of [`upgrade`] and [`rollback`] that are known beforehand.
pub fn check(name: &str, features: &Features, back: bool) -> Result<Record> {
    let pins = Pins::writable()?; // without the right to open pins, nothing seems to be loaded
    let record = find(name, &Store::of_host(), features)?.1;
    // On a kernel that cannot swap code, a rollback loads the previous code again.
    let is_kept = record.previous.is_some() && (pins.previous(name).exists() || !features.link_update);
    ensure!(is_kept || !back, nothing_kept(name));
    Ok(record)
}

fn nothing_kept(name: &str) -> Failure {
    Failure::failed(format!("cannot roll back \"{name}\": no earlier code is kept"))
        .hint("`tccc upgrade` keeps the code that it replaces")
}

/// # Errors
/// The name is not loaded by a pin, or its record is lost.
fn find(name: &str, store: &Store, features: &Features) -> Result<(LoadedName, Record)> {
    let cannot = |why: &str| format!("cannot upgrade or roll back \"{name}\": {why}");
    let again = format!("`tccc unload {name}`, then load again");
    let instance = survey::find(name, store, features)?.filter(|instance| instance.standing() == LoadState::Pinned);
    let Some(instance) = instance else {
        let hint = format!("`tccc load {name}` loads it; `tccc status` shows what is loaded");
        bail!(Failure::failed(cannot("it is not loaded")).hint(hint));
    };
    ensure!(!instance.is_receiver(), Failure::usage(cannot("it is loaded with `--receiver` only")).hint(again));
    let lost = || Failure::failed(cannot("its record is lost or cannot be read")).hint(again.clone());
    let record = instance.record.clone().ok_or_else(lost)?;
    Ok((instance, record))
}

/// Finishes or discards an interrupted upgrade of a name. Returns its record.
///
/// # Errors
/// The name is not loaded by a pin, or not registered by a pinned link.
pub(crate) fn settled(name: &str, (pins, locked): (&Pins, &Locked), features: &Features) -> Result<Record> {
    let (instance, record) = find(name, locked.store(), features)?;
    if !features.link_update || !instance.has_link_pin {
        let why = "it is not registered by a pinned link";
        bail!(
            Failure::unmet(format!("cannot swap code under the name \"{name}\": {why}"))
                .hint(format!("`tccc unload {name}`, then load it again"))
        );
    }
    let registered = registered_map(name, pins)?;
    let record = Record { next: None, ..bring_to_end(record, registered, pins)? };
    // An interrupted upgrade may not have attached its companion yet.
    let companion = record.companion.clone().filter(|_| pins.companion(name).exists());
    let settled = Record { companion, ..record };
    locked.write(&settled)?;
    Ok(settled)
}

/// Id of the map that the kernel's link registers.
fn registered_map(name: &str, pins: &Pins) -> Result<u32> {
    Ok(struct_ops::link_target(&bpf::open_pin(&pins.link(name))?)?.map_id)
}

/// Adjusts record and pins to the kernel's link. Finishes an upgrade whose code is registered, and discards any other.
///
/// The returned record keeps `next` until the defaults follow.
fn bring_to_end(record: Record, registered: u32, pins: &Pins) -> Result<Record> {
    let name = record.name.clone();
    let Some(next) = record.next.clone() else { return Ok(record) };
    if next.map_id != registered {
        bpf::remove_pin(&pins.next(&name))?;
        return Ok(Record { next: None, ..record });
    }
    if record.map_id == registered {
        return Ok(record);
    }
    let map = held_map(&name, registered, pins)?;
    if let Ok(old_map) = held_map(&name, record.map_id, pins) {
        replace_pin(&old_map, &pins.previous(&name))?;
    }
    replace_pin(&map, &pins.map(&name))?;
    bpf::remove_pin(&pins.next(&name))?;
    Ok(Record { previous: Some(record.code()), ..record.with_code(next) })
}

/// Opens a map by a pin of the name, or else by its id, which takes more rights.
fn held_map(name: &str, id: u32, pins: &Pins) -> Result<OwnedFd> {
    let pinned = [pins.map(name), pins.next(name), pins.previous(name)];
    let mut maps = pinned.iter().filter_map(|pin| bpf::open_pin(pin).ok());
    maps.find(|map| bpf::map_id(map).is_ok_and(|other| other == id)).map_or_else(|| bpf::open_map(id), Ok)
}

fn highest(record: &Record) -> u32 {
    let codes = [record.previous.as_ref(), record.next.as_ref()];
    codes.into_iter().flatten().map(|code| code.generation).max().unwrap_or(0).max(record.generation)
}

fn point_link(name: &str, pins: &Pins, map: &OwnedFd) -> Result<()> {
    let link = bpf::open_pin(&pins.link(name))?;
    let registered = held_map(name, struct_ops::link_target(&link)?.map_id, pins)?;
    struct_ops::update_link(&link, map, &registered).with_context(|| format!("replace \"{name}\""))
}

/// The cgroup of the companion. It stays unless the request names another one.
///
/// New code without a companion keeps the attachment in the record, because the previous code has it.
fn place_of_companion(request: &Request, record: &Record) -> Result<Option<Attachment>> {
    let asked = companion_place(request)?;
    let Some(place) = &record.companion else { return Ok(asked) };
    if let Some(asked) = &asked {
        check_same_kind(request.name, asked, place)?;
    }
    if asked.as_ref().is_some_and(|asked| asked.cgroup.is_none()) {
        return Ok(asked); // at all devices, also those that appeared since
    }
    let cgroup = asked.as_ref().filter(|_| request.cgroup.is_some()).map_or(&place.cgroup, |asked| &asked.cgroup);
    let program = asked.as_ref().map_or(&place.program, |asked| &asked.program);
    Ok(Some(Attachment { program: program.clone(), cgroup: cgroup.clone(), ..place.clone() }))
}

/// # Errors
/// One is attached to a cgroup and the other to network devices, or both to devices of different network namespaces.
fn check_same_kind(name: &str, asked: &Attachment, place: &Attachment) -> Result<(), Failure> {
    let why = if asked.cgroup.is_none() != place.cgroup.is_none() {
        "one companion belongs to a cgroup, and the other to network devices"
    } else if asked.netns != place.netns {
        "its companion is attached to the devices of another network namespace"
    } else {
        return Ok(());
    };
    let failure = Failure::usage(format!("cannot replace \"{name}\": {why}"));
    Err(failure.hint(format!("`tccc unload {name}`, and then load it here")))
}

/// The map that the attached companion shares with its algorithm, if the new code has the same companion.
fn shared_map(request: &Request, link: Option<&OwnedFd>) -> Option<OwnedFd> {
    let wanted = request.algorithm.companion.as_ref()?;
    let program = bpf::open_program(bpf::cgroup_link(link?).ok()?.program).ok()?;
    bpf::map_of_program(&program, wanted.map()?)
}

/// Swaps the companion before the code, so that the algorithm always has a companion.
///
/// `from` and `link` are the current attachment.
fn swap_companion(
    record: &Record,
    verified: &Verified,
    (from, link): (Option<&Attachment>, Option<&OwnedFd>),
    pins: &Pins,
) -> Result<()> {
    let (Some(program), Some(place)) = (verified.companion_program()?, &record.companion) else { return Ok(()) };
    if place.cgroup.is_none() {
        let made = verified.renew_companion(pins, &record.name)?;
        return made.iter().try_for_each(|link| link.pin(pins, &record.name).map(drop));
    }
    let stays = from.is_some_and(|from| from.cgroup == place.cgroup);
    if let Some(link) = link.filter(|link| stays && bpf::is_attached_to_cgroup(link)) {
        let attached = bpf::open_program(bpf::cgroup_link(link)?.program)?;
        return bpf::replace_program(link, &program, &attached).context("replace the earlier companion");
    }
    verified.attach_companion(Some(place))?.iter().try_for_each(|link| link.pin(pins, &record.name).map(drop))
}

fn replace_pin(object: &OwnedFd, path: &Path) -> Result<()> {
    bpf::remove_pin(path)?;
    bpf::pin(object, path)
}

/// Completes the change of a link: who may choose the name, pins and record, then the defaults.
///
/// The record keeps `next` until all is done.
fn finish(
    name: &str,
    was_allowed: bool,
    (pins, locked): (&Pins, &Locked),
    adapted: Vec<String>,
    features: &Features,
) -> Result<Upgraded> {
    if congestion::is_allowed(name)? != was_allowed {
        let _default = locked.store().lock(LockSubject::Default)?;
        congestion::set_allowed(name, was_allowed)?;
    }
    let record = find(name, locked.store(), features)?.1;
    let record = bring_to_end(record, registered_map(name, pins)?, pins)?;
    locked.write(&record)?;
    fault::point("upgrade.pinned");
    let mut upgraded = Upgraded { record, adapted, defaults: Vec::new(), notes: Vec::new() };
    {
        let _default = locked.store().lock(LockSubject::Default)?;
        point_defaults(name, &mut upgraded)?;
    }
    fault::point("upgrade.defaults");
    upgraded.record.next = None;
    locked.write(&upgraded.record)?;
    Ok(upgraded)
}

/// Points defaults to the registered code, because a default is a pointer to code and not a name.
fn point_defaults(name: &str, upgraded: &mut Upgraded) -> Result<()> {
    let others = OtherDefaults::of(name)?;
    upgraded.notes.extend(others.note("the old code"));
    let is_own = congestion::default()? == name;
    // Without the right to enter another namespace, the own default can still be written.
    let own = is_own.then(|| Ok::<_, Error>((Netns::current()?, defaults::set_own(name)))).transpose()?;
    let set = |netns| {
        let written = defaults::set(&netns, name);
        (netns, written)
    };
    for (netns, written) in own.into_iter().chain(others.having.into_iter().map(set)) {
        match written {
            Ok(()) => upgraded.defaults.push(defaults::label(&netns)),
            Err(why) => {
                let keeps =
                    format!("network namespace {} has \"{name}\" as its default and keeps the old code", netns.inode());
                upgraded.notes.push(format!("{keeps}: {why:#}; `{}` repeats it", defaults::command(&netns, name)));
            }
        }
    }
    Ok(())
}
