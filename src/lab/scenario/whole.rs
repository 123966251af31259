//! A scenario that was read without mistakes.

use std::time::Duration;

use super::check::Check;
use super::document::report::ReportSpec;
use super::document::selection::SelectionSpec;
use super::reference::{DifferenceSpec, Expected, FigureSpec, MarginSpec, Ns2Spec, Published, SourceSpec, VirtualSpec};
use super::spec::{ALGORITHM, Cell, GuestKernel, Profile, ScenarioFile, VARIANT, Variable};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Scenario {
    /// Path as it was given, for mistakes that are found later.
    pub file: String,
    /// File stem: `loss-sweep`.
    pub name: String,
    /// Copied into every result directory.
    pub text: String,
    /// Files that it names, copied beside it.
    pub files: Vec<ScenarioFile>,
    pub title: String,
    pub claim: String,
    /// Unless an option overrides it.
    pub profile: Profile,
    /// Per cell.
    pub runs: u32,
    pub seed: u64,
    /// Interval of the traced samples.
    pub sample: Duration,
    pub source: Option<SourceSpec>,
    /// The last variable varies fastest.
    pub sweep: Vec<Variable>,
    pub report: ReportSpec,
    pub selection: Option<SelectionSpec>,
    /// `None`: ns-2 cannot run the scenario.
    pub ns2: Option<Ns2Spec>,
    pub virtual_time: VirtualSpec,
    /// The kernel of virtual time, unless the profile chooses it.
    pub kernel: Option<GuestKernel>,
    pub published: Vec<Published>,
    pub expected: Vec<Expected>,
    pub checks: Vec<Check>,
    /// The question that it answers.
    pub criterion: Option<String>,
    pub margins: Vec<MarginSpec>,
    /// If it is empty, the report draws every metric over the sweep, and congestion windows over time.
    pub figures: Vec<FigureSpec>,
    pub differences: Vec<DifferenceSpec>,
    /// Every combination of sweep values.
    pub cells: Vec<Cell>,
}

impl Scenario {
    /// Text of a file that the scenario names; empty if there is no such file.
    pub fn text_of(&self, name: &str) -> &str {
        self.files.iter().find(|file| file.name == name).map_or("", |file| &file.text)
    }

    /// The variable along which results are compared: `variant`, else `algorithm`, else none.
    pub fn series_variable(&self) -> Option<&str> {
        let names = || self.sweep.iter().map(|variable| variable.name.as_str());
        names().find(|&name| name == VARIANT).or_else(|| names().find(|&name| name == ALGORITHM))
    }

    /// Empty if the variable is not swept.
    pub fn values_of(&self, variable: &str) -> &[String] {
        self.sweep.iter().find(|v| v.name == variable).map_or(&[], |v| &v.values)
    }
}
