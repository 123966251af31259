//! Runs a plan in virtual time: with Linux's own TCP in a guest whose clock stops while it computes.
//!
//! Each run has its own guest: a kernel that runs as one unprivileged process, bound to a processor. Links, traffic and
//! tracer are in the guest's kernel, and this program is its first process ([`inside`]). The same binary, guest,
//! scenario and seed give the same results byte for byte, however busy the host is.

mod algorithms;
pub mod checks;
mod discipline;
mod flow;
pub mod guest;
pub mod image;
pub mod inside;
pub mod job;
mod job_file;
pub mod kernel_states;
mod limits;
pub(crate) mod link;
mod modules;
pub mod process;
pub(crate) mod recipe;
mod sandbox;

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::algorithms::Modules;
use self::guest::Guest;
use self::image::Image;
use self::job_file::{GuestResults, GuestSetting};
use self::modules::{AlgorithmSource, ModuleBuilder};
use self::process::{CONSOLE, Crashed, Launch};
use crate::cost::{self, Jobs};
use crate::event_line::StateLayouts;
use crate::plan::{Plan, PlannedRun};
use crate::pool::{self, Pool, workers};
use crate::results::{Finished, OpenResultDir};
use crate::room;
use crate::scenario::algorithm::{headers, source};
use crate::scenario::{Cell, GuestKernel, Scenario};
use crate::work::{Forecast, OpenRun, Progress, RunRequest, WorkOutcome};
use shared::failure::Failure;
use shared::model::run::{HostRecord, RunRecord, RunStatus};

/// Name of the guest's module with links, traffic and tracer, in the record of tools.
const LABORATORY: &str = "laboratory";
/// The start of every run on the guest's wall clock. Results have no real time, so that equal runs give equal files.
const STARTED: &str = "2001-09-09T01:46:40.000Z";
/// Folder inside a run's folder that is shared with the guest. It is removed after the run.
const SHARED: &str = "guest";
/// Forecast: time of a guest before and after its traffic.
const START: Duration = Duration::from_millis(150);
/// Forecast: time of a packet and its acknowledgement over one link, measured on a 2.4 GHz processor.
const PACKET: Duration = Duration::from_nanos(1_500);
/// A guest counts as hung if it takes longer than this factor times its forecast, plus this time.
const PATIENCE: (u32, Duration) = (20, Duration::from_secs(60));

/// Whether this host can confine a guest to its folder.
pub fn is_caged() -> bool {
    sandbox::is_available()
}

/// # Errors
/// The first field that virtual time does not support, with its place.
pub fn check<'a>(scenario: &Scenario, kernel: GuestKernel, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    cells.into_iter().try_for_each(|cell| limits::check(scenario, kernel, cell))
}

/// Compiles an algorithm's file for the guest, as a run would, and keeps the module.
///
/// # Errors
/// Guest or compiler are missing (unmet); the compiler refuses the file (usage).
pub fn compile(id: &str, file: &Path) -> Result<()> {
    let text = &headers::read(file).map_err(Failure::usage)?.text;
    let file = &file.file_name().unwrap_or_default().to_string_lossy();
    // The flags of the newer kernel alone.
    let needs_newer =
        ["_NEEDS_ACCECN", "_ECT_1_NEGOTIATION", "_NO_FALLBACK_RFC3168"].iter().any(|flag| text.contains(flag));
    let kernel = if needs_newer { GuestKernel::Linux7 } else { GuestKernel::default() };
    let (guest, never) = (Guest::find(kernel)?, AtomicBool::new(false));
    ModuleBuilder::open(&guest, &never)?.algorithm(id, AlgorithmSource { file, text }).map(drop)
}

/// Forecasts the unfinished runs of a part, like [`crate::runner::forecast`] for the kernel.
pub fn forecast(plan: &Plan, part: &[&PlannedRun], finished: &Finished, jobs: Jobs) -> Forecast {
    pool::forecast(part, finished, jobs, &|run| expected(&plan.cells[run.cell]))
}

/// Forecast of one run, real time.
fn expected(cell: &Cell) -> Duration {
    START + PACKET.mul_f64(cost::packets(cell))
}

