//! Scenarios with their plans.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::args::Args;
use super::progress::ProgressFile;
use crate::cli::output::{note, warn};
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

/// Plans every requested scenario. With several, skips those without agents for the simulator.
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
        let what = "cannot simulate: no scenario of these has [ns2], which names the simulator's agents";
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
            return Err(Failure::usage(what).hint("`ls scenarios/*` shows those that come with tccc").into());
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

    /// Errors: the file cannot be written.
    pub fn progress_file(&self, planned: &[Planned], part: &Part) -> Result<Option<ProgressFile>> {
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
