//! `tccc status`: what tccc registered on this host, who uses it, and what has changed since.

mod foreign;
mod selection;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use self::foreign::Foreign;
use self::selection::{PolicyStatus, ends_within_s};
use super::unload::write_holders;
use crate::cli::output::plain::{row, write_columns};
use crate::cli::output::{OutputFormat, note};
use host::declaration::{self, difference};
use host::loader::confirm;
use host::loader::survey::{self, LoadState, LoadedName};
use host::policy::migrate;
use host::policy::record::TrialRecord;
use host::policy::table::RuleTables;
use host::state::{Attachment, Owner, Requester, Store};
use host::trial;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::probe::Features;
use shared::kernel::socket::{self, Holder};
use shared::kernel::{bpffs, cgroup, congestion, process, struct_ops};
use shared::sanitize::plain;
use shared::units::format_duration;

/// Show what tccc changed on this host: algorithms, policy, trials
///
/// Also shows what others registered, for example with `bpftool struct_ops register`, and what killed commands left. Reports
/// drift: another default, or a pin that is gone. Without root it shows only the records. Nanoseconds per callback need
/// `sysctl kernel.bpf_stats_enabled=1`. Changes nothing.
///
/// Example: `tccc status -o json`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Serialize)]
struct InstanceLine {
    name: String,
    algorithm: String,
    generation: Option<u32>,
    tunables: BTreeMap<String, i128>,
    since: Option<String>,
    digest: Option<String>,
    /// Who loaded it.
    by: Option<Requester>,
    /// "pinned", "run", "elsewhere", "leftover", or "recorded" without root.
    standing: &'static str,
    /// `None` also for a run in a PID namespace that cannot be seen from here.
    owner_pid: Option<u32>,
    #[serde(skip)]
    owner: Option<String>,
    registered: bool,
    is_default: bool,
    /// `None` without root.
    holders: Option<Vec<Holder>>,
    /// By callback; empty unless the kernel counts.
    ns_per_call: BTreeMap<String, f64>,
    companion: Option<Attachment>,
    /// Loaded by `tccc load --receiver`.
    receiver: bool,
    /// Kept for `tccc rollback`.
    previous_generation: Option<u32>,
    /// Open connections by generation of their code; `None` if there is only one generation, or without root.
    sockets_by_generation: Option<BTreeMap<u32, usize>>,
    /// Loaded by a policy, not by `tccc load`.
    with_policy: bool,
    /// Seconds left to confirm it; `None` if it stays.
    confirm_within_s: Option<f64>,
    /// The process that undoes it if nobody confirms.
    confirm_pid: Option<u32>,
    drift: Vec<String>,
}

#[derive(Serialize)]
struct StatusDocument {
    default: String,
    instances: Vec<InstanceLine>,
    #[serde(flatten)]
    selection: PolicyStatus,
    /// Registered by other programs, such as bpftool; `None` without root.
    foreign: Option<Vec<Foreign>>,
    /// Differences from what /etc/tccc declares, one phrase each.
    undeclared: Vec<String>,
    /// The BPF file system, if tccc mounted it.
    mounted: Option<PathBuf>,
    stale_cgroups: Vec<PathBuf>,
    stale_processes: Vec<StaleProcess>,
}

#[derive(Serialize)]
struct StaleProcess {
    pid: u32,
    command: String,
}

/// Facts about the host that every instance needs.
struct HostFacts {
    default: String,
    /// Whether this process has CAP_SYS_ADMIN.
    may_look: bool,
    /// Open connections by the id of the map that holds their code.
    sockets_by_code: Option<BTreeMap<u32, usize>>,
    trial: Option<TrialRecord>,
}

impl Args {
    /// # Errors
    /// The kernel has no type information.
    pub fn run(&self) -> Result<()> {
        self.output.print(&gather()?, write_table)?;
        if !privilege::missing(&[Capability::SysAdmin]).is_empty() {
            note("run as root to see sockets, pins and costs; this shows the records only");
        }
        Ok(())
    }
}

