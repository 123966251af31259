//! Computes the report of a result directory from its runs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Serialize;

use super::cell::ReportCell;
use super::check::{self, ReportCheck};
use super::compare::{self, Compared};
use super::finding::{self, Finding};
use super::fleet::{self, Fleet};
use super::flows::ReportFlow;
use super::index::Index;
use super::links::{self, ReportLink};
use super::notices;
use super::number;
use super::perturbed::{self, Perturbed};
use super::selection::{self, ParameterSelection};
use super::windows::{self, WindowPlot};
use crate::report::read::directory::ResultDir;
use crate::scenario::{FigureSpec, SourceSpec};
use shared::model::notice::Notice;
use shared::model::run::{Calibration, Engine};

/// Version of `report -o json`.
pub const REPORT_SCHEMA: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`REPORT_SCHEMA`].
    pub schema: u32,
    pub scenario: String,
    pub title: String,
    pub claim: String,
    /// Source of the published numbers.
    pub source: Option<SourceSpec>,
    /// `paper` or `native`.
    pub profile: String,
    pub host: ReportHost,
    /// Each repeat derives its seed from this one.
    pub seed: u64,
    /// Digest of all run records, only in virtual time, where runs are reproducible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Different longest random delays of a packet in the nodes of all runs, microseconds. Shape: ascending; empty for
    /// drivers without such delays and in older results.
    pub host_delays_us: Vec<f64>,
    /// Only with several machines, or if the runs are blocks of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    pub calibration: Vec<Calibration>,
    /// The part of each run that metrics count, seconds from the first event of its flows. `None` is the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part_s: Option<[f64; 2]>,
    /// The variant to which ratios refer.
    pub baseline: Option<String>,
    /// One per metric, point of the sweep and variant.
    pub cells: Vec<ReportCell>,
    /// Every flow at every point, over the runs. Empty if each cell has one flow.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<ReportFlow>,
    /// Every direction of a link with a queue, in every cell, over the whole runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<ReportLink>,
    pub findings: Vec<Finding>,
    /// Every check at every point of the sweep that it is for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<ReportCheck>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selection: Option<ParameterSelection>,
    pub notices: Vec<Notice>,
    /// Only with `tccc run --perturb`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub perturbed: Option<Perturbed>,
    /// Tools, versions and seed of each merged re-run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reruns: Vec<String>,
    #[serde(skip)]
    pub place: String,
    /// The scenario's text, by which re-runs are matched.
    #[serde(skip)]
    pub text: String,
    /// Windows, and the quantities of figures over time, of the representative runs.
    #[serde(skip)]
    pub plots: Vec<WindowPlot>,
    #[serde(skip)]
    pub figures: Vec<FigureSpec>,
}

/// Machine and tools of the runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportHost {
    pub engine: Engine,
    /// `uname -r`.
    pub kernel: String,
    /// Link driver.
    pub link: String,
    /// `netns` or `mininet`.
    pub network: String,
    /// Active offloads on the path.
    pub offloads: String,
    pub cpus: u32,
    /// Version of each tool.
    pub tools: BTreeMap<String, String>,
    /// Digest of each algorithm's object.
    pub algorithms: BTreeMap<String, String>,
}

impl Report {
    /// `100 s to 200 s`, if metrics count a part of each run.
    pub fn part(&self) -> Option<String> {
        self.part_s
            .map(|[from, to]| format!("{} s to {} s", number::short(from.to_string()), number::short(to.to_string())))
    }

    /// Whether any cell has a published or expected number. Without targets there are no verdicts.
    pub fn has_targets(&self) -> bool {
        self.cells.iter().any(ReportCell::has_target)
    }
}

fn host_delays_us(directory: &ResultDir) -> Vec<f64> {
    let links = directory.runs.iter().flat_map(|run| &run.record.links);
    let mut delays: Vec<f64> = links.filter_map(|link| link.host_delay_us).flatten().collect();
    delays.sort_by(f64::total_cmp);
    delays.dedup();
    delays
}

/// `with_links` also reads the queues of all links in every run.
///
/// # Errors
/// An unknown metric; events or queues that cannot be read.
pub fn of(directory: &ResultDir, with_links: bool) -> Result<Report> {
    let index = Index::new(directory);
    let Compared { cells, flows, notices: of_cells } = compare::compare(&index)?;
    let (plots, of_plots) = windows::windows(&index)?;
    let (scenario, host) = (&directory.scenario, &directory.host);
    let perturbed = perturbed::compare(&index);
    let of_paths = perturbed.iter().flat_map(Perturbed::notices);
    let of_sweep = notices::same::of_cells(&scenario.sweep, &cells);
    let notices: BTreeSet<Notice> =
        directory.notices.iter().cloned().chain(of_cells).chain(of_plots).chain(of_paths).chain(of_sweep).collect();
    Ok(Report {
        schema: REPORT_SCHEMA,
        scenario: scenario.name.clone(),
        title: scenario.title.clone(),
        claim: scenario.claim.clone(),
        source: scenario.source.clone(),
        profile: host.profile.clone(),
        host: ReportHost {
            engine: host.engine,
            kernel: host.kernel.clone(),
            link: host.link.clone(),
            network: host.network.clone(),
            offloads: host.offloads.clone(),
            cpus: host.cpus,
            tools: host.tools.clone(),
            algorithms: index.digests(),
        },
        seed: scenario.seed,
        digest: directory.digest(),
        host_delays_us: host_delays_us(directory),
        fleet: fleet::of(&index),
        calibration: host.calibration.clone(),
        part_s: scenario.report.part_s(),
        baseline: scenario.report.baseline.clone(),
        findings: finding::findings(scenario, &cells, host.profile == scenario.profile.name()),
        checks: check::checks(&index)?,
        selection: selection::select(scenario, &cells),
        cells,
        flows,
        links: if with_links { links::links(&index)? } else { Vec::new() },
        notices: notices.into_iter().collect(),
        perturbed,
        reruns: Vec::new(),
        place: directory.path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        text: scenario.text.clone(),
        plots,
        figures: scenario.figures.clone(),
    })
}
