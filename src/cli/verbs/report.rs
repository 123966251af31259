//! `tccc report`: tables and plots from recorded runs.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::cli::output::stdout::terminal_width;
use crate::cli::output::{note, results, warn};
use lab::report::{self, FigureFile, Loaded, Report, ReportFormat};
use shared::failure::Failure;
use shared::kernel::io_error::reason;
use shared::model::series::{SERIES, Series};
use shared::sanitize::count;

mod incident;
mod recording;

/// The format of a file by its extension.
const EXTENSIONS: [(&str, ReportFormat); 7] = [
    ("html", ReportFormat::Html),
    ("htm", ReportFormat::Html),
    ("md", ReportFormat::Markdown),
    ("csv", ReportFormat::Csv),
    ("json", ReportFormat::Json),
    ("parquet", ReportFormat::Parquet),
    ("txt", ReportFormat::Text),
];

/// Compute tables and plots from recorded runs
///
/// Reads what `tccc run` recorded, and shows published beside measured values. Runs nothing and needs no root. Shards
/// of one experiment become one report. Runs of the simulator become a column beside those of the kernel. Results of
/// one scenario on another kernel, link or network are shown side by side.
///
/// `--per-run` writes the data behind the tables, tidy, for pandas, polars, DuckDB or R. `--figures` writes each figure as
/// SVG and PDF, as wide as one column or two. The PDF uses Helvetica without embedding it; `pdftocairo -pdf IN OUT` embeds a font.
///
/// A file of `tccc trace --record` is reported by connection, as text, csv or json. The folder of an incident (a crossed limit
/// of a trial) is reported with its evidence, as text, markdown, html or json.
///
/// Example: `tccc report runs/table-2 -o html --out table-2.html`
///
/// With --figure, figures and the plots of a terminal show one quantity of all flows of a run over time. This works with the
/// results of any scenario: `tccc report runs/table-2 --figure cwnd_pkts -o html --out windows.html`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Result directories of `tccc run`, directories that hold some, recordings of `tccc trace --record`, or incidents
    #[arg(required = true, value_name = "DIR|FILE")]
    directories: Vec<PathBuf>,
    /// Format [default: that of the extension of --out, else text]
    #[arg(short, long, value_enum)]
    output: Option<ReportFormat>,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Draw this quantity of all flows of a run over time, instead of the scenario's figures (repeatable)
    #[arg(long, value_name = "SERIES", value_parser = series, conflicts_with = "per_run")]
    figure: Vec<&'static Series>,
    /// Write every metric of every run and of each of its flows, one per row, as csv or parquet; parquet implies it
    #[arg(long, conflicts_with = "check")]
    per_run: bool,
    /// Also write each figure of the report into this directory, as SVG and PDF fit for a paper
    #[arg(long, value_name = "DIR", conflicts_with = "per_run")]
    figures: Option<PathBuf>,
    /// Exit with 3 if a measurement is outside its expected range, a check does not hold, or either is missing
    #[arg(long)]
    check: bool,
    /// Join parts of one experiment that were made with different kernels, tools or objects, with a note
    #[arg(long)]
    mixed: bool,
}

impl Args {
    /// # Errors
    /// An unknown extension; as [`report::load_all`]; the file cannot be written; with `--check`, a measurement outside
    /// its expected range or missing.
    pub fn run(&self) -> Result<()> {
        let format = self.format()?;
        self.check_options(format)?;
        if self.are_all("incidents", incident::is_incident)? {
            return self.put(incident::render(&self.directories, format)?.as_bytes(), format);
        }
        if self.are_all("recordings", recording::is_recording)? {
            return self.put(recording::render(&self.directories, format)?.as_bytes(), format);
        }
        if self.per_run || format == ReportFormat::Parquet {
            return self.put_runs(format);
        }
        let with_links = matches!(format, ReportFormat::Html | ReportFormat::Json);
        let Loaded { reports, left_out } = report::load_drawn(&self.directories, self.mixed, &self.figure, with_links)?;
        warn_of(&left_out);
        self.put(report::render_all(&reports, format)?.as_bytes(), format)?;
        self.put_figures(&reports)?;
        if self.check && !report::can_be_checked(&reports) {
            note("nothing was checked: no scenario has [[published]], [[expected]], [[check]] or [selection]");
        }
        let outside = report::check(&reports).or_else(|| unchecked(&left_out)).filter(|_| self.check);
        outside.map_or(Ok(()), |outside| Err(outside.into()))
    }

    /// Refuses options that would do nothing beside this format.
    fn check_options(&self, format: ReportFormat) -> Result<()> {
        let has_figures = matches!(format, ReportFormat::Text | ReportFormat::Html);
        let idle = if format == ReportFormat::Parquet && self.figures.is_some() {
            "figures"
        } else if !self.figure.is_empty() && !has_figures && self.figures.is_none() {
            "figure"
        } else {
            return Ok(());
        };
        let refusal = Failure::usage(format!("`--{idle}` does nothing beside `-o {format}`, which has no figures"));
        Err(refusal.hint("write the figures by a command of their own, with `-o html` or `--figures DIR`").into())
    }

