//! A plan run in virtual time: Linux' own TCP in a guest whose clock stands still while it computes.
//!
//! Each run is a guest of its own: a kernel as one process of this host, bound to a processor, without privilege. Links,
//! traffic and tracer are in its kernel; this program is its first process ([`inside`]). The same binary, guest,
//! scenario and seed give the same results to the byte, however busy the host is.

mod algorithms;
mod archive;
mod bytes;
pub(crate) mod checks;
mod flow;
pub mod guest;
pub mod image;
pub(crate) mod inside;
pub mod job;
mod limits;
pub(crate) mod link;
mod modules;
pub mod process;
mod recipe;
mod sandbox;
mod setting;

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use self::algorithms::Modules;
use self::guest::Guest;
use self::image::Image;
use self::modules::Workshop;
use self::process::{CONSOLE, Launch};
use self::setting::{GuestSetting, Measured};
use crate::lab::cost::{self, Jobs};
use crate::lab::plan::{Plan, PlannedRun};
use crate::lab::pool::{self, Pool, workers};
use crate::lab::results::{Finished, OpenResultDir, RunFolder};
use crate::lab::work::{Forecast, OpenedWork, Progress, Work, WorkOutcome};
use crate::model::run::{HostRecord, RunRecord, RunStatus};
use crate::scenario::{Cell, Scenario};

/// The modules of tccc in the guest's kernel, which every tccc builds from its own source.
const LABORATORY: &str = "laboratory";
/// The start of every run by the guest's wall clock: results have no other, because equal runs give equal files.
const STARTED: &str = "2001-09-09T01:46:40.000Z";
/// The folder of a run that the guest shares; gone once the run is over.
const SHARED: &str = "guest";
/// What a guest takes before and after its traffic.
const START: Duration = Duration::from_millis(150);
/// What a packet takes over one link, acknowledgement included, on the 2.4 GHz processor this was written on.
const PACKET: Duration = Duration::from_nanos(1_500);
/// A guest may take so many times its forecast, and so much more, before it counts as hanging.
const PATIENCE: (u32, Duration) = (20, Duration::from_secs(60));

/// Whether this host can hold a guest to its folder.
pub fn is_caged() -> bool {
    sandbox::is_available()
}

/// Checks that virtual time has what every cell asks for.
///
/// Errors: the first field that it does not have, with its place.
pub fn check<'a>(scenario: &Scenario, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    cells.into_iter().try_for_each(|cell| limits::check(scenario, cell))
}

/// What is left of a part when these runs are finished, as [`crate::lab::runner::forecast`] for the kernel.
pub(crate) fn forecast(plan: &Plan, part: &[&PlannedRun], finished: &Finished, jobs: Jobs) -> Forecast {
    pool::forecast(part, finished, jobs, &|run| expected(&plan.cells[run.cell]))
}

/// How long one run of a cell takes.
fn expected(cell: &Cell) -> Duration {
    START + PACKET.mul_f64(cost::packets(cell))
}

/// Runs what is left of a plan.
///
/// Errors: the guest lacks what a flow asks; the compiler is missing or refuses a module; the directory holds another
/// plan, or runs of another guest; `stop` was set; every run fails.
/// Side effects: processes that do not outlive the call; the result directory; modules in the user's cache.
pub(crate) fn run(work: &Work<'_>, guest: &Guest, tell: &mut dyn FnMut(Progress)) -> Result<WorkOutcome> {
    let OpenedWork { results, to_do, .. } = work.begin(forecast, tell)?;
    let plan = work.plan;
    if to_do.is_empty() {
        return Ok(WorkOutcome::default());
    }
    let workshop = Workshop::open(guest, work.stop)?;
    let cells = to_do.iter().map(|run| &plan.cells[run.cell]);
    let modules = Modules::prepare(&workshop, work.scenario, cells)?;
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
    let failed: Vec<(String, String)> =
        pool.make(&to_do, tell)?.into_iter().map(|(id, error)| (id, format!("{error:#}"))).collect();
    match failed.first() {
        Some((id, why)) if failed.len() == to_do.len() => bail!("every run fails; {id}: {why}"),
        _ => Ok(WorkOutcome { finished: to_do.len() - failed.len(), failed, ..WorkOutcome::default() }),
    }
}

