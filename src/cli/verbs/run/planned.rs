//! Scenarios with their plans and result directories.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

use super::args::Args;
use super::disciplines;
use super::progress::ProgressFile;
use crate::cli::output::{note, warn};
use crate::{ns2, virtual_time};
use lab::cost::Jobs;
use lab::part::RunSelection;
use lab::plan::{Choices, Plan, PlannedRun};
use lab::results::Finished;
use lab::runner;
use lab::scenario::{self, BufferShortage, Cell, Ecn, FlowSpec, Scenario, algorithm};
use lab::traffic::{self, iperf3};
use lab::work::Forecast;
use shared::failure::Failure;
use shared::kernel::probe::has_accurate_ecn;
use shared::model::run::Engine;
use shared::sanitize::count;
use shared::units::Share;

/// Plans every requested scenario. For ns-2, skips those without agents if there are several scenarios.
pub fn all_planned(args: &Args) -> Result<Vec<Planned>> {
    let files = scenario_files(&args.scenarios)?;
    let mut planned = Vec::new();
    for path in &files {
        let scenario = Scenario::load(path, args.engine)?;
        if args.engine == Engine::Ns2 && scenario.ns2.is_none() && files.len() > 1 {
            note(&format!("\"{}\" has no [ns2] and is left out", path.display()));
            continue;
        }
        planned.push(plan(scenario, args)?);
    }
    if planned.is_empty() {
        let what = "cannot simulate: none of these scenarios has [ns2], which names the simulator's agents";
        return Err(Failure::usage(what).hint("`tccc run --explain ns2` describes it").into());
    }
    Ok(planned)
}

/// Adapts a scenario to its engine and checks what the engine requires.
fn plan(mut scenario: Scenario, args: &Args) -> Result<Planned> {
    if args.engine == Engine::Ns2 {
        scenario = scenario.simulated()?;
    }
    for lacking in scenario.unmeasurable() {
        warn(&lacking.to_string(), lacking.hint.as_deref());
    }
    let Args { runs, seed, profile, engine, kernel, perturb, .. } = *args;
    if kernel.is_some() && engine != Engine::Virtual {
        return Err(Failure::usage("--kernel chooses the kernel of virtual time")
            .hint("add `--engine virtual`")
            .into());
    }
    let plan = Plan::new(&scenario, &Choices { runs, seed, profile, engine, kernel, perturb })?;
    let cells: BTreeSet<usize> = args.part().runs(&scenario, &plan)?.iter().map(|run| run.cell).collect();
    let cells = || cells.iter().map(|cell| &plan.cells[*cell]);
    let shortages = match args.engine {
        Engine::Ns2 => Vec::new(), // it has no socket buffers
        Engine::Kernel | Engine::Virtual => scenario::buffer_shortages(cells(), plan.profile),
    };
    if let [first, others @ ..] = &shortages[..] {
        let more = match others.len() {
            0 => String::new(),
            more => format!("; {} of this kind for other cells", count(more, "more note")),
        };
        note(&format!("{}; {}{more}", first.sentence(), BufferShortage::ADVICE));
    }
    match args.engine {
        Engine::Kernel => {
            disciplines::check(&scenario, cells(), args.link)?;
            check_ecn(&scenario, cells())?;
            traffic::check_number(&scenario, cells())?;
            check_receivers(&scenario, cells())?;
            algorithm::check(&scenario, Engine::Kernel, cells())?;
            iperf3::check(&scenario, cells())?;
        }
        Engine::Virtual => {
            algorithm::check(&scenario, Engine::Virtual, cells())?;
            virtual_time::check(&scenario, plan.kernel, cells())?;
        }
        Engine::Ns2 => ns2::check(&plan)?,
    }
    Ok(Planned { out: PathBuf::new(), scenario, plan })
}

/// # Errors
/// The first flow with Accurate ECN, with its place, if this host's kernel has none.
fn check_ecn<'a>(scenario: &Scenario, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    let is_accurate = |flow: &&FlowSpec| flow.ecn == Ecn::Accurate;
    let mut flows = cells.into_iter().filter_map(|cell| Some((cell, cell.flows.iter().find(is_accurate)?)));
    let Some((cell, flow)) = flows.next().filter(|_| !has_accurate_ecn()) else { return Ok(()) };
    let why = Failure::unmet("this host's kernel has no Accurate ECN, which came with Linux 7.0");
    let why = why.hint("`--engine virtual --kernel 7.3` has it");
    Err(scenario.mistake_in_flow(cell, flow, "ecn", why).into())
}

/// # Errors
/// The first flow whose receiver only virtual time has, with its place.
fn check_receivers<'a>(scenario: &Scenario, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    let is_beyond = |flow: &&FlowSpec| !flow.receiver.is_setting();
    let mut flows = cells.into_iter().filter_map(|cell| Some((cell, cell.flows.iter().find(is_beyond)?)));
    let Some((cell, flow)) = flows.next() else { return Ok(()) };
    let word: &str = flow.receiver.into();
    let why = Failure::usage(format!("Linux has no receiver that is \"{word}\""));
    let why = why.hint("`--engine virtual` has it; a real kernel has only `no_sack`");
    Err(scenario.mistake_in_flow(cell, flow, "receiver", why).into())
}

/// Replaces a folder by its TOML files, sorted by name.
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
            return Err(Failure::usage(what)
                .hint("name a folder with scenarios; `ls scenarios` in the source of tccc lists some")
                .into());
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

pub struct Planned {
    /// Directory of its results.
    pub out: PathBuf,
    pub scenario: Scenario,
    pub plan: Plan,
}

