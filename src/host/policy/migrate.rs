//! Applies a policy to open sockets: shows what the rules say about each, or gives each its algorithm.

use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject};
use serde::Serialize;

use super::label::LabelOutcome;
use super::program::{fill, refusal, set_up};
use super::rule::RULES_MAX;
use super::table::RuleTables;
use shared::c_text::{padded, text};
use shared::kernel::{iterate, libbpf_log, namespaces};

#[allow(clippy::all, clippy::pedantic, clippy::restriction, reason = "generated from sweep.bpf.c")]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/sweep.skel.rs"));
}
pub(super) use skeleton::types;
use skeleton::{OpenSweepSkel, SweepSkel};
use types::policy_sight;

/// A kernel before 6.17 may miss a socket while others come and go, so a sweep is repeated.
const PASSES_MAX: usize = 4;
const LOOK: &str = "read the open connections";

/// The parts of a generation that sweeps use.
#[derive(Debug)]
pub struct SweepParts {
    pub labels: OwnedFd,
    /// The generation's map of cgroups by id. Without it, no rule by cgroup matches.
    pub cgroups: Option<OwnedFd>,
    pub number: u32,
}

impl SweepParts {
    /// For a sweep without rules.
    pub fn without_rules(labels: OwnedFd) -> Self {
        SweepParts { labels, cgroups: None, number: 0 }
    }
}

/// An open connection, and what the rules say about it now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketDecision {
    pub cookie: u64,
    /// cgroup v2 id.
    pub cgroup: u64,
    /// Inode of the network namespace.
    pub netns: u32,
    pub netns_cookie: u64,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// The peer opened it: something listens on the local port.
    pub is_in: bool,
    pub algorithm: String,
    /// A program or a policy chose the algorithm.
    pub is_chosen: bool,
    /// The route names an algorithm.
    pub is_routed: bool,
    /// Rules that match, one bit each. The lowest decides.
    pub matching: u64,
    /// Index of the deciding rule's arm among the arms of all rules.
    pub arm: u8,
    /// Id of the map with the algorithm's code. `None` for the kernel's own algorithms.
    pub code: Option<u32>,
    /// tccc set the present algorithm: for a rule, or to give back the one before.
    pub is_ours: bool,
    pub label: Option<SocketLabel>,
}

impl SocketDecision {
    /// The algorithm that the connection would have without a policy. A rule's `current` is about this one.
    pub fn without_policy(&self) -> &str {
        self.label.as_ref().filter(|_| self.is_ours).map_or(&self.algorithm, |label| &label.before)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SocketLabel {
    /// Number of rule and arm.
    pub slot: u32,
    pub outcome: LabelOutcome,
    pub before: String,
}

/// Numbers of open connections, by what the move did to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    pub seen: u64,
    /// Got another algorithm.
    pub moved: u64,
    /// Had the right algorithm already.
    pub already: u64,
    /// Unchanged: a program or a route chose the algorithm.
    pub chosen: u64,
    pub failed: u64,
    /// Processes and network namespaces whose connections could not be looked at.
    pub hidden: usize,
}

/// Looks at the open connections of every network namespace that can be entered.
///
/// Without `shared`, there are no labels, and no rule by cgroup matches.
///
/// Shape: in the order of namespaces and of the kernel's tables.
///
/// # Errors
/// A capability is missing; the kernel refuses the program.
pub fn look(tables: &RuleTables, shared: Option<&SweepParts>) -> Result<Vec<SocketDecision>> {
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = open(&mut storage, "tccc_sight")?;
    set_tables(&mut open, tables, shared)?;
    let skel = open.load().map_err(|error| refusal(LOOK, &error))?;
    fill!(&skel.maps, tables);
    let link = skel.progs.tccc_sight.attach().context("attach the socket iterator")?;
    let mut sights = Vec::new();
    for netns in namespaces::all()?.reachable {
        let mut take = |rows: &[policy_sight]| {
            sights.extend(rows.iter().map(decision));
            Ok(())
        };
        netns.run(|| iterate::rows(&link, &mut take))?;
    }
    Ok(sights)
}

/// Counts the open connections that have another algorithm than their rule gives, because they are older than the
/// generation. Its size in memory does not depend on their number.
///
/// Shape: rule by rule.
///
/// # Errors
/// A capability is missing; the kernel refuses the program.
pub fn count_older(tables: &RuleTables, shared: &SweepParts) -> Result<[u64; RULES_MAX]> {
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = open(&mut storage, "tccc_older")?;
    set_tables(&mut open, tables, Some(shared))?;
    let skel = open.load().map_err(|error| refusal(LOOK, &error))?;
    fill!(&skel.maps, tables);
    iterate::pass_everywhere(&skel.progs.tccc_older.attach().context("attach the socket iterator")?)?;
    Ok(skel.maps.bss_data.as_ref().context("find the counts of the sweep")?.older)
}

/// Gives every open connection the algorithm of its rule. Takes back what an earlier policy gave and no rule gives now.
///
/// Side effects: connections change their algorithm; the algorithm that resets pacing is registered meanwhile.
///
/// # Errors
/// A capability is missing; the kernel refuses the program or the algorithm that resets pacing.
pub(crate) fn move_all(tables: &RuleTables, shared: &SweepParts) -> Result<Moves> {
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = open(&mut storage, "tccc_move")?;
    set_tables(&mut open, tables, Some(shared))?;
    let name = format!("tccc_rst{}", std::process::id());
    open.struct_ops.pacing_reset_mut().name = padded(&name);
    let bss = open.maps.bss_data.as_mut().context("find the settings of the sweep")?;
    bss.reset_name = padded(&name);
    let mut skel = open.load().map_err(|error| refusal("change open connections", &error))?;
    fill!(&skel.maps, tables);
    let _reset = skel.maps.pacing_reset.attach_struct_ops().context("register the algorithm that resets pacing")?;
    let link = skel.progs.tccc_move.attach().context("attach the socket iterator")?;
    let mut total = Moves::default();
    for pass in 0..PASSES_MAX {
        let before = moves(&skel)?;
        let hidden = iterate::pass_everywhere(&link)?;
        let after = Moves { hidden, ..moves(&skel)? };
        total.moved += after.moved - before.moved;
        if pass == 0 {
            total = after;
        }
        if after.moved == before.moved {
            break;
        }
    }
    Ok(total)
}

/// Sockets that got the latest code of their algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Refreshes {
    pub listening: u64,
    pub open: u64,
    /// The kernel refused.
    pub failed: u64,
    /// Processes and network namespaces whose sockets could not be looked at.
    pub hidden: usize,
}

