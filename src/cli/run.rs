//! `tccc run`: experiments from scenarios.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::ValueEnum;

use super::progress::{self, Display};
use crate::experiment::algorithms;
use crate::experiment::cost::Jobs;
use crate::experiment::net::LinkDriver;
use crate::experiment::net::netem::Netem;
use crate::experiment::net::netns::Namespaces;
use crate::experiment::net::tunlink::TunLink;
use crate::experiment::part::{Part, Shard};
use crate::experiment::plan::{Choices, Plan, RUNS_MAX};
use crate::experiment::results::ResultDir;
use crate::experiment::runner::{self, Forecast, Options, Outcome};
use crate::experiment::scenario::{Profile, Scenario};
use crate::failure::Failure;
use crate::kernel::probe::has_netem;
use crate::model::run::Engine;
use crate::report;

/// Run experiments: scenario to plan to runs to result directory
///
/// Example: `tccc run scenarios/smoke/loss-sweep.toml --only algorithm=dtcp`. Measures the empty path first and stops
/// where it is not what the scenario asks. Run again with the same --out, an interrupted experiment goes on; so do parts
/// of it by --only and --shard, and more --runs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files, or folders of them; scenarios/README.md describes them
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// Result directory [default: runs/SCENARIO-TIME]; one below it for each of several scenarios
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at once: auto takes as many as this host carries, or a number from 1 to 256
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_jobs)]
    pub jobs: Jobs,
    /// Runs of each cell, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RUNS_MAX)))]
    pub runs: Option<u32>,
    /// Seed of everything random, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Only cells with this value of this sweep variable; repeat for more
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub only: Vec<(String, String)>,
    /// Only the I-th of N shares of the runs, for N hosts; `tccc report` takes all their directories together
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Socket conditions, instead of the scenario's
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// How links are built
    #[arg(long, value_enum, default_value_t = LinkChoice::Auto)]
    pub link: LinkChoice,
    /// Print the plan and its expected time, and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How links are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkChoice {
    /// The kernel's netem where the kernel has it, the user-space emulator elsewhere
    Auto,
    /// The kernel's netem
    Netem,
    /// The user-space emulator
    Tunlink,
}

impl LinkChoice {
    fn driver(self) -> Result<Box<dyn LinkDriver>> {
        Ok(match self {
            LinkChoice::Auto if has_netem() => Box::new(Netem),
            LinkChoice::Netem => Box::new(Netem::on_this_kernel()?),
            LinkChoice::Auto | LinkChoice::Tunlink => Box::new(TunLink),
        })
    }
}

/// Most runs at once: far above what any host carries in time.
const JOBS_MAX: u32 = 256;

