//! Runs a plan in the simulator ns-2 instead of the kernel, to compare the papers' simulations with measurements. The
//! scenario becomes a Tcl script; the result directory has the same form.

pub mod output;
mod process;
pub mod script;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};

use crate::cost::{self, Jobs};
use crate::event_line::StateLayouts;
use crate::machine;
use crate::plan::{Plan, PlannedRun};
use crate::pool::{self, Pool, workers};
use crate::results::{Finished, OpenResultDir};
use crate::work::{Forecast, OpenRun, Progress, RunRequest, WorkOutcome};
use shared::failure::Failure;
use shared::model::run::{HostRecord, RunRecord};

use output::Simulated;
pub use process::version;
use process::{OUTPUT, REMARKS, SCRIPT};
use script::Simulation;

/// ns-2's seed if a script sets none.
const DEFAULT_SEED: u64 = 1;
/// ns-2's seeds are signed 32-bit numbers.
const SEED_MAX: u64 = i32::MAX as u64;
/// Packets over one link that a processor simulates per second, without acknowledgements.
///
/// ns-2.35 took 0.09 s for 49,525 packets of a 100 s run over two links on a 2.1 GHz processor.
const PACKETS_PER_S: f64 = 500e3;

/// Checks that ns-2 supports every cell.
///
/// # Errors
/// See [`script::check`].
pub fn check(plan: &Plan) -> Result<(), Failure> {
    plan.cells.iter().try_for_each(script::check)
}

/// Forecasts the unfinished runs of a part.
pub fn forecast(plan: &Plan, part: &[&PlannedRun], finished: &Finished, jobs: Jobs) -> Forecast {
    let time = |run: &PlannedRun| Duration::from_secs_f64(cost::packets(&plan.cells[run.cell]) / PACKETS_PER_S);
    pool::forecast(part, finished, jobs, &time)
}

/// Simulates the unfinished runs of a plan's part. Scenario and plan come from
/// [`crate::scenario::Scenario::simulated`].
///
/// Side effects: the result directory; processes that end with the call.
///
/// # Errors
/// ns-2 is missing or lacks an agent; the directory holds another plan or runs of another ns-2; `stop` was set.
pub fn run(work: &RunRequest<'_>, tell: &mut dyn FnMut(Progress)) -> Result<WorkOutcome> {
    let spec = work.scenario.ns2.as_ref().ok_or_else(|| anyhow!("the scenario has no [ns2]"))?;
    let version = process::version()?;
    let OpenRun { results, to_do, .. } = work.begin(forecast, tell)?;
    let plan = work.plan;
    if to_do.is_empty() {
        return Ok(WorkOutcome::default());
    }
    keep_host(&results, plan, &version)?;
    let jobs = workers(work.jobs).min(to_do.len() as u32);
    let make = |run: &PlannedRun, _: usize, is_stopped: &dyn Fn() -> bool| -> Result<()> {
        let started = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let folder = results.begin(&run.id)?;
        let seed = seed_of(run, plan.seed == work.scenario.seed);
        let (cell, profile, sample) = (&plan.cells[run.cell], plan.profile, plan.sample);
        let simulation = Simulation { cell, spec, profile, sample, seed };
        fs::write(folder.path().join(SCRIPT), simulation.script()?).context("write the script for ns-2")?;
        process::simulate(folder.path(), is_stopped)?;
        let text = fs::read_to_string(folder.path().join(OUTPUT)).context("read the output of ns-2")?;
        remove_if_empty(&folder.path().join(REMARKS))?;
        let Simulated { flows, links, events } = output::read(&simulation, &text)?;
        folder.finish(
            &RunRecord { seed, flows, links, jobs, ..plan.record(run, started) },
            &events,
            &StateLayouts::new(),
        )
    };
    let failed = Pool { workers: jobs, stop: work.stop, gives_up: true, make: &make }.make(&to_do, tell)?;
    match failed.into_iter().next() {
        Some((id, error)) => Err(error.context(format!("simulate the run {id}"))),
        None => Ok(WorkOutcome { finished: to_do.len(), ..WorkOutcome::default() }),
    }
}

/// Writes the record of the host and checks that earlier runs had the same version of ns-2.
fn keep_host(results: &OpenResultDir, plan: &Plan, version: &str) -> Result<()> {
    let of_simulator = |host: &HostRecord| host.tools.get("ns2").cloned().unwrap_or_default();
    let earlier = results.host()?;
    if let Some(earlier) = earlier.as_ref().map(of_simulator).filter(|earlier| earlier != version) {
        return Err(results.refuse_mixture("ns-2", &earlier, version).into());
    }
    let mut host = plan.host_record([("ns2", version.to_owned())])?;
    machine::add(&mut host.machines, earlier.into_iter().flat_map(|earlier| earlier.machines));
    results.write_host(&host)
}

/// ns-2's seed for a run. The first repeat has ns-2's default, as published runs do, unless `--seed` changed the seed.
fn seed_of(run: &PlannedRun, own_seed: bool) -> u64 {
    if run.repeat == 0 && own_seed { DEFAULT_SEED } else { run.seed % (SEED_MAX - 1) + 2 }
}

fn remove_if_empty(file: &Path) -> Result<()> {
    let length = fs::metadata(file).context("check the remarks of ns-2")?.len();
    if length == 0 { fs::remove_file(file).context("remove an empty file") } else { Ok(()) }
}

#[cfg(test)]
mod tests;
