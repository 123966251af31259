//! Other code under the same name, without a moment in which the name is not there; and back.
//!
//! The code before stays pinned, for [`rollback`]. Killed between any two steps, the next command continues: which code is
//! registered is what the kernel's link points to, and the record knows all codes that it may be.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::survey::{self, Instance, Standing};
use super::{Request, Verified, check_name, companion_place, object, record_of, sweep};
use crate::failure::Failure;
use crate::fault;
use crate::kernel::netns::Netns;
use crate::kernel::probe::Features;
use crate::kernel::{bpf, congestion, privilege, socket, struct_ops, sysctl};
use crate::state::pins::Pins;
use crate::state::{Code, Locked, Record, Store};

const DEFAULT_SYSCTL: &str = "net.ipv4.tcp_congestion_control";

/// What an upgrade or a rollback did.
#[derive(Debug)]
pub struct Upgraded {
    /// The record now.
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
    privilege::require(&format!("upgrade \"{}\"", request.name), &privilege::FOR_LOAD)?;
    let pins = Pins::writable()?;
    let store = Store::of_host();
    let locked = store.lock()?;
    sweep(&locked, features)?;
    let record = settled(request.name, (&pins, &locked), features)?;
    let place = companion_place(request)?.or_else(|| record.companion.clone());
    let wants_companion = request.algorithm.companion.is_some();
    let companion_link = bpf::open_pin(&pins.companion(request.name)).ok();
    let shared = shared_map(request, companion_link.as_ref());
    let mut verified = object::verify_successor(request, features, shared.as_ref().map(AsFd::as_fd))?;
    let map = verified.publish()?;
    let generation = highest(&record) + 1;
    let next = Code { generation, ..record_of(request, bpf::map_id(&map)?).code() };
    let record = Record { next: Some(next), companion: place.filter(|_| wants_companion), ..record };
    pins.prepare()?;
    replace_pin(&map, &pins.next(request.name))?;
    locked.write(&record)?;
    fault::point("upgrade.noted");
    swap_companion(&record, &mut verified, companion_link.as_ref(), &pins)?;
    fault::point("upgrade.companion");
    point_link(request.name, &pins, &map)?;
    fault::point("upgrade.linked");
    let record = settled(request.name, (&pins, &locked), features)?;
    finish(record, verified.adapted.clone())
}

/// Puts the code before under its name again.
///
/// Errors: the name is not loaded; no earlier code is kept; the kernel refuses.
/// Side effects: as [`upgrade`]; the code that it replaces is kept, so that a second rollback undoes the first.
pub fn rollback(name: &str, features: &Features) -> Result<Upgraded> {
    privilege::require(&format!("roll back \"{name}\""), &privilege::FOR_LOAD)?;
    let pins = Pins::writable()?;
    let store = Store::of_host();
    let locked = store.lock()?;
    sweep(&locked, features)?;
    let record = settled(name, (&pins, &locked), features)?;
    let (Some(previous), Ok(map)) = (record.previous.clone(), bpf::open_pin(&pins.previous(name))) else {
        let what = format!("cannot roll back \"{name}\": no earlier code is kept");
        return Err(Failure::failed(what).hint("`tccc upgrade` keeps the code that it replaces").into());
    };
    pins.prepare()?;
    replace_pin(&map, &pins.next(name))?;
    locked.write(&Record { next: Some(previous), ..record })?;
    point_link(name, &pins, &map)?;
    fault::point("rollback.linked");
    let record = settled(name, (&pins, &locked), features)?;
    fault::point("rollback.pinned");
    finish(record, Vec::new())
}

/// The record of a name whose code can be swapped, after what an interrupted upgrade left is brought to its end.
///
/// Errors: the name is not loaded, or not by a pin; the kernel has no links whose code can be swapped.
pub fn settled(name: &str, (pins, locked): (&Pins, &Locked), features: &Features) -> Result<Record> {
    let instance = survey::find(name, locked.store(), features)?;
    let Some(instance) = instance.filter(|instance| instance.standing() == Standing::Pinned) else {
        let what = format!("cannot upgrade \"{name}\": it is not loaded");
        return Err(Failure::failed(what)
            .hint(format!("`tccc load {name}` loads it; `tccc status` shows what is"))
            .into());
    };
    if instance.is_receiver() {
        let what = format!("cannot upgrade \"{name}\": it is loaded as `--receiver` alone");
        return Err(Failure::usage(what).hint(format!("`tccc unload {name}`, then load again")).into());
    }
    if !features.link_update || !instance.has_link_pin {
        return Err(no_links(name).into());
    }
    let record = instance.record.clone().with_context(|| format!("read the record of \"{name}\""))?;
    let registered = registered_map(&instance).context("see which code is registered")?;
    let settled = bring_to_end(record, registered, pins)?;
    locked.write(&settled)?;
    fault::point("upgrade.pinned");
    Ok(settled)
}

