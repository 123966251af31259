//! `tccc load`: register an algorithm with the kernel so that it outlives this command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::confirm::{TRIALS, start_guard};
use super::guard::{forecast, guard_command};
use super::risk::{Acceptance, AlgorithmRisk, is_given_unasked, note_patents};
use crate::cli::effect::Effect;
use crate::cli::output::{note, results, warn};
use host::gate;
use host::loader::confirm::UndoGuard;
use host::loader::{self, LoadOptions, LoadedAlgorithm, Request};
use host::policy::change;
use host::policy::rule::{Allowed, GuardLimit, Portion, RuleTrial};
use host::state::Store;
use host::trial::{ShareTrial, rules};
use shared::catalog::{self, Algorithm, Companion};
use shared::failure::Failure;
use shared::kernel::netns::Netns;
use shared::kernel::probe::Features;
use shared::kernel::{congestion, offload};
use shared::units::{format_duration, time_within};

/// Register an algorithm with the kernel, until `tccc unload`
///
/// Sockets can then choose it by name (`iperf3 -C dtcp`). With `--default`, every socket that chooses none gets it.
/// Tunables are whole numbers in the unit that `tccc show` gives; each has its own range. `tccc unload` undoes everything.
///
/// With `--default`, first prints its risk. An algorithm whose risk is high or not measured
/// needs `--confirm` or `--accept-risk` to become the default. A patented one needs `--accept-risk`. `tccc list --help`
/// explains the risk.
///
/// With `--default --confirm`, a rule gives it to new connections for that time. `tccc confirm` then changes the default. If
/// the process that guards the trial dies, the rule ends within 15 s.
///
/// Example: `tccc load dtcp --as dtcp_mild --set keep_avoidance=896`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An algorithm of `tccc list`, or your own object file; FILE:TABLE if it has several ops tables
    #[arg(value_name = "ID|FILE.bpf.o[:TABLE]")]
    algorithm: String,
    /// Name in the kernel, at most 15 letters, digits and _
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Value of a tunable, in its own unit; may be repeated
    #[arg(long = "set", value_name = "TUNABLE=VALUE")]
    settings: Vec<String>,
    /// Also make it the default algorithm of this host; `tccc unload` restores the previous one
    #[arg(long)]
    default: bool,
    /// Replace the algorithm that is loaded under this name; open sockets keep the old code
    #[arg(long)]
    replace: bool,
    /// Attach only the companion program, on a host that receives; registers no algorithm
    #[arg(long, conflicts_with_all = ["default", "replace", "settings"])]
    receiver: bool,
    /// Attach the companion program to this cgroup [default: the root cgroup, which covers every socket]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,
    /// Undo everything after this time, such as 60s, unless you run `tccc confirm` first
    #[arg(long, value_name = "TIME", conflicts_with = "replace", value_parser = time_within(TRIALS))]
    confirm: Option<Duration>,
    #[command(flatten)]
    share: TrialShare,
    #[command(flatten)]
    acceptance: Acceptance,
    /// Run the kernel's verifier and print each change without making it
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Which connections a trial gives new code, and what ends it.
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

    /// Defaults to half of the connections if a limit compares with the others.
    ///
    /// # Errors
    /// Such a limit with all connections.
    pub fn portion(&self) -> Result<Portion, Failure> {
        let relative = self.limits.iter().find(|limit| matches!(limit.allowed, Allowed::Relative(_)));
        match (self.percent, relative) {
            (Some(Portion::ALL), Some(limit)) => {
                let what = format!("--guard {limit}: with `--percent 100` no connection is left to compare with");
                Err(Failure::usage(what).hint("give less than 100, or an absolute limit such as retransmitted<2%"))
            }
            (Some(portion), _) => Ok(portion),
            (None, Some(_)) => Ok(Portion(Portion::ALL.0 / 2)),
            (None, None) => Ok(Portion::ALL),
        }
    }

    pub fn trial(&self) -> RuleTrial {
        RuleTrial { limits: self.limits.clone(), ..RuleTrial::default() }
    }
}

fn parse_percent(text: &str) -> Result<Portion, String> {
    let portion = text
        .strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .ok()
        .and_then(Portion::of_percent)
        .filter(|portion| portion.0 > 0);
    portion.ok_or_else(|| "expected a number of percent above 0 and up to 100, with at most two decimals".to_owned())
}