    /// Writes the values of every run.
    ///
    /// # Errors
    /// As [`report::load_runs`] and [`report::render_runs`]; `--check`; the file cannot be written.
    fn put_runs(&self, format: ReportFormat) -> Result<()> {
        if self.check {
            let refusal = Failure::usage("cannot check the values of each run: `--check` judges the cells of a report");
            return Err(refusal.hint("run `tccc report DIR --check` by itself").into());
        }
        if self.out.is_none() && format == ReportFormat::Parquet && terminal_width().is_some() {
            let refusal = Failure::usage("cannot write Parquet to a terminal: it is not text");
            return Err(refusal.hint("name a file: `--out runs.parquet`").into());
        }
        let (table, left_out) = report::load_runs(&self.directories, self.mixed)?;
        warn_of(&left_out);
        for notice in &table.notices {
            warn(&notice.cause, Some(&notice.advice));
        }
        self.put(&report::render_runs(&table, format)?, format)
    }

    /// # Errors
    /// The directory cannot be made, or a file in it not written.
    fn put_figures(&self, reports: &[Report]) -> Result<()> {
        let Some(directory) = &self.figures else { return Ok(()) };
        let files = report::figure_files(reports);
        fs::create_dir_all(directory).map_err(|error| unwritable(directory, error))?;
        for FigureFile { name, svg, pdf } in &files {
            for (extension, content) in [("svg", svg.as_bytes()), ("pdf", pdf)] {
                let file = directory.join(format!("{name}.{extension}"));
                write(&file, content)?;
            }
        }
        let figures = count(files.len(), "figure");
        note(&format!("{figures} written to {} (svg and pdf)", directory.display()));
        Ok(())
    }

    /// Whether all paths are of one kind, which has a report of its own.
    ///
    /// # Errors
    /// Only some are; or all are, but with an option that this kind does not have.
    fn are_all(&self, kind: &str, is: fn(&Path) -> bool) -> Result<bool> {
        let is_plain = !self.check && !self.per_run && self.figures.is_none() && self.figure.is_empty();
        match self.directories.iter().filter(|path| is(path)).count() {
            0 => Ok(false),
            count if count == self.directories.len() && is_plain => Ok(true),
            _ => {
                let beside = "anything else, `--check`, `--figure`, `--figures` or `--per-run`";
                let refusal = Failure::usage(format!("cannot report {kind} together with {beside}"));
                Err(refusal.hint("report them one after the other").into())
            }
        }
    }

    fn put(&self, content: &[u8], format: ReportFormat) -> Result<()> {
        let Some(file) = &self.out else { return Ok(results().write_all(content)?) };
        write(file, content)?;
        note(&format!("report written to {} ({format})", file.display()));
        Ok(())
    }

    /// # Errors
    /// `--out` has an extension of no format, and `--output` gives none.
    fn format(&self) -> Result<ReportFormat> {
        let extension =
            self.out.as_ref().and_then(|file| file.extension()).map(|extension| extension.to_string_lossy());
        let (None, Some(extension)) = (self.output, extension) else {
            let usual = if self.per_run { ReportFormat::Csv } else { ReportFormat::Text };
            return Ok(self.output.unwrap_or(usual));
        };
        let known = EXTENSIONS.iter().find(|(name, _)| *name == extension).map(|(_, format)| *format);
        known.ok_or_else(|| {
            let names = EXTENSIONS.map(|(name, _)| format!(".{name}")).join(", ");
            let what = format!("`--out`: no format has the extension \".{extension}\": expected one of {names}");
            Failure::usage(what).hint("`-o FORMAT` writes a format to a file of any name").into()
        })
    }
}

/// # Errors
/// There is no such series.
fn series(name: &str) -> Result<&'static Series, String> {
    let known = || SERIES.iter().map(|series| series.name);
    Series::find(name).ok_or_else(|| format!("expected one of {}", known().collect::<Vec<_>>().join(", ")))
}

fn write(file: &Path, content: &[u8]) -> Result<()> {
    fs::write(file, content).map_err(|error| {
        if file.is_file() && is_full(&error) {
            let _ = fs::remove_file(file); // a part of a report would look whole
        }
        unwritable(file, error)
    })
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

fn warn_of(left_out: &[PathBuf]) {
    for path in left_out {
        warn(&format!("\"{}\" has no finished run and is left out of the report", path.display()), None);
    }
}

/// The failure of a check whose expected measurements in these directories are missing.
fn unchecked(left_out: &[PathBuf]) -> Option<Failure> {
    let first = left_out.first()?.display();
    let what = format!("{} of the directories have no finished run to check: \"{first}\"", left_out.len());
    Some(Failure::outside(what).hint("`tccc run` on the same directory resumes it"))
}

fn unwritable(file: &Path, error: io::Error) -> anyhow::Error {
    let (why, refuse): (_, fn(String) -> Failure) = match error.kind() {
        ErrorKind::NotFound => ("there is no such directory".to_owned(), Failure::usage),
        ErrorKind::NotADirectory => ("a part of the path is not a directory".to_owned(), Failure::usage),
        ErrorKind::AlreadyExists => ("it is a file".to_owned(), Failure::usage),
        ErrorKind::IsADirectory => ("it is a directory".to_owned(), Failure::usage),
        _ if is_full(&error) => ("its disk is full".to_owned(), Failure::unmet),
        _ => (reason(&error), Failure::failed),
    };
    let what = format!("cannot write the report \"{}\": {why}", file.display());
    let hint = match is_full(&error) {
        true => "make room, or name a file on another disk",
        false => "name a file in a directory that exists and can be written",
    };
    refuse(what).hint(hint).into()
}
