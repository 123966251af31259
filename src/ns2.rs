//! A plan run by the simulator ns-2 instead of the kernel: the same scenario as a Tcl script, the same result
//! directory. For what the papers ran, beside what is measured.

pub mod output;
mod process;
pub mod script;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};

use crate::failure::Failure;
use crate::lab::cost::{self, Jobs};
use crate::lab::machine;
use crate::lab::plan::{Plan, PlannedRun};
use crate::lab::pool::{self, Pool, workers};
use crate::lab::results::{Finished, OpenResultDir};
use crate::lab::work::{Begun, Forecast, Outcome, Progress, Work};
use crate::model::run::{HostRecord, RunRecord};
use crate::scenario::Ns2Spec;

pub use process::version;
use process::{OUTPUT, REMARKS, SCRIPT};
use script::Simulation;

/// The seed that ns-2 has when a script sets none.
const DEFAULT_SEED: u64 = 1;
/// Largest seed of ns-2: a signed 32-bit number.
const SEED_MAX: u64 = i32::MAX as u64;
/// Packets over one link that a processor simulates a second, acknowledgements not counted.
///
/// ns-2.35 took 0.09 s for the 49 525 of a 100 s run over two links on the 2.1 GHz processor this was written on.
const PACKETS_PER_S: f64 = 500e3;

/// Checks that ns-2 has what every cell asks for.
///
/// Errors: see [`script::check`].
pub fn check(plan: &Plan) -> Result<(), Failure> {
    plan.cells.iter().try_for_each(script::check)
}

/// What is left of a part when these runs are finished, as [`crate::lab::runner::forecast`] for the kernel.
pub(crate) fn forecast(plan: &Plan, part: &[&PlannedRun], finished: &Finished, jobs: Jobs) -> Forecast {
    let time = |run: &PlannedRun| Duration::from_secs_f64(cost::packets(&plan.cells[run.cell]) / PACKETS_PER_S);
    pool::forecast(part, finished, jobs, &time)
}

/// Simulates what is left of a plan; scenario and plan are of [`crate::scenario::Scenario::simulated`].
///
/// Errors: ns-2 is missing or lacks an agent; the directory holds another plan or runs of another ns-2; `stop` was set.
/// Side effects: processes that do not outlive the call; the result directory.
pub(crate) fn run(work: &Work<'_>, tell: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let spec = work.scenario.ns2.as_ref().ok_or_else(|| anyhow!("the scenario has no [ns2]"))?;
    let version = process::version()?;
    let Begun { results, to_do, .. } = work.begin(forecast, tell)?;
    let plan = work.plan;
    if to_do.is_empty() {
        return Ok(Outcome::default());
    }
    keep_host(&results, plan, &version)?;
    let jobs = workers(work.jobs).min(to_do.len() as u32);
    let simulator = Simulator { plan, spec, results: &results, own_seed: plan.seed == work.scenario.seed, jobs };
    let make = |run: &PlannedRun, _: usize, is_stopped: &dyn Fn() -> bool| simulator.make(run, is_stopped);
    let failed = Pool { workers: jobs, stop: work.stop, gives_up: true, make: &make }.make(&to_do, tell)?;
    match failed.into_iter().next() {
        Some((id, error)) => Err(error.context(format!("simulate the run {id}"))),
        None => Ok(Outcome { finished: to_do.len(), ..Outcome::default() }),
    }
}

/// Writes what the runs were made with, or checks that it is what the earlier ones were made with.
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

/// What all runs share.
struct Simulator<'a> {
    plan: &'a Plan,
    spec: &'a Ns2Spec,
    results: &'a OpenResultDir,
    /// Whether the seed is the scenario's, and not one that was asked for.
    own_seed: bool,
    jobs: u32,
}

impl Simulator<'_> {
    /// Makes one run and keeps it.
    fn make(&self, run: &PlannedRun, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let cell = &self.plan.cells[run.cell];
        let started = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let folder = self.results.begin(&run.id)?;
        let seed = seed_of(run, self.own_seed);
        let (spec, sample, profile) = (self.spec, self.plan.sample, self.plan.profile);
        let simulation = Simulation { cell, spec, profile, sample, seed };
        fs::write(folder.path().join(SCRIPT), simulation.script()?).context("write the script for ns-2")?;
        process::simulate(folder.path(), is_stopped)?;
        let text = fs::read_to_string(folder.path().join(OUTPUT)).context("read what ns-2 wrote")?;
        remove_if_empty(&folder.path().join(REMARKS))?;
        let simulated = output::read(&simulation, &text)?;
        let record = RunRecord {
            seed,
            flows: simulated.flows,
            links: simulated.links,
            jobs: self.jobs,
            ..self.plan.record(run, started)
        };
        folder.finish(&record, &simulated.events)
    }
}

/// ns-2's seed for a run: its default one for the first repeat, which is what published runs have, unless another seed
/// than the scenario's was asked for.
fn seed_of(run: &PlannedRun, own_seed: bool) -> u64 {
    if run.repeat == 0 && own_seed { DEFAULT_SEED } else { run.seed % (SEED_MAX - 1) + 2 }
}

fn remove_if_empty(file: &Path) -> Result<()> {
    let length = fs::metadata(file).context("look at what ns-2 remarked")?.len();
    if length == 0 { fs::remove_file(file).context("remove an empty file") } else { Ok(()) }
}

#[cfg(test)]
mod tests;
