//! A plan carried out by the simulator ns-2 instead of the kernel: the same scenario as a Tcl script, the same result
//! directory. For what the papers ran, beside what is measured.

pub mod output;
mod process;
pub mod script;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};

use crate::experiment::cost::{self, Jobs};
use crate::experiment::part::Part;
use crate::experiment::plan::{Plan, PlannedRun};
use crate::experiment::pool::{Pool, workers};
use crate::experiment::results::ResultDir;
use crate::experiment::runner::{Forecast, Outcome, Progress, processors};
use crate::experiment::scenario::{Ns2Spec, Scenario};
use crate::failure::Failure;
use crate::model::run::{Engine, HostRecord, RESULT_SCHEMA, RunRecord, RunStatus};

pub use process::version;
use script::Simulation;

/// Files of a run beside its record: the script, what it wrote, and what ns-2 remarked.
const SCRIPT: &str = "ns2.tcl";
const OUTPUT: &str = "ns2.out";
const REMARKS: &str = "ns2.err";
/// The seed that ns-2 has when a script sets none.
const DEFAULT_SEED: u64 = 1;
/// Largest seed of ns-2: a signed 32-bit number.
const SEED_MAX: u64 = i32::MAX as u64;
/// Packets over one link that a processor simulates a second, acknowledgements not counted.
///
/// ns-2.35 took 0.09 s for the 49 525 of a 100 s run over two links on the 2.1 GHz processor this was written on.
const PACKETS_PER_S: f64 = 500e3;

/// How a plan is simulated.
pub struct Options<'a> {
    /// Result directory.
    pub out: PathBuf,
    /// Which part of the plan.
    pub part: &'a Part,
    /// Runs at once; as many as there are processors where the choice is automatic.
    pub jobs: Jobs,
    /// Set from outside to stop: finished runs stay.
    pub stop: &'a AtomicBool,
}

/// Checks that ns-2 has what every cell asks for.
///
/// Errors: see [`script::check`].
pub fn check(plan: &Plan) -> Result<(), Failure> {
    plan.cells.iter().try_for_each(script::check)
}

/// What is left of a part when these runs are finished, as [`Forecast::new`] for the kernel.
pub fn forecast(
    plan: &Plan,
    part: &[&PlannedRun],
    finished: &std::collections::BTreeSet<String>,
    jobs: Jobs,
) -> Forecast {
    let to_do: Vec<&&PlannedRun> = part.iter().filter(|run| !finished.contains(&run.id)).collect();
    let one = |run: &&&PlannedRun| {
        let cell = &plan.cells[run.cell];
        let packets = cost::traffic_bps(cell) * cell.duration.as_secs_f64() / 8.0 / f64::from(cell.mtu);
        packets / PACKETS_PER_S
    };
    let all: f64 = to_do.iter().map(one).sum();
    let expected = Duration::from_secs_f64(all / f64::from(workers(jobs).min(processors())));
    let at_once = to_do.len().min(workers(jobs) as usize);
    Forecast { paths: 0, to_do: to_do.len(), finished: part.len() - to_do.len(), expected, at_once }
}

/// Simulates what is left of a plan; `scenario` and plan are of [`Scenario::simulated`].
///
/// Errors: ns-2 is missing or lacks an agent; the directory holds another plan or runs of another ns-2; `stop` was set.
/// Side effects: processes that do not outlive the call; the result directory.
pub fn run(scenario: &Scenario, plan: &Plan, options: &Options<'_>, tell: &mut dyn FnMut(Progress)) -> Result<Outcome> {
    let spec = scenario.ns2.as_ref().ok_or_else(|| anyhow!("the scenario has no [ns2]"))?;
    let version = process::version()?;
    let results = ResultDir::open(&options.out, plan, &scenario.text)?;
    let finished = results.finished()?;
    let part = options.part.runs(scenario, plan)?;
    let to_do: Vec<&PlannedRun> = part.iter().copied().filter(|run| !finished.contains(&run.id)).collect();
    tell(Progress::Begins(forecast(plan, &part, &finished, options.jobs)));
    if to_do.is_empty() {
        return Ok(Outcome::default());
    }
    keep_host(&results, plan, &version)?;
    let jobs = workers(options.jobs).min(to_do.len() as u32);
    let simulator = Simulator { plan, spec, results: &results, own_seed: plan.seed == scenario.seed, jobs };
    let make = |run: &PlannedRun, _: usize, is_stopped: &dyn Fn() -> bool| simulator.make(run, is_stopped);
    let failed = Pool { workers: jobs, stop: options.stop, gives_up: true, make: &make }.make(&to_do, tell)?;
    match failed.into_iter().next() {
        Some((id, error)) => Err(error.context(format!("simulate the run {id}"))),
        None => Ok(Outcome { finished: to_do.len(), ..Outcome::default() }),
    }
}

/// Writes what the runs were made with, or checks that it is what the earlier ones were made with.
fn keep_host(results: &ResultDir, plan: &Plan, version: &str) -> Result<()> {
    let of_simulator = |host: &HostRecord| host.tools.get("ns2").cloned().unwrap_or_default();
    if let Some(earlier) = results.host()?.map(|host| of_simulator(&host)).filter(|earlier| earlier != version) {
        let place = results.path().display();
        let what = format!("\"{place}\" has runs of ns-2 {earlier}, and this would add some of {version}");
        return Err(Failure::usage(what).hint("choose another directory with `--out DIR`").into());
    }
    let kernel = nix::sys::utsname::uname().context("read the kernel's release")?;
    let tools = [("ns2".to_owned(), version.to_owned()), ("tccc".to_owned(), env!("CARGO_PKG_VERSION").to_owned())];
    results.write_host(&HostRecord {
        schema: RESULT_SCHEMA,
        engine: Engine::Ns2,
        kernel: kernel.release().to_string_lossy().into_owned(),
        cpus: processors(),
        link: Engine::Ns2.name().to_owned(),
        network: Engine::Ns2.name().to_owned(),
        offloads: "off".to_owned(),
        profile: plan.profile.name().to_owned(),
        sysctls: BTreeMap::new(),
        tools: tools.into(),
        algorithms: BTreeMap::new(),
        calibration: Vec::new(),
    })
}

/// What all runs share.
struct Simulator<'a> {
    plan: &'a Plan,
    spec: &'a Ns2Spec,
    results: &'a ResultDir,
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
            schema: RESULT_SCHEMA,
            id: run.id.clone(),
            at: cell.at.clone(),
            repeat: run.repeat,
            seed,
            engine: Engine::Ns2,
            status: RunStatus::Done,
            why: None,
            late_attempts: 0,
            started,
            duration_s: cell.duration.as_secs_f64(),
            flows: simulated.flows,
            links: simulated.links,
            jobs: self.jobs,
            events_dropped: 0,
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
