//! How far a call is, in a small file for programs and for people who see a node's files only.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::bounded::reason;
use crate::failure::Failure;
use crate::lab::work::{Forecast, Progress, WorkOutcome};

/// Version of the file.
const SCHEMA: u32 = 1;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct State {
    schema: u32,
    /// Runs of this call, over all its scenarios, with those that an earlier call finished.
    total: usize,
    /// Finished runs.
    done: usize,
    /// Attempts that did not count and are repeated.
    late: usize,
    /// Runs that are given up.
    failed: usize,
    /// Until all is done, as far as it can be foreseen.
    seconds_left: u64,
}

/// The file of one call.
pub struct ProgressFile {
    file: PathBuf,
    now: Mutex<Now>,
}

#[derive(Debug)]
struct Now {
    state: State,
    /// Runs given up in the scenarios that are over.
    failed_before: usize,
    /// How long the scenarios that follow this one take, the next one last.
    later: Vec<Duration>,
}

impl ProgressFile {
    /// Writes the file for the first time; `forecasts` are of all scenarios, in their order.
    ///
    /// Errors: it cannot be written.
    pub fn create(file: &Path, forecasts: Vec<Forecast>) -> Result<ProgressFile> {
        let total = forecasts.iter().map(|forecast| forecast.to_do + forecast.finished).sum();
        let later: Vec<Duration> = forecasts.iter().rev().map(|forecast| forecast.expected).collect();
        let seconds_left = later.iter().sum::<Duration>().as_secs();
        let state = State { schema: SCHEMA, total, done: 0, late: 0, failed: 0, seconds_left };
        write(file, &state).map_err(|error| {
            let what = format!("cannot write the progress file \"{}\": {}", file.display(), reason(&error));
            Failure::usage(what).hint("name a file in a directory that exists and can be written")
        })?;
        Ok(ProgressFile { file: file.to_owned(), now: Mutex::new(Now { state, failed_before: 0, later }) })
    }

    /// Takes in what the runner told.
    pub fn show(&self, progress: &Progress) {
        self.change(|now| now.take(progress));
    }

    /// Takes in what came of a scenario.
    pub fn end(&self, outcome: &WorkOutcome) {
        self.change(|now| {
            let left_out = now.state.failed - now.failed_before;
            now.state.failed = now.failed_before + left_out.max(outcome.failed.len() + outcome.late.len());
            now.failed_before = now.state.failed;
            now.set_left(Duration::ZERO);
        });
    }

    /// Changes the state and writes it. A file that can no longer be written stops no run.
    fn change(&self, change: impl FnOnce(&mut Now)) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let before = now.state.clone();
        change(&mut now);
        if now.state != before {
            let _ = write(&self.file, &now.state);
        }
    }
}

impl Now {
    fn take(&mut self, progress: &Progress) {
        match progress {
            Progress::Begins(forecast) => {
                self.later.pop();
                self.state.done += forecast.finished;
                self.set_left(forecast.expected);
            }
            Progress::Left { left, .. } => self.set_left(*left),
            Progress::Finished(_) => self.state.done += 1,
            Progress::Again { last: false, .. } => self.state.late += 1,
            Progress::Again { last: true, .. } => self.state.failed += 1,
            Progress::LeftOut { runs, .. } => self.state.failed += runs,
            Progress::Calibrating(_) | Progress::Disturbed { .. } => {}
        }
    }

    fn set_left(&mut self, left: Duration) {
        self.state.seconds_left = (left + self.later.iter().sum::<Duration>()).as_secs();
    }
}

/// Readers see the old file or the new one.
fn write(file: &Path, state: &State) -> io::Result<()> {
    let mut text = serde_json::to_vec(state)?;
    text.push(b'\n');
    let mut partial = OsString::from(file);
    partial.push(".partial");
    fs::write(&partial, text)?;
    fs::rename(&partial, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forecast(to_do: usize, finished: usize, seconds: u64) -> Forecast {
        Forecast { paths: 0, to_do, finished, expected: Duration::from_secs(seconds), at_once: 1 }
    }

    #[test]
    fn file_counts_over_all_scenarios() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("progress.json");
        let progress = ProgressFile::create(&file, vec![forecast(2, 1, 10), forecast(3, 0, 20)]).unwrap();
        let text = || fs::read_to_string(&file).unwrap();
        assert_eq!(text(), "{\"schema\":1,\"total\":6,\"done\":0,\"late\":0,\"failed\":0,\"seconds_left\":30}\n");
        let again = |last| Progress::Again { id: "a".into(), attempt: 1, why: "late".into(), last };
        progress.show(&Progress::Begins(forecast(2, 1, 10)));
        progress.show(&again(false));
        progress.show(&Progress::Finished("a".into()));
        progress.show(&Progress::Left { going: 1, left: Duration::from_secs(4) });
        assert_eq!(text(), "{\"schema\":1,\"total\":6,\"done\":2,\"late\":1,\"failed\":0,\"seconds_left\":24}\n");
        progress.show(&again(true));
        progress.end(&WorkOutcome { late: vec!["b".into()], ..WorkOutcome::default() });
        progress.show(&Progress::Begins(forecast(3, 0, 20)));
        progress.end(&WorkOutcome { failed: vec![("c".into(), "why".into())], ..WorkOutcome::default() });
        assert_eq!(text(), "{\"schema\":1,\"total\":6,\"done\":2,\"late\":1,\"failed\":2,\"seconds_left\":0}\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn file_that_cannot_be_written_is_refused_before_anything_runs() {
        let error = ProgressFile::create(Path::new("/no/such/folder/x.json"), Vec::new()).err().unwrap();
        assert!(error.to_string().starts_with("cannot write the progress file"), "{error}");
    }
}
