//! Result directories to tables and plots; runs nothing.
//!
//! [`load`] computes everything anew from the recorded runs; [`render`] writes it in one of the formats.

mod beside;
mod bound;
mod calibration;
mod chart;
pub mod compare;
mod csv;
mod figure;
mod finding;
mod html;
pub mod interval;
mod join;
mod json;
pub mod load;
mod markdown;
mod number;
mod objects;
mod plot;
mod positions;
mod selection;
mod svg;
mod table;
mod text;
mod timeline;
mod verdict;
mod views;

/// Figures, pages and text that is safe in them, for reports on other things than runs.
pub(crate) mod drawing {
    pub use super::chart::{Axis, Chart, Shape};
    pub use super::figure::Figure;
    pub use super::html::{drawn, escaped, page};
    pub use super::markdown::escaped as markdown;
    pub use super::svg::Format as Layout;
}

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::experiment::scenario::{FigureSpec, Source};
use crate::failure::Failure;
use crate::model::notice::Notice;
use crate::model::run::{At, Calibration, Engine};
use crate::model::stats;

pub use bound::Bound;
pub use finding::{About, Finding};
pub use interval::IntervalKind;
pub use join::{Loaded, load_all};
pub use plot::{Line, WindowPlot};
pub use selection::{Candidate, Criterion, Selection};

/// Version of `report -o json`.
pub const REPORT_SCHEMA: u32 = 1;

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

/// Everything a result directory says, computed from its runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: u32,
    /// The scenario's name.
    pub scenario: String,
    /// One line for headings.
    pub title: String,
    /// What the scenario shows.
    pub claim: String,
    /// Where published numbers come from.
    pub source: Option<Source>,
    /// `paper` or `native`.
    pub profile: String,
    /// Machine and tools.
    pub host: Host,
    /// Seed of the scenario; each repeat derives its own from it.
    pub seed: u64,
    /// Digest of every run's record, where runs are the same wherever they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// What the empty path measured beside what was asked.
    pub calibration: Vec<Calibration>,
    /// The variant others are divided by.
    pub baseline: Option<String>,
    /// One per metric, place in the sweep and variant.
    pub cells: Vec<Cell>,
    /// What they say about the published numbers and beside the baseline, in sentences.
    pub findings: Vec<Finding>,
    /// The choice of a parameter, where the scenario asks for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<Selection>,
    /// What concerns the whole report.
    pub notices: Vec<Notice>,
    /// The simulators whose runs stand beside: tools, versions and seed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reruns: Vec<String>,
    /// Name of its directory, to tell it from other reports.
    #[serde(skip)]
    pub place: String,
    /// The scenario's text: what simulates another one is not beside this.
    #[serde(skip)]
    pub text: String,
    /// Windows of the representative runs over time, and what figures draw beside them.
    #[serde(skip)]
    pub plots: Vec<WindowPlot>,
    /// Figures that the scenario asks for.
    #[serde(skip)]
    pub figures: Vec<FigureSpec>,
}

/// The machine and tools the runs were made with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Host {
    /// `kernel` or `ns2`.
    pub engine: Engine,
    /// `uname -r`.
    pub kernel: String,
    /// Link driver.
    pub link: String,
    /// `netns` or `mininet`.
    pub network: String,
    /// Offloads on the path.
    pub offloads: String,
    /// Number of processors.
    pub cpus: u32,
    /// Tool to version.
    pub tools: BTreeMap<String, String>,
    /// Algorithm, by its own name, to the digest of the object that ran.
    pub algorithms: BTreeMap<String, String>,
}

/// One metric of one variant at one place of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Sweep variable to value, the variant included.
    pub at: At,
    /// The variable of `at` whose value the variant is.
    #[serde(skip)]
    pub series: String,
    /// The row's variant or algorithm.
    pub variant: String,
    /// Name of the metric.
    pub metric: String,
    /// Unit of every value here that is not a ratio.
    pub unit: String,
    /// What the source gives.
    pub published: Option<f64>,
    /// Table, row, column of the source where `published` is.
    pub published_place: Option<String>,
    /// What a faithful implementation should give.
    pub expected: Option<Expectation>,
    /// What the source's own simulator gave, run again beside the measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
    /// What the runs gave; none without a finished run.
    pub measured: Option<Measured>,
    /// The same divided by the baseline; none for the baseline itself and without one.
    pub ratio_to_baseline: Option<Ratio>,
    /// Whether measured and target agree.
    pub verdict: Verdict,
    /// What the verdict compared, in one phrase.
    pub verdict_reason: String,
    /// What concerns this cell.
    pub notices: Vec<Notice>,
}

impl Cell {
    /// Its position without the variant.
    fn place(&self) -> At {
        let mut place = self.at.clone();
        place.remove(&self.series);
        place
    }

    /// Whether the scenario says what it should give.
    fn is_expected(&self) -> bool {
        self.expected.is_some() || self.ratio_to_baseline.as_ref().is_some_and(|ratio| ratio.expected.is_some())
    }

    /// Whether it has a run, and its expected ratio none of the baseline to divide by.
    fn lacks_baseline(&self) -> bool {
        let is_without = |ratio: &Ratio| ratio.expected.is_some() && ratio.pairs == 0;
        self.measured.is_some() && self.ratio_to_baseline.as_ref().is_some_and(is_without)
    }
}

/// A number to be met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    /// The number.
    pub value: f64,
    /// Allowed distance.
    pub plus_minus: f64,
    /// Why this number.
    pub basis: String,
}

/// A cell in another engine's runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rerun {
    /// Which engine.
    pub engine: Engine,
    /// What its runs gave.
    pub measured: Measured,
    /// The same divided by its own baseline.
    pub ratio_to_baseline: Option<f64>,
    /// What cut-off runs leave of that ratio.
    #[serde(skip)]
    pub ratio_bound: Bound,
}

