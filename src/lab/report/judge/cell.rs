//! A cell of a report: published, expected and measured numbers of one metric of one variant at one point.

use std::collections::HashMap;
use std::hash::Hash;

use serde::Serialize;
use strum::IntoStaticStr;

use super::bound::Bound;
use super::interval::{self, IntervalKind};
use shared::model::metrics::Metric;
use shared::model::notice::Notice;
use shared::model::run::{At, Engine};
use shared::model::stats;

/// This metric, and those of the queue, belong to the path, not to the flows.
const PATH_METRIC: &str = "utilisation_ratio";

/// One metric of one variant at one point of the sweep.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ReportCell {
    /// Sweep variable to value, the variant included.
    pub at: At,
    /// The variable of `at` that names the variant.
    #[serde(skip)]
    pub series: String,
    /// Whether the variants are flows of the same runs.
    #[serde(skip)]
    pub shares_runs: bool,
    pub variant: String,
    pub metric: String,
    /// Unit of all values except ratios.
    pub unit: String,
    pub published: Option<f64>,
    /// Table, row and column of `published` in the source.
    pub published_place: Option<String>,
    pub expected: Option<Expectation>,
    /// A re-run in the source's own simulator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Rerun>,
    /// `None` without a finished run.
    pub measured: Option<Measurement>,
    /// `None` for the baseline itself, without a baseline, or if no number of it is known.
    pub ratio_to_baseline: Option<Ratio>,
    pub verdict: Verdict,
    /// The deciding comparison, in one phrase.
    pub verdict_reason: String,
    pub notices: Vec<Notice>,
}

impl ReportCell {
    /// Position in the sweep, without the variant.
    pub fn point(&self) -> At {
        let mut point = self.at.clone();
        point.remove(&self.series);
        point
    }

    /// Whether the scenario expects a number for it.
    pub fn is_expected(&self) -> bool {
        self.expected.is_some() || self.ratio().expected.is_some()
    }

    /// Whether a number is published or expected for it.
    pub fn has_target(&self) -> bool {
        self.published.is_some() || self.ratio().published.is_some() || self.is_expected()
    }

    /// The value from every source.
    pub fn value(&self) -> CellNumbers<'_> {
        let measured = self.measured.as_ref();
        CellNumbers {
            published: self.published,
            expected: self.expected.as_ref(),
            rerun: self.rerun.as_ref().map(|rerun| (rerun.measured.mean, rerun.measured.bound())),
            measured: measured.map(|measured| measured.mean),
            ci95: measured.and_then(|measured| measured.ci95),
            bound: measured.map(Measurement::bound).unwrap_or_default(),
        }
    }

    /// The ratio to the baseline from every source. Ratios that cut-off runs leave unknown are `None`.
    pub fn ratio(&self) -> CellNumbers<'_> {
        let ratio = self.ratio_to_baseline.as_ref();
        let known = ratio.filter(|ratio| ratio.bound() != Bound::Unknown);
        let rerun = self.rerun.as_ref().filter(|rerun| rerun.ratio_bound != Bound::Unknown);
        CellNumbers {
            published: ratio.and_then(|ratio| ratio.published),
            expected: ratio.and_then(|ratio| ratio.expected.as_ref()),
            rerun: rerun.and_then(|rerun| Some((rerun.ratio_to_baseline?, rerun.ratio_bound))),
            measured: known.and_then(|ratio| ratio.measured),
            ci95: known.and_then(|ratio| ratio.ci95),
            bound: known.map(Ratio::bound).unwrap_or_default(),
        }
    }

    /// Whether its metric belongs to the path shared by all flows of a run.
    pub fn is_of_path(&self) -> bool {
        let is_of_queue = || Metric::find(&self.metric).is_some_and(|metric| metric.needs_queues);
        self.shares_runs && (self.metric == PATH_METRIC || is_of_queue())
    }

    /// Whether both are the same number of the same path, without targets of their own.
    pub fn has_path_of(&self, other: &ReportCell) -> bool {
        let is_plain = |cell: &ReportCell| cell.is_of_path() && cell.measured.is_some() && !cell.has_target();
        is_plain(self) && is_plain(other) && self.point() == other.point() && self.measured == other.measured
    }

    /// Whether it was measured and a ratio is expected, but the baseline was not measured.
    pub fn lacks_baseline(&self) -> bool {
        let is_without = |ratio: &Ratio| ratio.expected.is_some() && ratio.pairs == 0;
        self.measured.is_some() && self.ratio_to_baseline.as_ref().is_some_and(is_without)
    }
}

