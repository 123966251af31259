//! `tccc check`: rules, verifier, properties, fuzzer and proof for an algorithm of one's own.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::author::report::{Check, CheckGroup, CheckOutcome, Inspection};
use crate::catalog;
use crate::cli::output::{Format, write_json};
use crate::failure::Failure;

const NAME_WIDTH: usize = 18;
/// Findings that are shown of one check; `-o json` has all.
const DETAILS_SHOWN: usize = 5;

/// Check an algorithm of your own without registering it
///
/// The rules are those for the algorithms that tccc carries: a complete header, tunables with range and reason, phases. The
/// kernel's verifier looks at each callback. The file is also compiled natively, with the sanitizer of undefined behaviour, and
/// driven by a simulated kernel through random connections. Where clang has its fuzzer and Frama-C is installed, both look for
/// inputs that break it.
///
/// An object (FILE.bpf.o) is checked by the rules and the verifier alone. The verifier needs CAP_BPF, CAP_PERFMON and
/// CAP_NET_ADMIN; the rest needs no privilege, clang, and cc. What is missing here is skipped, with the reason. The native build
/// runs as you: check files of others as another user.
///
/// Example: `tccc check mine.bpf.c`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file; FILE.bpf.o:TABLE where an object has several ops tables
    #[arg(value_name = "FILE.bpf.c|FILE.bpf.o[:TABLE]")]
    file: PathBuf,
    /// These checks alone; may be given several times
    #[arg(long, value_name = "CHECKS", value_enum)]
    only: Vec<CheckGroup>,
    /// How long the fuzzer looks, whole seconds; 0s: not at all
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = humantime::parse_duration)]
    fuzz: Duration,
    /// How the result is printed
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Serialize)]
struct Document {
    algorithm: String,
    passed: usize,
    failed: usize,
    skipped: usize,
    checks: Vec<Check>,
}

impl Args {
    /// Checks, and prints a line for each check as it ends.
    ///
    /// Errors: the file is no algorithm; a check failed.
    pub fn run(&self) -> Result<()> {
        let text = self.file.to_string_lossy();
        if !self.file.exists() && catalog::find(&text).is_ok() {
            let what = format!("\"{text}\" is an algorithm that tccc carries, and is checked by its own tests");
            return Err(Failure::usage(what).hint("give a file: mine.bpf.c or mine.bpf.o").into());
        }
        let is_table = self.output == Format::Table;
        let mut written = Ok(());
        let mut tell = |check: &Check| {
            if is_table && written.is_ok() {
                written = write_check(&mut io::stdout().lock(), check);
            }
        };
        let inspection = Inspection { file: &self.file, only: &self.only, fuzz: self.fuzz, ring, tell: &mut tell };
        let (algorithm, checks) = inspection.run()?;
        written?;
        let count = |outcome| checks.iter().filter(|check| check.outcome == outcome).count();
        let [passed, failed, skipped] = [CheckOutcome::Passed, CheckOutcome::Failed, CheckOutcome::Skipped].map(count);
        let mut out = io::stdout().lock();
        if is_table {
            writeln!(out, "\"{algorithm}\": {passed} passed, {failed} failed, {skipped} skipped")?;
        } else {
            let document = Document { algorithm: algorithm.clone(), passed, failed, skipped, checks };
            write_json(&mut out, &document)?;
        }
        match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format!("\"{algorithm}\" fails {failed} of its checks")).into()),
        }
    }
}

/// A process of this program for one property.
fn ring() -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program")?);
    command.arg("ring");
    Ok(command)
}

fn write_check(out: &mut impl Write, check: &Check) -> io::Result<()> {
    let outcome = match check.outcome {
        CheckOutcome::Passed => "passed",
        CheckOutcome::Failed => "FAILED",
        CheckOutcome::Skipped => "skipped",
    };
    let details: Vec<String> = check.details.iter().map(|detail| crate::plain::plain_lines(detail)).collect();
    let (name, first) = (&check.name, details.first().map_or("", String::as_str));
    writeln!(out, "{}", format!("{name:NAME_WIDTH$} {outcome:7} {first}").trim_end())?;
    for detail in details.iter().skip(1).take(DETAILS_SHOWN - 1) {
        writeln!(out, "{:NAME_WIDTH$} {:7} {detail}", "", "")?;
    }
    if details.len() > DETAILS_SHOWN {
        writeln!(out, "{:NAME_WIDTH$} {:7} and {} more: `-o json` has all", "", "", details.len() - DETAILS_SHOWN)?;
    }
    Ok(())
}
