//! `tccc upgrade` and `tccc rollback`: replace the code under a loaded name without a gap, and restore it.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::confirm::TRIALS;
use super::guard::{forecast, guard_command};
use super::load::{TrialShare, find};
use super::risk::{Acceptance, AlgorithmRisk, is_given_unasked};
use crate::cli::effect::Effect;
use crate::cli::output::{note, results};
use host::gate;
use host::loader::upgrade::Upgraded;
use host::loader::{self, Request};
use host::policy::change;
use host::policy::migrate::Refreshes;
use host::policy::needs::PolicyNeeds;
use host::policy::rule::Portion;
use host::state::Record;
use host::trial::ShareTrial;
use shared::catalog::Algorithm;
use shared::catalog::tunable::Setting;
use shared::failure::Failure;
use shared::kernel::privilege::{self, Capability};
use shared::kernel::probe::Features;
use shared::sanitize::count;
use shared::units::{format_duration, time_within};

/// Needed to update sockets and defaults in every network namespace.
const RIGHTS: [Capability; 2] = [Capability::NetAdmin, Capability::SysAdmin];

/// Replace the code of a loaded algorithm without a gap
///
/// New connections get the new code, also from listening sockets and the defaults of network namespaces. Open connections
/// keep the old code until they close, unless `--sockets` is given. `tccc rollback` restores the old code, which stays in the
/// kernel. Kernels before 6.4 cannot swap code. There the name is missing for a moment, and choosing it fails.
///
/// If the name is the default or a rule gives it, first prints its risk. Code whose risk is
/// high or not measured then needs `--trial` or `--accept-risk`.
///
/// With `--trial`, some of the new connections get the new code, under its own name, until `tccc confirm`.
///
/// Example: `tccc upgrade dtcp --set keep_avoidance=896 --trial 10m --guard 'retransmitted<1.2x'`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The name of the loaded algorithm
    name: String,
    /// The new code: an algorithm of `tccc list`, or an object file; by default the present algorithm
    #[arg(value_name = "ID|FILE.bpf.o")]
    algorithm: Option<String>,
    /// Value of a tunable, in its own unit; may be repeated
    #[arg(long = "set", value_name = "TUNABLE=VALUE")]
    settings: Vec<String>,
    /// Try it for this time, such as 10m; undone unless you run `tccc confirm` first
    #[arg(long, value_name = "TIME", value_parser = time_within(TRIALS))]
    trial: Option<Duration>,
    #[command(flatten)]
    share: TrialShare,
    #[command(flatten)]
    acceptance: Acceptance,
    /// Also give open connections the new code; they keep their window but lose the algorithm's private state
    #[arg(long, conflicts_with = "trial")]
    sockets: bool,
    /// Print each change without making it
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Restore the code that an upgrade replaced
///
/// New connections get that code, as with `tccc upgrade`. A second rollback undoes the first.
///
/// Example: `tccc rollback dtcp`
#[derive(Debug, clap::Args)]
pub struct Rollback {
    /// The name of the loaded algorithm
    name: String,
    /// Also give open connections that code
    #[arg(long)]
    sockets: bool,
    /// Print each change without making it
    #[arg(short = 'n', long)]
    dry_run: bool,
}

impl Args {
    pub fn effect(&self) -> Effect {
        let undo = match self.trial {
            Some(_) => "`tccc policy abort` undoes it".to_owned(),
            None => format!("`tccc rollback {}` undoes it", self.name),
        };
        Effect::change(self.dry_run, undo)
    }

    /// # Errors
    /// The name is not loaded; a wrong argument; a refusal of the kernel.
    pub fn run(&self) -> Result<()> {
        privilege::require(&format!("upgrade \"{}\"", self.name), &RIGHTS)?;
        let features = Features::probe()?;
        let record = loader::upgrade::check(&self.name, &features, false)?;
        // An absolute path contains `/`, so `find` takes it for a file.
        let path = |file: &PathBuf| std::path::absolute(file).unwrap_or_else(|_| file.clone()).display().to_string();
        let same = || record.file.as_ref().map_or(record.algorithm.clone(), path);
        let wanted = self.algorithm.clone().unwrap_or_else(same);
        let (algorithm, file) = find(&wanted)?;
        let settings = self.settings(&algorithm, &record)?;
        let request = Request { algorithm: &algorithm, name: &self.name, settings: &settings, file, cgroup: None };
        if !features.link_update {
            note(&format!(
                "this kernel cannot swap code under a name: \"{}\" is not there for a moment, in which programs that ask for it \
                 are refused; rules and the default have the new code meanwhile",
                self.name
            ));
        }
        if self.trial.is_none() && !self.share.is_empty() {
            let what = "`--percent` and `--guard` are for a trial";
            return Err(Failure::usage(what).hint("add `--trial TIME`").into());
        }
        self.admit(&request, &record)?;
        let mut out = results();
        if self.dry_run {
            PolicyNeeds::now()?.refuse_new_code()?;
            loader::verify(&request, &features)?;
            writeln!(out, "the new code passes the verifier; upgrading \"{}\" would", self.name)?;
            return match self.trial {
                Some(patience) => write_trial_plan(&mut out, &self.name, self.share.portion()?, patience),
                None => write_plan(&mut out, &self.name, "the new code", self.sockets),
            };
        }
        let Some(patience) = self.trial else {
            return write_done(&mut out, &gate::upgrade(&request, &features, self.sockets)?);
        };
        let portion = self.share.portion()?;
        let trial = ShareTrial { patience, portion, limits: self.share.trial() };
        let applied = gate::try_upgrade(&request, &features, &trial, &mut guard_command())?;
        forecast(&mut out, &applied.generation.policy, Some(patience))?;
        let (name, time) = (&self.name, format_duration(patience));
        writeln!(out, "{portion} of the new connections with \"{name}\" get the new code, for {time}")?;
        note(&format!("undone in {time} unless `tccc confirm {name}` follows"));
        Ok(())
    }

