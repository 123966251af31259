//! `tccc load`: register an algorithm with the kernel so that it outlives this command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::capabilities;
use super::confirm::{parse_trial, start_guard};
use super::guard::{forecast, guard_command};
use super::risk::{Acceptance, Given, is_given_unasked};
use crate::catalog::{self, Algorithm, Setting};
use crate::cli::output::{note, warn};
use crate::failure::Failure;
use crate::kernel::netns::Netns;
use crate::kernel::probe::Features;
use crate::kernel::{congestion, offload};
use crate::loader::confirm::UndoGuard;
use crate::loader::{self, LoadOptions, LoadedAlgorithm, Request, load};
use crate::policy::change;
use crate::policy::record::TrialSubject;
use crate::policy::rule::{Allowed, GuardLimit, Portion, RuleTrial};
use crate::state::Store;
use crate::trial::{self, TrialPlan, end, overlay};
use crate::units::format_duration;

/// Register an algorithm with the kernel, until `tccc unload`
///
/// Sockets can then choose it by its name (`iperf3 -C dtcp`); with `--default` all that choose none get it. Tunables are
/// whole numbers in the unit that `tccc show` gives; each has its own range.
///
/// With `--default` it first says what the algorithm does to its neighbours. One whose risk is high, or not measured, is made
/// the default only with `--confirm` or `--accept-risk`; `tccc list --help` has the rule.
///
/// With `--default --confirm` a rule gives it to new connections for that time, and the default itself is changed when
/// `tccc confirm` follows. When the process that guards the trial dies, the rule ends within 15 s.
///
/// Example: `tccc load dtcp --as dtcp_mild --set keep_avoidance=896`
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("load", " It pins in the BPF file system, and records below /run/tccc."))]
pub struct Args {
    /// An algorithm of `tccc list`, or an object file of your own; FILE:TABLE where it has several ops tables
    #[arg(value_name = "ID|FILE.bpf.o[:TABLE]")]
    algorithm: String,
    /// Name in the kernel, at most 15 letters, digits and _
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Value of a tunable, in its own unit; may be given several times
    #[arg(long = "set", value_name = "TUNABLE=VALUE")]
    settings: Vec<String>,
    /// Also make it the default algorithm of this host; `tccc unload` restores the one before
    #[arg(long)]
    default: bool,
    /// Replace the algorithm that is loaded under this name; open sockets keep the old code
    #[arg(long)]
    replace: bool,
    /// Set up the receiving side alone, for an algorithm whose senders need one; registers nothing
    #[arg(long, conflicts_with_all = ["default", "replace", "settings"])]
    receiver: bool,
    /// Where to attach an algorithm's companion program, below the cgroup v2 mount; without it for every socket
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Undo everything after this time, such as 60s, unless you run `tccc confirm` before
    #[arg(long, value_name = "TIME", conflicts_with = "replace", value_parser = parse_trial)]
    confirm: Option<Duration>,
    #[command(flatten)]
    share: TrialShare,
    #[command(flatten)]
    acceptance: Acceptance,
    /// Have the kernel verify it and print each change that would be made; make none
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Which part of the connections a trial gives new code, and what ends it.
#[derive(Debug, Clone, clap::Args)]
pub struct TrialShare {
    /// Share of the connections that get it on trial, percent [default: 50 with a limit such as 1.2x, else 100]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    percent: Option<Portion>,
    /// End the trial when its connections cross this limit, such as retransmitted<1.2x; may be repeated
    #[arg(long = "guard", value_name = "LIMIT")]
    limits: Vec<GuardLimit>,
}

impl TrialShare {
    pub fn is_empty(&self) -> bool {
        self.percent.is_none() && self.limits.is_empty()
    }

    /// The share; half where something has to be left to compare with.
    ///
    /// Errors: all connections change, and a limit compares with those that do not.
    pub fn portion(&self) -> Result<Portion, Failure> {
        let relative = self.limits.iter().find(|limit| matches!(limit.allowed, Allowed::Relative(_)));
        match (self.percent, relative) {
            (Some(Portion::ALL), Some(limit)) => {
                let what = format!("--guard {limit}: with `--percent 100` nothing is left to compare with");
                Err(Failure::usage(what).hint("give less than 100, or an absolute limit such as retransmitted<2%"))
            }
            (Some(portion), _) => Ok(portion),
            (None, Some(_)) => Ok(HALF),
            (None, None) => Ok(Portion::ALL),
        }
    }

