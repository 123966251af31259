//! A cell of a report: what is published, expected and measured of one metric of one variant at one point.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;
use strum::IntoStaticStr;

use super::bound::Bound;
use super::interval::{self, IntervalKind};
use crate::model::metrics::Metric;
use crate::model::notice::Notice;
use crate::model::run::{At, Engine};
use crate::model::stats;

/// The metric that is one of the path and not of the flows.
const PATH_METRIC: &str = "utilisation_ratio";

/// One metric of one variant at one point of the sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cell {
    /// Sweep variable to value, the variant included.
    pub at: At,
    /// The variable of `at` whose value the variant is.
    #[serde(skip)]
    pub series: String,
    /// Whether its runs are those of the other variants at its point, too: the variants are flows of one run.
    #[serde(skip)]
    pub shares_runs: bool,
    /// The row's variant or algorithm.
    pub variant: String,
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
    pub fn point(&self) -> At {
        let mut point = self.at.clone();
        point.remove(&self.series);
        point
    }

    /// Whether the scenario says what it should give.
    pub fn is_expected(&self) -> bool {
        self.expected.is_some() || self.ratio().expected.is_some()
    }

    /// Its value from each source.
    pub fn value(&self) -> Numbers<'_> {
        let measured = self.measured.as_ref();
        Numbers {
            published: self.published,
            expected: self.expected.as_ref(),
            rerun: self.rerun.as_ref().map(|rerun| (rerun.measured.mean, rerun.measured.bound())),
            measured: measured.map(|measured| measured.mean),
            ci95: measured.and_then(|measured| measured.ci95),
            bound: measured.map(Measured::bound).unwrap_or_default(),
        }
    }

    /// Its ratio from each source, as far as cut-off runs leave anything of it.
    pub fn ratio(&self) -> Numbers<'_> {
        let ratio = self.ratio_to_baseline.as_ref();
        let known = ratio.filter(|ratio| ratio.bound() != Bound::Nothing);
        let rerun = self.rerun.as_ref().filter(|rerun| rerun.ratio_bound != Bound::Nothing);
        Numbers {
            published: ratio.and_then(|ratio| ratio.published),
            expected: ratio.and_then(|ratio| ratio.expected.as_ref()),
            rerun: rerun.and_then(|rerun| Some((rerun.ratio_to_baseline?, rerun.ratio_bound))),
            measured: known.and_then(|ratio| ratio.measured),
            ci95: known.and_then(|ratio| ratio.ci95),
            bound: known.map(Ratio::bound).unwrap_or_default(),
        }
    }

    /// Whether anything is published or expected of it.
    pub fn has_target(&self) -> bool {
        self.published.is_some() || self.ratio().published.is_some() || self.is_expected()
    }

    /// Whether it is a metric of the path, which all flows of a run have in common.
    pub fn is_of_path(&self) -> bool {
        self.shares_runs && self.metric == PATH_METRIC
    }

    /// Whether both are the same number of the same path, and nothing is said of either that is not said of the other.
    pub fn has_path_of(&self, other: &Cell) -> bool {
        let is_plain = |cell: &Cell| cell.is_of_path() && cell.measured.is_some() && !cell.has_target();
        is_plain(self) && is_plain(other) && self.point() == other.point() && self.measured == other.measured
    }

    /// Whether it has a run, and its expected ratio none of the baseline to divide by.
    pub fn lacks_baseline(&self) -> bool {
        let is_without = |ratio: &Ratio| ratio.expected.is_some() && ratio.pairs == 0;
        self.measured.is_some() && self.ratio_to_baseline.as_ref().is_some_and(is_without)
    }
}

/// What there is of one number of a cell, its value or its ratio to the baseline's, wherever it comes from.
#[derive(Debug, Clone, Copy)]
pub struct Numbers<'a> {
    pub published: Option<f64>,
    pub expected: Option<&'a Expectation>,
    pub rerun: Option<(f64, Bound)>,
    pub measured: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    /// What cut-off runs leave of the measured one.
    pub bound: Bound,
}

/// A number to be met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    pub value: f64,
    /// Allowed distance.
    pub plus_minus: f64,
    /// Why this number.
    pub basis: String,
}

/// A cell in another engine's runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rerun {
    pub engine: Engine,
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
    pub mean: f64,
    /// 95 % interval of the mean; none under three runs.
    pub ci95: Option<[f64; 2]>,
    /// How that interval was computed.
    pub ci95_kind: Option<IntervalKind>,
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

    /// What its mean and median say.
    pub fn bound(&self) -> Bound {
        if self.cut_off > 0 { Bound::Lower } else { Bound::Exact }
    }
}

/// Variables of the sweep with their value where it is the same in every cell: the header has them, not each row and
/// sentence.
pub fn common_point(cells: &[Cell]) -> At {
    let mut common = cells.first().map(Cell::point).unwrap_or_default();
    common.retain(|name, value| cells.iter().all(|cell| cell.at.get(name) == Some(value)));
    common
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A cell divided by the baseline's cell of the same point.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ratio {
    /// Published over published.
    pub published: Option<f64>,
    /// What a faithful implementation should give.
    pub expected: Option<Expectation>,
    /// Measured mean over measured mean, same repeats.
    pub measured: Option<f64>,
    /// Fieller's 95 % interval over the pairs; none under three pairs, and of a ratio without bounds.
    pub ci95: Option<[f64; 2]>,
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

impl Ratio {
    /// What the measured ratio says.
    pub fn bound(&self) -> Bound {
        match (self.cut_off > 0, self.baseline_cut_off > 0) {
            (false, false) => Bound::Exact,
            (true, false) => Bound::Lower,
            (false, true) => Bound::Upper,
            (true, true) => Bound::Nothing,
        }
    }
}

/// Whether measured and target agree; [`super::verdict`] says what is compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    /// In the range.
    Within,
    /// Not in the range.
    Outside,
    /// Nothing to compare with, or nothing measured.
    #[default]
    #[serde(rename = "not comparable")]
    #[strum(serialize = "not comparable")]
    NotComparable,
}

impl Verdict {
    /// The word of tables and files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A metric for people.
pub fn title_of(metric: &str) -> &str {
    Metric::find(metric).map_or(metric, |metric| metric.title)
}

/// A point for headings: `loss 1%, rtt 40ms`; empty without a sweep.
pub fn point_name(point: &At) -> String {
    point.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Each value once, in the order they come.
pub fn each_once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// Items by what they have in common, in the order in which each group begins.
pub fn grouped<T, K: Hash + Eq>(all: impl Iterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    let mut known = HashMap::new();
    for one in all {
        let index = *known.entry(key(&one)).or_insert(groups.len());
        if index == groups.len() {
            groups.push(Vec::new());
        }
        groups[index].push(one);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratio_is_bounded_by_the_side_that_is_cut_off() {
        let bound = |cut_off, baseline_cut_off| Ratio { cut_off, baseline_cut_off, ..Ratio::default() }.bound();
        let shown = [bound(0, 0), bound(1, 0), bound(0, 3), bound(1, 1)].map(|bound| bound.signed("0.600"));
        assert_eq!(shown, ["0.600", "≥ 0.600", "≤ 0.600", "-"]);
    }
}