/// Makes the unfinished runs of a plan's part.
///
/// Side effects: processes that end with the call; the result directory; modules in the user's cache.
///
/// # Errors
/// The guest does not support a flow; the compiler is missing or refuses a module; the directory has another plan, or
/// runs of another guest; `stop` was set; every run fails.
pub fn run(work: &RunRequest<'_>, guest: &Guest, tell: &mut dyn FnMut(Progress)) -> Result<WorkOutcome> {
    let OpenRun { results, to_do, .. } = work.begin(forecast, tell)?;
    let plan = work.plan;
    if to_do.is_empty() {
        return Ok(WorkOutcome::default());
    }
    let builder = ModuleBuilder::open(guest, work.stop)?;
    let cells = to_do.iter().map(|run| &plan.cells[run.cell]);
    let modules = Modules::prepare(&builder, work.scenario, cells)?;
    keep_host(&results, plan, guest, &modules)?;
    let laboratory = Laboratory {
        plan,
        results: &results,
        guest,
        modules: &modules,
        image: image::prepare()?,
        processors: process::processors()?,
    };
    let make =
        |run: &PlannedRun, worker: usize, is_stopped: &dyn Fn() -> bool| laboratory.make(run, worker, is_stopped);
    let pool = Pool { workers: workers(work.jobs), stop: work.stop, gives_up: false, make: &make };
    let mut failed = pool.make(&to_do, tell)?;
    if let Some(index) = failed.iter().position(|(_, error)| room::is_full(error)) {
        let (id, full) = failed.swap_remove(index);
        return Err(full.context(format!("perform the run {id}")));
    }
    let failed: Vec<(String, String)> = failed.into_iter().map(|(id, error)| (id, format!("{error:#}"))).collect();
    match failed.first() {
        Some((id, why)) if failed.len() == to_do.len() => bail!("every run fails; {id}: {why}"),
        _ => Ok(WorkOutcome { finished: to_do.len() - failed.len(), failed, ..WorkOutcome::default() }),
    }
}

struct Laboratory<'a> {
    plan: &'a Plan,
    results: &'a OpenResultDir,
    guest: &'a Guest,
    modules: &'a Modules,
    image: Image,
    processors: Vec<usize>,
}

impl Laboratory<'_> {
    /// Makes one run and keeps it, even if it failed. An interrupted run is not kept.
    fn make(&self, run: &PlannedRun, worker: usize, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let place = self.results.path();
        let begin = || self.results.begin(&run.id).map_err(|error| room::explained(error, place));
        let folder = begin()?;
        let shared = folder.path().join(SHARED);
        let (error, folder) = match self.measure(run, &shared, worker, is_stopped) {
            Ok(GuestResults { flows, links, queues, events }) => {
                fs::remove_dir_all(&shared).context("remove the guest's folder")?;
                let record = RunRecord { flows, links, ..self.record(run, RunStatus::Done) };
                match folder
                    .write_queues(&queues)
                    .and_then(|()| folder.finish(&record, &events, &self.modules.layouts()))
                {
                    Ok(()) => return Ok(()),
                    Err(error) => (room::explained(error, place), begin()?), // the first folder is gone
                }
            }
            Err(error) if is_stopped() => return Err(error),
            Err(error) => (room::suspected(error, place), folder),
        };
        if !is_stopped() {
            let record = RunRecord { why: Some(format!("{error:#}")), ..self.record(run, RunStatus::Failed) };
            let _ = fs::rename(shared.join(CONSOLE), folder.path().join(CONSOLE)); // missing before the start
            let _ = fs::remove_dir_all(shared);
            let kept = folder.finish(&record, &[], &StateLayouts::new());
            kept.or_else(|other| if room::is_full(&error) { Ok(()) } else { Err(other) })?;
        }
        Err(error)
    }

    fn measure(
        &self,
        run: &PlannedRun,
        shared: &Path,
        worker: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<GuestResults> {
        fs::create_dir(shared).with_context(|| format!("create \"{}\"", shared.display()))?;
        let setting = GuestSetting::new(self.plan, run, self.modules)?;
        setting.write(shared)?;
        let launch = Launch {
            guest: self.guest,
            image: &self.image.folder,
            folder: shared,
            seed: run.seed,
            processor: self.processors[worker % self.processors.len()],
            memory_mb: setting.memory_mb,
            limit: expected(&self.plan.cells[run.cell]) * PATIENCE.0 + PATIENCE.1,
        };
        let ran = launch.run(is_stopped);
        let cell = &self.plan.cells[run.cell];
        ran.map_err(|error| if error.is::<Crashed>() { error.context(suspects(cell)) } else { error })?;
        setting.read(shared)
    }

    fn record(&self, run: &PlannedRun, status: RunStatus) -> RunRecord {
        RunRecord { id: self.results.id_of(run, status), status, ..self.plan.record(run, STARTED.to_owned()) }
    }
}