/// The runs of a cell, summed up.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Number of runs.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// 95 % interval of the mean; none under three runs.
    pub ci95: Option<[f64; 2]>,
    /// How that interval was computed.
    pub ci95_kind: Option<IntervalKind>,
    /// Their median.
    pub median: f64,
    /// 95 % bootstrap interval of the median; none under five runs.
    pub median_ci95: Option<[f64; 2]>,
    /// One value per run, in the order of the repeats.
    pub values: Vec<f64>,
    /// Seed of each of them: runs of one seed met the same losses, whatever carried them out. Empty where unknown.
    #[serde(skip)]
    pub seeds: Vec<u64>,
    /// Runs that ended before what the metric waits for: with any, mean and median are lower bounds.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_off: usize,
}

impl Measured {
    /// Sums up one value per run; none without a run.
    pub fn of(values: Vec<f64>, cut_off: usize) -> Option<Measured> {
        let (ci95, ci95_kind) = interval::mean_interval(&values).unzip();
        Some(Measured {
            n: values.len(),
            mean: stats::mean(&values)?,
            ci95,
            ci95_kind,
            median: stats::median(&values)?,
            median_ci95: interval::median_interval(&values),
            values,
            seeds: Vec::new(),
            cut_off,
        })
    }
}

/// Variables of the sweep with their value where it is the same in every cell: the header has them, not each row and
/// sentence.
fn common_place(cells: &[Cell]) -> At {
    let mut common = cells.first().map(Cell::place).unwrap_or_default();
    common.retain(|name, value| cells.iter().all(|cell| cell.at.get(name) == Some(value)));
    common
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A cell divided by the baseline's cell of the same place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// Published over published.
    pub published: Option<f64>,
    /// What a faithful implementation should give.
    pub expected: Option<Expectation>,
    /// Measured mean over measured mean, same repeats.
    pub measured: Option<f64>,
    /// Fieller's 95 % interval over the pairs; none under three pairs, and of a ratio without bounds.
    pub ci95: Option<[f64; 2]>,
    /// Number of pairs.
    pub pairs: usize,
    /// Pairs whose own run ended before what the metric waits for: the ratio is then a lower bound.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_off: usize,
    /// Pairs whose run of the baseline did: the ratio is then an upper bound, and with both it says nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub baseline_cut_off: usize,
    /// Table, row, column of the source where it gives the ratio itself; left out where `published` is one published
    /// value over another, whose place is [`Cell::published_place`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_place: Option<String>,
}

/// Whether measured and target agree; [`compare`] says what is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// In the range.
    Within,
    /// Not in the range.
    Outside,
    /// Nothing to compare with, or nothing measured.
    #[serde(rename = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// The word of tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Within => "within",
            Verdict::Outside => "outside",
            Verdict::NotComparable => "not comparable",
        }
    }
}

impl Host {
    fn of(directory: &load::ResultDir) -> Host {
        let host = &directory.host;
        Host {
            engine: host.engine,
            kernel: host.kernel.clone(),
            link: host.link.clone(),
            network: host.network.clone(),
            offloads: host.offloads.clone(),
            cpus: host.cpus,
            tools: host.tools.clone(),
            algorithms: objects::digests(directory),
        }
    }
}

/// Reads a result directory and computes its report.
///
/// Errors: those of [`load::ResultDir::open`]; a metric of the scenario that does not exist; events that cannot be read.
pub fn load(directory: &Path) -> Result<Report> {
    of(&load::ResultDir::open(directory)?)
}

/// Computes the report of a result directory.
fn of(directory: &load::ResultDir) -> Result<Report> {
    let compared = compare::compare(directory)?;
    let (plots, plot_notices) = plot::windows(directory)?;
    let scenario = &directory.scenario;
    let mut notices = directory.notices.clone();
    notices.extend(compared.notices);
    notices.extend(plot_notices);
    notices.sort();
    notices.dedup();
    Ok(Report {
        schema: REPORT_SCHEMA,
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        claim: scenario.claim.clone(),
        source: scenario.source.clone(),
        profile: directory.host.profile.clone(),
        host: Host::of(directory),
        seed: scenario.seed,
        digest: directory.digest(),
        calibration: directory.host.calibration.clone(),
        baseline: scenario.report.baseline.clone(),
        findings: finding::findings(scenario, &compared.cells, directory.host.profile == scenario.profile.name()),
        selection: selection::select(scenario, &compared.cells),
        cells: compared.cells,
        notices,
        reruns: Vec::new(),
        place: directory.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        text: scenario.text.clone(),
        plots,
        figures: scenario.figures.clone(),
    })
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
        Format::Text => Ok(text::write(reports)),
        Format::Markdown => Ok(markdown::write(reports)),
        Format::Csv => csv::write(reports),
        Format::Json => json::write(reports),
        Format::Html => Ok(html::write(reports)),
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
    let place = plot::place_name(&first.at);
    let baseline = missing.iter().any(|cell| cell.lacks_baseline());
    let whose = if baseline { " of their own or of their baseline" } else { "" };
    let what =
        format!("{count} of {all} cells with an expectation have no finished run{whose}: {} at {place}", first.metric);
    Some(Failure::outside(what).hint("`tccc run` on the same directory measures them"))
}

fn check_selected(reports: &[Report]) -> Option<Failure> {
    let missing = selection::unfinished(reports)?;
    let what = format!("a parameter cannot be chosen: not measured: {missing}");
    Some(Failure::outside(what).hint("`tccc run` on the same directory measures it"))
}