/// What a kernel without links for struct_ops means for an upgrade.
pub fn no_links(name: &str) -> Failure {
    let what = format!("cannot swap code under the name \"{name}\": this kernel has no struct_ops links (Linux 6.4)");
    Failure::unmet(what).hint(format!("`tccc upgrade {name} --beside` loads the new code beside the old one first"))
}

fn registered_map(instance: &Instance) -> Option<u32> {
    instance.table.as_ref().map(|table| table.map_id)
}

/// Records and pins as the kernel's link says: an upgrade that came to its step is finished, any other is forgotten.
fn bring_to_end(record: Record, registered: u32, pins: &Pins) -> Result<Record> {
    let name = record.name.clone();
    let Some(next) = record.next.clone() else { return Ok(record) };
    let unpinned = Record { next: None, ..record };
    if next.map_id != registered {
        remove_pin(&pins.next(&name))?;
        return Ok(unpinned);
    }
    let old = unpinned.code();
    let map = bpf::open_map(registered)?;
    if let Ok(old_map) = bpf::open_map(old.map_id) {
        replace_pin(&old_map, &pins.previous(&name))?;
    }
    replace_pin(&map, &pins.map(&name))?;
    remove_pin(&pins.next(&name))?;
    Ok(Record { previous: Some(old), ..unpinned.with_code(next) })
}

fn highest(record: &Record) -> u32 {
    let codes = [record.previous.as_ref(), record.next.as_ref()];
    codes.into_iter().flatten().map(|code| code.generation).max().unwrap_or(0).max(record.generation)
}

fn point_link(name: &str, pins: &Pins, map: &OwnedFd) -> Result<()> {
    let link = bpf::open_pin(&pins.link(name))?;
    let registered = bpf::open_map(struct_ops::link_target(&link)?.map_id)?;
    struct_ops::update_link(&link, map, &registered).with_context(|| format!("replace \"{name}\""))
}

/// The map that the companion in place shares with its algorithm, where the new code has the same companion.
fn shared_map(request: &Request, link: Option<&OwnedFd>) -> Option<OwnedFd> {
    let wanted = request.algorithm.companion.as_ref()?;
    let program = bpf::open_program(bpf::cgroup_link(link?).ok()?.program).ok()?;
    bpf::map_of_program(&program, &wanted.map)
}

/// The companion changes before the code: in one step where there was one, and never so that there is none.
fn swap_companion(record: &Record, verified: &mut Verified, link: Option<&OwnedFd>, pins: &Pins) -> Result<()> {
    let (Some(program), Some(place)) = (verified.companion_program()?, &record.companion) else { return Ok(()) };
    if let Some(link) = link {
        let attached = bpf::open_program(bpf::cgroup_link(link)?.program)?;
        return bpf::replace_program(link, &program, &attached)
            .context("put the companion in the place of the one before");
    }
    if let Some(link) = verified.attach_companion(Some(place))? {
        bpf::pin(&link, &pins.companion(&record.name))?;
    }
    Ok(())
}

/// Pins in the place of whatever is pinned there.
fn replace_pin(object: &OwnedFd, path: &PathBuf) -> Result<()> {
    remove_pin(path)?;
    bpf::pin(object, path)
}

fn remove_pin(path: &PathBuf) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove the pin {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Points defaults to the code that is registered now.
fn finish(record: Record, adapted: Vec<String>) -> Result<Upgraded> {
    let mut upgraded = Upgraded { record, adapted, defaults: Vec::new(), notes: Vec::new() };
    let name = upgraded.record.name.clone();
    if congestion::default()? == name {
        congestion::set_default(&name)?; // the default points to code, not to a name: let it follow
        upgraded.defaults.push(Netns::current()?.inode());
    }
    let may_be_default = congestion::is_allowed(&name)?;
    for (inode, path) in socket::namespaces_with_default(&name) {
        // Some kernels keep code in memory for ever once they have refused it as a default: not even tried.
        let rewritten = may_be_default && {
            let netns = Netns::open(&path);
            netns.and_then(|netns| sysctl::write(&netns, DEFAULT_SYSCTL, &name)).is_ok()
        };
        if rewritten {
            upgraded.defaults.push(inode);
        } else {
            let what = format!(
                "network namespace {inode} has \"{name}\" as its default and keeps the old code: the kernel lets only its \
                 first namespace choose it"
            );
            upgraded.notes.push(what);
        }
    }
    fault::point("upgrade.defaults");
    Ok(upgraded)
}
