//! Other code under the same name, without a moment in which the name is not there; and back.
//!
//! The code before stays pinned, for [`rollback`]. Killed between any two steps, the next command continues: which code is
//! registered is what the kernel's link points to, and the record knows all codes that it may be.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::object::{self, Successor, Verified};
use super::request::{Request, check_name, companion_place, record_of};
use super::survey::{self, Instance, Standing};
use super::unload::sweep;
use crate::failure::Failure;
use crate::fault;
use crate::kernel::netns::Netns;
use crate::kernel::privilege::{self, Capability};
use crate::kernel::probe::Features;
use crate::kernel::{bpf, congestion, socket, struct_ops, sysctl};
use crate::state::pins::Pins;
use crate::state::{Attachment, Code, LockSubject, Locked, Record, Store};

const DEFAULT_SYSCTL: &str = "net.ipv4.tcp_congestion_control";
/// Bounds the memory of TCP in all namespaces, so the kernel shows it in the first one only.
const ONLY_IN_THE_FIRST: &str = "net.ipv4.tcp_mem";

#[derive(Debug)]
pub struct Upgraded {
    pub record: Record,
    /// A phrase for each callback that had to be adapted to this kernel.
    pub adapted: Vec<String>,
    /// Network namespaces whose default was pointed to the new code, by their inodes.
    pub defaults: Vec<u32>,
    /// What still has the old code, and why: a phrase each.
    pub notes: Vec<String>,
}

/// Puts other code under a name that is loaded.
///
/// Errors: the name is not loaded; the kernel cannot swap code under a name, or refuses the code. The code before then stays.
/// Side effects: new sockets that choose the name get the new code; defaults are pointed to it; sockets that have the old
/// code keep it, and the old code stays pinned.
pub fn upgrade(request: &Request, features: &Features) -> Result<Upgraded> {
    check_name(request.name)?;
    privilege::require(&format!("upgrade \"{}\"", request.name), &rights(request))?;
    let pins = Pins::writable()?;
    let store = Store::of_host();
    let locked = store.lock_name(request.name)?;
    sweep(&locked, features)?;
    let record = settled(request.name, (&pins, &locked), features)?;
    let companion = place_of_companion(request, &record)?;
    let companion_link = bpf::open_pin(&pins.companion(request.name)).ok();
    let shared = shared_map(request, companion_link.as_ref());
    let successor = Successor {
        companion_map: shared.as_ref().map(AsFd::as_fd),
        is_allowed: congestion::is_allowed(request.name)?,
    };
    let mut verified = object::verify_logged(request, features, successor)?;
    let map = verified.publish()?;
    let generation = highest(&record) + 1;
    let next = Code { generation, ..record_of(request, bpf::map_id(&map)?).code() };
    let before = record.companion.clone();
    let record = Record { next: Some(next), companion, ..record };
    pins.prepare()?;
    replace_pin(&map, &pins.next(request.name))?;
    locked.write(&record)?;
    fault::point("upgrade.noted");
    let place = Change { from: before.as_ref(), link: companion_link.as_ref() };
    let swapped = swap_companion(&record, &mut verified, &place, &pins).and_then(|()| {
        fault::point("upgrade.companion");
        point_link(request.name, &pins, &map)
    });
    swapped.inspect_err(|_| drop(settled(request.name, (&pins, &locked), features)))?;
    fault::point("upgrade.linked");
    finish(request.name, successor.is_allowed, (&pins, &locked), verified.adapted.clone(), features)
}

/// What swapping code takes; a program is opened by its number to take its place.
fn rights(request: &Request) -> Vec<Capability> {
    let opens = request.algorithm.companion.is_some();
    privilege::FOR_LOAD.into_iter().chain(opens.then_some(Capability::SysAdmin)).collect()
}