    /// What makes a rule a trial with these limits.
    pub fn trial(&self) -> RuleTrial {
        RuleTrial { limits: self.limits.clone(), ..RuleTrial::default() }
    }
}

const HALF: Portion = Portion(Portion::ALL.0 / 2);

fn parse_percent(text: &str) -> Result<Portion, String> {
    let portion = text.trim_end_matches('%').parse().ok().and_then(Portion::of_percent).filter(|portion| portion.0 > 0);
    portion.ok_or_else(|| "expected a number of percent above 0 and up to 100, with at most two decimals".to_owned())
}

impl Args {
    /// Loads, and prints what was done.
    ///
    /// Errors: wrong words; a need of this host; the kernel's refusal.
    pub fn run(&self) -> Result<()> {
        let (algorithm, file) = find(&self.algorithm)?;
        let settings = algorithm.settings(&self.settings)?;
        let name = self.name.as_deref().unwrap_or(&algorithm.id);
        let request =
            Request { algorithm: &algorithm, name, settings: &settings, file, cgroup: self.cgroup.as_deref() };
        loader::check_name(name)?;
        self.check_options()?;
        self.admit(&algorithm, &settings)?;
        if !self.dry_run {
            trial::sweep()?;
        }
        if let (true, Some(patience)) = (self.default, self.confirm) {
            return self.try_default(&request, patience);
        }
        let trial = self.confirm.filter(|_| !self.dry_run);
        let guard = trial.map(|patience| start_guard(name, patience)).transpose()?;
        let options = LoadOptions {
            make_default: self.default,
            replace: self.replace,
            dry_run: self.dry_run,
            unconfirmed: guard.as_ref().map(UndoGuard::unconfirmed),
            with_policy: false,
        };
        let load = if self.receiver { loader::load_receiver } else { load };
        let features = Features::probe()?;
        let loaded = load(&request, options, &features)?;
        if let Some(Err(too_late)) = guard.map(UndoGuard::release) {
            loader::unload(name, &features)?;
            return Err(too_late);
        }
        self.finish(&algorithm, &loaded)?;
        if let Some(trial) = trial {
            let name = &loaded.record.name;
            note(&format!("undone in {} unless `tccc confirm {name}` follows", format_duration(trial)));
        }
        Ok(())
    }

    /// Errors: options are about what is not asked for.
    fn check_options(&self) -> Result<(), Failure> {
        let is_trial_of_default = self.default && self.confirm.is_some();
        if !self.share.is_empty() && !is_trial_of_default {
            let what = "`--percent` and `--guard` are about a trial of the default";
            return Err(Failure::usage(what).hint("add `--default --confirm TIME`, or use `tccc policy apply`"));
        }
        if self.acceptance.accepts && !self.default && !self.replace {
            let what = "`--accept-risk` is about giving connections what they did not ask for";
            return Err(Failure::usage(what).hint("add `--default`, or leave it out: programs choose what is loaded"));
        }
        Ok(())
    }

    /// Says what is risked where connections get it unasked.
    ///
    /// Errors: the risk is high, and neither accepted nor on trial; a default would be patented.
    fn admit(&self, algorithm: &Algorithm, settings: &[Setting]) -> Result<(), Failure> {
        let name = self.name.as_deref().unwrap_or(&algorithm.id);
        let is_allowed = self.acceptance.accepts;
        let given = Given::new(name, algorithm, settings);
        if self.default {
            let what = format!("make \"{name}\" the default");
            given.admit(&what, "try it with `--confirm 10m`", is_allowed || self.confirm.is_some())?;
            if algorithm.patents().is_some() && !is_allowed {
                let why = format!("cannot {what}: it is patented, for research alone");
                return Err(
                    Failure::usage(why).hint("`tccc show` names the patents; with a licence, add `--accept-risk`")
                );
            }
            return Ok(());
        }
        if self.replace && is_given_unasked(name) {
            let what = format!("replace \"{name}\", which connections get unasked");
            return given.admit(&what, "try it with `tccc upgrade NAME --trial 10m`", is_allowed);
        }
        Ok(())
    }

    /// Says what was loaded and what there is to know about it.
    fn finish(&self, algorithm: &Algorithm, loaded: &LoadedAlgorithm) -> Result<()> {
        loaded.adapted.iter().for_each(|phrase| note(phrase));
        if let Some(patents) = algorithm.patents() {
            let name = &loaded.record.name;
            note(&format!("\"{name}\" is patented, for research alone: {}", patents.replace('\n', " ")));
        }
        self.report(loaded)?;
        if algorithm.companion.as_ref().is_some_and(|companion| companion.times_single_packets) {
            warn_of_merged_packets();
        }
        Ok(())
    }

