//! One generation of a policy in the kernel: its program and tables, loaded but not attached.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};
use zerocopy::{Immutable, IntoBytes};

use super::table::{CgroupPlace, CgroupTree, RuleTables};
use shared::failure::Failure;
use shared::kernel::{cgroup, libbpf_log};

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from select.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/select.skel.rs"));
}

pub(super) use skeleton::types;

const BATCH: usize = 4096;

/// How long a trial may decide, and what decides afterwards.
#[derive(Debug)]
pub struct Lease<'a> {
    /// CLOCK_BOOTTIME, nanoseconds.
    pub until_ns: u64,
    /// The previous generation's program. Without one, nothing decides.
    pub fallback: Option<BorrowedFd<'a>>,
}

/// A generation that the kernel has verified. Dropping it unloads it unless its parts are pinned.
#[derive(Debug)]
pub struct LoadedPolicy {
    /// The program for the root of the cgroups.
    pub program: OwnedFd,
    /// Maps by the names of their pins. With rules by cgroup also the links that follow new cgroups.
    pub parts: Vec<(&'static str, OwnedFd)>,
}

/// Loads a generation and fills its tables. `labels` are those of the previous generation. Only a trial has a lease.
///
/// Side effects: with rules by cgroup, programs on the kernel's cgroup tracepoints while the value lives.
///
/// # Errors
/// The kernel refuses the program, or lacks what rules by cgroup need; out of memory for the tables.
pub fn load(
    tables: &RuleTables,
    number: u32,
    labels: Option<BorrowedFd>,
    lease: Option<Lease>,
) -> Result<LoadedPolicy> {
    libbpf_log::start();
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = skeleton::SelectSkelBuilder::default().open(&mut storage).context("open the policy's program")?;
    set_up!(&mut open, tables);
    let rodata = open.maps.rodata_data.as_mut().context("find the settings of the policy's program")?;
    (rodata.rules_ecn, rodata.is_leased) = (tables.rules_ecn, lease.is_some());
    rodata.generation = number;
    open.maps
        .tccc_awaited
        .set_max_entries(tables.cgroups.awaited.len().max(1) as u32)
        .context("size the policy's tables")?;
    if let Some(labels) = labels {
        open.maps.tccc_labels.reuse_fd(labels).context("use the labels of the generation before")?;
    }
    let has_cgroups = !tables.cgroups.awaited.is_empty();
    open.progs.tccc_cg_mkdir.set_autoload(has_cgroups);
    open.progs.tccc_cg_release.set_autoload(has_cgroups);
    let skel = open.load().map_err(|error| refusal("apply a policy", &error))?;
    fill!(&skel.maps, tables);
    write_all(&skel.maps.tccc_awaited, tables.cgroups.entries())?;
    let maps = &skel.maps;
    if let Some(lease) = lease {
        let zero = 0u32.to_ne_bytes();
        maps.tccc_lease.update(&zero, &lease.until_ns.to_ne_bytes(), MapFlags::ANY).context("write the lease")?;
        if let Some(program) = lease.fallback {
            let number = program.as_raw_fd().to_ne_bytes();
            maps.tccc_fallback.update(&zero, &number, MapFlags::ANY).context("keep the generation before")?;
        }
    }
    let mut parts = Vec::new();
    if has_cgroups {
        // Attaches the release program first, so that every noted cgroup is also forgotten.
        for (name, program) in [("release", &skel.progs.tccc_cg_release), ("mkdir", &skel.progs.tccc_cg_mkdir)] {
            let link = program.attach().with_context(|| format!("follow cgroups ({name})"))?;
            parts.push((name, link.as_fd().try_clone_to_owned()?));
        }
        note_cgroups(&tables.cgroups, &maps.tccc_cgroups)?;
    }
    let kept = [
        ("labels", maps.tccc_labels.as_fd()),
        ("counts", maps.tccc_counts.as_fd()),
        ("lease", maps.tccc_lease.as_fd()),
        ("fallback", maps.tccc_fallback.as_fd()),
        ("cgroups", maps.tccc_cgroups.as_fd()),
        ("missed", maps.tccc_missed.as_fd()),
    ];
    for (place, (name, map)) in kept.into_iter().enumerate() {
        parts.insert(place, (name, map.try_clone_to_owned()?));
    }
    Ok(LoadedPolicy { program: skel.progs.tccc_select.as_fd().try_clone_to_owned()?, parts })
}

impl LoadedPolicy {
    /// # Errors
    /// The policy has no map of this name.
    pub fn map(&self, name: &str) -> Result<&OwnedFd> {
        let found = self.parts.iter().find(|(other, _)| *other == name);
        Ok(&found.with_context(|| format!("find the policy's map {name}"))?.1)
    }
}

/// Explains why the kernel refused a program of the policy. `what` completes "cannot …".
pub(super) fn refusal(what: &str, error: &libbpf_rs::Error) -> anyhow::Error {
    const OTHERS: [&str; 6] = ["libbpf:", "processed ", "-- ", "verification time", "stack depth", "mark_precise"];
    let log = libbpf_log::take();
    // The verifier's verdict is the last line before its counts.
    let is_verdict = |line: &&str| !line.trim().is_empty() && !OTHERS.iter().any(|words| line.starts_with(words));
    let verdict = log.lines().rev().find(is_verdict);
    let why = verdict.map_or(error.to_string(), |line| line.trim().to_owned());
    let what = format!("cannot {what}: the kernel refuses its program: {why}");
    Failure::unmet(what).hint("`tccc -v` shows the verifier's log; `tccc doctor` lists what this host lacks").into()
}

/// Writes the rules into an opened object and sizes its maps. Works for the deciding and for the sweeping program.
macro_rules! set_up {
    ($open:expr, $tables:expr) => {{
        let (open, tables): (_, &$crate::policy::table::RuleTables) = ($open, $tables);
        let rodata = open.maps.rodata_data.as_mut().context("find the settings of the policy's program")?;
        rodata.any_cgroup = tables.any.cgroup;
        rodata.any_netns = tables.any.netns;
        rodata.any_remote = tables.any.remote;
        rodata.any_local_port = tables.any.local_port;
        rodata.any_remote_port = tables.any.remote_port;
        rodata.any_current = tables.any.current;
        rodata.rules_in = tables.rules_in;
        rodata.rules_out = tables.rules_out;
        rodata.remotes_count = tables.remotes.len() as u32;
        rodata.remotes_top = tables.remotes.len().saturating_sub(1).checked_ilog2().map_or(0, |bit| 1 << bit);
        for (place, rule) in rodata.rules.iter_mut().zip(&tables.rules) {
            (place.salt, place.first_arm, place.arms) = (rule.salt, rule.first_arm, rule.arms);
            (place.by, place.flags) = (rule.by as u32, rule.flags);
        }
        for (place, arm) in rodata.arms.iter_mut().zip(&tables.arms) {
            (place.below, place.slot, place.flags) = (arm.below, arm.slot, arm.flags);
            place.algorithm = shared::c_text::padded(&arm.algorithm);
        }
        let maps = &mut open.maps;
        let sizes = [
            (&mut maps.tccc_remotes, tables.remotes.len()),
            (&mut maps.tccc_loc_ports, tables.local_ports.len()),
            (&mut maps.tccc_rem_ports, tables.remote_ports.len()),
            (&mut maps.tccc_netns, tables.netns.len()),
            (&mut maps.tccc_currents, tables.currents.len()),
        ];
        for (map, entries) in sizes {
            map.set_max_entries(entries.max(1) as u32).context("size the policy's tables")?;
        }
    }};
}
pub(super) use set_up;

/// Fills the maps of a loaded object: of the deciding or of the sweeping program.
macro_rules! fill {
    ($maps:expr, $tables:expr) => {{
        let (maps, tables): (_, &$crate::policy::table::RuleTables) = ($maps, $tables);
        $crate::policy::program::write_all(&maps.tccc_remotes, tables.remote_ranges())?;
        $crate::policy::program::write_all(&maps.tccc_loc_ports, tables.local_ports.clone())?;
        $crate::policy::program::write_all(&maps.tccc_rem_ports, tables.remote_ports.clone())?;
        $crate::policy::program::write_all(&maps.tccc_netns, tables.netns.clone())?;
        $crate::policy::program::write_all(&maps.tccc_currents, tables.current_names())?;
    }};
}
pub(super) use fill;

pub(super) fn write_all<K, V>(map: &impl MapCore, entries: impl IntoIterator<Item = (K, V)>) -> Result<()>
where
    K: IntoBytes + Immutable,
    V: IntoBytes + Immutable,
{
    let (keys, values): (Vec<K>, Vec<V>) = entries.into_iter().unzip();
    for (keys, values) in keys.chunks(BATCH).zip(values.chunks(BATCH)) {
        let count = keys.len() as u32;
        map.update_batch(keys.as_bytes(), values.as_bytes(), count, MapFlags::ANY, MapFlags::ANY)
            .context("fill the policy's tables")?;
    }
    Ok(())
}

/// Notes every existing cgroup that matters to a rule, by its id. The kernel program notes later ones.
///
/// A cgroup is noted before its children are listed. A cgroup made meanwhile is either listed here, or its parent is
/// already known to the kernel program.
///
/// # Errors
/// Cgroup v2 is not mounted; the map is full. A cgroup that vanishes meanwhile is left out.
fn note_cgroups(tree: &CgroupTree, map: &impl MapCore) -> Result<()> {
    let note = |id: u64, place: &CgroupPlace| {
        if *place != CgroupPlace::default() {
            let noted = map.update(&id.to_ne_bytes(), place.as_bytes(), MapFlags::ANY);
            noted.context("note a cgroup: more cgroups are below those of the rules than the table holds")?;
        }
        Ok(true)
    };
    cgroup::walk(tree.root(), |above, name| tree.place(*above, &name.to_string_lossy()), note)
}
