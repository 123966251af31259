//! A real Slurm on this machine, in which `scenarios/fleet/slurm.sh` makes an experiment while things go wrong.
//!
//! Everything is below one folder, and the daemons are children of this program: nothing of the machine is changed.

mod cluster;
mod host;
mod properties;
mod trial;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use self::cluster::Cluster;
use self::trial::{Faults, Trial};
use crate::setup::{self, Purpose};
use crate::{demo, guest, host_state, process};

/// Six blocks.
const SMOKE: [&str; 3] = ["scenarios/smoke/loss-sweep.toml", "--runs", "2"];
const SMOKE_BLOCKS: usize = 6;
const VIRTUAL: [&str; 2] = ["--engine", "virtual"];
/// Which of the smoke scenario's tasks hangs until its node is lost.
const LOST_TASK: usize = 4;
/// User and group of the tasks: `nobody`. Experiments on the kernel are root's.
const USER: u32 = 65534;
const ROOT: u32 = 0;
/// 24 blocks of two short runs.
const GRID: &str = "xtask/src/fleet/grid.toml";
const GRID_BLOCKS: usize = 24;

/// How to try the recipe.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Instead, 24 blocks by this engine; a node is lost and a task cancelled at random moments
    #[arg(long)]
    grid: Option<Engine>,
    /// With `--grid`: the random moments of the call that printed this seed
    #[arg(long, requires = "grid")]
    seed: Option<usize>,
}

/// What makes the runs of the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Engine {
    /// Virtual time, three nodes, an ordinary user
    Virtual,
    /// This kernel, two nodes, root
    Kernel,
}

/// Starts a cluster, and tries there what a cluster does to an experiment: `cargo xtask fleet`.
///
/// Errors: see [`lack`]; a package is missing; Slurm does not start or end; a property does not hold.
/// Side effects: installs packages; processes that do not outlive the call; `target/fleet`.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(lack) = lack() {
        bail!(lack);
    }
    setup::set_up(Purpose::Fleet)?;
    guest::provide()?;
    process::build_tccc()?;
    match arguments.grid {
        None => check(),
        Some(Engine::Virtual) => grid_in_virtual_time(random_faults(arguments.seed)?),
        Some(Engine::Kernel) => grid_on_the_kernel(random_faults(arguments.seed)?),
    }
}

/// What a cluster needs and this call does not have.
pub fn lack() -> Option<&'static str> {
    let is_open = |folder: &Path| fs::metadata(folder).is_ok_and(|about| about.permissions().mode() & 1 == 1);
    if !process::is_root() {
        return Some("the cluster needs root, because the daemons of Slurm start tasks as their owners");
    }
    let is_reachable = process::target().ancestors().filter(|folder| folder.exists()).all(is_open);
    (!is_reachable).then_some("the cluster needs a workspace that any user may enter")
}

/// Six blocks in virtual time on three nodes, for an ordinary user: one node refuses all tasks, one is lost, a task is
/// interrupted and one cancelled.
///
/// Errors: Slurm does not start or end; a property does not hold.
pub fn check() -> Result<()> {
    let cluster = Cluster::start(3)?;
    let whole = cluster.folder.join("whole");
    let words = words(&[&SMOKE, &VIRTUAL]);
    let mut trial = Trial::prepare(&cluster, words, SMOKE_BLOCKS, Faults::Placed, USER)?;
    trial.submit_with_faults()?;
    properties::only_the_cancelled_block_is_missing(&trial)?;
    properties::refused_tasks_moved(&trial)?;
    properties::lost_task_moved(&trial, LOST_TASK)?;
    trial.submit_plainly()?;
    properties::nothing_is_missing(&trial)?;
    properties::each_block_is_made_once(&trial)?;
    properties::report_is_written(&trial)?;
    trial.run_whole(&whole)?;
    properties::blocks_are_of_one_plan(&trial, &whole)?;
    properties::is_same_result(&properties::report_of(&trial.results())?, &properties::report_of(&whole)?)?;
    properties::block_twice_counts_once(&trial)?;
    properties::mixed_versions_are_refused(&trial)?;
    cluster.end()?;
    println!("the cluster's report is that of one machine");
    Ok(())
}

/// Two submissions of the grid in virtual time give the digest of one machine.
fn grid_in_virtual_time(faults: Faults) -> Result<()> {
    let cluster = Cluster::start(3)?;
    let words = words(&[&[GRID], &VIRTUAL]);
    let mut trial = Trial::prepare(&cluster, words, GRID_BLOCKS, faults, USER)?;
    let whole = submit_twice(&mut trial)?;
    properties::is_same_result(&properties::report_of(&trial.results())?, &whole)?;
    cluster.end()?;
    println!("the cluster's report is that of one machine");
    Ok(())
}

/// Two submissions of the grid on this kernel give the cells of one machine, and leave the host as it was.
fn grid_on_the_kernel(faults: Faults) -> Result<()> {
    let cluster = Cluster::start(2)?;
    host::has_no_leftovers()?;
    let before = host_state::lines();
    let words = words(&[&[GRID]]);
    let mut trial = Trial::prepare(&cluster, words, GRID_BLOCKS, faults, ROOT)?;
    let whole = submit_twice(&mut trial)?;
    properties::is_like_result(&properties::report_of(&trial.results())?, &whole)?;
    cluster.end()?;
    host::has_no_leftovers()?;
    demo::compare(&before)?;
    println!("the cluster's report agrees with that of one machine");
    Ok(())
}

/// Submits the grid twice, and returns the report of the same in one piece.
fn submit_twice(trial: &mut Trial<'_>) -> Result<Value> {
    trial.submit_with_faults()?;
    properties::only_the_cancelled_block_is_missing(trial)?;
    trial.submit_plainly()?;
    properties::nothing_is_missing(trial)?;
    properties::each_block_is_made_once(trial)?;
    properties::report_is_written(trial)?;
    let whole = trial.home.join("whole");
    trial.run_whole(&whole)?;
    properties::blocks_are_of_one_plan(trial, &whole)?;
    properties::report_of(&whole)
}

/// Moments in the first two thirds of the grid, from a seed or the clock.
fn random_faults(seed: Option<usize>) -> Result<Faults> {
    const MOMENTS: usize = 2 * GRID_BLOCKS / 3;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    let seed = seed.unwrap_or(now.subsec_micros() as usize);
    let (loss, cancel) = (1 + seed % MOMENTS, 1 + seed / MOMENTS % MOMENTS);
    println!("--seed {seed}: a node is lost after {loss} blocks, and a task is cancelled after {cancel}");
    Ok(Faults::After { loss, cancel })
}

fn words(parts: &[&[&str]]) -> Vec<String> {
    parts.concat().into_iter().map(str::to_owned).collect()
}
