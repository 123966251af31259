//! The options of `tccc run`.

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

use crate::cli::output::OutputFormat;
use lab::cost::Jobs;
use lab::part::{RunSelection, Shard};
use lab::scenario::{GuestKernel, Profile, RUNS_MAX};
use shared::failure::Failure;
use shared::model::run::Engine;
use shared::units::Share;

/// Run experiments from scenario files
///
/// Measures each empty path first, and leaves out the runs on a path that does not match the scenario. The same command
/// with the same --out resumes an interrupted experiment. With --only, --shard or a larger --runs, the command adds
/// runs to that experiment. `tccc report --check` tells whether the results match.
///
/// The kernel engine builds namespaces and links, loads algorithms and starts processes. All of them disappear when it
/// ends, even after `kill -9`. `tccc unload --all` removes a cgroup that `kill -9` leaves.
///
/// `tccc run --explain` lists every field of a scenario. `tccc run --explain loss` explains one with an example.
///
/// Example: `tccc run scenarios/smoke/loss-sweep.toml --only algorithm=dtcp`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Scenario files, or folders of them
    #[arg(required_unless_present = "explain", value_name = "SCENARIO")]
    pub scenarios: Vec<PathBuf>,
    /// Result directory [default: runs/SCENARIO-TIME]; with several scenarios, each gets one below it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Runs at once, 1 to 256; auto starts as many runs as this host can carry without delay
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_jobs)]
    pub jobs: Jobs,
    /// Runs of each cell, instead of the scenario's number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RUNS_MAX)))]
    pub runs: Option<u32>,
    /// Seed of everything random, instead of the scenario's
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Only cells with this value of this sweep variable; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub only: Vec<(String, String)>,
    /// Also run every cell with its rates, delays and queues each raised by this share; the report notes flows whose
    /// share of the goodput changes by more than its interval
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "1%",
          value_parser = parse_perturb)]
    pub perturb: Option<Share>,
    /// Only the I-th of N shares of the runs, for N hosts; `tccc report` joins their directories
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Only the block with this number in `--dry-run -o json`: all variants of one seed on one path. A number that no
    /// block has, such as 0, does nothing
    #[arg(long, value_name = "N", conflicts_with = "shard")]
    pub block: Option<u32>,
    /// Publish the block's results in this folder once they are complete; exits with 0 if they are already there
    #[arg(long, value_name = "DIR", requires = "block", conflicts_with = "out")]
    pub publish: Option<PathBuf>,
    /// Socket conditions, instead of the scenario's
    #[arg(long, value_enum)]
    pub profile: Option<Profile>,
    /// What executes the runs
    #[arg(long, value_enum, default_value_t = Engine::Kernel)]
    pub engine: Engine,
    /// Kernel of virtual time, instead of the scenario's
    #[arg(long, value_enum)]
    pub kernel: Option<GuestKernel>,
    /// What emulates links
    #[arg(long, value_enum, default_value_t = LinkChoice::Auto)]
    pub link: LinkChoice,
    /// What creates hosts
    #[arg(long, value_enum, default_value_t = NetworkChoice::Netns)]
    pub network: NetworkChoice,
    /// Keep a small JSON file up to date with the number of finished runs and the seconds left
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    pub progress_file: Option<PathBuf>,
    /// Print the plan and its expected time; change nothing
    #[arg(long, group = "printed")]
    pub dry_run: bool,
    /// Explain a field of a scenario, such as `loss` or `flow.size`, or a metric; without a name all of them
    #[arg(long, value_name = "FIELD", num_args = 0..=1, group = "printed", conflicts_with = "scenarios")]
    pub explain: Option<Option<String>>,
    /// How to print the result of `--dry-run` or `--explain`
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table, requires = "printed")]
    pub output: OutputFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LinkChoice {
    /// The kernel's netem if it exists and can do what the scenarios ask for, else the user-space emulator
    Auto,
    /// The kernel's netem
    Netem,
    /// The user-space emulator
    Tunlink,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetworkChoice {
    /// tccc's own network namespaces
    Netns,
    /// Mininet, through its Python API
    Mininet,
}

/// A larger change is another path.
const PERTURB_MAX: Share = Share(0.2);
/// Far more than any host can run in time.
const JOBS_MAX: u32 = 256;

pub(in crate::cli::verbs) fn parse_jobs(text: &str) -> Result<Jobs, String> {
    match (text, text.parse::<u32>()) {
        ("auto", _) => Ok(Jobs::Auto),
        (_, Ok(jobs)) if (1..=JOBS_MAX).contains(&jobs) => Ok(Jobs::Fixed(jobs)),
        _ => Err(format!("expected auto or a number from 1 to {JOBS_MAX}")),
    }
}

fn parse_perturb(text: &str) -> Result<Share, String> {
    let expected = || format!("expected a share from 0.01% to {PERTURB_MAX}, such as 1%");
    let share: Share = text.parse().map_err(|_| expected())?;
    if (0.0001..=PERTURB_MAX.0).contains(&share.0) { Ok(share) } else { Err(expected()) }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE, such as loss=0.1%")?;
    Ok((key.to_owned(), value.to_owned()))
}

impl Args {
    /// Refuses options that conflict.
    pub fn check(&self) -> Result<()> {
        let given = [(self.link != LinkChoice::Auto, "link"), (self.network != NetworkChoice::Netns, "network")];
        if let Some((_, option)) = given.iter().find(|(given, _)| *given && self.engine != Engine::Kernel) {
            let engine = self.engine.name();
            let what = format!("`--{option}` does not apply to `--engine {engine}`, which has its own {option}s");
            return Err(Failure::usage(what).hint("leave out one of the two").into());
        }
        Ok(())
    }

    pub fn part(&self) -> RunSelection {
        RunSelection { only: self.only.clone(), shard: self.shard, block: None }
    }
}
