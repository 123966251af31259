//! A scenario as a whole, once its file reads without mistakes.

use std::time::Duration;

use super::document::ns2::Ns2Spec;
use super::document::report::{Expected, Published, ReportSpec, Source};
use super::document::selection::SelectionSpec;
use super::document::shown::{DifferenceSpec, FigureSpec};
use super::spec::{ALGORITHM, Cell, Profile, ScenarioFile, VARIANT, Variable};
use super::virtual_time::VirtualSpec;

/// A scenario that reads without mistakes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// The file as it was given, for mistakes that are found later.
    pub file: String,
    /// File stem: `loss-sweep`.
    pub name: String,
    /// The file's text, copied into every result directory.
    pub text: String,
    /// The files it names, copied beside it.
    pub files: Vec<ScenarioFile>,
    /// One line for headings.
    pub title: String,
    /// What the scenario shows, one sentence.
    pub claim: String,
    /// Socket conditions, unless the command says otherwise.
    pub profile: Profile,
    /// Runs per cell.
    pub runs: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Interval of the traced samples.
    pub sample: Duration,
    /// Where the published numbers come from.
    pub source: Option<Source>,
    /// What varies; the last variable varies fastest.
    pub sweep: Vec<Variable>,
    pub report: ReportSpec,
    /// The parameter to choose, where the scenario is a sweep to choose one.
    pub selection: Option<SelectionSpec>,
    /// How the simulator ns-2 runs it, where it can.
    pub ns2: Option<Ns2Spec>,
    pub virtual_time: VirtualSpec,
    /// Numbers of the source.
    pub published: Vec<Published>,
    /// Numbers a faithful implementation should give, with the reason.
    pub expected: Vec<Expected>,
    /// What the report draws; without any, every metric over the sweep and the windows over time.
    pub figures: Vec<FigureSpec>,
    /// Known reasons why numbers differ from published ones.
    pub differences: Vec<DifferenceSpec>,
    /// Every combination of the sweep.
    pub cells: Vec<Cell>,
}

impl Scenario {
    /// What a file holds that the scenario names; nothing where it names none of that name.
    pub fn text_of(&self, name: &str) -> &str {
        self.files.iter().find(|file| file.name == name).map_or("", |file| &file.text)
    }

    /// The variable along which results are compared: `variant`, else `algorithm`, else none.
    pub fn series_variable(&self) -> Option<&str> {
        let names = || self.sweep.iter().map(|variable| variable.name.as_str());
        names().find(|&name| name == VARIANT).or_else(|| names().find(|&name| name == ALGORITHM))
    }

    /// The values of a sweep variable, in the file's order; empty when it is not swept.
    pub fn values_of(&self, variable: &str) -> &[String] {
        self.sweep.iter().find(|v| v.name == variable).map_or(&[], |v| &v.values)
    }
}
