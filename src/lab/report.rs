//! Reports of result directories, as tables and plots. A report starts no runs.
//!
//! [`load`] computes everything from the recorded runs; [`render`] writes it in a format. The modules are layers, each using
//! only those before it: `read`, `judge`, `figures`, `document`, `write`.

mod document;
mod figures;
mod judge;
mod read;
mod write;

/// Documents with tables and figures, for other kinds of reports.
pub mod drawing {
    pub use super::document::element::Element;
    pub use super::document::table::{Caption, Column, Role, Table, TableRow};
    pub use super::figures::chart::{Axis, Chart, ChartLayout, ChartShape};
    pub use super::figures::figure::Figure;
    pub use super::write::{html, markdown, text};
}

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;

use crate::scenario::{FigureSpec, Scenario};
use shared::failure::Failure;
use shared::model::series::Series;
use shared::sanitize::count;

pub use judge::bound::Bound;
pub use judge::cell::{Expectation, Measurement, Ratio, ReportCell, Rerun, Verdict};
pub use judge::check::{CheckVerdict, FirstBreak, ReportCheck};
pub use judge::finding::{About, Finding};
pub use judge::fleet::{Fleet, FleetNode, Shift};
pub use judge::flows::ReportFlow;
pub use judge::interval::{self, IntervalKind};
pub use judge::links::ReportLink;
pub use judge::numbers::RunNumbers;
pub use judge::per_run::RunTable;
pub use judge::report::{REPORT_SCHEMA, Report, ReportHost};
pub use judge::selection::{Criterion, ParameterCandidate, ParameterSelection};
pub use judge::windows::{PlotLine, WindowPlot};

pub(crate) use judge::cell::point_name;
pub(crate) use judge::number::Scale;

use judge::cell::each_once;
use judge::{per_run, rerun};
use read::directory::ResultDir;
use read::join;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ReportFormat {
    /// Tables and a plot for a terminal
    Text,
    /// Tables for a README
    Markdown,
    /// One row per cell, raw values; with --per-run, one row per run, flow and metric
    Csv,
    /// One document with a schema number, or an array for several directories
    Json,
    /// One self-contained page with plots
    Html,
    /// The values of every run, for pandas, polars and DuckDB; to a file or a pipe
    Parquet,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Shape: in the order of the directories; at least one.
    pub reports: Vec<Report>,
    /// Result directories without a finished run.
    pub left_out: Vec<PathBuf>,
}

/// Reads a result directory and computes its report.
///
/// # Errors
/// No result directory, or no finished run in it; an unknown metric; events that cannot be read.
pub fn load(directory: &Path) -> Result<Report> {
    judge::report::of(&ResultDir::open(directory)?, true)
}

/// Reads result directories that have one variant each of the scenario with this text, and computes one report.
///
/// None: the first has no finished run.
///
/// # Errors
/// As [`load`].
pub fn load_variants(text: &str, directories: &[PathBuf]) -> Result<Option<Report>> {
    join::of_variants(text, directories)?.map(|joined| judge::report::of(&joined, true)).transpose()
}

/// Reads result directories at or below the paths, and computes their reports.
///
/// Parts of one experiment become one report. The simulator's runs of a scenario are merged into the kernel's report.
///
/// # Errors
/// As [`load`], but directories without a finished run are an error only if no directory has one; parts of one
/// experiment that were made with different kernels, tools or objects, unless `may_mix`.
pub fn load_all(paths: &[PathBuf], may_mix: bool) -> Result<Loaded> {
    load_drawn(paths, may_mix, &[], true)
}

/// [`load_all`] with figures of these series, if there are any, instead of those of the scenarios. A chart shows all
/// flows of a run. The queues of all links are read only `with_links`.
///
/// # Errors
/// As [`load_all`].
pub fn load_drawn(paths: &[PathBuf], may_mix: bool, series: &[&'static Series], with_links: bool) -> Result<Loaded> {
    let (mut directories, left_out) = join::read_all(paths, may_mix)?;
    for directory in directories.iter_mut().filter(|_| !series.is_empty()) {
        let figures = each_once(series.iter().map(|series| series.name)).into_iter();
        let figures = figures.filter_map(Series::find).map(FigureSpec::of_flows).collect();
        directory.scenario = Arc::new(Scenario { figures, ..(*directory.scenario).clone() });
    }
    let of = |directory| judge::report::of(directory, with_links);
    let mut reports = directories.iter().map(of).collect::<Result<Vec<Report>>>()?;
    rerun::take_in_reruns(&mut reports);
    Ok(Loaded { reports, left_out })
}

/// Reads result directories at or below the paths, and computes every metric of every finished run and of its flows.
///
/// # Errors
/// As [`load_all`].
pub fn load_runs(paths: &[PathBuf], may_mix: bool) -> Result<(RunTable, Vec<PathBuf>)> {
    let (directories, left_out) = join::read_all(paths, may_mix)?;
    Ok((per_run::of(&directories)?, left_out))
}

/// Writes the values of runs: one row per run, flow and metric.
///
/// # Errors
/// A format other than CSV and Parquet.
pub fn render_runs(table: &RunTable, format: ReportFormat) -> Result<Vec<u8>> {
    match format {
        ReportFormat::Csv => write::per_run::csv(table),
        ReportFormat::Parquet => write::per_run::parquet(table),
        _ => {
            let refusal = Failure::usage(format!("cannot write the values of each run as {format}"));
            Err(refusal.hint("choose `-o csv` or `-o parquet`").into())
        }
    }
}

/// Writes one report.
///
/// # Errors
/// None for reports of readable result directories.
pub fn render(report: &Report, format: ReportFormat) -> Result<String> {
    render_all(std::slice::from_ref(report), format)
}

/// Writes several reports into one document.
///
/// # Errors
/// As [`render`]; the format is Parquet, which holds the values of runs.
pub fn render_all(reports: &[Report], format: ReportFormat) -> Result<String> {
    match format {
        ReportFormat::Text => Ok(write::text::write(reports)),
        ReportFormat::Markdown => Ok(write::markdown::write(reports)),
        ReportFormat::Csv => write::csv::write(reports),
        ReportFormat::Json => write::json::write(reports),
        ReportFormat::Html => Ok(write::html::write(reports)),
        ReportFormat::Parquet => Err(Failure::usage("cannot write tables as parquet").hint("see `--per-run`").into()),
    }
}

/// A figure of a report as files for a paper.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureFile {
    /// Scenario, number and title, without an extension; different for each figure.
    pub name: String,
    /// A self-contained document.
    pub svg: String,
    pub pdf: Vec<u8>,
}