fn gather() -> Result<StatusDocument> {
    let default = congestion::default()?;
    let may_look = privilege::missing(&[Capability::SysAdmin]).is_empty();
    let mut holders = if may_look { socket::holders().ok() } else { None };
    let store = Store::of_host();
    let features = Features::probe()?;
    let instances = survey::instances(&store, &features)?;
    let foreign = may_look.then(|| foreign::find(&instances, &features)).transpose()?;
    let has_generations = instances.iter().any(|it| it.record.as_ref().is_some_and(|it| it.previous.is_some()));
    let sockets_by_code = if may_look && has_generations { sockets_by_code().ok() } else { None };
    let host = HostFacts { default, may_look, sockets_by_code, trial: trial::current().unwrap_or_default() };
    let lines = instances.iter().map(|instance| {
        let used = holders.as_mut().map(|all| all.remove(&instance.name).unwrap_or_default());
        line(instance, &host, used)
    });
    let stale = process::orphans().into_iter().map(|process| {
        let pid = process.pid;
        StaleProcess { pid, command: process::command(pid).unwrap_or_default() }
    });
    Ok(StatusDocument {
        instances: lines.collect(),
        selection: PolicyStatus::gather(host.trial.as_ref(), &store)?,
        foreign,
        undeclared: if may_look { from_declared(&features) } else { Vec::new() },
        default: host.default,
        mounted: bpffs::mount().filter(|place| bpffs::is_ours(place)),
        stale_cgroups: cgroup::stale().unwrap_or_default(),
        stale_processes: stale.collect(),
    })
}

/// Differences from the declaration, or the mistakes in the declaration.
fn from_declared(features: &Features) -> Vec<String> {
    match difference::of_host(Path::new(declaration::FOLDER), features) {
        Ok(differences) => differences.into_iter().map(|difference| difference.what).collect(),
        Err(error) => format!("{error:#}").lines().map(str::to_owned).collect(),
    }
}

fn sockets_by_code() -> Result<BTreeMap<u32, usize>> {
    let mut codes = BTreeMap::new();
    for code in migrate::look(&RuleTables::default(), None)?.into_iter().filter_map(|sight| sight.code) {
        *codes.entry(code).or_default() += 1;
    }
    Ok(codes)
}

fn line(instance: &LoadedName, host: &HostFacts, holders: Option<Vec<Holder>>) -> InstanceLine {
    let record = instance.record.as_ref();
    let previous = record.and_then(|record| record.previous.as_ref());
    let unconfirmed = record.and_then(|record| record.unconfirmed);
    let trial = host.trial.as_ref().filter(|trial| trial.subject.name() == instance.name);
    let count = |sockets: &BTreeMap<u32, usize>| {
        let codes = [record?.code(), previous?.clone()];
        Some(codes.map(|code| (code.generation, sockets.get(&code.map_id).copied().unwrap_or(0))).into())
    };
    let standing = match instance.standing() {
        LoadState::Pinned => "pinned",
        LoadState::Run => "run",
        LoadState::Leftover if host.may_look => "leftover",
        LoadState::Elsewhere if host.may_look => "elsewhere",
        LoadState::Leftover | LoadState::Elsewhere => "recorded",
    };
    InstanceLine {
        name: instance.name.clone(),
        algorithm: instance.algorithm().to_owned(),
        generation: record.map(|record| record.generation),
        tunables: record.map(|record| record.tunables.clone()).unwrap_or_default(),
        since: record.map(|record| record.since.clone()),
        digest: record.map(|record| record.digest.clone()),
        by: record.and_then(|record| record.by.clone()),
        standing,
        owner_pid: instance.owner().filter(|_| standing == "run").and_then(|owner| owner.number()),
        owner: instance.owner().filter(|_| standing == "run").map(|owner| owner.identity()),
        registered: instance.is_registered,
        is_default: host.default == instance.name,
        holders,
        ns_per_call: costs(instance),
        companion: record.and_then(|record| record.companion.clone()),
        receiver: instance.is_receiver(),
        previous_generation: previous.map(|code| code.generation),
        sockets_by_generation: host.sockets_by_code.as_ref().and_then(count),
        with_policy: record.is_some_and(|record| record.with_policy),
        confirm_within_s: unconfirmed.as_ref().map(confirm::seconds_left).or(trial.and_then(ends_within_s)),
        confirm_pid: unconfirmed.map(|it| it.guard.pid).or(trial.map(|trial| trial.guard.pid)),
        drift: if host.may_look { drift(instance, &host.default) } else { Vec::new() },
    }
}

