//! The scenarios of a call with their plans.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::args::Args;
use super::progress::ProgressFile;
use crate::failure::Failure;
use crate::lab::cost::Jobs;
use crate::lab::part::Part;
use crate::lab::plan::{Plan, PlannedRun};
use crate::lab::results::Finished;
use crate::lab::runner;
use crate::lab::work::Forecast;
use crate::model::run::Engine;
use crate::scenario::{Scenario, algorithm};
use crate::{ns2, virtual_time};

/// Every scenario that is asked for; of several, those that the simulator has no agents for are left out.
pub fn all_planned(args: &Args) -> Result<Vec<Planned>> {
    let files = scenario_files(&args.scenarios)?;
    let mut planned = Vec::new();
    for path in &files {
        let scenario = Scenario::load(path, args.engine)?;
        if args.engine == Engine::Ns2 && scenario.ns2.is_none() && files.len() > 1 {
            crate::cli::output::note(&format!("\"{}\" has no [ns2] and is left out", path.display()));
            continue;
        }
        planned.push(plan(&scenario, args)?);
    }
    if planned.is_empty() {
        let failure =
            Failure::usage("cannot simulate: no scenario of these has [ns2], which names the simulator's agents");
        return Err(failure.hint("`tccc run --explain ns2` describes it").into());
    }
    Ok(planned)
}

/// A scenario as its engine carries it out, checked for what the engine needs.
fn plan(written: &Scenario, args: &Args) -> Result<Planned> {
    let scenario = match args.engine {
        Engine::Kernel | Engine::Virtual => written.clone(),
        Engine::Ns2 => written.simulated()?,
    };
    for lacking in scenario.unmeasurable() {
        crate::cli::output::warn(&lacking.to_string(), lacking.hint.as_deref());
    }
    let plan = Plan::new(&scenario, &args.choices())?;
    let cells: BTreeSet<usize> = args.part().runs(&scenario, &plan)?.iter().map(|run| run.cell).collect();
    let cells = || cells.iter().map(|cell| &plan.cells[*cell]);
    match args.engine {
        Engine::Kernel => algorithm::check(&scenario, Engine::Kernel, cells())?,
        Engine::Virtual => {
            algorithm::check(&scenario, Engine::Virtual, cells())?;
            virtual_time::check(&scenario, cells())?;
        }
        Engine::Ns2 => ns2::check(&plan)?,
    }
    Ok(Planned { out: PathBuf::new(), scenario, plan })
}

/// The files that are asked for: of a folder all its scenarios, by name.
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
            return Err(Failure::usage(what).hint("`ls scenarios/*` shows those that come with tccc").into());
        }
        inside.sort();
        files.extend(inside);
    }
    Ok(files)
}

/// A scenario with its plan and the directory of its results.
pub struct Planned {
    pub out: PathBuf,
    pub scenario: Scenario,
    pub plan: Plan,
}

impl Args {
    /// What is left to do of a plan.
    pub fn forecast(&self, one: &Planned, runs: &[&PlannedRun]) -> Result<Forecast> {
        Ok(self.forecast_by(self.jobs, one, runs, &Finished::read(&one.out)?))
    }

    /// The file that says how far all these plans are. None: it is not asked for.
    ///
    /// Errors: it cannot be written.
    pub fn progress_file(&self, planned: &[Planned], part: &Part) -> Result<Option<ProgressFile>> {
        let Some(file) = &self.progress_file else { return Ok(None) };
        let forecasts = planned.iter().map(|one| self.forecast(one, &part.runs(&one.scenario, &one.plan)?));
        ProgressFile::create(file, forecasts.collect::<Result<_>>()?).map(Some)
    }

    /// What these runs take with so many at once, where some are finished.
    pub fn forecast_by(&self, jobs: Jobs, one: &Planned, runs: &[&PlannedRun], finished: &Finished) -> Forecast {
        match self.engine {
            Engine::Kernel => runner::forecast(&one.plan, runs, finished, jobs),
            Engine::Virtual => virtual_time::forecast(&one.plan, runs, finished, jobs),
            Engine::Ns2 => ns2::forecast(&one.plan, runs, finished, jobs),
        }
    }
}
