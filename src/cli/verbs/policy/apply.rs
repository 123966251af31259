//! `tccc policy apply`: put a policy into force, permanently or on trial.

use std::io::{self, Write as _};

use anyhow::Result;

use super::admission::Admission;
use super::file::PolicyFile;
use crate::cli::effect::Effect;
use crate::cli::output::{note, results};
use crate::cli::verbs::guard::{forecast, guard_command};
use crate::cli::verbs::risk::note_patents;
use host::gate;
use host::policy::change::{self, Applied};
use host::policy::generation::Base;
use host::policy::migrate::Moves;
use host::policy::record::{PolicyOrigin, TrialSubject};
use host::policy::resolve;
use host::trial::TrialPlan;
use shared::catalog;
use shared::kernel::namespaces;
use shared::kernel::probe::Features;
use shared::sanitize::count;
use shared::units::format_duration;

/// Replace the policy with the rules in a file
///
/// First prints the risk of each algorithm. An algorithm whose risk is high or not measured
/// needs a trial or `--accept-risk`; `tccc list --help` explains the risk. Algorithms that rules name are loaded with
/// the policy. Open connections keep their algorithm, unless `--live` is given. The policy stays until `tccc policy
/// remove` or a reboot.
///
/// A policy is on trial with `--trial`, or if a rule has `guard` or `steps`. A guard process then watches it. If a limit is
/// crossed, nobody confirms in time, or the guard dies, new connections use the previous policy within 15 s.
///
/// Example: `tccc policy apply web.toml --trial 10m --guard 'retransmitted<1.2x'`, then `tccc confirm`
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    file: PolicyFile,
    #[command(flatten)]
    admission: Admission,
    /// Also change the algorithm of open connections; needs CAP_SYS_ADMIN to enter network namespaces
    #[arg(long)]
    live: bool,
    /// Print each change without making it
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    pub fn effect(&self) -> Effect {
        Effect::change(self.dry_run, "`tccc policy abort` ends a trial, and `tccc policy remove` removes the policy")
    }

    /// # Errors
    /// Mistakes in the file; a missing requirement of this host; a refusal of the kernel.
    pub fn run(&self) -> Result<()> {
        let policy = self.admission.admit(&self.file, &mut |risk| note(&risk.phrase()))?;
        resolve::absent_cgroups(&policy).iter().for_each(|absent| note(absent));
        let (is_trial, patience) = (self.admission.is_trial(&policy), self.admission.trial);
        if !self.dry_run {
            change::require_rights(&policy, self.live)?;
            gate::sweep(&Features::probe()?)?;
        }
        let mut out = results();
        if self.dry_run {
            let plan = change::plan(&policy, self.live).map_err(|error| self.file.blame(error))?;
            writeln!(out, "applying {} would", self.file.file.display())?;
            plan.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            if is_trial {
                writeln!(out, "  start a process that guards it and undoes all this")?;
                forecast(&mut out, &policy, patience)?;
            }
            return Ok(());
        }
        let origin = PolicyOrigin::command(Some(&self.file.path()));
        if !is_trial {
            let applied = gate::apply_policy(&policy, &origin, self.live);
            return print(&mut out, &applied.map_err(|error| self.file.blame(error))?);
        }
        let (subject, live, loaded) = (TrialSubject::Policy, self.live, Vec::new());
        let plan = TrialPlan { subject, policy, base: Base::Any, patience, live, loaded };
        let applied = gate::begin_trial(&plan, &origin, &mut guard_command());
        print(&mut out, &applied.map_err(|error| self.file.blame(error))?)?;
        forecast(&mut out, &plan.policy, patience)?;
        match patience {
            Some(patience) => note(&format!("undone in {} unless `tccc confirm` follows", format_duration(patience))),
            None => {
                note("on trial: `tccc status` shows how it goes, `tccc confirm` keeps it, `tccc policy abort` ends it")
            }
        }
        Ok(())
    }
}

fn print(out: &mut impl io::Write, applied: &Applied) -> Result<()> {
    let generation = &applied.generation;
    applied.loaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" loaded"))?;
    for (name, algorithm) in applied.loaded.iter().filter_map(|name| Some((name, catalog::find(name).ok()?))) {
        note_patents(name, algorithm);
    }
    let (number, cgroup) = (generation.number, generation.cgroup.display());
    let rules = count(generation.policy.rules.len(), "rule");
    writeln!(out, "policy generation {number}: {rules} at the cgroup {cgroup}")?;
    applied.unloaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" unloaded: no rule names it now"))?;
    if applied.lost_labels {
        note(
            "another version of tccc applied the policy before: connections that it changed now count as chosen by their \
             programs",
        );
    }
    match &applied.moves {
        Some(moves) => write_moves(out, moves)?,
        None => note("open connections keep their algorithm; `--live` moves them too"),
    }
    Ok(())
}

pub(super) fn write_moves(out: &mut impl io::Write, moves: &Moves) -> io::Result<()> {
    let Moves { seen, moved, already, chosen, failed, hidden } = moves;
    writeln!(
        out,
        "open connections: {seen} seen, {moved} moved, {already} had it, {chosen} chosen by programs or routes"
    )?;
    if *hidden > 0 {
        note(&format!("{}: connections there keep their algorithm", namespaces::uninspected(*hidden)));
    }
    if *failed > 0 { writeln!(out, "open connections: {failed} that the kernel refused to move") } else { Ok(()) }
}
