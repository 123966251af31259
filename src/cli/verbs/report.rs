//! `tccc report`: tables and plots from recorded runs.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::failure::Failure;
use crate::report::{self, Loaded, ReportFormat};

mod incident;
pub mod recording;

/// Recompute tables and plots from recorded runs; published beside measured
///
/// Example: `tccc report runs/table-2 -o html --out table-2.html`. Reads what `tccc run` recorded and computes
/// everything again; runs nothing and needs no root. Shards of one experiment become one report, runs of the simulator a
/// column of the kernel's; what measures one scenario in different ways stands side by side. A file of `tccc trace
/// --record` is reported connection by connection, as text, csv or json. The folder of an incident, a limit of a trial
/// that was crossed, is reported with its evidence, as text, markdown, html or json.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Result directories of `tccc run`, directories that hold some, recordings of `tccc trace --record`, or incidents
    #[arg(required = true, value_name = "DIR|FILE")]
    pub directories: Vec<PathBuf>,
    /// What to write; by default what the name of --out ends in, else text
    #[arg(short, long, value_enum)]
    pub output: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// End with exit code 3 when a measurement is outside its expected range or an expected one is missing
    #[arg(long)]
    pub check: bool,
    /// Join parts of one experiment that were made with different kernels, tools or objects, with a note
    #[arg(long)]
    pub mixed: bool,
}

impl Args {
    /// Loads, renders and writes the reports.
    ///
    /// Errors: as [`report::load`]; the file cannot be written; with `--check` a cell outside its range or
    /// without the measurement that is expected.
    /// Side effects: writes `--out`.
    pub fn run(&self) -> Result<()> {
        if self.are_all("incidents", incident::is_incident)? {
            return put(self, &incident::render(&self.directories, format_of(self))?);
        }
        if self.are_all("recordings", recording::is_recording)? {
            return put(self, &recording::render(&self.directories, format_of(self))?);
        }
        let Loaded { reports, left_out } = report::load_all(&self.directories, self.mixed)?;
        for path in &left_out {
            let what = format!("\"{}\" has no finished run and is left out of the report", path.display());
            crate::cli::output::warn(&what, None);
        }
        put(self, &report::render_all(&reports, format_of(self))?)?;
        match report::check(&reports).or_else(|| unchecked(&left_out)).filter(|_| self.check) {
            Some(outside) => Err(outside.into()),
            None => Ok(()),
        }
    }

    /// Whether all paths are of one kind, which has a report of its own.
    ///
    /// Errors: some are and others are not; they are, and `--check` has nothing to check.
    fn are_all(&self, kind: &str, is: fn(&Path) -> bool) -> Result<bool> {
        match self.directories.iter().filter(|path| is(path)).count() {
            0 => Ok(false),
            count if count == self.directories.len() && !self.check => Ok(true),
            _ => {
                let refusal = Failure::usage(format!("cannot report {kind} together with anything else or `--check`"));
                Err(refusal.hint("report them one after the other").into())
            }
        }
    }
}

/// Writes a report where it shall go.
fn put(args: &Args, text: &str) -> Result<()> {
    match &args.out {
        Some(file) => write_file(file, text),
        None => Ok(io::stdout().write_all(text.as_bytes())?),
    }
}

/// Why a check does not pass without these directories: what is expected of them was not measured.
fn unchecked(left_out: &[PathBuf]) -> Option<Failure> {
    let first = left_out.first()?.display();
    let what = format!("{} of the directories have no finished run to check: \"{first}\"", left_out.len());
    Some(Failure::outside(what).hint("`tccc run` on the same directory resumes it"))
}

/// The format asked for, or the one the file's name ends in.
fn format_of(args: &Args) -> ReportFormat {
    let ending = args.out.as_ref().and_then(|file| file.extension()).and_then(|ending| ending.to_str());
    args.output.unwrap_or(match ending {
        Some("html" | "htm") => ReportFormat::Html,
        Some("md") => ReportFormat::Markdown,
        Some("csv") => ReportFormat::Csv,
        Some("json") => ReportFormat::Json,
        _ => ReportFormat::Text,
    })
}

fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| unwritable(file, error))?;
    crate::cli::output::note(&format!("report written to {}", file.display()));
    Ok(())
}

fn unwritable(file: &Path, error: io::Error) -> anyhow::Error {
    let what = |why: &str| format!("cannot write the report \"{}\": {why}", file.display());
    let hint = "name a file in a directory that exists";
    match error.kind() {
        ErrorKind::NotFound => Failure::usage(what("there is no such directory")).hint(hint).into(),
        ErrorKind::NotADirectory => Failure::usage(what("a part of the path is no directory")).hint(hint).into(),
        ErrorKind::IsADirectory => Failure::usage(what("it is a directory")).hint(hint).into(),
        _ => anyhow::Error::from(error).context(format!("write the report \"{}\"", file.display())),
    }
}