/// Puts the code before under its name again.
///
/// Errors: the name is not loaded; no earlier code is kept; the kernel refuses.
/// Side effects: as [`upgrade`]; the code that it replaces is kept, so that a second rollback undoes the first.
pub fn rollback(name: &str, features: &Features) -> Result<Upgraded> {
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

/// The record of a name whose code can be swapped, or with `back` be put back, as it stands; nothing is changed.
///
/// Errors: those of [`upgrade`] and of [`rollback`] that are known before.
pub fn check(name: &str, features: &Features, back: bool) -> Result<Record> {
    Pins::writable()?; // where pins cannot be opened, nothing seems to be loaded
    let record = find(name, &Store::of_host(), features)?.1;
    let is_kept = record.previous.is_some() && Pins::of_host().is_some_and(|pins| pins.previous(name).exists());
    // Where the kernel has no links, the code before is loaded again.
    if back && !(is_kept || (record.previous.is_some() && !features.link_update)) {
        return Err(nothing_kept(name).into());
    }
    Ok(record)
}

fn nothing_kept(name: &str) -> Failure {
    Failure::failed(format!("cannot roll back \"{name}\": no earlier code is kept"))
        .hint("`tccc upgrade` keeps the code that it replaces")
}

/// A name that is loaded for good, with its record.
fn find(name: &str, store: &Store, features: &Features) -> Result<(Instance, Record)> {
    let instance = survey::find(name, store, features)?;
    let Some(instance) = instance.filter(|instance| instance.standing() == Standing::Pinned) else {
        let what = format!("cannot upgrade or roll back \"{name}\": it is not loaded");
        return Err(Failure::failed(what)
            .hint(format!("`tccc load {name}` loads it; `tccc status` shows what is"))
            .into());
    };
    if instance.is_receiver() {
        let what = format!("cannot upgrade or roll back \"{name}\": it is loaded as `--receiver` alone");
        return Err(Failure::usage(what).hint(format!("`tccc unload {name}`, then load again")).into());
    }
    let Some(record) = instance.record.clone() else {
        let what = format!("cannot upgrade or roll back \"{name}\": its record is lost or cannot be read");
        return Err(Failure::failed(what).hint(format!("`tccc unload {name}`, then load again")).into());
    };
    Ok((instance, record))
}

/// The record of a name whose code can be swapped, after what an interrupted upgrade left is brought to its end.
///
/// Errors: the name is not loaded, or not by a pin; the kernel has no links whose code can be swapped.
pub fn settled(name: &str, (pins, locked): (&Pins, &Locked), features: &Features) -> Result<Record> {
    let (instance, record) = find(name, locked.store(), features)?;
    ensure!(features.link_update && instance.has_link_pin, no_links(name));
    let registered = registered_map(name, pins)?;
    let record = Record { next: None, ..bring_to_end(record, registered, pins)? };
    // One that an interrupted upgrade had not attached yet is none.
    let companion = record.companion.clone().filter(|_| pins.companion(name).exists());
    let settled = Record { companion, ..record };
    locked.write(&settled)?;
    Ok(settled)
}

/// What a kernel without links for struct_ops means for an upgrade.
fn no_links(name: &str) -> Failure {
    let what = format!("cannot swap code under the name \"{name}\": this kernel has no struct_ops links (Linux 6.4)");
    Failure::unmet(what).hint(format!("`tccc upgrade {name} --beside` loads the new code beside the old one first"))
}

/// Number of the map that the kernel's link registers.
fn registered_map(name: &str, pins: &Pins) -> Result<u32> {
    Ok(struct_ops::link_target(&bpf::open_pin(&pins.link(name))?)?.map_id)
}

/// Records and pins as the kernel's link says: an upgrade that came to its step is finished, any other is forgotten.
///
/// Shape: the record as long as defaults do not follow: with `next`, where that is registered.
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

/// The map of this number: pinned under the name, else by its number, which takes more rights.
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

/// Where the companion is to be: where it is, unless another place is asked for.
///
/// Shape: what stays attached is kept in the record even where the new code has no companion, for the code before has.
fn place_of_companion(request: &Request, record: &Record) -> Result<Option<Attachment>> {
    let asked = companion_place(request)?;
    let Some(place) = &record.companion else { return Ok(asked) };
    let cgroup = asked.as_ref().filter(|_| request.cgroup.is_some()).map_or(&place.cgroup, |asked| &asked.cgroup);
    let program = asked.as_ref().map_or(&place.program, |asked| &asked.program);
    Ok(Some(Attachment { program: program.clone(), cgroup: cgroup.clone() }))
}

/// The map that the companion in place shares with its algorithm, where the new code has the same companion.
fn shared_map(request: &Request, link: Option<&OwnedFd>) -> Option<OwnedFd> {
    let wanted = request.algorithm.companion.as_ref()?;
    let program = bpf::open_program(bpf::cgroup_link(link?).ok()?.program).ok()?;
    bpf::map_of_program(&program, &wanted.map)
}

/// The companion before a change: where it was attached, and its link.
struct Change<'a> {
    from: Option<&'a Attachment>,
    link: Option<&'a OwnedFd>,
}

