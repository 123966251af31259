//! The progress file: for programs, and for people who see only a node's files.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use lab::work::{Forecast, Progress, WorkOutcome};
use shared::failure::Failure;
use shared::kernel::io_error::reason;

/// Version of the file.
const SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct FileContent {
    schema: u32,
    /// Runs of all scenarios of this call, including those that an earlier call finished.
    total: usize,
    /// Finished runs.
    done: usize,
    /// Attempts that did not count and are repeated.
    late: usize,
    /// Runs that were given up.
    failed: usize,
    /// Expected time until everything is done.
    seconds_left: u64,
}

/// The file of one call.
pub struct ProgressFile {
    file: PathBuf,
    progress: Mutex<CallProgress>,
}

#[derive(Debug)]
struct CallProgress {
    content: FileContent,
    /// Runs given up in earlier scenarios.
    failed_before: usize,
    /// Expected times of the scenarios after this one, the next one last.
    later: Vec<Duration>,
}

impl ProgressFile {
    /// Writes the file for the first time.
    ///
    /// Shape: `forecasts` has all scenarios in their order.
    pub fn create(file: &Path, forecasts: Vec<Forecast>) -> Result<ProgressFile> {
        let total = forecasts.iter().map(|forecast| forecast.to_do + forecast.finished).sum();
        let later: Vec<Duration> = forecasts.iter().rev().map(|forecast| forecast.expected).collect();
        let seconds_left = later.iter().sum::<Duration>().as_secs();
        let content = FileContent { schema: SCHEMA, total, done: 0, late: 0, failed: 0, seconds_left };
        write(file, &content).map_err(|error| {
            let what = format!("cannot write the progress file \"{}\": {}", file.display(), reason(&error));
            Failure::usage(what).hint("name a file in a directory that exists and can be written")
        })?;
        let progress = Mutex::new(CallProgress { content, failed_before: 0, later });
        Ok(ProgressFile { file: file.to_owned(), progress })
    }

    pub fn show(&self, progress: &Progress) {
        self.change(|call| call.take(progress));
    }

    /// Counts the runs that a finished scenario lost.
    pub fn end(&self, outcome: &WorkOutcome) {
        self.change(|call| {
            let left_out = call.content.failed - call.failed_before;
            call.content.failed = call.failed_before + left_out.max(outcome.failed.len() + outcome.late.len());
            call.failed_before = call.content.failed;
            call.set_left(Duration::ZERO);
        });
    }

    /// Writes the file after a change. Runs continue even if it can no longer be written.
    fn change(&self, change: impl FnOnce(&mut CallProgress)) {
        let mut call = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let before = call.content.clone();
        change(&mut call);
        if call.content != before {
            let _ = write(&self.file, &call.content);
        }
    }
}

impl CallProgress {
    fn take(&mut self, progress: &Progress) {
        match progress {
            Progress::Begins(forecast) => {
                self.later.pop();
                self.content.done += forecast.finished;
                self.set_left(forecast.expected);
            }
            Progress::Left { left, .. } => self.set_left(*left),
            Progress::Finished(_) => self.content.done += 1,
            Progress::Again { last: false, .. } => self.content.late += 1,
            Progress::Again { last: true, .. } => self.content.failed += 1,
            Progress::LeftOut { runs, .. } => self.content.failed += runs,
            Progress::Calibrating(_) | Progress::Disturbed { .. } => {}
        }
    }

    fn set_left(&mut self, left: Duration) {
        self.content.seconds_left = (left + self.later.iter().sum::<Duration>()).as_secs();
    }
}

/// Replaces the file atomically.
fn write(file: &Path, content: &FileContent) -> io::Result<()> {
    let mut text = serde_json::to_vec(content)?;
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
