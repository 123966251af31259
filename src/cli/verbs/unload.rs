//! `tccc unload`: undo what `tccc load` did, and check the result.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;

use crate::cli::effect::Effect;
use crate::cli::output::plain::write_columns;
use crate::cli::output::{note, results, warn};
use host::gate::{self, EndedName};
use host::loader::survey::{self, LoadState};
use host::loader::{self, Unloaded};
use host::policy::change;
use host::policy::needs::PolicyNeeds;
use host::state::Store;
use host::trial::journal::TrialEnd;
use shared::failure::Failure;
use shared::interrupt;
use shared::kernel::probe::Features;
use shared::kernel::socket::Holder;
use shared::kernel::{cgroup, privilege, process};
use shared::sanitize::count;
use shared::units::{format_duration, parse_duration};

/// Unregister an algorithm, and undo everything that loading it changed
///
/// Restores the default that `tccc load --default` replaced, unless somebody changed it since. Open sockets keep the
/// algorithm until they close; they are listed by process. `--all` also removes the policy and what killed commands left.
///
/// Example: `tccc unload dtcp --drain 60s`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name of the loaded algorithm
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    name: Option<String>,
    /// Everything that tccc registered or left behind, except what a running experiment uses
    #[arg(long)]
    all: bool,
    /// After unregistering, wait this long for open sockets to close, such as 60s; exits with 1 if some are left
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    drain: Option<Duration>,
    /// Print each change without making it
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::change(self.dry_run, "`tccc load` loads it again")
    }

    /// # Errors
    /// tccc did not load the name; not permitted; it is still registered afterwards.
    pub fn run(&self) -> Result<()> {
        let features = Features::probe()?;
        if self.dry_run {
            return self.print_plan(&features);
        }
        let mut out = results();
        let mut failed = Vec::new();
        let (mut is_empty, done) = match &self.name {
            Some(name) => {
                let EndedName { trial, unloaded } = gate::unload(name, &features)?;
                if let Some(TrialEnd { subject, .. }) = trial {
                    writeln!(out, "the trial of {} is over", subject.phrase())?;
                }
                (false, unloaded.into_iter().map(Ok).collect())
            }
            None => {
                let removed = remove_policy(&mut out);
                let was_there = removed.as_ref().is_ok_and(|&was_there| was_there);
                failed.extend(removed.err());
                (!was_there, gate::unload_all(&features)?)
            }
        };
        is_empty &= done.is_empty();
        for one in done {
            let finish = |unloaded: Unloaded| print_done(&mut out, &unloaded).and_then(|()| self.follow(&unloaded));
            failed.extend(one.and_then(finish).err());
        }
        if self.all {
            failed.extend(end_orphans(&mut out).err());
            failed.extend(sweep_cgroups(&mut out).err());
            if is_empty {
                writeln!(out, "nothing is loaded")?;
            }
        }
        let mut failed = failed.into_iter();
        let first = failed.next();
        failed.for_each(|error| warn(&format!("{error:#}"), None));
        first.map_or(Ok(()), Err)
    }

    fn print_plan(&self, features: &Features) -> Result<()> {
        let what = self.name.as_ref().map_or("unload".to_owned(), |name| format!("unload \"{name}\""));
        privilege::require(&what, &privilege::FOR_LOAD)?;
        if let Some(name) = &self.name {
            PolicyNeeds::now()?.refuse_loss(name)?;
        }
        let store = Store::of_host();
        let wanted = match &self.name {
            Some(name) => vec![loader::ours(name, &store, features)?],
            None => survey::instances(&store, features)?,
        };
        let mut out = results();
        for instance in wanted.iter().filter(|instance| instance.standing() != LoadState::Run) {
            writeln!(out, "unloading \"{}\" would", instance.name)?;
            loader::plan(instance)?.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
        }
        if self.all {
            let policy = change::removal_plan(false)?;
            policy.iter().try_for_each(|change| writeln!(out, "{change}"))?;
            let stale = cgroup::stale().unwrap_or_default();
            stale.iter().try_for_each(|path| writeln!(out, "remove the cgroup {}", path.display()))?;
            let orphans = process::orphans();
            orphans.iter().try_for_each(|left| writeln!(out, "end the process {} of a dead run", left.pid))?;
        }
        Ok(())
    }

    /// Waits for sockets if `--drain` is given, then reports those that are left.
    fn follow(&self, unloaded: &Unloaded) -> Result<()> {
        let mut left = unloaded.holders.clone();
        if let Some(patience) = self.drain.filter(|_| !left.is_empty()) {
            note(&format!("waiting up to {} for sockets to close", format_duration(patience)));
            left = loader::drain(&unloaded.name, patience)?;
        }
        if left.is_empty() {
            return Ok(());
        }
        let kept = format!("{} still with \"{}\" until closed", counted(&left), unloaded.name);
        if let Some(patience) = self.drain {
            let hint = "end those processes; it is unregistered already";
            let refusal = match interrupt::came() {
                true => Failure::again(format!("interrupted: {kept}")),
                false => Failure::failed(format!("time ran out after {}: {kept}", format_duration(patience))),
            };
            return Err(refusal.hint(hint).into());
        }
        note(&kept);
        if left.iter().any(|holder| holder.listening > 0) {
            warn("a listening socket gives it to every connection that it accepts", Some("restart that process"));
        }
        Ok(())
    }
}

