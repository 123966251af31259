//! `tccc run`: experiments from scenarios.

mod blocks;
mod carry;
mod dry;
mod ending;
mod places;
mod progress;
mod publish;
mod stop;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::ValueEnum;

use self::carry::{Call, Carrier};
use self::dry::print_plans;
use self::ending::Ending;
use self::places::{name_places, resumable};
use self::progress::Display;
use self::publish::Publication;
use self::stop::Stop;
use super::capabilities;
use crate::cli::output::{Format, note};
use crate::emulate::LinkDriver;
use crate::emulate::mininet::Mininet;
use crate::emulate::netem::{self, Netem};
use crate::emulate::netns::Namespaces;
use crate::emulate::tunlink::TunLink;
use crate::failure::Failure;
use crate::kernel::probe::has_netem;
use crate::lab::cost::Jobs;
use crate::lab::part::{Part, Shard};
use crate::lab::plan::{Choices, Plan, PlannedRun};
use crate::lab::results::ResultDir;
use crate::lab::runner;
use crate::lab::work::Forecast;
use crate::model::run::Engine;
use crate::policy::change;
use crate::scenario::{Profile, RUNS_MAX, Scenario, algorithm};
use crate::virtual_time::guest::Guest;
use crate::{ns2, virtual_time};

/// Run experiments: scenario to plan to runs to result directory
///
/// Example: `tccc run scenarios/smoke/loss-sweep.toml --only algorithm=dtcp`. Measures the empty path first and stops
/// if it is not what the scenario asks. The same command with the same --out resumes an interrupted experiment, and adds
/// parts of it by --only and --shard, and more --runs. `tccc report --check` tells whether the results match.
///
/// Exit codes: 0 done; 1 failed; 2 wrong request, which fails everywhere; 3 the path is not what the scenario asks; 4 this
/// host lacks something; 5 try again: interrupted, the result directory is in use, or other work delayed every attempt.
#[derive(Debug, clap::Args)]
#[command(after_long_help = capabilities::of("run", " Other engines, and --dry-run, need none."))]
pub struct Args {
    /// Scenario files, or folders of them; scenarios/REFERENCE.md describes them
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
    /// Only the block with this number, as `--dry-run -o json` lists them: all variants of one seed on one path
    #[arg(long, value_name = "N", conflicts_with = "shard", value_parser = clap::value_parser!(u32).range(1..))]
    pub block: Option<u32>,
    /// Publish the block's results in this folder once they are whole; exits 0 at once if they are there already
    #[arg(long, value_name = "DIR", requires = "block", conflicts_with = "out")]
    pub publish: Option<PathBuf>,
    /// Socket conditions, instead of the scenario's
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// What carries the runs out
    #[arg(long, value_enum, default_value_t = EngineChoice::Kernel)]
    pub engine: EngineChoice,
    /// How links are built
    #[arg(long, value_enum, default_value_t = LinkChoice::Auto)]
    pub link: LinkChoice,
    /// What the hosts are built by
    #[arg(long, value_enum, default_value_t = NetworkChoice::Netns)]
    pub network: NetworkChoice,
    /// Print the plan and its expected time, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How `--dry-run` prints the plan
    #[arg(short, long, value_enum, default_value_t = Format::Table, requires = "dry_run")]
    pub output: Format,
}

/// What carries the runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// Linux, over emulated links
    Kernel,
    /// Linux' own TCP in virtual time, with a native build of the same algorithm files; needs no root
    Virtual,
    /// The simulator ns-2 with its own TCP agents, as far as the scenario names them in [ns2]; needs no root
    Ns2,
}

impl EngineChoice {
    fn engine(self) -> Engine {
        match self {
            EngineChoice::Kernel => Engine::Kernel,
            EngineChoice::Virtual => Engine::Virtual,
            EngineChoice::Ns2 => Engine::Ns2,
        }
    }
}

/// How links are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkChoice {
    /// The kernel's netem where the kernel has it and it can do what the scenarios ask, else the user-space emulator
    Auto,
    /// The kernel's netem
    Netem,
    /// The user-space emulator
    Tunlink,
}

/// What the hosts are built by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetworkChoice {
    /// Network namespaces of our own
    Netns,
    /// Mininet, through its Python API
    Mininet,
}

