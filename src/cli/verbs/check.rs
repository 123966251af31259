//! `tccc check`: rules, verifier, properties, fuzzer and proof for a user's algorithm.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::cli::output::{OutputFormat, results, write_json};
use author::report::{Check, CheckGroup, CheckOutcome, Inspection};
use lab::virtual_time;
use shared::catalog;
use shared::failure::Failure;
use shared::kernel::process::OWN_PROGRAM;
use shared::sanitize::plain_lines;

const NAME_WIDTH: usize = 18;
/// Findings printed for each check.
const DETAILS_SHOWN: usize = 5;

/// Check an algorithm of your own without registering it
///
/// The rules are those for tccc's own algorithms: a complete header, tunables with range and reason, phases. The kernel's
/// verifier checks each callback. The file is also compiled natively with UndefinedBehaviorSanitizer, and a simulated kernel
/// drives it through random connections. Clang's fuzzer and Frama-C, if installed, look for inputs that break it. If the
/// guest of virtual time is built, the file is compiled for it too.
///
/// An object (FILE.bpf.o) gets only the rules and the verifier. The verifier needs CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN;
/// the other checks need clang and cc, and no privilege. A check that this host cannot run is skipped, with the reason. The
/// native build runs as you: check other people's files as another user.
///
/// Example: `tccc check mine.bpf.c`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file; FILE.bpf.o:TABLE for an object with several ops tables
    #[arg(value_name = "FILE.bpf.c|FILE.bpf.o[:TABLE]")]
    file: PathBuf,
    /// Run only these checks; may be repeated
    #[arg(long, value_name = "CHECKS", value_enum)]
    only: Vec<CheckGroup>,
    /// How long the fuzzer runs, in whole seconds; 0s disables it
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    fuzz: Duration,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Table)]
    output: OutputFormat,
}

#[derive(Serialize)]
struct CheckDocument {
    algorithm: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    checks: Vec<Check>,
}

impl Args {
    /// Prints a line for each check as it ends.
    ///
    /// # Errors
    /// The file is not an algorithm; a check failed.
    pub fn run(&self) -> Result<()> {
        let text = self.file.to_string_lossy();
        if !self.file.exists() && catalog::find(&text).is_ok() {
            let what = format!("\"{text}\" is an algorithm that tccc carries, and is checked by its own tests");
            return Err(Failure::usage(what).hint("give a file: mine.bpf.c or mine.bpf.o").into());
        }
        let is_table = self.output == OutputFormat::Table;
        let mut written = Ok(());
        let mut tell = |check: &Check| {
            if is_table && written.is_ok() {
                written = write_check(&mut results(), check);
            }
        };
        let inspection = Inspection {
            file: &self.file,
            only: &self.only,
            fuzz: self.fuzz,
            ring,
            module: virtual_time::compile,
            tell: &mut tell,
        };
        let (algorithm, checks) = inspection.run()?;
        written?;
        let count = |outcome| checks.iter().filter(|check| check.outcome == outcome).count();
        let [passed, failed, skipped] = [CheckOutcome::Passed, CheckOutcome::Failed, CheckOutcome::Skipped].map(count);
        let mut out = results();
        if is_table {
            writeln!(out, "\"{algorithm}\": {passed} passed, {failed} failed, {skipped} skipped")?;
        } else {
            let algorithm = algorithm.clone();
            write_json(&mut out, &CheckDocument { algorithm, passed, failed, skipped, checks })?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format!("\"{algorithm}\" fails {failed} of its checks")).into()),
        }
    }
}

/// `tccc ring`, which checks one property in a process of its own.
fn ring() -> Command {
    let mut command = Command::new(OWN_PROGRAM);
    command.arg("ring");
    command
}

fn write_check(out: &mut impl Write, check: &Check) -> io::Result<()> {
    let outcome = match check.outcome {
        CheckOutcome::Passed => "passed",
        CheckOutcome::Failed => "FAILED",
        CheckOutcome::Skipped => "skipped",
    };
    let mut details: Vec<String> = check.details.iter().map(|detail| plain_lines(detail)).collect();
    let more = details.len().saturating_sub(DETAILS_SHOWN);
    details.truncate(DETAILS_SHOWN);
    details.extend((more > 0).then(|| format!("and {more} more: `-o json` has all")));
    details.resize(details.len().max(1), String::new());
    let first = [(check.name.as_str(), outcome)].into_iter();
    for ((name, outcome), detail) in first.chain(std::iter::repeat(("", ""))).zip(details) {
        writeln!(out, "{}", format!("{name:NAME_WIDTH$} {outcome:7} {detail}").trim_end())?;
    }
    Ok(())
}