/// Removes the policy with its algorithms and ends its trial; returns whether there was anything to remove.
fn remove_policy(out: &mut impl Write) -> Result<bool> {
    let removed = gate::remove_policy(false, gate::removed())?;
    if removed.was_there {
        writeln!(out, "the policy is removed")?;
    }
    removed.unloaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" unregistered"))?;
    removed.whole().map(|removed| removed.was_there || !removed.unloaded.is_empty())
}

/// `2 sockets and 1 listening socket`.
fn counted(holders: &[Holder]) -> String {
    let sockets = holders.iter().map(|holder| holder.sockets).sum();
    let listening = holders.iter().map(|holder| holder.listening).sum();
    let kinds = [(sockets, "socket"), (listening, "listening socket")].into_iter().filter(|(number, _)| *number > 0);
    kinds.map(|(number, noun)| count(number, noun)).collect::<Vec<_>>().join(" and ")
}

fn print_done(out: &mut impl Write, unloaded: &Unloaded) -> Result<()> {
    let name = &unloaded.name;
    if !unloaded.holders.is_empty() {
        writeln!(out, "sockets with \"{name}\":")?;
        write_holders(out, &unloaded.holders)?;
    }
    if let Some(default) = &unloaded.default_restored {
        writeln!(out, "default algorithm: \"{default}\" again")?;
    }
    let what = match (unloaded.was_registered, unloaded.was_receiver) {
        (true, _) => "unregistered",
        (false, true) => "no longer receives: its companion program is detached",
        (false, false) => "was no longer registered; its remains are removed",
    };
    writeln!(out, "\"{name}\" {what}")?;
    unloaded.notes.iter().for_each(|phrase| note(phrase));
    Ok(())
}

pub fn write_holders(out: &mut impl Write, holders: &[Holder]) -> io::Result<()> {
    let rows = holders.iter().map(|Holder { pid, command, sockets, listening, netns, .. }| {
        let pid = pid.map_or("-".into(), |pid| pid.to_string());
        [pid, command.clone(), sockets.to_string(), listening.to_string(), netns.to_string()]
    });
    write_columns(out, ["pid", "command", "sockets", "listening", "netns"], rows)
}

fn end_orphans(out: &mut impl Write) -> Result<()> {
    for process in process::end_orphans()? {
        writeln!(out, "process {} of a dead run ended", process.pid)?;
    }
    Ok(())
}

fn sweep_cgroups(out: &mut impl Write) -> Result<()> {
    if cgroup::mount_point().is_err() {
        return Ok(());
    }
    for path in cgroup::sweep_stale()? {
        writeln!(out, "cgroup {} of a dead run removed", path.display())?;
    }
    Ok(())
}