impl Args {
    pub fn effect(&self) -> Effect {
        let name = self.name.as_deref().unwrap_or(&self.algorithm);
        Effect::change(self.dry_run, format!("`tccc unload {name}` undoes it"))
    }

    /// # Errors
    /// A wrong argument; a missing requirement of this host; a refusal of the kernel.
    pub fn run(&self) -> Result<()> {
        let (algorithm, file) = find(&self.algorithm)?;
        let settings = algorithm.settings(&self.settings)?;
        let name = self.name.as_deref().unwrap_or(&algorithm.id);
        let request =
            Request { algorithm: &algorithm, name, settings: &settings, file, cgroup: self.cgroup.as_deref() };
        loader::check_name(name)?;
        self.check_options()?;
        self.admit(&request)?;
        let features = Features::probe()?;
        if !self.dry_run {
            gate::sweep(&features)?;
        }
        if let (true, Some(patience)) = (self.default, self.confirm) {
            return self.try_default(&request, patience, &features);
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
        let load = if self.receiver { gate::load_receiver } else { gate::load };
        let loaded = load(&request, options, &features)?;
        if let Some(Err(too_late)) = guard.map(UndoGuard::release) {
            gate::unload(name, &features)?;
            return Err(too_late);
        }
        self.report(&algorithm, &loaded)?;
        if let Some(trial) = trial {
            let name = &loaded.record.name;
            note(&format!("undone in {} unless `tccc confirm {name}` follows", format_duration(trial)));
        }
        Ok(())
    }

    /// Refuses options that need another option.
    fn check_options(&self) -> Result<(), Failure> {
        let is_trial_of_default = self.default && self.confirm.is_some();
        if !self.share.is_empty() && !is_trial_of_default {
            let what = "`--percent` and `--guard` are for a trial of the default";
            return Err(Failure::usage(what).hint("add `--default --confirm TIME`, or use `tccc policy apply`"));
        }
        if self.acceptance.accepts && !self.default && !self.replace {
            let what = "`--accept-risk` is for giving connections an algorithm that they did not choose";
            return Err(
                Failure::usage(what).hint("add `--default`, or leave it out: programs may choose any loaded algorithm")
            );
        }
        Ok(())
    }

    /// Notes the risk if connections get the algorithm unasked.
    ///
    /// # Errors
    /// The risk is high, and neither accepted nor on trial; the algorithm is patented and would be the default.
    fn admit(&self, request: &Request) -> Result<(), Failure> {
        let Request { algorithm, name, settings, .. } = *request;
        let is_accepted = self.acceptance.accepts;
        let risk = AlgorithmRisk::new(name, algorithm, settings);
        if self.default {
            let what = format!("make \"{name}\" the default");
            risk.admit(&what, "try it with `--confirm 10m`", is_accepted || self.confirm.is_some())?;
            if algorithm.patents().is_some() && !is_accepted {
                let why = format!("cannot {what}: it is patented, for research only");
                let hint = "`tccc show` names the patents; with a licence, add `--accept-risk`";
                return Err(Failure::usage(why).hint(hint));
            }
        } else if self.replace && is_given_unasked(name) {
            let what = format!("replace \"{name}\", which connections get without choosing it");
            risk.admit(&what, "try it with `tccc upgrade NAME --trial 10m`", is_accepted)?;
        }
        Ok(())
    }

    /// Loads the algorithm and adds a rule that gives it to connections that choose none.
    fn try_default(&self, request: &Request, patience: Duration, features: &Features) -> Result<()> {
        let (name, portion) = (request.name, self.share.portion()?);
        let time = format_duration(patience);
        if self.dry_run {
            congestion::check_settable()?;
            let loaded = gate::load(request, LoadOptions { dry_run: true, ..LoadOptions::default() }, features)?;
            self.report(request.algorithm, &loaded)?;
            let base = change::current()?.map(|generation| generation.policy).unwrap_or_default();
            rules::with_default(&base, name, Some(self.share.trial()), portion)?;
            let mut out = results();
            // Plans only the present rules, because the trial's algorithm is not loaded yet.
            change::plan(&base, false)?.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            writeln!(out, "  give it to {portion} of the new connections that choose no algorithm, for {time}")?;
            writeln!(out, "  with `tccc confirm {name}`, set net.ipv4.tcp_congestion_control to \"{name}\"")?;
            return Ok(());
        }
        let trial = ShareTrial { patience, portion, limits: self.share.trial() };
        let (loaded, applied) = gate::try_default(request, features, &trial, &mut guard_command())?;
        self.report(request.algorithm, &loaded)?;
        let mut out = results();
        forecast(&mut out, &applied.generation.policy, Some(patience))?;
        writeln!(out, "{portion} of the new connections that choose no algorithm get \"{name}\", for {time}")?;
        note(&format!("undone in {time} unless `tccc confirm {name}` follows, which makes it the default"));
        Ok(())
    }

    fn report(&self, algorithm: &Algorithm, loaded: &LoadedAlgorithm) -> Result<()> {
        let record = &loaded.record;
        let name = &record.name;
        loaded.adapted.iter().for_each(|phrase| note(phrase));
        note_patents(name, algorithm);
        if algorithm.companion.as_ref().is_some_and(Companion::times_single_packets) {
            warn_of_merged_packets();
        }
        let mut out = results();
        if self.dry_run {
            let what = if self.receiver { "its receiving side" } else { "it" };
            writeln!(out, "\"{name}\" passes the verifier; loading {what} would")?;
            loaded.changes.iter().try_for_each(|change| writeln!(out, "  {change}"))?;
            if let Some(trial) = self.confirm.filter(|_| !self.default) {
                writeln!(out, "  start a process that undoes all this after {}", format_duration(trial))?;
            }
            return Ok(());
        }
        if let Some(attachment) = &record.companion {
            let (program, place) = (&attachment.program, attachment.place());
            let side = if self.receiver { "receiving side" } else { "companion" };
            writeln!(out, "\"{name}\" {side}: \"{program}\" attached to {place}")?;
        }
        if self.receiver {
            return Ok(());
        }
        let title = if record.title.is_empty() { &record.algorithm } else { &record.title };
        let number = record.generation;
        let generation = if number > 1 { format!(", generation {number}") } else { String::new() };
        writeln!(out, "\"{name}\" registered{generation}: {title}")?;
        if let Some(previous) = record.previous_default.as_ref().filter(|_| self.default && self.confirm.is_none()) {
            writeln!(out, "default algorithm: \"{name}\" (was \"{previous}\")")?;
        }
        Ok(())
    }
}

/// Warns of interfaces with generic receive offload (GRO): merged packets lose their spacing.
fn warn_of_merged_packets() {
    let Ok(netns) = Netns::current() else { return };
    let folder = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let is_up =
        |name: &str| std::fs::read_to_string(format!("/sys/class/net/{name}/carrier")).is_ok_and(|it| it == "1\n");
    let is_merging = |name: &str| offload::offloads(&netns, name).is_ok_and(|offloads| offloads.gro);
    let names = folder.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut merging: Vec<String> = names.filter(|name| name != "lo" && is_up(name) && is_merging(name)).collect();
    merging.sort();
    if let Some(first) = merging.first() {
        let what = format!("GRO is on at {}: merged packets cannot be measured", merging.join(", "));
        warn(&what, Some(&format!("on the receiving host: `ethtool -K {first} gro off`")));
    }
}

/// Finds an algorithm by id, or opens a user's object file.
pub fn find(text: &str) -> Result<(Algorithm, Option<&Path>), Failure> {
    let path = Path::new(text);
    let known = catalog::find(text);
    if catalog::is_object_file(text) || (known.is_err() && path.is_file()) {
        let algorithm = catalog::open(path)?;
        if algorithm.title.is_empty() {
            note(&format!("\"{}\" has no description: no title, source or card of tccc", algorithm.id));
        }
        return Ok((algorithm, Some(path)));
    }
    known.map(|algorithm| (algorithm.clone(), None)).map_err(|unknown| {
        if let Some(record) = Store::of_host().record(text) {
            let hint = format!("`tccc status` shows it; `tccc show {text}` shows its card");
            return Failure::usage(record.origin()).hint(hint);
        }
        if congestion::available().is_ok_and(|names| names.iter().any(|name| name == text)) {
            let what = format!("\"{text}\" is the kernel's own: tccc can neither load nor show it");
            return Failure::usage(what).hint("sockets choose it by name; `tccc list` shows what tccc carries");
        }
        unknown
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_is_a_number_with_at_most_one_sign() {
        assert_eq!((parse_percent("5"), parse_percent("5%")), (Ok(Portion(500)), Ok(Portion(500))));
        for wrong in ["", "%", "5%%", "0", "101", "-1", "5 %%", "0.001"] {
            assert!(parse_percent(wrong).is_err(), "{wrong}");
        }
    }
}