fn costs(instance: &LoadedName) -> BTreeMap<String, f64> {
    let programs = instance.table.iter().flat_map(|table| &table.programs);
    let costs = programs.filter_map(|(callback, &id)| Some((callback.clone(), struct_ops::program_cost(id).ok()?)));
    let called = costs.filter(|(_, cost)| cost.calls > 0);
    called.map(|(callback, cost)| (callback, cost.nanoseconds as f64 / cost.calls as f64)).collect()
}

/// Differences from what the record says.
fn drift(instance: &LoadedName, default: &str) -> Vec<String> {
    let Some(record) = &instance.record else {
        return vec!["its record is lost or cannot be read: its tunables and the previous default are unknown".into()];
    };
    // An interrupted `unload` has already restored the default itself.
    let is_leftover = instance.standing() == LoadState::Leftover;
    let was_default = record.previous_default.as_ref().is_some_and(|previous| !is_leftover || previous != default);
    let is_pinned = record.owner == Owner::Pinned;
    let has_pin = instance.has_link_pin || instance.has_map_pin || record.receiver;
    let is_elsewhere = instance.is_held_elsewhere();
    let has_companion = record.companion.is_none() || instance.is_companion_attached;
    let other_default = format!("it was made the default, but the default is now \"{default}\"");
    let without = format!(
        "its companion program is not at {}, which appeared later: packets there carry ECT(0); load it again",
        instance.devices_without.join(", ")
    );
    let elsewhere = format!("{}; {}", survey::ELSEWHERE, bpffs::way_to_lost_pins());
    let drift = [
        (was_default && default != instance.name, other_default.as_str()),
        (
            record.unconfirmed.as_ref().is_some_and(confirm::is_overdue),
            "nobody confirmed it in time, and the process that would undo it was killed: unload it",
        ),
        (
            !instance.is_as_recorded(),
            "other code is registered than its record says: a replacement was interrupted; load it again",
        ),
        (is_elsewhere, elsewhere.as_str()),
        (!is_elsewhere && is_pinned && !has_pin, "its pin is gone"),
        (is_pinned && !has_companion, "its companion program is no longer attached and does nothing; load it again"),
        (!instance.devices_without.is_empty(), without.as_str()),
        (!instance.is_receiver() && !instance.is_registered, "it is no longer registered"),
    ];
    drift.into_iter().filter(|(is_so, _)| *is_so).map(|(_, what)| what.to_owned()).collect()
}