    /// Notes the risk if connections get the new code unasked.
    ///
    /// # Errors
    /// The risk is high, and neither accepted nor on trial.
    fn admit(&self, request: &Request, record: &Record) -> Result<(), Failure> {
        let is_another = self.sockets && request.algorithm.id != record.algorithm;
        if !is_another && !is_given_unasked(&self.name) {
            return Ok(());
        }
        let what = format!("upgrade \"{}\", which connections get without choosing it", self.name);
        let risk = AlgorithmRisk::new(&self.name, request.algorithm, request.settings);
        risk.admit(&what, "try it with `--trial 10m`", self.acceptance.accepts || self.trial.is_some())
    }

    /// The present tunables unless the algorithm changes, overridden by `--set`.
    fn settings(&self, algorithm: &Algorithm, record: &Record) -> Result<Vec<Setting>, Failure> {
        let given = algorithm.settings(&self.settings)?;
        let is_given = |name: &String| given.iter().any(|setting| setting.name == *name);
        let kept = record.tunables.iter().filter(|(name, _)| self.algorithm.is_none() && !is_given(name));
        let mut settings = algorithm.recorded(kept)?;
        settings.extend(given);
        Ok(settings)
    }
}

impl Rollback {
    pub fn effect(&self) -> Effect {
        Effect::change(self.dry_run, format!("`tccc rollback {}` undoes it", self.name))
    }

    /// # Errors
    /// The name is not loaded; no earlier code is kept.
    pub fn run(&self) -> Result<()> {
        privilege::require(&format!("roll back \"{}\"", self.name), &RIGHTS)?;
        let features = Features::probe()?;
        let mut out = results();
        if self.dry_run {
            PolicyNeeds::now()?.refuse_new_code()?;
            loader::upgrade::check(&self.name, &features, true)?;
            writeln!(out, "rolling back \"{}\" would", self.name)?;
            return write_plan(&mut out, &self.name, "the code before", self.sockets);
        }
        write_done(&mut out, &gate::rollback(&self.name, &features, self.sockets)?)
    }
}

fn write_plan(out: &mut impl Write, name: &str, code: &str, sockets: bool) -> Result<()> {
    let generation = match change::current()? {
        Some(generation) => format!("; policy generation {} stays", generation.number),
        None => String::new(),
    };
    writeln!(out, "  point the name \"{name}\" to {code}{generation}")?;
    writeln!(out, "  keep the code that it has now, for `tccc rollback {name}`")?;
    writeln!(out, "  write \"{name}\" again where it is the default of a network namespace")?;
    let which = if sockets { "listening sockets and open connections" } else { "listening sockets" };
    writeln!(out, "  give {which} with \"{name}\" that code")?;
    Ok(())
}

fn write_trial_plan(out: &mut impl Write, name: &str, portion: Portion, patience: Duration) -> Result<()> {
    let time = format_duration(patience);
    writeln!(out, "  load it beside the code of \"{name}\", under a name of its own")?;
    writeln!(out, "  give it to {portion} of the new connections that would get \"{name}\", for {time}")?;
    writeln!(out, "  start a process that guards it and undoes all this")?;
    writeln!(out, "  with `tccc confirm {name}`, point the name \"{name}\" to it")?;
    Ok(())
}

fn write_done(out: &mut impl Write, (upgraded, refreshes): &(Upgraded, Refreshes)) -> Result<()> {
    let record = &upgraded.record;
    upgraded.adapted.iter().for_each(|phrase| note(phrase));
    let title = if record.title.is_empty() { &record.algorithm } else { &record.title };
    let before = record.previous.as_ref().map_or(String::new(), |code| format!(" (was {})", code.generation));
    writeln!(out, "\"{}\": generation {}{before}: {title}", record.name, record.generation)?;
    if !upgraded.defaults.is_empty() {
        let namespaces = count(upgraded.defaults.len(), "network namespace");
        writeln!(out, "the default of {namespaces} follows: {}", upgraded.defaults.join(", "))?;
    }
    if refreshes.listening + refreshes.open > 0 {
        let listening = count(refreshes.listening as usize, "listening socket");
        let open = count(refreshes.open as usize, "open connection");
        writeln!(out, "new code given to {listening} and {open}")?;
    }
    if refreshes.failed > 0 {
        note(&format!("the kernel refused to give {} sockets that code: they keep the old one", refreshes.failed));
    }
    upgraded.notes.iter().for_each(|phrase| note(phrase));
    Ok(())
}