fn parse_jobs(text: &str) -> Result<Jobs, String> {
    match (text, text.parse::<u32>()) {
        ("auto", _) => Ok(Jobs::Auto),
        (_, Ok(jobs)) if (1..=JOBS_MAX).contains(&jobs) => Ok(Jobs::Fixed(jobs)),
        _ => Err(format!("expected auto or a number from 1 to {JOBS_MAX}")),
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as loss=0.1%")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Runs every scenario, or prints its plan.
///
/// Errors: a scenario with a mistake; see [`runner::run`]; runs that could not be measured.
/// Side effects: those of [`runner::run`]; the result directories.
pub fn run(args: &Args) -> Result<()> {
    let mut planned = Vec::new();
    for path in scenario_files(&args.scenarios)? {
        let scenario = Scenario::load(&path)?;
        let plan = Plan::new(&scenario, &args.choices())?;
        let cells: BTreeSet<usize> = args.part().runs(&scenario, &plan)?.iter().map(|run| run.cell).collect();
        algorithms::check(&scenario, cells.into_iter().map(|cell| &plan.cells[cell]))?;
        planned.push(Planned { out: PathBuf::new(), scenario, plan });
    }
    name_places(args, &mut planned);
    if args.dry_run {
        for one in &planned {
            ResultDir::check(&one.out, &one.plan, &one.scenario.text)?;
            print_plan(one, args)?;
        }
        return if planned.len() > 1 { print_total(&planned, args) } else { Ok(()) };
    }
    let network = Namespaces::new(args.link.driver()?);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listen for signals")?;
    }
    let mut unmeasured = Vec::new();
    let part = args.part();
    for (index, one) in planned.iter().enumerate() {
        let nth = if planned.len() > 1 { format!(" ({} of {})", index + 1, planned.len()) } else { String::new() };
        let display = Display::new(format!("{}{nth}", one.scenario.name));
        let options = Options { out: one.out.clone(), part: &part, jobs: args.jobs, network: &network, stop: &stop };
        let outcome = run_one(one, &options, &display)?;
        unmeasured.extend(outcome.late.into_iter().chain(outcome.failed.into_iter().map(|(id, _)| id)));
    }
    if unmeasured.is_empty() {
        return Ok(());
    }
    let what = format!("{} runs could not be measured: {}", unmeasured.len(), unmeasured.join(", "));
    Err(Failure::failed(what).hint("run again with the same `--out` and `--jobs 1`").into())
}

/// The files that are asked for: of a folder all its scenarios, by name.
fn scenario_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = fs::read_dir(path).with_context(|| format!("list \"{}\"", path.display()))?;
        let mut inside: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        inside.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        if inside.is_empty() {
            let what = format!("no scenario in \"{}\": it holds no TOML file", path.display());
            return Err(Failure::usage(what).hint("`ls scenarios/*` shows those that come with tccc").into());
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// A scenario with its plan and the directory of its results.
struct Planned {
    out: PathBuf,
    scenario: Scenario,
    plan: Plan,
}

impl Args {
    fn choices(&self) -> Choices {
        Choices { runs: self.runs, seed: self.seed, profile: self.profile, engine: Engine::Kernel }
    }

    fn part(&self) -> Part {
        Part { only: self.only.clone(), shard: self.shard }
    }
}

/// The result directories: as asked, or new ones named after scenario and time; below one for several scenarios, by
/// their names, and by their folders too where names are the same.
fn name_places(args: &Args, planned: &mut [Planned]) {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let now = now.trim_end_matches('Z').replace(':', "-");
    let names: Vec<String> = planned.iter().map(|one| one.scenario.name.clone()).collect();
    let several = planned.len() > 1;
    for one in planned {
        let name = &one.scenario.name;
        one.out = match (&args.out, several) {
            (Some(out), false) => out.clone(),
            (None, false) => Path::new("runs").join(format!("{name}-{now}")),
            (out, true) => {
                let base = out.clone().unwrap_or_else(|| Path::new("runs").join(&now));
                let folder = Path::new(&one.scenario.file).parent().and_then(Path::file_name);
                let is_alone = names.iter().filter(|other| *other == name).count() == 1;
                folder.filter(|_| !is_alone).map_or(base.clone(), |folder| base.join(folder)).join(name)
            }
        };
    }
}

fn run_one(one: &Planned, options: &Options, display: &Display) -> Result<Outcome> {
    let outcome = runner::run(&one.scenario, &one.plan, options, &mut |progress| display.show(&progress));
    display.end();
    let outcome = outcome?;
    for notice in &outcome.notices {
        display.say(&format!("tccc: warning: {notice}"));
    }
    let report = report::load(&options.out)?;
    let text = report::render(&report, report::Format::Text)?;
    io::stdout().write_all(text.as_bytes())?;
    writeln!(io::stdout(), "\nresults: {}", options.out.display())?;
    Ok(outcome)
}

/// Prints what would be done.
fn print_plan(planned: &Planned, args: &Args) -> Result<()> {
    let Planned { scenario, plan, out } = planned;
    let part = args.part();
    let runs = part.runs(scenario, plan)?;
    let forecast = Forecast::new(plan, &runs, &ResultDir::finished_in(out)?, args.jobs);
    let mut text = io::stdout().lock();
    let (profile, seed, repeats) = (plan.profile.name(), plan.seed, plan.repeats);
    writeln!(text, "{}: {}", scenario.name, scenario.title)?;
    writeln!(text, "profile {profile}, seed {seed}, {repeats} runs of {} cells:", plan.cells.len())?;
    for cell in &plan.cells {
        let at: Vec<String> = cell.at.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let flows: Vec<String> = cell.flows.iter().map(|flow| format!("{} by {}", flow.name, flow.algorithm)).collect();
        writeln!(text, "  {}: {} for {}s", at.join(", "), flows.join(", "), cell.duration.as_secs())?;
    }
    let part =
        if runs.len() < plan.runs.len() { format!(", {} of {}", runs.len(), plan.runs.len()) } else { "".into() };
    writeln!(text, "order of runs{part}:")?;
    for run in &runs {
        writeln!(text, "  {}  seed {}", run.id, run.seed)?;
    }
    let place =
        if args.out.is_some() { format!("\"{}\"", out.display()) } else { "a new directory below runs/".into() };
    writeln!(text, "to do: {}", progress::sentence(&forecast))?;
    writeln!(text, "results would go to {place}; nothing was changed")?;
    Ok(())
}

/// Prints how long all scenarios take, one after the other.
fn print_total(planned: &[Planned], args: &Args) -> Result<()> {
    let mut total = Duration::ZERO;
    for one in planned {
        let runs = args.part().runs(&one.scenario, &one.plan)?;
        let finished = ResultDir::finished_in(&one.out)?;
        total += Forecast::new(&one.plan, &runs, &finished, args.jobs).expected;
    }
    writeln!(io::stdout(), "{} scenarios: about {}", planned.len(), progress::seconds(total))?;
    Ok(())
}
