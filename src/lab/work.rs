//! The interface of every engine that runs a part of a plan: the request, the progress, and the outcome.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use super::busy::BackgroundLoad;
use super::cost::Jobs;
use super::part::RunSelection;
use super::plan::{Plan, PlannedRun};
use super::results::{Finished, OpenResultDir};
use crate::scenario::Scenario;
use shared::failure::Failure;

/// One call's request.
#[derive(Clone)]
pub struct RunRequest<'a> {
    pub scenario: &'a Scenario,
    pub plan: &'a Plan,
    pub part: &'a RunSelection,
    pub out: PathBuf,
    pub jobs: Jobs,
    /// Set by the caller to interrupt; finished runs stay.
    pub stop: &'a AtomicBool,
}

/// Work whose result directory is open.
pub(crate) struct OpenRun<'a> {
    pub results: OpenResultDir,
    pub finished: Finished,
    /// Unfinished runs of the part.
    pub to_do: Vec<&'a PlannedRun>,
}

/// An engine's forecast for a part of a plan, given the finished runs.
pub(crate) type Forecaster = fn(&Plan, &[&PlannedRun], &Finished, Jobs) -> Forecast;

impl<'a> RunRequest<'a> {
    /// Opens the result directory, finds the unfinished runs, and reports the forecast.
    ///
    /// Side effects: the result directory, with the files that the scenario names. A changed file is refused even if nothing
    /// is left to do, because its old runs would be reported for it.
    ///
    /// # Errors
    /// The plan has no such part; the directory holds another plan, or cannot be written.
    pub(crate) fn begin(&self, forecast: Forecaster, tell: &mut dyn FnMut(Progress)) -> Result<OpenRun<'a>> {
        let results = OpenResultDir::open(&self.out, self.plan, &self.scenario.text)?;
        let finished = Finished::read(&self.out)?;
        results.keep_files(&self.scenario.files, &finished)?;
        let part = self.part.runs(self.scenario, self.plan)?;
        tell(Progress::Begins(forecast(self.plan, &part, &finished, self.jobs)));
        let to_do = finished.left(&part);
        Ok(OpenRun { results, finished, to_do })
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Begins(Forecast),
    /// The path of this cell is being measured.
    Calibrating(String),
    /// A path was outside its tolerance while other processes used the processors.
    Disturbed {
        others: BackgroundLoad,
        /// Total time for which the measurement is repeated; `None` if it is not repeated.
        waits: Option<Duration>,
    },
    /// Some paths do not match the scenario, so their cells are left out.
    LeftOut {
        runs: usize,
        why: String,
    },
    Left {
        /// Runs that are active.
        going: usize,
        /// Expected time until all runs are finished.
        left: Duration,
    },
    /// The id of the run.
    Finished(String),
    /// An attempt was late or failed.
    Again {
        id: String,
        /// From 1.
        attempt: u32,
        why: String,
        /// Whether the run is given up.
        last: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Distinct paths to measure first.
    pub paths: usize,
    pub to_do: usize,
    /// Runs of the part that an earlier call finished.
    pub finished: usize,
    /// Time for paths and runs.
    pub expected: Duration,
    /// Most runs at once in that time.
    pub at_once: usize,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkOutcome {
    pub finished: usize,
    /// Runs whose link or sender was late at every attempt.
    pub late: Vec<String>,
    /// Runs that failed at every attempt, with the reason.
    pub failed: Vec<(String, String)>,
    /// Names the paths that do not match the scenario; their cells were left out.
    pub outside: Option<Failure>,
    /// Sentences for readers of the results: settings that this kernel lacks, links that are not at their best.
    pub notices: Vec<String>,
}

/// The error of an interrupted call; the caller adds how to resume it.
pub fn interrupted() -> anyhow::Error {
    Failure::again("interrupted; finished runs are kept").into()
}