/// What all runs share.
struct Laboratory<'a> {
    plan: &'a Plan,
    results: &'a OpenResultDir,
    guest: &'a Guest,
    modules: &'a Modules,
    image: Image,
    processors: Vec<usize>,
}

impl Laboratory<'_> {
    /// Makes one run and keeps it, whatever came of it; an interrupted one is not kept.
    fn make(&self, run: &PlannedRun, worker: usize, is_stopped: &dyn Fn() -> bool) -> Result<()> {
        let folder = self.results.begin(&run.id)?;
        match self.measure(run, &folder, worker, is_stopped) {
            Ok(measured) => {
                let record = self.record(run, RunStatus::Done, None, &measured);
                fs::remove_dir_all(folder.path().join(SHARED)).context("remove the guest's folder")?;
                folder.finish(&record, &measured.events)
            }
            Err(error) if is_stopped() => Err(error),
            Err(error) => {
                let why = format!("{error:#}");
                let record = self.record(run, RunStatus::Failed, Some(why), &Measured::default());
                let shared = folder.path().join(SHARED);
                let _ = fs::rename(shared.join(CONSOLE), folder.path().join(CONSOLE)); // there is none before its start
                let _ = fs::remove_dir_all(shared);
                folder.finish(&record, &[])?;
                Err(error)
            }
        }
    }

    fn measure(
        &self,
        run: &PlannedRun,
        folder: &RunFolder,
        worker: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Measured> {
        let cell = &self.plan.cells[run.cell];
        let shared = folder.path().join(SHARED);
        fs::create_dir(&shared).with_context(|| format!("create \"{}\"", shared.display()))?;
        let setting = GuestSetting::new(self.plan, run, self.modules)?;
        setting.write(&shared)?;
        let launch = Launch {
            guest: self.guest,
            image: &self.image.file,
            folder: &shared,
            seed: run.seed,
            processor: self.processors[worker % self.processors.len()],
            memory_mb: setting.memory_mb(),
            limit: expected(cell) * PATIENCE.0 + PATIENCE.1,
        };
        launch.run(is_stopped)?;
        setting.read(&shared)
    }

    fn record(&self, run: &PlannedRun, status: RunStatus, why: Option<String>, measured: &Measured) -> RunRecord {
        RunRecord {
            id: self.results.id_of(run, status),
            status,
            why,
            flows: measured.flows.clone(),
            links: measured.links.clone(),
            events_dropped: measured.events_dropped,
            ..self.plan.record(run, STARTED.to_owned())
        }
    }
}

/// Writes what the runs are made with, or checks that it is what the earlier ones were made with.
///
/// Nothing of this host is in it: equal runs give equal files on any machine.
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

/// A directory holds runs of one guest and one tccc. Another host may have that guest; all have this tccc.
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
    use crate::failure::{Failure, FailureKind};
    use crate::kernel::congestion::OF_LINUX;
    use crate::lab::plan::Choices;
    use crate::lab::plan::tests::{TEXT, planned};

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

    /// The configuration names most of them by other words.
    #[test]
    fn every_algorithm_of_the_guest_can_be_chosen() {
        let config = recipe::CONFIGURATION.iter().find(|file| file.name == "config").unwrap().text;
        let built = config.lines().filter(|line| line.starts_with("CONFIG_TCP_CONG_") && !line.contains("ADVANCED"));
        assert_eq!(built.count() + 1, OF_LINUX.len(), "reno is always there");
        let named = |name: &&&str| config.contains(&format!("CONFIG_TCP_CONG_{}=y", name.to_uppercase()));
        let others: Vec<_> = OF_LINUX.iter().filter(|name| !named(name)).collect();
        assert_eq!(others, [&"reno", &"highspeed"], "which the configuration calls HSTCP");
    }
}
