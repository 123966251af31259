//! One generation of a policy in the kernel: its program with its tables, loaded and not yet deciding.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, OpenObject};

use super::table::{CgroupPlace, MapEntry, RuleTables};
use crate::failure::Failure;
use crate::kernel::libbpf_log;

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from select.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/select.skel.rs"));
}
use skeleton::SelectSkel;

const BATCH: usize = 4096;

#[derive(Debug, Default)]
pub struct Setup<'a> {
    /// Labels of sockets that the generation before uses; none: new ones.
    pub labels: Option<BorrowedFd<'a>>,
    pub number: u32,
    /// The trial's lease; none: it decides for good.
    pub lease: Option<Lease<'a>>,
}

/// Until when a trial may decide, and what decides after that.
#[derive(Debug)]
pub struct Lease<'a> {
    /// CLOCK_BOOTTIME, nanoseconds.
    pub until_ns: u64,
    /// The program of the generation before; none: nothing decides.
    pub fallback: Option<BorrowedFd<'a>>,
}

/// A generation that the kernel has verified. It ends with this value unless its parts are pinned.
#[derive(Debug)]
pub struct LoadedPolicy {
    /// The program for the root of the cgroups.
    pub program: OwnedFd,
    /// Keeps ids of new cgroups; none: no rule is by cgroup.
    pub cgroup_links: Vec<(&'static str, OwnedFd)>,
    /// Maps by the names of their pins.
    pub maps: Vec<(&'static str, OwnedFd)>,
}

/// Loads a generation and fills its tables.
///
/// Errors: the kernel refuses the program, or lacks what rules by cgroup need; no memory is left for its tables.
/// Side effects: with rules by cgroup, programs on the kernel's tracepoints for cgroups, as long as the value lives.
pub fn load(tables: &RuleTables, setup: &Setup) -> Result<LoadedPolicy> {
    libbpf_log::install_if_none();
    libbpf_log::take();
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = skeleton::SelectSkelBuilder::default().open(&mut storage).context("open the policy's program")?;
    set_up!(&mut open, tables);
    let rodata = open.maps.rodata_data.as_mut().context("find the settings of the policy's program")?;
    (rodata.rules_ecn, rodata.is_leased) = (tables.rules_ecn, setup.lease.is_some());
    rodata.generation = setup.number as u16;
    open.maps
        .tccc_awaited
        .set_max_entries(tables.cgroups.awaited.len().max(1) as u32)
        .context("size the policy's tables")?;
    if let Some(labels) = setup.labels {
        open.maps.tccc_labels.reuse_fd(labels).context("use the labels of the generation before")?;
    }
    let has_cgroups = !tables.cgroups.awaited.is_empty();
    open.progs.tccc_cg_mkdir.set_autoload(has_cgroups);
    open.progs.tccc_cg_release.set_autoload(has_cgroups);
    let skel = open.load().map_err(|error| refusal("apply a policy", &error))?;
    fill!(&skel.maps, tables);
    write_all(&skel.maps.tccc_awaited, tables.cgroups.entries())?;
    if let Some(lease) = &setup.lease {
        fill_lease(&skel, lease)?;
    }
    let mut cgroup_links = Vec::new();
    if has_cgroups {
        // The end first: a cgroup that is noted when it begins is then also forgotten when it ends.
        for (name, program) in [("release", &skel.progs.tccc_cg_release), ("mkdir", &skel.progs.tccc_cg_mkdir)] {
            let link = program.attach().with_context(|| format!("follow cgroups ({name})"))?;
            cgroup_links.push((name, link.as_fd().try_clone_to_owned()?));
        }
        super::places::fill(&tables.cgroups, |id, place| set_place(&skel, id, place))?;
    }
    let maps = &skel.maps;
    let kept = [
        ("counts", maps.tccc_counts.as_fd()),
        ("lease", maps.tccc_lease.as_fd()),
        ("fallback", maps.tccc_fallback.as_fd()),
        ("cgroups", maps.tccc_cgroups.as_fd()),
        ("missed", maps.tccc_missed.as_fd()),
        ("labels", maps.tccc_labels.as_fd()),
    ];
    let kept = kept.into_iter().map(|(name, map)| Ok((name, map.try_clone_to_owned()?)));
    Ok(LoadedPolicy {
        program: skel.progs.tccc_select.as_fd().try_clone_to_owned()?,
        cgroup_links,
        maps: kept.collect::<Result<_>>()?,
    })
}

impl LoadedPolicy {
    /// One of its maps.
    ///
    /// Errors: it has none of that name.
    pub fn map(&self, name: &str) -> Result<&OwnedFd> {
        let found = self.maps.iter().find(|(other, _)| *other == name);
        Ok(&found.with_context(|| format!("find the policy's map {name}"))?.1)
    }
}

/// Why the kernel did not take a program of the policy; `what` cannot be done without it, in a verb phrase.
pub(super) fn refusal(what: &str, error: &libbpf_rs::Error) -> anyhow::Error {
    let log = libbpf_log::take();
    // The verifier's verdict is the last line before its counts.
    let verdict = log.lines().rev().find(|line| !is_about_the_log(line));
    let why = verdict.map_or(error.to_string(), |line| line.trim().to_owned());
    let what = format!("cannot {what}: the kernel refuses its program: {why}");
    Failure::unmet(what).hint("`tccc -v` shows the verifier's log; `tccc doctor` lists what this host lacks").into()
}

fn is_about_the_log(line: &str) -> bool {
    const NOT_THE_REASON: [&str; 6] =
        ["libbpf:", "processed ", "-- ", "verification time", "stack depth", "mark_precise"];
    line.trim().is_empty() || NOT_THE_REASON.iter().any(|words| line.starts_with(words))
}

/// Writes the tables of an opened object, of the one that decides or of the one that sweeps: each has them.
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
            (place.below, place.slot, place.flags) = (arm.below, arm.slot, arm.flags());
            place.algorithm.iter_mut().zip(arm.algorithm.bytes()).for_each(|(to, from)| *to = from as _);
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

/// Fills the tables of a loaded object, of either kind.
macro_rules! fill {
    ($maps:expr, $tables:expr) => {{
        let (maps, tables): (_, &$crate::policy::table::RuleTables) = ($maps, $tables);
        let [remotes, local_ports, remote_ports, netns, currents] = tables.entries();
        $crate::policy::program::write_all(&maps.tccc_remotes, remotes)?;
        $crate::policy::program::write_all(&maps.tccc_loc_ports, local_ports)?;
        $crate::policy::program::write_all(&maps.tccc_rem_ports, remote_ports)?;
        $crate::policy::program::write_all(&maps.tccc_netns, netns)?;
        $crate::policy::program::write_all(&maps.tccc_currents, currents)?;
    }};
}
pub(super) use fill;

/// Writes many entries of a map at once.
///
/// Errors: no memory is left.
pub(super) fn write_all(map: &impl MapCore, entries: Vec<MapEntry>) -> Result<()> {
    for part in entries.chunks(BATCH) {
        let (keys, values): (Vec<_>, Vec<_>) = part.iter().cloned().unzip();
        let (keys, values) = (keys.concat(), values.concat());
        map.update_batch(&keys, &values, part.len() as u32, MapFlags::ANY, MapFlags::ANY)
            .context("fill the policy's tables")?;
    }
    Ok(())
}

fn set_place(skel: &SelectSkel<'_>, cgroup: u64, place: CgroupPlace) -> Result<()> {
    let set = skel.maps.tccc_cgroups.update(&cgroup.to_ne_bytes(), &place.bytes(), MapFlags::ANY);
    set.context("note a cgroup: more are below those of the rules than there is room for")
}

fn fill_lease(skel: &SelectSkel<'_>, lease: &Lease) -> Result<()> {
    use std::os::fd::AsRawFd as _;
    let zero = 0u32.to_ne_bytes();
    skel.maps.tccc_lease.update(&zero, &lease.until_ns.to_ne_bytes(), MapFlags::ANY).context("write the lease")?;
    if let Some(program) = lease.fallback {
        let number = program.as_raw_fd().to_ne_bytes();
        skel.maps.tccc_fallback.update(&zero, &number, MapFlags::ANY).context("keep the generation before")?;
    }
    Ok(())
}
