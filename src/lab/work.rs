//! A part of a plan to run, by any engine: what it is asked for, what it tells, and what is left to say.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Result;

use super::busy::Others;
use super::cost::Jobs;
use super::part::Part;
use super::plan::{Plan, PlannedRun};
use super::results::{Finished, OpenResultDir};
use crate::failure::Failure;
use crate::scenario::Scenario;

/// What one call runs.
#[derive(Clone)]
pub struct Work<'a> {
    pub scenario: &'a Scenario,
    pub plan: &'a Plan,
    pub part: &'a Part,
    pub out: PathBuf,
    /// Runs at once.
    pub jobs: Jobs,
    /// Set from outside to stop: finished runs stay.
    pub stop: &'a AtomicBool,
}

/// Work whose result directory is open.
pub(crate) struct Begun<'a> {
    pub results: OpenResultDir,
    pub finished: Finished,
    /// The runs of the part that are left to make.
    pub to_do: Vec<&'a PlannedRun>,
}

/// What an engine forecasts for a part of a plan beside what is finished.
pub(crate) type Forecaster = fn(&Plan, &[&PlannedRun], &Finished, Jobs) -> Forecast;

impl<'a> Work<'a> {
    /// Opens the result directory, finds what is left to do, and tells it.
    ///
    /// Errors: the plan has no such part; the directory holds another plan, or cannot be written.
    /// Side effects: the result directory, with the files that the scenario names.
    pub(crate) fn begin(&self, forecast: Forecaster, tell: &mut dyn FnMut(Progress)) -> Result<Begun<'a>> {
        let results = OpenResultDir::open(&self.out, self.plan, &self.scenario.text)?;
        results.keep_files(&self.scenario.files)?;
        let finished = Finished::read(&self.out)?;
        let part = self.part.runs(self.scenario, self.plan)?;
        tell(Progress::Begins(forecast(self.plan, &part, &finished, self.jobs)));
        let to_do = finished.left(&part);
        Ok(Begun { results, finished, to_do })
    }
}

/// What happens while a plan runs, for whoever shows it.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// What this call has to do.
    Begins(Forecast),
    /// The path of a cell is being measured.
    Calibrating(String),
    /// A path was measured wrong while others used the processors.
    Disturbed {
        others: Others,
        /// For how long in all the measurement is repeated; none when it is not, any more.
        waits: Option<Duration>,
    },
    /// Some of the paths are not what the scenario asks: their cells are left out.
    LeftOut {
        runs: usize,
        why: String,
    },
    /// How many runs go on, and how long the rest takes from now.
    Left {
        going: usize,
        /// Until all are finished.
        left: Duration,
    },
    Finished(String),
    /// A run counts no more, or is made again: its id, which attempt, and why.
    Again {
        id: String,
        /// The attempt that went wrong, from 1.
        attempt: u32,
        why: String,
        last: bool,
    },
}

/// What one call has to do, and how long that should take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    /// Distinct paths to measure first.
    pub paths: usize,
    pub to_do: usize,
    /// Runs of the part that an earlier call finished.
    pub finished: usize,
    /// How long all of it should take.
    pub expected: Duration,
    /// Most runs at once, in that time.
    pub at_once: usize,
}

/// What is left to say at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    pub finished: usize,
    /// Runs whose link was late at every attempt.
    pub late: Vec<String>,
    /// Runs that failed at every attempt, with the reason.
    pub failed: Vec<(String, String)>,
    /// Paths that are not what the scenario asks, whose cells were left out.
    pub outside: Option<Failure>,
    /// What a reader of the results has to know: settings that this kernel lacks, links that are not at their best.
    pub notices: Vec<String>,
}

/// What a call ends with that was stopped from outside; who made the call knows how it is resumed.
pub fn interrupted() -> anyhow::Error {
    Failure::again("interrupted; finished runs are kept").into()
}