impl LinkChoice {
    /// What builds the links of all these plans.
    ///
    /// Errors: this kernel has no netem, which was asked for.
    fn driver(self, planned: &[Planned]) -> Result<Box<dyn LinkDriver>> {
        let links = planned.iter().flat_map(|one| one.plan.cells.iter().flat_map(|cell| &cell.links));
        let beyond_netem = links.filter_map(|link| netem::check_expressible(&link.directions).err()).next();
        Ok(match self {
            LinkChoice::Auto if has_netem() => match beyond_netem {
                None => Box::new(Netem),
                Some(lack) => {
                    crate::cli::output::note(&format!("links by the user-space emulator: {}", lack.what));
                    Box::new(TunLink)
                }
            },
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
/// Errors: a scenario with a mistake, and what every scenario needs of this host, before anything runs; of several
/// scenarios those that could not be carried out, after all the others; see [`runner::run`]; runs that could not be
/// measured.
/// Side effects: those of [`runner::run`]; the result directories.
pub fn run(args: &Args) -> Result<()> {
    args.check()?;
    let planned = all_planned(args)?;
    match args.block {
        _ if args.dry_run && args.output == Format::Json => blocks::print(&planned, args),
        None => carry_out(planned, &args.part(), args.out.as_deref(), args),
        Some(number) => run_block(number as usize, planned, args),
    }
}

/// Runs one block. A number beyond the last block is no mistake: there may be more machines than blocks.
fn run_block(number: usize, planned: Vec<Planned>, args: &Args) -> Result<()> {
    let Some(block) = blocks::all(&planned, args)?.into_iter().find(|block| block.n == number) else {
        note(&format!("the plan has no block {number}: there is nothing to do"));
        return Ok(());
    };
    let planned: Vec<Planned> = planned.into_iter().skip(block.scenario).take(1).collect();
    let part = Part { block: Some(block.runs), ..args.part() };
    let Some(folder) = args.publish.as_ref().filter(|_| !args.dry_run) else {
        return carry_out(planned, &part, args.out.as_deref(), args);
    };
    let Some(publication) = Publication::begin(folder, number)? else {
        note(&format!("block {number} is in \"{}\" already", folder.display()));
        return Ok(());
    };
    carry_out(planned, &part, Some(&publication.scratch()), args)?;
    writeln!(io::stdout(), "published: {}", publication.publish()?.display())?;
    Ok(())
}

/// Runs a part of each plan, or prints it.
fn carry_out(mut planned: Vec<Planned>, part: &Part, out: Option<&Path>, args: &Args) -> Result<()> {
    let base = name_places(out, &mut planned);
    if args.dry_run {
        return print_plans(&planned, part, args);
    }
    args.check_host()?;
    if args.engine == EngineChoice::Kernel {
        warn_of_policy();
    }
    let stop = Stop::listen()?;
    let call = Call { part, jobs: args.jobs, carrier: args.carrier(&planned)?, stop: stop.flag() };
    let mut ending = Ending::default();
    for (index, one) in planned.iter().enumerate() {
        let nth = if planned.len() > 1 { format!(" ({} of {})", index + 1, planned.len()) } else { String::new() };
        let display = Display::new(format!("{}{nth}", one.scenario.name));
        let result = call.run(one, &display);
        stop.renew();
        // Nothing is left to resume: the scratch directory of a block is removed.
        let is_resumable = stop.is_asked() && args.publish.is_none();
        let result = result.map_err(|error| if is_resumable { resumable(error, &base) } else { error });
        if let (Err(error), true) = (&result, planned.len() > 1) {
            display.say(&format!("tccc: warning: {}{nth}: {error:#}", one.scenario.name));
        }
        ending.take(&one.scenario.name, result, planned.len() == 1 || stop.is_asked())?;
    }
    ending.failure(planned.len()).map_or(Ok(()), |failure| Err(failure.into()))
}

/// A rule that overrides what programs choose would decide the flows of an experiment too.
fn warn_of_policy() {
    let Ok(Some(generation)) = change::current() else { return };
    if let Some(rule) = generation.policy.rules.iter().find(|rule| rule.overrides) {
        let what = format!("rule \"{}\" of this host's policy overrides the algorithms that flows choose", rule.name);
        crate::cli::output::warn(&what, Some("`tccc policy remove`, or give the rule a cgroup or a network namespace"));
    }
}

/// Every scenario that is asked for; of several, those that the simulator has no agents for are left out.
fn all_planned(args: &Args) -> Result<Vec<Planned>> {
    let files = scenario_files(&args.scenarios)?;
    let mut planned = Vec::new();
    for path in &files {
        let scenario = Scenario::load(path, args.engine.engine())?;
        if args.engine == EngineChoice::Ns2 && scenario.ns2.is_none() && files.len() > 1 {
            crate::cli::output::note(&format!("\"{}\" has no [ns2] and is left out", path.display()));
            continue;
        }
        planned.push(plan(&scenario, args)?);
    }
    if planned.is_empty() {
        let failure =
            Failure::usage("cannot simulate: no scenario of these has [ns2], which names the simulator's agents");
        return Err(failure.hint("scenarios/REFERENCE.md, \"Beside the simulator\"").into());
    }
    Ok(planned)
}

/// A scenario as its engine carries it out, checked for what the engine needs.
fn plan(written: &Scenario, args: &Args) -> Result<Planned> {
    let scenario = match args.engine {
        EngineChoice::Kernel | EngineChoice::Virtual => written.clone(),
        EngineChoice::Ns2 => written.simulated()?,
    };
    for lacking in scenario.unmeasurable() {
        crate::cli::output::warn(&lacking.to_string(), lacking.hint.as_deref());
    }
    let plan = Plan::new(&scenario, &args.choices())?;
    let cells: BTreeSet<usize> = args.part().runs(&scenario, &plan)?.iter().map(|run| run.cell).collect();
    let cells = || cells.iter().map(|cell| &plan.cells[*cell]);
    match args.engine {
        EngineChoice::Kernel => algorithm::check(&scenario, Engine::Kernel, cells())?,
        EngineChoice::Virtual => {
            algorithm::check(&scenario, Engine::Virtual, cells())?;
            virtual_time::check(&scenario, cells())?;
        }
        EngineChoice::Ns2 => ns2::check(&plan)?,
    }
    Ok(Planned { out: PathBuf::new(), scenario, plan })
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
        Choices { runs: self.runs, seed: self.seed, profile: self.profile, engine: self.engine.engine() }
    }

    /// Options that do not go together.
    fn check(&self) -> Result<()> {
        let given = [(self.link != LinkChoice::Auto, "link"), (self.network != NetworkChoice::Netns, "network")];
        if let Some((_, option)) = given.iter().find(|(given, _)| *given && self.engine != EngineChoice::Kernel) {
            let engine = self.engine.engine().name();
            let what = format!("`--{option}` is not for `--engine {engine}`, which has {option}s of its own");
            return Err(Failure::usage(what).hint("leave out one of the two").into());
        }
        Ok(())
    }

    /// What every scenario needs of this host, whatever it asks.
    fn check_host(&self) -> Result<()> {
        match self.engine {
            EngineChoice::Kernel => runner::check_host().map(drop),
            EngineChoice::Virtual => Guest::find().map(drop),
            EngineChoice::Ns2 => ns2::version().map(drop),
        }
    }

    fn carrier(&self, planned: &[Planned]) -> Result<Carrier> {
        Ok(match self.engine {
            EngineChoice::Kernel if self.network == NetworkChoice::Mininet => {
                Carrier::Kernel(Box::new(Mininet::on_this_host(self.link.driver(planned)?)?))
            }
            EngineChoice::Kernel => Carrier::Kernel(Box::new(Namespaces::new(self.link.driver(planned)?))),
            EngineChoice::Virtual => {
                if !virtual_time::is_caged() {
                    let what = "this kernel has no Landlock: nothing but your own rights holds a guest back";
                    crate::cli::output::warn(what, Some("run files of others elsewhere; `tccc doctor` has more"));
                }
                Carrier::Virtual(Box::new(Guest::find()?))
            }
            EngineChoice::Ns2 => Carrier::Ns2,
        })
    }

    /// What is left to do of a plan.
    fn forecast(&self, one: &Planned, runs: &[&PlannedRun]) -> Result<Forecast> {
        Ok(self.forecast_beside(one, runs, &ResultDir::finished_in(&one.out)?))
    }

    /// What these runs take, where some are finished.
    fn forecast_beside(&self, one: &Planned, runs: &[&PlannedRun], finished: &BTreeSet<String>) -> Forecast {
        match self.engine {
            EngineChoice::Kernel => runner::forecast(&one.plan, runs, finished, self.jobs),
            EngineChoice::Virtual => virtual_time::forecast(&one.plan, runs, finished, self.jobs),
            EngineChoice::Ns2 => ns2::forecast(&one.plan, runs, finished, self.jobs),
        }
    }

    fn part(&self) -> Part {
        Part { only: self.only.clone(), shard: self.shard, block: None }
    }
}