/// Draws every figure of the reports' pages.
pub fn figure_files(reports: &[Report]) -> Vec<FigureFile> {
    let of_report = |(index, report): (usize, &Report)| {
        let is_shared = reports.iter().filter(|other| other.scenario == report.scenario).count() > 1;
        let scenario = if is_shared { format!("{}-{}", report.scenario, index + 1) } else { report.scenario.clone() };
        let figures = figures::figures(report).into_iter().enumerate();
        let file = |(number, figure): (usize, figures::figure::Figure)| FigureFile {
            name: write::paper::file_name(&scenario, number + 1, &figure.title),
            svg: write::paper::svg(&figure),
            pdf: write::paper::pdf(&figure),
        };
        figures.map(file).collect::<Vec<FigureFile>>()
    };
    reports.iter().enumerate().flat_map(of_report).collect()
}

/// Whether `--check` has something to compare.
pub fn can_be_checked(reports: &[Report]) -> bool {
    reports.iter().any(|report| report.has_targets() || report.selection.is_some() || !report.checks.is_empty())
}

/// The failure of `--check`, if any: cells outside their range, else checks that do not hold or cannot be judged, else
/// expected cells without a run of their own or of their baseline, else cells that the choice of a parameter lacks.
pub fn check(reports: &[Report]) -> Option<Failure> {
    let cells = || reports.iter().flat_map(|report| &report.cells);
    let outside: Vec<&ReportCell> = cells().filter(|cell| cell.verdict == Verdict::Outside).collect();
    let Some(ReportCell { metric, variant, verdict_reason, .. }) = outside.first() else {
        return unfulfilled(reports)
            .or_else(|| unmeasured(&cells().filter(|cell| cell.is_expected()).collect::<Vec<_>>()))
            .or_else(|| unchosen(reports));
    };
    let (count, all) = (outside.len(), cells().count());
    let what = format!("{count} of {all} cells outside their range: {metric} of \"{variant}\" ({verdict_reason})");
    Some(Failure::outside(what).hint("the table's notices say what to look at first"))
}

fn unfulfilled(reports: &[Report]) -> Option<Failure> {
    let checks = || reports.iter().flat_map(|report| &report.checks);
    let failure = |verdict: CheckVerdict, cannot: &str, advice: &dyn Fn(&ReportCheck) -> String| {
        let failed: Vec<&ReportCheck> = checks().filter(|check| check.verdict == verdict).collect();
        let first = failed.first()?;
        let (title, reason) = (first.title(), &first.reason);
        let what = format!("{} of {} {cannot}: {title}: {reason}", failed.len(), count(checks().count(), "check"));
        Some(Failure::outside(what).hint(advice(first)))
    };
    let asks = |check: &ReportCheck| format!("the check: {}", check.asks);
    failure(CheckVerdict::DoesNotHold, "do not hold", &asks)
        .or_else(|| failure(CheckVerdict::NotJudged, "could not be judged", &|check| check.advice.clone()))
}

fn unmeasured(expected: &[&ReportCell]) -> Option<Failure> {
    let is_missing = |cell: &&&ReportCell| cell.measured.is_none() || cell.lacks_baseline();
    let missing: Vec<&&ReportCell> = expected.iter().filter(is_missing).collect();
    let first = missing.first()?;
    let (count, all) = (missing.len(), expected.len());
    let point = point_name(&first.at);
    let baseline = missing.iter().any(|cell| cell.lacks_baseline());
    let whose = if baseline { " of their own or of their baseline" } else { "" };
    let what =
        format!("{count} of {all} cells with an expectation have no finished run{whose}: {} at {point}", first.metric);
    Some(Failure::outside(what).hint("`tccc run` on the same directory measures them"))
}

fn unchosen(reports: &[Report]) -> Option<Failure> {
    let missing = reports.iter().filter_map(|report| report.selection.as_ref()?.missing.first()).next()?;
    let what = format!("a parameter cannot be chosen: not measured: {missing}");
    Some(Failure::outside(what).hint("`tccc run` on the same directory measures it"))
}
