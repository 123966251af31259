//! The report of a result directory: everything its runs say, computed from them.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::cell::Cell;
use super::finding::{self, Finding};
use super::fleet::{self, Fleet};
use super::index::Index;
use super::selection::{self, Selection};
use super::windows::{self, WindowPlot};
use super::{compare, objects};
use crate::model::notice::Notice;
use crate::model::run::{Calibration, Engine};
use crate::report::read::directory::ResultDir;
use crate::scenario::{FigureSpec, SourceSpec};

/// Version of `report -o json`.
pub const REPORT_SCHEMA: u32 = 1;

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
    pub source: Option<SourceSpec>,
    /// `paper` or `native`.
    pub profile: String,
    /// Machine and tools.
    pub host: Host,
    /// Seed of the scenario; each repeat derives its own from it.
    pub seed: u64,
    /// Digest of every run's record, where runs are the same wherever they are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The machines of the runs, where there are several or the runs are blocks of a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<Fleet>,
    /// What the empty path measured beside what was asked.
    pub calibration: Vec<Calibration>,
    /// The variant others are divided by.
    pub baseline: Option<String>,
    /// One per metric, point in the sweep and variant.
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
    pub cpus: u32,
    /// Tool to version.
    pub tools: BTreeMap<String, String>,
    /// Algorithm, by its own name, to the digest of the object that ran.
    pub algorithms: BTreeMap<String, String>,
}

impl Report {
    /// Whether anything is published or expected of any cell: without, there are no verdicts.
    pub fn has_targets(&self) -> bool {
        self.cells.iter().any(Cell::has_target)
    }
}

impl Host {
    fn of(index: &Index<'_>) -> Host {
        let host = &index.directory.host;
        Host {
            engine: host.engine,
            kernel: host.kernel.clone(),
            link: host.link.clone(),
            network: host.network.clone(),
            offloads: host.offloads.clone(),
            cpus: host.cpus,
            tools: host.tools.clone(),
            algorithms: objects::digests(index),
        }
    }
}

/// Computes the report of a result directory.
pub fn of(directory: &ResultDir) -> Result<Report> {
    let index = Index::new(directory);
    let compared = compare::compare(&index)?;
    let (plots, plot_notices) = windows::windows(&index)?;
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
        host: Host::of(&index),
        seed: scenario.seed,
        digest: directory.digest(),
        fleet: fleet::of(&index),
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