fn write_table(out: &mut impl Write, document: &StatusDocument) -> io::Result<()> {
    if document.instances.is_empty() {
        writeln!(out, "nothing is loaded; the default algorithm is \"{}\"", document.default)?;
    } else {
        write_instances(out, &document.instances)?;
    }
    for line in &document.instances {
        line.drift.iter().try_for_each(|what| writeln!(out, "\"{}\": {what}", line.name))?;
        write_details(out, line)?;
    }
    selection::write(out, &document.selection)?;
    document.foreign.iter().flatten().try_for_each(|foreign| foreign.write(out))?;
    if let Some(place) = &document.mounted {
        writeln!(out, "tccc mounted the BPF file system at {}; it is unmounted with the last pin", place.display())?;
    }
    for what in &document.undeclared {
        writeln!(out, "not as declared: {}", plain(what))?;
    }
    if !document.undeclared.is_empty() {
        writeln!(out, "`tccc apply --dry-run` shows the missing changes")?;
    }
    for path in &document.stale_cgroups {
        writeln!(out, "left by a killed run: cgroup {}", path.display())?;
    }
    for StaleProcess { pid, command } in &document.stale_processes {
        writeln!(out, "left by a killed run: process {pid} ({command})")?;
    }
    let has_stale = !document.stale_cgroups.is_empty() || !document.stale_processes.is_empty();
    let mut leftovers = document.instances.iter().filter(|line| line.standing == "leftover");
    match (leftovers.next(), leftovers.next(), has_stale) {
        (None, _, false) => Ok(()),
        (Some(only), None, false) => writeln!(out, "`tccc unload {}` removes what was left", only.name),
        _ => writeln!(out, "`tccc unload --all` removes what was left, and unloads everything else"),
    }
}

fn write_instances(out: &mut impl Write, lines: &[InstanceLine]) -> io::Result<()> {
    let rows = lines.iter().map(|line| {
        let kept = match (&line.owner, line.is_default) {
            (Some(owner), _) => format!("run ({owner})"),
            (None, true) => format!("{}, default", line.standing),
            (None, false) => line.standing.to_owned(),
        };
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let kept_too = line.previous_generation.map_or(String::new(), |before| format!(" ({before} kept)"));
        let generation = or_dash(line.generation.map(|generation| format!("{generation}{kept_too}")));
        let count = |list: &Vec<Holder>| list.iter().map(|it| it.sockets + it.listening).sum::<usize>().to_string();
        let sockets = or_dash(line.holders.as_ref().map(count));
        let algorithm = if line.receiver { format!("{} (receiver)", line.algorithm) } else { line.algorithm.clone() };
        let set: Vec<String> = line.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let set = if set.is_empty() { "none".to_owned() } else { set.join(" ") };
        row([&line.name, &algorithm, &kept, &generation, &or_dash(line.since.clone()), &sockets, &set])
    });
    write_columns(out, ["name", "algorithm", "state", "generation", "since", "sockets", "tunables set"], rows)
}

fn write_details(out: &mut impl Write, line: &InstanceLine) -> io::Result<()> {
    if let Some(by) = &line.by {
        writeln!(out, "\"{}\": loaded by {}", line.name, by.phrase())?;
    }
    if let Some(left_s) = line.confirm_within_s.filter(|left_s| *left_s > 0.0) {
        let left = format_duration(Duration::from_secs(left_s.ceil() as u64));
        writeln!(out, "\"{0}\": undone in {left} unless `tccc confirm {0}` follows", line.name)?;
    }
    if let Some(codes) = &line.sockets_by_generation {
        let codes: Vec<String> = codes.iter().map(|(generation, count)| format!("{count} on {generation}")).collect();
        writeln!(out, "\"{}\": open connections by generation: {}", line.name, codes.join(", "))?;
    }
    if let Some(holders) = line.holders.as_ref().filter(|holders| !holders.is_empty()) {
        writeln!(out, "\nsockets with \"{}\":", line.name)?;
        write_holders(out, holders)?;
    }
    if let Some(attachment) = &line.companion {
        writeln!(out, "\"{}\": \"{}\" is attached to {}", line.name, attachment.program, attachment.place())?;
    }
    if !line.ns_per_call.is_empty() {
        let costs: Vec<String> = line.ns_per_call.iter().map(|(name, ns)| format!("{name} {ns:.0}")).collect();
        writeln!(out, "\"{}\": nanoseconds per call: {}", line.name, costs.join(", "))?;
    }
    Ok(())
}
