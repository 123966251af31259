//! Counts tests from libtest's output, corrected by the log of skips.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::process::Command;

use anyhow::Result;

use crate::process;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TestCount {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
    /// Names of what failed.
    pub failures: Vec<String>,
    /// The beginning of what the failed tests printed.
    pub printed: Vec<String>,
    /// Number of skips by reason.
    pub reasons: BTreeMap<String, usize>,
}

impl TestCount {
    pub fn add(&mut self, other: TestCount) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
        self.printed.extend(other.printed);
        for (reason, times) in other.reasons {
            *self.reasons.entry(reason).or_default() += times;
        }
    }

    /// Records `times` skips for one reason.
    pub fn skip(&mut self, times: usize, reason: impl Into<String>) {
        self.skipped += times;
        *self.reasons.entry(reason.into()).or_default() += times;
    }

    pub fn fail(&mut self, name: impl Into<String>) {
        self.failed += 1;
        self.failures.push(name.into());
    }

    /// Records one check, and prints its error to stderr.
    pub fn check(&mut self, name: &str, done: Result<()>) {
        match done {
            Ok(()) => self.passed += 1,
            Err(error) => {
                eprintln!("xtask: error: {name}: {error:#}");
                self.fail(name);
            }
        }
    }

    /// Records one check by a program that may be missing: a skip with the reason `lack`.
    pub fn check_by(&mut self, mut program: Command, name: &str, lack: &str, work: impl FnOnce() -> Result<()>) {
        if process::answers(&mut program) { self.check(name, work()) } else { self.skip(1, lack) }
    }

    /// Prints the count as the command's last line.
    ///
    /// # Errors
    /// [`Failed`] when something failed.
    pub fn conclude(&self) -> Result<()> {
        println!("\n{self}");
        if self.failed > 0 { Err(Failed.into()) } else { Ok(()) }
    }

    /// Moves the tests named in the skip log from passed to skipped; a test counts once however often it is named.
    pub fn correct_by_skip_log(&mut self, log: &str) {
        let skips: BTreeSet<&str> = log.lines().filter_map(|line| line.strip_prefix("skipped: ")).collect();
        for skip in skips {
            let reason = skip.split_once(": needs ").map_or(skip, |(_, need)| need);
            self.passed = self.passed.saturating_sub(1);
            self.skip(1, format!("needs {reason}"));
        }
    }
}

/// What failed tests printed, one line for each failure and each reason of skips, then one line with the counts.
impl fmt::Display for TestCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.printed {
            writeln!(f, "{line}")?;
        }
        for name in &self.failures {
            writeln!(f, "failed: {name}")?;
        }
        for (reason, times) in &self.reasons {
            writeln!(f, "skipped {times}: {reason}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// The printed count already shows the failure: nothing may be printed after it.
#[derive(Debug, thiserror::Error)]
#[error("not everything passed")]
pub struct Failed;

/// Beginnings of the reason of an ignored test that another test or command starts.
const RUN_ELSEWHERE: [&str; 2] = ["started by", "run by"];

/// A failed test prints more where a proptest shows its case.
const PRINTED_LINES: usize = 12;
const PRINTED_CHARS: usize = 400;

#[derive(Debug, Default)]
pub struct LibtestReader {
    count: TestCount,
    open_binaries: usize,
    /// Lines still wanted of what a failed test printed.
    wanted_lines: usize,
}

impl LibtestReader {
    pub fn read_line(&mut self, line: &str) {
        if line.starts_with("running ") && (line.ends_with(" test") || line.ends_with(" tests")) {
            self.open_binaries += 1;
        }
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            self.count.failures.push(name.to_owned());
        }
        self.read_printed(line);
        let ignored = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ignored, "));
        if let Some((_, reason)) = ignored.filter(|(_, reason)| !RUN_ELSEWHERE.iter().any(|it| reason.starts_with(it)))
        {
            self.count.skip(1, format!("ignored: {reason}"));
        }
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        self.open_binaries = self.open_binaries.saturating_sub(1);
        for part in counts.split("; ") {
            match part.split_once(' ').and_then(|(number, word)| Some((number.parse::<usize>().ok()?, word))) {
                Some((number, "passed")) => self.count.passed += number,
                Some((number, "failed")) => self.count.failed += number,
                _ => (),
            }
        }
    }

    /// libtest prints the output of each failed test below a heading, and ends with a list of their names.
    fn read_printed(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" stdout ----") {
            self.wanted_lines = PRINTED_LINES;
        } else if line == "failures:" {
            self.wanted_lines = 0;
        }
        if self.wanted_lines > 0 && !line.is_empty() {
            self.wanted_lines -= 1;
            self.count.printed.push(line.chars().take(PRINTED_CHARS).collect());
        }
    }

    /// Returns the count; a binary that began and gave no result died, which is one failure.
    pub fn finish(mut self) -> TestCount {
        for _ in 0..self.open_binaries {
            self.count.fail("a test binary that began and gave no result");
        }
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TestCount {
        let mut reader = LibtestReader::default();
        text.lines().for_each(|line| reader.read_line(line));
        reader.finish()
    }

    #[test]
    fn results_of_binaries_are_summed() {
        let count = read(
            "running 5 tests\ntest a ... ok\ntest c ... ignored, slow\ntest d ... ignored, started by a\ntest e ... ignored, run by `cargo xtask prove`\ntest b - should panic ... FAILED\n\ntest result: ok. 2 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             running 1 test\ntest result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((count.passed, count.failed, count.skipped), (2, 1, 1));
        assert_eq!(count.failures, ["b - should panic"]);
        assert_eq!(count.reasons.keys().collect::<Vec<_>>(), ["ignored: slow"]);
    }

    #[test]
    fn output_of_failed_tests_is_repeated_at_the_end() {
        let count = read("failures:\n\n---- a stdout ----\nleft: 1\n\n\nfailures:\n    a\n");
        assert_eq!(count.to_string(), "---- a stdout ----\nleft: 1\n0 passed, 0 failed, 0 skipped");
    }

    #[test]
    fn binary_that_dies_is_a_failure() {
        assert_eq!(read("running 3 tests\ntest a ... ok\n").failed, 1);
    }

    #[test]
    fn skipped_test_is_not_counted_as_passed() {
        let mut count = TestCount { passed: 5, ..TestCount::default() };
        let log = "skipped: kernel_load::a: needs netem: no such qdisc\nskipped: kernel_load::b: needs netem: no such qdisc\n\
                   skipped: kernel_load::b: needs netem: no such qdisc\n";
        count.correct_by_skip_log(log);
        assert_eq!(count.to_string(), "skipped 2: needs netem: no such qdisc\n3 passed, 0 failed, 2 skipped");
    }
}
