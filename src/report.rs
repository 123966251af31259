//! Result directories to tables and plots; runs nothing.
//!
//! [`load`] computes everything anew from the recorded runs; [`render`] writes it in one of the formats. By duty, each
//! using only those before it: `read`, `judge`, `figures`, `document`, `write`.

mod document;
mod figures;
mod judge;
mod read;
mod write;

/// Documents with tables and figures, for reports on other things than runs.
pub(crate) mod drawing {
    pub use super::document::part::Part;
    pub use super::document::table::{Column, Role, Row, Table};
    pub use super::figures::chart::{Axis, Chart, Layout, Shape};
    pub use super::figures::figure::Figure;
    pub use super::write::{html, markdown, text};
}

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;

use crate::failure::Failure;

pub use judge::bound::Bound;
pub use judge::cell::{Cell, Expectation, Measured, Ratio, Rerun, Verdict};
pub use judge::finding::{About, Finding};
pub use judge::fleet::{Fleet, Node, Shift};
pub use judge::interval::{self, IntervalKind};
pub use judge::report::{Host, REPORT_SCHEMA, Report};
pub use judge::selection::{Candidate, Criterion, Selection};
pub use judge::windows::{Line, WindowPlot};

use judge::cell::point_name;
use judge::rerun;
use read::directory::ResultDir;
use read::join;

/// What a report is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables and a plot for a terminal
    Text,
    /// Tables for a README
    Markdown,
    /// One row a cell, raw values
    Csv,
    /// One document with a schema number; for several directories an array of them
    Json,
    /// One self-contained page with plots
    Html,
}

/// What several directories say.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// In the order asked; at least one.
    pub reports: Vec<Report>,
    /// Result directories without a finished run, of which nothing can be said.
    pub left_out: Vec<PathBuf>,
}

/// Reads a result directory and computes its report.
///
/// Errors: no result directory, or one without a finished run; a metric of the scenario that does not exist; events
/// that cannot be read.
pub fn load(directory: &Path) -> Result<Report> {
    judge::report::of(&ResultDir::open(directory)?)
}

/// Reads directories, and those below them that hold results, and computes their reports.
///
/// Shape: in the order asked; directories that are parts of one experiment come as one report, and the simulator's runs
/// of a scenario are in the kernel's report of it; two directories that hold the same run count once.
/// Errors: as [`load`], but a directory without a finished run is an error only where no other one has any; parts of one
/// experiment that were made with different kernels, tools or objects, unless they may be mixed.
pub fn load_all(paths: &[PathBuf], may_mix: bool) -> Result<Loaded> {
    let (directories, left_out) = join::read_all(paths, may_mix)?;
    let mut reports = directories.iter().map(judge::report::of).collect::<Result<Vec<Report>>>()?;
    rerun::take_in_reruns(&mut reports);
    Ok(Loaded { reports, left_out })
}

/// Writes one report.
///
/// Errors: a number that cannot be written, which no readable result directory leads to.
pub fn render(report: &Report, format: Format) -> Result<String> {
    render_all(std::slice::from_ref(report), format)
}

/// Writes reports one after the other; as JSON an array when there are several.
///
/// Errors: as [`render`].
pub fn render_all(reports: &[Report], format: Format) -> Result<String> {
    match format {
        Format::Text => Ok(write::text::write(reports)),
        Format::Markdown => Ok(write::markdown::write(reports)),
        Format::Csv => write::csv::write(reports),
        Format::Json => write::json::write(reports),
        Format::Html => Ok(write::html::write(reports)),
    }
}

/// The failure that `--check` ends with: how many cells are outside, and the first of them; else how many have an
/// expectation and no run, or none of the baseline it is relative to; else what a choice of a parameter lacks.
///
/// None: no cell is outside, every expected one is measured, and every parameter is chosen.
pub fn check(reports: &[Report]) -> Option<Failure> {
    let cells = || reports.iter().flat_map(|report| &report.cells);
    let outside: Vec<&Cell> = cells().filter(|cell| cell.verdict == Verdict::Outside).collect();
    let Some(first) = outside.first() else {
        let unmeasured = check_measured(&cells().filter(|cell| cell.is_expected()).collect::<Vec<_>>());
        return unmeasured.or_else(|| check_selected(reports));
    };
    let what = format!(
        "{} of {} cells outside their range: {} of \"{}\" ({})",
        outside.len(),
        cells().count(),
        first.metric,
        first.variant,
        first.verdict_reason,
    );
    Some(Failure::outside(what).hint("the table's notices say what to look at first"))
}

fn check_measured(expected: &[&Cell]) -> Option<Failure> {
    let is_missing = |cell: &&&Cell| cell.measured.is_none() || cell.lacks_baseline();
    let missing: Vec<&&Cell> = expected.iter().filter(is_missing).collect();
    let first = missing.first()?;
    let (count, all) = (missing.len(), expected.len());
    let point = point_name(&first.at);
    let baseline = missing.iter().any(|cell| cell.lacks_baseline());
    let whose = if baseline { " of their own or of their baseline" } else { "" };
    let what =
        format!("{count} of {all} cells with an expectation have no finished run{whose}: {} at {point}", first.metric);
    Some(Failure::outside(what).hint("`tccc run` on the same directory measures them"))
}

fn check_selected(reports: &[Report]) -> Option<Failure> {
    let selections = reports.iter().filter_map(|report| report.selection.as_ref());
    let missing = selections.flat_map(|selection| &selection.missing).next()?;
    let what = format!("a parameter cannot be chosen: not measured: {missing}");
    Some(Failure::outside(what).hint("`tccc run` on the same directory measures it"))
}
