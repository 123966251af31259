//! `tccc run`: experiments from scenarios.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::experiment::algorithms;
use crate::experiment::cost::{self, Jobs, Limit};
use crate::experiment::net::LinkDriver;
use crate::experiment::net::netem::Netem;
use crate::experiment::net::netns::Namespaces;
use crate::experiment::net::tunlink::TunLink;
use crate::experiment::plan::{Choices, Plan, RUNS_MAX};
use crate::experiment::results::ResultDir;
use crate::experiment::runner::{self, Options, Outcome, Progress};
use crate::experiment::scenario::{Profile, Scenario};
use crate::failure::Failure;
use crate::kernel::probe::has_netem;
use crate::report;

/// Run experiments: scenario to plan to runs to result directory
///
/// Example: `tccc run scenarios/smoke/loss-sweep.toml --only algorithm=dtcp`. Measures the empty path first and stops
/// where it is not what the scenario asks. Run again with the same --out, an interrupted experiment goes on.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files; scenarios/README.md describes them
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
    for path in &args.scenarios {
        let scenario = Scenario::load(path)?;
        let plan = Plan::new(&scenario, &choices(args))?;
        algorithms::check(&scenario, &plan)?;
        planned.push((scenario, plan));
    }
    if args.dry_run {
        return planned.iter().try_for_each(|(scenario, plan)| {
            ResultDir::check(&out_of(args, scenario, planned.len()), plan, &scenario.text)?;
            print_plan(scenario, plan, args)
        });
    }
    let network = Namespaces::new(args.link.driver()?);
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("listen for signals")?;
    }
    let mut unmeasured = Vec::new();
    for (scenario, plan) in &planned {
        let out = out_of(args, scenario, planned.len());
        let outcome = run_one(scenario, plan, &Options { out, jobs: args.jobs, network: &network, stop: &stop })?;
        unmeasured.extend(outcome.late.into_iter().chain(outcome.failed.into_iter().map(|(id, _)| id)));
    }
    if unmeasured.is_empty() {
        return Ok(());
    }
    let what = format!("{} runs could not be measured: {}", unmeasured.len(), unmeasured.join(", "));
    Err(Failure::failed(what).hint("run again with the same `--out` and `--jobs 1`").into())
}

fn choices(args: &Args) -> Choices {
    Choices { runs: args.runs, seed: args.seed, profile: args.profile, only: args.only.clone() }
}

/// The result directory: as asked, below it for several scenarios, or a new one named after scenario and time.
fn out_of(args: &Args, scenario: &Scenario, scenarios: usize) -> PathBuf {
    match &args.out {
        Some(out) if scenarios > 1 => out.join(&scenario.name),
        Some(out) => out.clone(),
        None => {
            let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
            let now = now.trim_end_matches('Z').replace(':', "-");
            Path::new("runs").join(format!("{}-{now}", scenario.name))
        }
    }
}

fn run_one(scenario: &Scenario, plan: &Plan, options: &Options) -> Result<Outcome> {
    let display = Display::new();
    let outcome = runner::run(scenario, plan, options, &mut |progress| display.show(&progress));
    display.bar.finish_and_clear();
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

/// Progress on stderr: a bar on a terminal, sentences for what went wrong.
struct Display {
    bar: ProgressBar,
}

impl Display {
    fn new() -> Self {
        let bar = ProgressBar::hidden();
        if !super::is_quiet() {
            bar.set_draw_target(ProgressDrawTarget::stderr()); // hides itself where stderr is no terminal
        }
        bar.set_style(ProgressStyle::with_template("{spinner} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Display { bar }
    }

    fn say(&self, line: &str) {
        if !super::is_quiet() {
            self.bar.suspend(|| eprintln!("{line}"));
        }
    }

    fn show(&self, progress: &Progress) {
        match progress {
            Progress::Calibrating(place) => self.bar.set_message(format!("measuring the empty path: {place}")),
            Progress::Begins { to_do, finished, expected } => self.begin(*to_do, *finished, *expected),
            Progress::Finished(id) => {
                self.bar.set_message(id.clone());
                self.bar.inc(1);
            }
            Progress::Again { id, attempt, why, last: false } => {
                self.say(&format!("tccc: warning: {id}: attempt {attempt} does not count and is repeated: {why}"));
            }
            Progress::Again { id, attempt, why, last: true } => {
                self.say(&format!("tccc: warning: {id}: given up after {attempt} attempts: {why}"));
            }
        }
    }

    fn begin(&self, to_do: usize, finished: usize, expected: Duration) {
        let before = if finished > 0 { format!(", {finished} finished before") } else { String::new() };
        let expected = humantime::format_duration(Duration::from_secs(expected.as_secs()));
        self.say(&format!("tccc: note: {to_do} runs{before}, about {expected}"));
        let template = "{bar:30} {pos}/{len} runs, {elapsed} of about {prefix}, {eta} left  {msg}";
        self.bar.set_prefix(expected.to_string());
        self.bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.bar.set_length(to_do as u64);
    }
}

/// Prints what would be done.
fn print_plan(scenario: &Scenario, plan: &Plan, args: &Args) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}: {}", scenario.name, scenario.title)?;
    writeln!(
        out,
        "profile {}, seed {}, {} runs of {} cells:",
        plan.profile.name(),
        plan.seed,
        plan.repeats,
        plan.cells.len()
    )?;
    for cell in &plan.cells {
        let at: Vec<String> = cell.at.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let flows: Vec<String> = cell.flows.iter().map(|flow| format!("{} by {}", flow.name, flow.algorithm)).collect();
        writeln!(out, "  {}: {} for {}s", at.join(", "), flows.join(", "), cell.duration.as_secs())?;
    }
    writeln!(out, "order of runs:")?;
    for run in &plan.runs {
        writeln!(out, "  {}  seed {}", run.id, run.seed)?;
    }
    let limit = Limit::of(args.jobs, runner::processors());
    let costs = plan.runs.iter().map(|run| &plan.cells[run.cell]);
    let time = cost::total_time(costs.map(|cell| (cost::traffic_bps(cell), cost::run_time(cell))), limit);
    let time = humantime::format_duration(Duration::from_secs(time.as_secs()));
    writeln!(out, "expected time: {time}, and a few seconds for each distinct path before")?;
    let place =
        args.out.as_ref().map_or("a new directory below runs/".to_owned(), |out| format!("\"{}\"", out.display()));
    writeln!(out, "results would go to {place}; nothing was changed")?;
    Ok(())
}
