//! `tccc policy apply`: make a policy decide, for good or on trial.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::Result;

use super::file::File;
use crate::catalog;
use crate::cli::output::note;
use crate::cli::verbs::capabilities;
use crate::cli::verbs::confirm::parse_trial;
use crate::cli::verbs::guard::{forecast, guard_command};
use crate::cli::verbs::risk::{Acceptance, Given};
use crate::failure::Failure;
use crate::plain::count;
use crate::policy::change::{self, Applied};
use crate::policy::generation::GenerationRole;
use crate::policy::record::TrialSubject;
use crate::policy::rule::{Allowed, GuardLimit, Policy, RuleTrial, Treatment};
use crate::policy::sweep::Moves;
use crate::trial::{self, TrialPlan};
use crate::units::format_duration;

/// Replace the policy with the rules of a file
///
/// Says first what each algorithm does to its neighbours; one whose risk is high, or not measured, needs a trial or
/// `--accept-risk` (`tccc list --help` has the rule). Algorithms that rules name are loaded with the policy. Connections that are open keep their algorithm, unless `--live`
/// is given. The policy stays until `tccc policy remove` or a reboot.
///
/// A policy is on trial with `--trial`, or where a rule has `guard` or `steps`: a guard process then watches it. When a limit
/// is crossed, when nobody confirms in time, or when the guard dies, new connections are decided as before within 15 s.
///
/// Example: `tccc policy apply web.toml --trial 10m --guard 'retransmitted<1.2x'`, then `tccc confirm`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("policy apply", " It needs cgroup v2, too."))]
pub struct Args {
    #[command(flatten)]
    file: File,
    /// Undo everything after this time, such as 10m, unless you run `tccc confirm` before
    #[arg(long, value_name = "TIME", value_parser = parse_trial)]
    trial: Option<Duration>,
    /// End the trial when a rule's connections cross this limit, such as retransmitted<1.2x; may be repeated
    #[arg(long = "guard", value_name = "LIMIT", requires = "trial")]
    limits: Vec<GuardLimit>,
    #[command(flatten)]
    acceptance: Acceptance,
    /// Also change the algorithm of open connections; needs CAP_SYS_ADMIN to enter network namespaces
    #[arg(long)]
    live: bool,
    /// Print each change that would be made; make none
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    /// Applies, and says what was done.
    ///
    /// Errors: mistakes in the file; a need of this host; the kernel's refusal.
    pub fn run(&self) -> Result<()> {
        let mut policy = self.file.read()?;
        guard_all(&mut policy, &self.limits)?;
        let is_trial = self.trial.is_some() || policy.rules.iter().any(|rule| rule.trial.is_some());
        self.admit(&policy)?;
        if !self.dry_run {
            trial::sweep()?;
        }
        let mut out = io::stdout().lock();
        if self.dry_run {
            let plan = change::plan(&policy, self.live).map_err(|error| self.file.blamed(error))?;
            writeln!(out, "applying {} would", self.file.file.display())?;
            plan.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            if is_trial {
                writeln!(out, "  start a process that guards it and undoes all this")?;
                forecast(&mut out, &policy, self.trial)?;
            }
            return Ok(());
        }
        let path = self.file.path();
        if !is_trial {
            let applied = change::apply(&policy, Some(&path), GenerationRole::Permanent, self.live);
            return print(&mut out, &applied.map_err(|error| self.file.blamed(error))?);
        }
        forecast(&mut out, &policy, self.trial)?;
        let plan = TrialPlan {
            subject: TrialSubject::Policy,
            policy,
            patience: self.trial,
            live: self.live,
            loaded: Vec::new(),
        };
        let applied = trial::begin(&plan, Some(&path), &mut guard_command());
        print(&mut out, &applied.map_err(|error| self.file.blamed(error))?)?;
        match self.trial {
            Some(patience) => note(&format!("undone in {} unless `tccc confirm` follows", format_duration(patience))),
            None => {
                note("on trial: `tccc status` shows how it goes, `tccc confirm` keeps it, `tccc policy abort` ends it")
            }
        }
        Ok(())
    }
}

impl Args {
    /// Says what each algorithm of the rules does to its neighbours.
    ///
    /// Errors: the risk of one is high, and it is neither accepted nor on trial.
    fn admit(&self, policy: &Policy) -> Result<()> {
        let is_allowed = self.acceptance.accepts || self.trial.is_some();
        let (on_trial, for_good) = policy.rules.iter().cloned().partition(|rule| rule.trial.is_some());
        let for_good = Given::by_rules(&Policy { rules: for_good });
        let on_trial = Given::by_rules(&Policy { rules: on_trial });
        for (given, is_trial) in
            for_good.iter().map(|given| (given, false)).chain(on_trial.iter().map(|given| (given, true)))
        {
            let what = format!("give \"{}\" to connections", given.name);
            let admitted = given.admit(&what, "try it with `--trial 10m`", is_allowed || is_trial);
            admitted.map_err(|failure| self.file.blamed(failure.into()))?;
        }
        Ok(())
    }
}

/// Adds limits to every rule that changes something.
///
/// Errors: a relative limit for a rule under which nothing keeps its algorithm.
fn guard_all(policy: &mut Policy, limits: &[GuardLimit]) -> Result<(), Failure> {
    let is_relative = |limit: &&GuardLimit| matches!(limit.allowed, Allowed::Relative(_));
    for rule in &mut policy.rules {
        let arms = &rule.split.arms;
        let keeps = arms.iter().any(|arm| arm.treatment == Treatment::Keep && arm.portion.0 > 0);
        if limits.is_empty() || arms.iter().all(|arm| arm.treatment == Treatment::Keep) {
            continue;
        }
        if let Some(limit) = limits.iter().find(is_relative).filter(|_| !keeps) {
            let what = format!(
                "--guard {limit}: rule \"{}\" changes every connection, so that none is left to compare with",
                rule.name
            );
            return Err(Failure::usage(what)
                .hint("give `keep` a share of the split, or use an absolute limit such as retransmitted<2%"));
        }
        let trial = rule.trial.get_or_insert_with(RuleTrial::default);
        let added = limits.iter().filter(|limit| !trial.limits.contains(limit)).copied().collect::<Vec<_>>();
        trial.limits.extend(added);
    }
    Ok(())
}

fn print(out: &mut impl io::Write, applied: &Applied) -> Result<()> {
    let generation = &applied.generation;
    applied.loaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" loaded"))?;
    for (name, patents) in applied.loaded.iter().filter_map(|name| Some((name, catalog::find(name).ok()?.patents()?))) {
        note(&format!("\"{name}\" is patented, for research alone: {}", patents.replace('\n', " ")));
    }
    let (number, cgroup) = (generation.number, generation.cgroup.display());
    let rules = count(generation.policy.rules.len(), "rule");
    writeln!(out, "policy generation {number}: {rules} at the cgroup {cgroup}")?;
    applied.unloaded.iter().try_for_each(|name| writeln!(out, "\"{name}\" unloaded: no rule names it now"))?;
    match &applied.moves {
        Some(moves) => write_moves(out, moves)?,
        None => note("open connections keep their algorithm; `--live` moves them too"),
    }
    Ok(())
}

pub(super) fn write_moves(out: &mut impl io::Write, moves: &Moves) -> io::Result<()> {
    let Moves { seen, moved, already, chosen, failed } = moves;
    writeln!(
        out,
        "open connections: {seen} seen, {moved} moved, {already} had it, {chosen} chosen by programs or routes"
    )?;
    if *failed > 0 { writeln!(out, "open connections: {failed} that the kernel refused to move") } else { Ok(()) }
}
