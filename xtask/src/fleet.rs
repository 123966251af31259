//! Tests `scenarios/fleet/slurm.sh` on a real Slurm cluster on this machine, with faults.
//!
//! All files are in one folder, and the daemons are children of this program: nothing else on the machine changes.

mod cluster;
mod evaluation;
mod host;
mod properties;
mod trial;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use fs_err as fs;

use self::cluster::Cluster;
use self::trial::{Faults, Trial};
use crate::setup::{self, SetupPurpose};
use crate::{demo, guest, host_state, process};

/// An experiment of six blocks.
const SMOKE: [&str; 3] = ["scenarios/smoke/loss-sweep.toml", "--runs", "2"];
const SMOKE_BLOCKS: usize = 6;
const VIRTUAL: [&str; 2] = ["--engine", "virtual"];
/// The task of the smoke scenario that hangs until its node is lost.
const LOST_TASK: usize = 4;
/// User and group `nobody`, for tasks in virtual time. Experiments on the kernel run as root.
const USER: u32 = 65534;
const ROOT: u32 = 0;
/// An experiment of 24 blocks of two short runs.
const GRID: &str = "xtask/src/fleet/grid.toml";
const GRID_BLOCKS: usize = 24;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Run 24 blocks with this engine instead; a node is lost and a task cancelled at random moments
    #[arg(long)]
    grid: Option<GridEngine>,
    /// Share an evaluation between two nodes instead, and compare it with one machine's
    #[arg(long, conflicts_with = "grid")]
    evaluation: bool,
    /// With `--grid`: repeat the random moments of the call that printed this seed
    #[arg(long, requires = "grid")]
    seed: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum GridEngine {
    /// Virtual time, three nodes, an ordinary user
    Virtual,
    /// This kernel, two nodes, root
    Kernel,
}

/// `cargo xtask fleet`. Side effects: installs packages; writes `target/fleet`.
pub fn run(arguments: &Arguments) -> Result<()> {
    if let Some(lack) = lack() {
        bail!(lack);
    }
    setup::set_up(SetupPurpose::Fleet)?;
    guest::provide()?;
    if arguments.evaluation {
        process::build_fast_tccc()?;
        return evaluation::check();
    }
    process::build_tccc()?;
    match arguments.grid {
        None => check(),
        Some(engine) => compare_with_one_machine(engine, &[GRID], GRID_BLOCKS, random_faults(arguments.seed)?),
    }
}

/// The reason why this call cannot start a cluster.
pub fn lack() -> Option<&'static str> {
    let is_open = |folder: &Path| fs::metadata(folder).is_ok_and(|about| about.permissions().mode() & 1 == 1);
    if !process::is_root() {
        return Some("the cluster needs root, because the daemons of Slurm start tasks as their owners");
    }
    let is_reachable = process::target().ancestors().filter(|folder| folder.exists()).all(is_open);
    (!is_reachable).then_some("the cluster needs a workspace that any user may enter")
}

/// Runs six blocks in virtual time on three nodes, as an ordinary user.
///
/// One node refuses all tasks and one is lost. One task is interrupted and one cancelled.
pub fn check() -> Result<()> {
    compare_with_one_machine(GridEngine::Virtual, &SMOKE, SMOKE_BLOCKS, Faults::Placed)
}

/// Submits an experiment twice to a cluster with faults, and compares its report with that of one machine.
///
/// In virtual time both have the same digest. On this kernel they agree, and the host is as before.
fn compare_with_one_machine(engine: GridEngine, scenario: &[&str], blocks: usize, faults: Faults) -> Result<()> {
    let (nodes, user, options): (_, _, &[&str]) = match engine {
        GridEngine::Virtual => (3, USER, &VIRTUAL),
        GridEngine::Kernel => (2, ROOT, &[]),
    };
    let words = [scenario, options].concat().into_iter().map(str::to_owned).collect();
    let cluster = Cluster::start(nodes)?;
    let before = (engine == GridEngine::Kernel).then(host_state::lines);
    if before.is_some() {
        host::has_no_leftovers()?;
    }
    let mut trial = Trial::prepare(&cluster, words, blocks, faults, user)?;
    trial.submit_with_faults()?;
    properties::only_the_cancelled_block_is_missing(&trial)?;
    if matches!(faults, Faults::Placed) {
        properties::refused_tasks_moved(&trial)?;
        properties::lost_task_moved(&trial, LOST_TASK)?;
    }
    trial.submit(&process::tccc())?;
    trial.wait(|_| Ok(()))?;
    properties::nothing_is_missing(&trial)?;
    properties::each_block_is_made_once(&trial)?;
    properties::report_is_written(&trial)?;
    let whole = cluster.folder.join("whole");
    trial.run_whole(&whole)?;
    let [one, other] = [trial.results(), whole].map(|place| properties::report_of(&place));
    match engine {
        GridEngine::Virtual => properties::is_same_result(&one?, &other?)?,
        GridEngine::Kernel => properties::is_like_result(&one?, &other?)?,
    }
    cluster.end()?;
    if let Some(before) = before {
        host::has_no_leftovers()?;
        demo::compare(&before)?;
    }
    println!("the cluster's report is that of one machine");
    Ok(())
}

/// Draws moments in the first two thirds of the grid from the seed or the clock.
fn random_faults(seed: Option<usize>) -> Result<Faults> {
    const MOMENTS: usize = 2 * GRID_BLOCKS / 3;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("read the clock")?;
    let seed = seed.unwrap_or(now.subsec_micros() as usize);
    let (loss, cancel) = (1 + seed % MOMENTS, 1 + seed / MOMENTS % MOMENTS);
    println!("--seed {seed}: a node is lost after {loss} blocks, and a task is cancelled after {cancel}");
    Ok(Faults::After { loss, cancel })
}