impl Args {
    /// Forecasts the runs that are not finished yet.
    pub fn forecast(&self, one: &Planned, runs: &[&PlannedRun]) -> Result<Forecast> {
        Ok(self.forecast_by(self.jobs, one, runs, &Finished::read(&one.out)?))
    }

    /// # Errors
    /// The file cannot be written.
    pub fn progress_file(&self, planned: &[Planned], part: &RunSelection) -> Result<Option<ProgressFile>> {
        let Some(file) = &self.progress_file else { return Ok(None) };
        let forecasts = planned.iter().map(|one| self.forecast(one, &part.runs(&one.scenario, &one.plan)?));
        ProgressFile::create(file, forecasts.collect::<Result<_>>()?).map(Some)
    }

    pub fn forecast_by(&self, jobs: Jobs, one: &Planned, runs: &[&PlannedRun], finished: &Finished) -> Forecast {
        match self.engine {
            Engine::Kernel => runner::forecast(&one.plan, runs, finished, jobs),
            Engine::Virtual => virtual_time::forecast(&one.plan, runs, finished, jobs),
            Engine::Ns2 => ns2::forecast(&one.plan, runs, finished, jobs),
        }
    }
}

/// Sets the result directories: `out`, or a new one named after scenario and time. Several scenarios get one below it
/// each, by their names, and by their folders too if names are equal. Returns the `--out` that leads to the same
/// directories.
pub(super) fn name_places(out: Option<&Path>, planned: &mut [Planned]) -> PathBuf {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let now = now.trim_end_matches('Z').replace(':', "-");
    let names: Vec<String> = planned.iter().map(|one| one.scenario.name.clone()).collect();
    let new = match &names[..] {
        [name] => format!("{name}-{now}"),
        _ => now,
    };
    let base = out.map_or_else(|| Path::new("runs").join(new), Path::to_owned);
    for one in planned {
        one.out.clone_from(&base);
        if names.len() > 1 {
            let name = &one.scenario.name;
            let is_shared = names.iter().filter(|other| *other == name).count() > 1;
            let folder = Path::new(&one.scenario.file).parent().and_then(Path::file_name).filter(|_| is_shared);
            one.out.extend(folder.into_iter().chain([name.as_ref()]));
        }
    }
    base
}

/// Adds how to resume the call, unless the failure has its own hint.
pub(super) fn resumable(error: anyhow::Error, base: &Path, perturb: Option<Share>) -> anyhow::Error {
    let Some(failure) = error.downcast_ref::<Failure>().filter(|failure| failure.hint.is_none()) else {
        return error;
    };
    let failure = Failure { what: format!("{error:#}"), ..failure.clone() };
    let perturb = perturb.map_or(String::new(), |share| format!(" --perturb {share}"));
    failure.hint(format!("`tccc run` with `--out {}{perturb}` resumes it", base.display())).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    const TEXT: &str = include_str!("../../../../tests/fixtures/scenarios/plan.toml");
    use lab::work::interrupted;

    /// The base directory of these scenarios, and the directory of each.
    fn places(out: Option<&Path>, files: &[&str]) -> (PathBuf, Vec<PathBuf>) {
        let one = |file: &&str| {
            let scenario = Scenario::parse(file, TEXT).unwrap();
            let plan = Plan::new(&scenario, &Choices::default()).unwrap();
            Planned { out: PathBuf::new(), scenario, plan }
        };
        let mut planned: Vec<Planned> = files.iter().map(one).collect();
        let base = name_places(out, &mut planned);
        (base, planned.into_iter().map(|one| one.out).collect())
    }

    #[test]
    fn one_scenario_has_the_directory_and_several_one_below_it_each() {
        let below = |out: &str, files: &[&str]| places(Some(Path::new(out)), files).1;
        assert_eq!(below("x", &["p/a.toml"]), [Path::new("x")]);
        assert_eq!(below("x", &["p/a.toml", "q/b.toml"]), [Path::new("x/a"), Path::new("x/b")]);
        assert_eq!(below("x", &["p/a.toml", "q/a.toml"]), [Path::new("x/p/a"), Path::new("x/q/a")]);
        let (base, places) = places(None, &["p/a.toml"]);
        assert!(base.to_string_lossy().starts_with("runs/a-") && places == [base.clone()], "{base:?}: {places:?}");
    }

    /// For several scenarios, the hint used to name the directory of the interrupted one, below which a new call
    /// started.
    #[test]
    fn directory_that_an_interrupted_call_names_leads_to_the_same_places() {
        for files in [&["p/a.toml"][..], &["p/a.toml", "q/a.toml", "b.toml"]] {
            let (base, first) = places(None, files);
            assert_eq!(places(Some(&base), files).1, first);
            let said = resumable(interrupted(), &base, None);
            let hint = said.downcast_ref::<Failure>().unwrap().hint.clone();
            assert_eq!(hint, Some(format!("`tccc run` with `--out {}` resumes it", base.display())));
        }
        let own = resumable(Failure::failed("full").hint("make room").into(), Path::new("x"), None);
        assert_eq!(own.downcast_ref::<Failure>(), Some(&Failure::failed("full").hint("make room")));
        assert_eq!(resumable(anyhow::anyhow!("broken"), Path::new("x"), None).to_string(), "broken");
        let again = resumable(interrupted(), Path::new("x"), Some(Share(0.01)));
        let hint = again.downcast_ref::<Failure>().unwrap().hint.clone();
        assert_eq!(hint.as_deref(), Some("`tccc run` with `--out x --perturb 1%` resumes it"), "else it is refused");
    }
}