/// The algorithms that may have crashed a guest: users' files, or else all that ran.
fn suspects(cell: &Cell) -> String {
    let mut all: Vec<&str> = cell.flows.iter().filter(|flow| flow.is_tcp()).map(|flow| &*flow.algorithm).collect();
    all.sort_unstable();
    all.dedup();
    let files: Vec<&str> = all.iter().copied().filter(|name| source::is_source(name)).collect();
    match files.first() {
        Some(file) => format!("run \"{}\" (`tccc check {file}` finds such faults)", files.join("\", \"")),
        None => format!("run {}", all.join(", ")),
    }
}

/// Checks that earlier runs had the same tools, and records the tools.
///
/// The record does not mention this host, so that equal runs give equal files on any machine.
fn keep_host(results: &OpenResultDir, plan: &Plan, guest: &Guest, modules: &Modules) -> Result<()> {
    let facts = &guest.facts;
    let tools = [
        ("guest", facts.kernel_sha256.clone()),
        ("guest source", format!("{} {}", facts.package, facts.version)),
        ("guest source digest", facts.source_sha256.clone()),
        ("guest recipe", facts.recipe.clone()),
        ("guest compiler", facts.compiler.clone()),
        (LABORATORY, modules.laboratory.digest.clone()),
    ];
    let mut host = HostRecord {
        kernel: format!("{} (User Mode Linux)", facts.release),
        cpus: 1,
        network: "netns".to_owned(),
        sysctls: plan.layout(&plan.runs[0]).nodes[0].settings.iter().cloned().collect(),
        algorithms: modules.digests(),
        ..plan.host_record(tools)?
    };
    if let Some(earlier) = results.host()? {
        check_same_tools(&earlier, &host, results)?;
        results.check_same_algorithms(&earlier, &host)?;
        host.algorithms.extend(earlier.algorithms);
    }
    results.write_host(&host)
}

/// Checks that a result directory has runs of one guest and one tccc. If the guest differs, another host may continue.
fn check_same_tools(earlier: &HostRecord, now: &HostRecord, results: &OpenResultDir) -> Result<()> {
    for (name, is) in &now.tools {
        let was = earlier.tools.get(name).map_or("(none)", String::as_str);
        let what = format!("the {name}");
        let is_ours = ["tccc", LABORATORY].contains(&name.as_str());
        ensure!(was == is || !is_ours, results.refuse_mixture(&what, was, is));
        ensure!(was == is, results.refuse_host(&what, was, is));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Choices;
    use crate::plan::tests::{TEXT, planned};
    use shared::failure::{Failure, FailureKind};
    use shared::kernel::congestion::OF_LINUX;
    use strum::VariantArray as _;

    #[test]
    fn resume_with_another_guest_is_for_another_host() {
        let plan = planned(&Choices::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let results = OpenResultDir::open(folder.path(), &plan, TEXT).unwrap();
        let host = |guest: &str, laboratory: &str| {
            plan.host_record([("guest", guest.into()), (LABORATORY, laboratory.into())]).unwrap()
        };
        let earlier = host("aa", "cc");
        let refusal = |now| check_same_tools(&earlier, &now, &results).unwrap_err().downcast::<Failure>().unwrap();
        let guest = refusal(host("bb", "cc"));
        assert_eq!(guest.kind, FailureKind::Unmet);
        assert!(guest.what.ends_with("has runs of the guest aa, and this would add some of bb"), "{guest}");
        let laboratory = refusal(host("aa", "dd"));
        assert_eq!(laboratory.kind, FailureKind::Usage, "{laboratory}");
        check_same_tools(&earlier, &earlier, &results).unwrap();
    }

    #[test]
    fn every_kernel_has_a_recipe_whose_patches_are_in_order() {
        for kernel in GuestKernel::VARIANTS {
            let patches = recipe::Recipe::find(kernel.series()).unwrap().patches();
            let numbers =
                patches.iter().map(|patch| patch.name.rsplit('/').next().unwrap()[..2].parse::<usize>().unwrap());
            assert_eq!(numbers.collect::<Vec<_>>(), (1..=patches.len()).collect::<Vec<_>>(), "{}", kernel.series());
        }
    }

    /// The configuration calls highspeed HSTCP, and does not mention reno, which is always built in.
    #[test]
    fn every_algorithm_of_the_guest_can_be_chosen() {
        let config = recipe::RECIPES[0].configuration[0].text;
        let built = config.lines().filter(|line| line.starts_with("CONFIG_TCP_CONG_") && !line.contains("ADVANCED"));
        assert_eq!(built.count() + 1, OF_LINUX.len(), "reno is always there");
        let named = |name: &&&str| config.contains(&format!("CONFIG_TCP_CONG_{}=y", name.to_uppercase()));
        let others: Vec<_> = OF_LINUX.iter().filter(|name| !named(name)).collect();
        assert_eq!(others, [&"reno", &"highspeed"], "which the configuration calls HSTCP");
    }
}