/// The companion changes before the code: in one step where there was one, and never so that there is none.
fn swap_companion(record: &Record, verified: &mut Verified, before: &Change, pins: &Pins) -> Result<()> {
    let (Some(program), Some(place)) = (verified.companion_program()?, &record.companion) else { return Ok(()) };
    let stays = before.from.is_some_and(|from| from.cgroup == place.cgroup);
    if let Some(link) = before.link.filter(|link| stays && bpf::is_attached_to_cgroup(link)) {
        let attached = bpf::open_program(bpf::cgroup_link(link)?.program)?;
        return bpf::replace_program(link, &program, &attached)
            .context("put the companion in the place of the one before");
    }
    if let Some(link) = verified.attach_companion(Some(place))? {
        replace_pin(&link, &pins.companion(&record.name))?;
    }
    Ok(())
}

/// Pins in the place of whatever is pinned there.
fn replace_pin(object: &OwnedFd, path: &Path) -> Result<()> {
    bpf::remove_pin(path)?;
    bpf::pin(object, path)
}

/// After the link points to other code: pins and record, who may choose the name, defaults.
///
/// The record says that the change goes on until all of that is done.
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

/// Points defaults to the code that is registered now: a default is a pointer to code, not a name.
fn point_defaults(name: &str, upgraded: &mut Upgraded) -> Result<()> {
    let own = Netns::current()?.inode();
    let mut having = socket::namespaces_with_default(name);
    if congestion::default()? == name {
        having.insert(0, (own, PathBuf::from("/proc/thread-self/ns/net")));
    }
    for (inode, path) in having {
        // Some kernels keep code in memory for ever once they have refused it as a default: not even tried.
        let points = || match inode == own {
            true => congestion::check_settable().is_ok() || congestion::is_allowed(name).unwrap_or(false),
            false => may_have_as_default(&path, name),
        };
        let point = || match inode == own {
            true => congestion::set_default(name),
            false => Netns::open(&path).and_then(|netns| sysctl::write(&netns, DEFAULT_SYSCTL, name)),
        };
        if points() && point().is_ok() {
            upgraded.defaults.push(inode);
        } else {
            let what = format!(
                "network namespace {inode} has \"{name}\" as its default and keeps the old code: the kernel lets only its \
                 first namespace choose it"
            );
            upgraded.notes.push(what);
        }
    }
    Ok(())
}

/// Whether the kernel lets a network namespace have an algorithm as its default: the first one any, others those that
/// everybody may choose.
fn may_have_as_default(netns: &Path, name: &str) -> bool {
    let Ok(netns) = Netns::open(netns) else { return false };
    let is_first = sysctl::read(&netns, ONLY_IN_THE_FIRST).is_ok_and(|value| value.is_some());
    is_first || congestion::is_allowed(name).unwrap_or(false)
}