/// Makes listening sockets choose `name` again, so that they get its latest code. With `moves_open`, connections too.
///
/// Side effects: moved connections keep their window and start with fresh private state of the algorithm.
///
/// # Errors
/// A capability is missing; the kernel refuses the program.
pub(crate) fn refresh(name: &str, moves_open: bool) -> Result<Refreshes> {
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = open(&mut storage, "tccc_refresh")?;
    let rodata = open.maps.rodata_data.as_mut().context("find the settings of the sweep")?;
    rodata.refreshes_open = moves_open;
    let bss = open.maps.bss_data.as_mut().context("find the settings of the sweep")?;
    bss.refreshed.text = padded(name);
    let skel = open.load().map_err(|error| refusal("give listening sockets the latest code", &error))?;
    let link = skel.progs.tccc_refresh.attach().context("attach the socket iterator")?;
    let hidden = iterate::pass_everywhere(&link)?;
    let counts = &skel.maps.bss_data.as_ref().context("find the counts of the sweep")?.refreshes;
    Ok(Refreshes { listening: counts.listening, open: counts.open, failed: counts.failed, hidden })
}

/// Opens the object with one of its programs. Only moving connections needs the algorithm that resets pacing.
fn open<'a>(storage: &'a mut MaybeUninit<OpenObject>, wanted: &str) -> Result<OpenSweepSkel<'a>> {
    libbpf_log::start();
    let mut open = skeleton::SweepSkelBuilder::default().open(storage).context("open the policy's sweep")?;
    let moves = wanted == "tccc_move";
    open.maps.pacing_reset.set_autocreate(moves).context("leave out the algorithm that resets pacing")?;
    for mut program in open.open_object_mut().progs_mut() {
        let name = program.name().to_string_lossy();
        let is_wanted = name == wanted || (moves && name.starts_with("reset_"));
        program.set_autoload(is_wanted);
    }
    Ok(open)
}

fn set_tables(open: &mut OpenSweepSkel<'_>, tables: &RuleTables, shared: Option<&SweepParts>) -> Result<()> {
    set_up!(&mut *open, tables);
    let Some(shared) = shared else { return Ok(()) };
    open.maps.rodata_data.as_mut().context("find the settings of the sweep")?.generation = shared.number;
    open.maps.tccc_labels.reuse_fd(shared.labels.as_fd()).context("use the policy's labels")?;
    let Some(cgroups) = &shared.cgroups else { return Ok(()) };
    open.maps.tccc_cgroups.reuse_fd(cgroups.as_fd()).context("use the policy's cgroups")
}

/// Attaches the iterator over labelled sockets, which needs no rules.
///
/// # Errors
/// The kernel refuses the program.
pub(super) fn attach_labels(labels: &OwnedFd) -> Result<Link> {
    let mut storage: MaybeUninit<OpenObject> = MaybeUninit::uninit();
    let mut open = open(&mut storage, "tccc_label")?;
    open.maps.tccc_labels.reuse_fd(labels.as_fd()).context("use the policy's labels")?;
    let skel = open.load().map_err(|error| refusal(LOOK, &error))?;
    skel.progs.tccc_label.attach_iter(labels.as_fd()).context("attach the iterator over labels")
}

fn moves(skel: &SweepSkel<'_>) -> Result<Moves> {
    let counts = &skel.maps.bss_data.as_ref().context("find the counts of the sweep")?.moves;
    Ok(Moves {
        seen: counts.seen,
        moved: counts.moved,
        already: counts.already,
        chosen: counts.chosen,
        failed: counts.failed,
        hidden: 0,
    })
}

fn decision(row: &policy_sight) -> SocketDecision {
    let address = |high, low| IpAddr::V6(Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low))).to_canonical();
    let label = (row.is_labelled != 0).then(|| SocketLabel {
        slot: row.slot,
        outcome: LabelOutcome::from_byte(row.outcome),
        before: text(&row.before),
    });
    SocketDecision {
        cookie: row.cookie,
        cgroup: row.cgroup,
        netns_cookie: row.netns_cookie,
        remote: SocketAddr::new(address(row.remote_hi, row.remote_lo), row.remote_port),
        local: SocketAddr::new(address(row.local_hi, row.local_lo), row.local_port),
        matching: row.matching,
        netns: row.netns,
        is_in: row.is_in != 0,
        is_chosen: row.is_chosen != 0,
        is_routed: row.is_routed != 0,
        arm: row.arm,
        is_ours: row.is_ours != 0,
        code: Some(row.code).filter(|&id| id != 0),
        algorithm: text(&row.algorithm),
        label,
    }
}