    /// Loads it, and gives it by a rule to connections that choose none; the default is changed by `tccc confirm`.
    fn try_default(&self, request: &Request, patience: Duration) -> Result<()> {
        congestion::check_settable()?;
        let (name, portion) = (request.name, self.share.portion()?);
        let features = Features::probe()?;
        // Until it is confirmed it stays only as long as a rule names it.
        let options = LoadOptions { dry_run: self.dry_run, with_policy: true, ..LoadOptions::default() };
        let loaded = load(request, options, &features)?;
        self.finish(request.algorithm, &loaded)?;
        let current = change::current()?;
        let file = current.as_ref().and_then(|generation| generation.file.clone());
        let base = current.map(|generation| generation.policy).unwrap_or_default();
        let policy = overlay::with_default(&base, name, Some(self.share.trial()), portion);
        let time = format_duration(patience);
        let mut out = io::stdout().lock();
        if self.dry_run {
            policy?;
            // Of the rules that are there: the algorithm that the trial adds is not loaded yet.
            change::plan(&base, false)?.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            writeln!(out, "  give it to {portion} of the new connections that choose none, for {time}")?;
            writeln!(out, "  with `tccc confirm {name}`, set net.ipv4.tcp_congestion_control to \"{name}\"")?;
            return Ok(());
        }
        let begun = policy.and_then(|policy| {
            forecast(&mut out, &policy, Some(patience))?;
            let subject = TrialSubject::Default { name: name.to_owned() };
            let loaded = vec![name.to_owned()];
            let plan = TrialPlan { subject, policy, patience: Some(patience), live: false, loaded };
            trial::begin(&plan, file.as_deref(), &mut guard_command())
        });
        if let Err(error) = begun {
            let _ = end::unload_all(&[name.to_owned()]); // the trial has done so unless it never came to begin
            return Err(error);
        }
        writeln!(out, "{portion} of the new connections that choose no algorithm get \"{name}\", for {time}")?;
        note(&format!("undone in {time} unless `tccc confirm {name}` follows, which makes it the default"));
        Ok(())
    }

    fn report(&self, loaded: &LoadedAlgorithm) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.dry_run {
            let what = if self.receiver { "its receiving side" } else { "it" };
            writeln!(out, "\"{}\" passes the verifier; loading {what} would", loaded.record.name)?;
            loaded.changes.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            if let Some(trial) = self.confirm.filter(|_| !self.default) {
                writeln!(out, "  start a process that undoes all this after {}", format_duration(trial))?;
            }
            return Ok(());
        }
        let record = &loaded.record;
        if let Some(attachment) = &record.companion {
            let (program, cgroup) = (&attachment.program, attachment.cgroup.display());
            let sides = if self.receiver { "receiving side" } else { "companion" };
            writeln!(out, "\"{}\" {sides}: \"{program}\" attached to the cgroup {cgroup}", record.name)?;
        }
        if self.receiver {
            return Ok(());
        }
        let title = if record.title.is_empty() { &record.algorithm } else { &record.title };
        let generation =
            if record.generation > 1 { format!(", generation {}", record.generation) } else { String::new() };
        writeln!(out, "\"{}\" registered{generation}: {title}", record.name)?;
        if let Some(previous) = record.previous_default.as_ref().filter(|_| self.default && self.confirm.is_none()) {
            writeln!(out, "default algorithm: \"{}\" (was \"{previous}\")", record.name)?;
        }
        Ok(())
    }
}

/// The interfaces of this namespace whose driver merges what arrives: what is timed there is not the path.
fn warn_of_merged_packets() {
    let Ok(netns) = Netns::current() else { return };
    let folder = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let is_up =
        |name: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/carrier")).is_ok_and(|it| it == "1\n");
    let names = folder.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = names.filter(|name| name != "lo" && is_up(name));
    let mut merging: Vec<String> =
        names.filter(|name| offload::offloads(&netns, name).is_ok_and(|offloads| offloads.gro)).collect();
    merging.sort();
    if let Some(first) = merging.first() {
        let what = format!("GRO is on at {}: packets that arrive merged measure nothing", merging.join(", "));
        warn(&what, Some(&format!("on the receiving host: `ethtool -K {first} gro off`")));
    }
}

/// An algorithm by id, or a user's file where the text looks like one or is one.
///
/// Errors: no such algorithm; the file is none.
pub fn find(text: &str) -> Result<(Algorithm, Option<&Path>), Failure> {
    let path = Path::new(text);
    let known = catalog::find(text);
    if catalog::is_object_file(text) || (known.is_err() && path.is_file()) {
        let algorithm = catalog::open(path)?;
        if algorithm.title.is_empty() {
            note(&format!("\"{}\" does not describe itself: no title, source or card of tccc in it", algorithm.id));
        }
        return Ok((algorithm, Some(path)));
    }
    let unknown = match known {
        Ok(algorithm) => return Ok((algorithm.clone(), None)),
        Err(unknown) => unknown,
    };
    if let Some(record) = Store::of_host().record(text) {
        return Err(
            Failure::usage(record.origin()).hint(format!("`tccc status` shows it; `tccc show {text}` its card"))
        );
    }
    if congestion::available().is_ok_and(|names| names.iter().any(|name| name == text)) {
        let what = format!("\"{text}\" is the kernel's own: tccc can neither load nor show it");
        return Err(Failure::usage(what).hint("sockets choose it by name; `tccc list` shows what tccc carries"));
    }
    Err(unknown)
}