/// One number of a cell, its value or its ratio to the baseline, from every source.
#[derive(Debug, Clone, Copy)]
pub struct CellNumbers<'a> {
    pub published: Option<f64>,
    pub expected: Option<&'a Expectation>,
    pub rerun: Option<(f64, Bound)>,
    pub measured: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub bound: Bound,
}

/// What a faithful implementation should give.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Expectation {
    pub value: f64,
    /// Allowed distance from `value`.
    pub plus_minus: f64,
    pub basis: String,
}

/// The same cell in another engine's runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rerun {
    pub engine: Engine,
    pub measured: Measurement,
    /// Over its own baseline.
    pub ratio_to_baseline: Option<f64>,
    #[serde(skip)]
    pub ratio_bound: Bound,
}

/// The statistics of a cell's runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    pub n: usize,
    pub mean: f64,
    /// 95 % interval of the mean; `None` with fewer than three runs.
    pub ci95: Option<[f64; 2]>,
    pub ci95_kind: Option<IntervalKind>,
    pub median: f64,
    /// 95 % bootstrap interval of the median; `None` with fewer than five runs.
    pub median_ci95: Option<[f64; 2]>,
    /// One value per run, in the order of the repeats.
    pub values: Vec<f64>,
    /// Seed of each run; empty if unknown. Runs with the same seed have the same random losses in every engine.
    #[serde(skip)]
    pub seeds: Vec<u64>,
    /// Number of each run among the repeats of its cell; empty if unknown.
    #[serde(skip)]
    pub repeats: Vec<u32>,
    /// Runs that ended before the event that the metric waits for. If there are any, mean and median are lower bounds.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_off: usize,
}

impl Measurement {
    /// `None` without a run.
    pub fn of(values: Vec<f64>, cut_off: usize) -> Option<Measurement> {
        let (ci95, ci95_kind) = interval::mean_interval(&values).unzip();
        Some(Measurement {
            n: values.len(),
            mean: stats::mean(&values)?,
            ci95,
            ci95_kind,
            median: stats::median(&values)?,
            median_ci95: interval::median_interval(&values),
            values,
            seeds: Vec::new(),
            repeats: Vec::new(),
            cut_off,
        })
    }

    /// With the interval of the mean clipped at the largest possible value of the metric.
    pub fn up_to(self, most: f64) -> Measurement {
        Measurement { ci95: self.ci95.map(|ends| interval::up_to(most, ends)), ..self }
    }

    pub fn bound(&self) -> Bound {
        Bound::of_ratio(self.cut_off, 0)
    }
}

/// Variables of the sweep with the same value in every cell. They are in the header, not in each row and sentence.
pub fn common_point(cells: &[ReportCell]) -> At {
    let mut common = cells.first().map(ReportCell::point).unwrap_or_default();
    common.retain(|name, value| cells.iter().all(|cell| cell.at.get(name) == Some(value)));
    common
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A cell divided by the baseline's cell at the same point.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Ratio {
    pub published: Option<f64>,
    pub expected: Option<Expectation>,
    /// Ratio of the means over the same repeats.
    pub measured: Option<f64>,
    /// Fieller's 95 % interval over the pairs. `None` with fewer than three pairs, or if it is
    /// unbounded.
    pub ci95: Option<[f64; 2]>,
    pub pairs: usize,
    /// Pairs whose own run was cut off: the ratio is then a lower bound.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_off: usize,
    /// Pairs whose baseline run was cut off: the ratio is then an upper bound. With both it is unknown.
    #[serde(skip_serializing_if = "is_zero")]
    pub baseline_cut_off: usize,
    /// Table, row and column of the published ratio in the source. `None` if `published` is one published value over
    /// another; see [`ReportCell::published_place`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published_place: Option<String>,
}

impl Ratio {
    pub fn bound(&self) -> Bound {
        Bound::of_ratio(self.cut_off, self.baseline_cut_off)
    }
}

/// Whether a measured number and its target agree, as defined in [`super::verdict`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Verdict {
    Within,
    Outside,
    #[default]
    #[serde(rename = "not comparable")]
    #[strum(serialize = "not comparable")]
    NotComparable,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        self.into()
    }
}

pub fn title_of(metric: &str) -> &str {
    Metric::find(metric).map_or(metric, |metric| metric.title)
}

/// `loss 1%, rtt 40ms`; empty without a sweep.
pub fn point_name(point: &At) -> String {
    point.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}

/// Distinct values, in the order of their first occurrence.
pub fn each_once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for one in all {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}

/// Groups items by key, in the order of each group's first item.
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
