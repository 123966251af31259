//! Turns the runs of a result directory into the cells of its tables, with published, expected and measured numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;

use super::cell::{Expectation, Measurement, Ratio, ReportCell};
use super::flows::{self, FlowTally, ReportFlow};
use super::index::{CellKey, Index, point_of};
use super::input::{Needs, RunInput};
use super::verdict::{self, Terms};
use super::{interval, notices};
use crate::scenario::{DEFAULT_TOLERANCE, Of, Scenario, VARIANT};
use shared::failure::Failure;
use shared::model::metrics::{METRICS, Metric, MetricValue};
use shared::model::notice::Notice;
use shared::model::run::{At, RunStatus};
use shared::model::stats;
use shared::sanitize::count;

const DEFAULT_METRICS: [&str; 2] = ["delivered_pkts", "goodput_bps"];

/// One metric of one variant in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    repeat: u32,
    seed: u64,
    value: MetricValue,
}

/// All numbers of a report.
pub struct Compared {
    /// Shape: by metric, then point in the sweep, then variant.
    pub cells: Vec<ReportCell>,
    /// Every flow of every cell. Empty if each cell has one flow.
    pub flows: Vec<ReportFlow>,
    /// About the whole report.
    pub notices: Vec<Notice>,
}

/// Computes all numbers, reading each run once.
///
/// # Errors
/// The scenario names an unknown metric; a metric needs events and they cannot be read.
pub fn compare(index: &Index<'_>) -> Result<Compared> {
    let metrics = metrics_of(index.scenario())?;
    let flows = flows::are_several(index).then(FlowTally::default);
    let (samples, notices) = (BTreeMap::new(), notices::general(index.directory));
    let mut comparison = Comparison { index, samples, flows, notices };
    comparison.sample(&metrics)?;
    let cells = comparison.cells(&metrics);
    let flows = comparison.flows.map(|tally| tally.flows(index)).unwrap_or_default();
    Ok(Compared { cells, flows, notices: comparison.notices })
}

/// The metrics of the scenario's report, in its order.
///
/// # Errors
/// An unknown metric.
pub fn metrics_of(scenario: &Scenario) -> Result<Vec<&'static Metric>> {
    let asked = &scenario.report.metrics;
    if asked.is_empty() {
        return Ok(DEFAULT_METRICS.iter().filter_map(|name| Metric::find(name)).collect());
    }
    let find = |name: &String| {
        Metric::find(name).ok_or_else(|| {
            let known: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
            let what = format!("cannot report metric \"{name}\" of scenario \"{}\": no such metric", scenario.name);
            Failure::usage(what).hint(format!("there are {}", known.join(", "))).into()
        })
    };
    asked.iter().map(find).collect()
}

struct Comparison<'a> {
    index: &'a Index<'a>,
    /// By metric name and cell.
    samples: BTreeMap<(&'static str, CellKey), Vec<Sample>>,
    /// `None` if each cell has one flow.
    flows: Option<FlowTally>,
    notices: Vec<Notice>,
}

impl<'a> Comparison<'a> {
    fn scenario(&self) -> &'a Scenario {
        self.index.scenario()
    }

    /// Computes every metric of every run that counts.
    fn sample(&mut self, metrics: &[&'static Metric]) -> Result<()> {
        let mut needs = Needs::of(metrics, self.scenario().report.part_s());
        needs.events |= self.flows.is_some();
        for run in self.index.done() {
            let mut input = RunInput::read(run, needs)?;
            self.notices.append(&mut input.notices);
            let (record, over_time) = (&input.record, input.over_time());
            if let Some(tally) = &mut self.flows {
                tally.add(self.index, record, over_time);
            }
            for (variant, view) in self.index.views(record, over_time) {
                let key = CellKey { point: point_of(self.scenario(), &record.at), variant };
                for metric in metrics {
                    let Some(value) = metric.value(&view) else { continue };
                    let sample = Sample { repeat: record.repeat, seed: record.seed, value };
                    self.samples.entry((metric.name, key.clone())).or_default().push(sample);
                }
            }
        }
        self.samples.values_mut().for_each(|samples| samples.sort_by_key(|sample| (sample.repeat, sample.seed)));
        Ok(())
    }

    fn cells(&mut self, metrics: &[&'static Metric]) -> Vec<ReportCell> {
        let mut cells = Vec::new();
        for metric in metrics {
            let rows = self.rows(metric);
            for point in &self.index.points {
                let key = |variant: &String| CellKey { point: point.clone(), variant: variant.clone() };
                cells.extend(rows.iter().map(|variant| self.cell(metric, key(variant))));
            }
        }
        let shows = |cell: &ReportCell| cell.measured.is_some() || cell.published.is_some() || cell.is_expected();
        let (shown, empty): (Vec<ReportCell>, Vec<ReportCell>) = cells.into_iter().partition(shows);
        // A variant that the scenario never runs at this point is not missing. Only the source names it, or it belongs
        // to another point of the sweep, such as another value of a swept tunable.
        let awaited = empty.iter().filter(|cell| self.index.is_planned(&self.key(cell)));
        let (undefined, left_out): (Vec<&ReportCell>, Vec<&ReportCell>) =
            awaited.partition(|cell| self.has_finished(cell));
        let left_out: BTreeSet<CellKey> = left_out.into_iter().map(|cell| self.key(cell)).collect();
        let undefined = metrics.iter().filter_map(|metric| {
            let cells = undefined.iter().filter(|cell| cell.metric == metric.name).count();
            (cells > 0).then(|| {
                let (name, cells) = (metric.name, count(cells, "cell"));
                let cause = format!("{name} has no value in {cells} with finished runs, left out");
                Notice::new(cause, format!("it needs {}", metric.needs))
            })
        });
        let notice = (!left_out.is_empty()).then(|| {
            let [have, are] = if left_out.len() == 1 { ["has", "is"] } else { ["have", "are"] };
            let cells = count(left_out.len(), "cell");
            let cause = format!("{cells} of the scenario {have} no finished run yet and {are} left out");
            Notice::new(cause, "`tccc run` on the same directory measures them")
        });
        let notices: Vec<Notice> = notice.into_iter().chain(undefined).collect();
        self.notices.extend(notices);
        shown
    }

    /// Whether the cell has a finished run. An empty cell with one has an undefined metric.
    fn has_finished(&self, cell: &ReportCell) -> bool {
        self.index.runs_of(&self.key(cell)).iter().any(|record| record.status == RunStatus::Done)
    }

    /// The measured variants, then those only in the source.
    fn rows(&self, metric: &Metric) -> Vec<String> {
        let mut rows = self.index.variants.clone();
        let published = self.scenario().published.iter().filter(|published| published.metric == metric.name);
        for name in published.flat_map(|published| published.values.keys()) {
            if !rows.contains(name) {
                rows.push(name.clone());
            }
        }
        rows
    }

    fn cell(&self, metric: &'static Metric, key: CellKey) -> ReportCell {
        let measured = measured(self.samples_of(metric, &key)).map(|measured| measured.up_to(metric.most));
        let published = self.published(metric, &key);
        let expected = self.expected_value(metric, &key);
        let ratio = self.ratio(metric, &key);
        let terms = Terms {
            lacks_baseline: expected.is_none() && self.expected(metric, &key, Of::Saved).is_some(),
            other_profile: self.other_profile(),
            tolerance: self.scenario().report.tolerance.unwrap_or(DEFAULT_TOLERANCE).0,
        };
        let at = self.position(&key);
        let mut notices = notices::of_cell(self.index, &key, measured.as_ref(), ratio.as_ref());
        notices.extend(notices::known_differences(self.scenario(), metric, &at));
        let mut cell = ReportCell {
            at,
            series: self.series().to_owned(),
            shares_runs: self.scenario().series_variable().is_none(),
            variant: key.variant,
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            published: published.map(|(value, _)| value),
            published_place: published.map(|(_, place)| place.to_owned()),
            expected,
            measured,
            ratio_to_baseline: ratio,
            notices,
            ..ReportCell::default()
        };
        (cell.verdict, cell.verdict_reason) = verdict::judge(&cell, terms);
        cell
    }

    /// The profile of the runs, if it is not the scenario's.
    fn other_profile(&self) -> Option<&str> {
        let profile = self.index.directory.host.profile.as_str();
        (profile != self.scenario().profile.name()).then_some(profile)
    }

    fn series(&self) -> &str {
        self.scenario().series_variable().unwrap_or(VARIANT)
    }

    /// The inverse of [`Comparison::position`].
    fn key(&self, cell: &ReportCell) -> CellKey {
        CellKey { point: cell.point(), variant: cell.variant.clone() }
    }

    fn position(&self, key: &CellKey) -> At {
        let mut at = key.point.clone();
        at.insert(self.series().to_owned(), key.variant.clone());
        at
    }

    fn samples_of(&self, metric: &'static Metric, key: &CellKey) -> &[Sample] {
        self.samples.get(&(metric.name, key.clone())).map_or(&[], Vec::as_slice)
    }

    /// A variant's number in its list of values over a variable.
    fn listed(&self, lists: &BTreeMap<String, Vec<f64>>, over: &str, key: &CellKey) -> Option<f64> {
        let value = self.position(key).remove(over)?;
        let index = self.scenario().values_of(over).iter().position(|known| *known == value)?;
        lists.get(&key.variant)?.get(index).copied().filter(|number| number.is_finite())
    }

    /// The published value and its place in the source. A published saving is subtracted from the baseline's measured mean.
    fn published(&self, metric: &'static Metric, key: &CellKey) -> Option<(f64, &str)> {
        let saved = || {
            let (saved, place) = self.published_of(metric, key, Of::Saved)?;
            Some((self.mean_of_baseline(metric, key)? - saved, place))
        };
        self.published_of(metric, key, Of::Value).or_else(saved)
    }

    fn published_of(&self, metric: &Metric, key: &CellKey, of: Of) -> Option<(f64, &str)> {
        let mut of_metric = self.scenario().published.iter().filter(|p| p.metric == metric.name && p.of == of);
        of_metric.find_map(|one| Some((self.listed(&one.values, &one.over, key)?, one.place.as_str())))
    }

    fn baseline(&self, key: &CellKey) -> Option<CellKey> {
        Some(CellKey { point: key.point.clone(), variant: self.scenario().report.baseline.clone()? })
    }

    fn mean_of_baseline(&self, metric: &'static Metric, key: &CellKey) -> Option<f64> {
        let samples = self.samples_of(metric, &self.baseline(key)?);
        stats::mean(&samples.iter().map(|sample| sample.value.value).collect::<Vec<_>>())
    }

    /// The expected value. An expected saving is subtracted from the baseline's measured mean.
    fn expected_value(&self, metric: &'static Metric, key: &CellKey) -> Option<Expectation> {
        let saved = || {
            let saved = self.expected(metric, key, Of::Saved)?;
            Some(Expectation { value: self.mean_of_baseline(metric, key)? - saved.value, ..saved })
        };
        self.expected(metric, key, Of::Value).or_else(saved)
    }

    fn expected(&self, metric: &Metric, key: &CellKey, of: Of) -> Option<Expectation> {
        let mut of_metric = self.scenario().expected.iter().filter(|e| e.metric == metric.name && e.of == of);
        of_metric.find_map(|one| {
            let value = self.listed(&one.values, &one.over, key)?;
            let plus_minus = self.listed(&one.plus_minus, &one.over, key)?;
            Some(Expectation { value, plus_minus, basis: one.basis.clone() })
        })
    }

    /// The cell's ratio to the baseline, from paired runs. `None` for the baseline itself, or with nothing to show.
    fn ratio(&self, metric: &'static Metric, key: &CellKey) -> Option<Ratio> {
        let below = self.baseline(key).filter(|below| below != key)?;
        let pairs = pairs(self.samples_of(metric, key), self.samples_of(metric, &below));
        let values: Vec<(f64, f64)> = pairs.iter().map(|(above, below)| (above.value, below.value)).collect();
        let paired = stats::paired_ratio(&values);
        let published_below = self.published(metric, &below).filter(|(value, _)| *value != 0.0);
        let (published, published_place) = self.published_of(metric, key, Of::Ratio).unzip();
        let published =
            published.or_else(|| self.published(metric, key).zip(published_below).map(|((a, _), (b, _))| a / b));
        let expected = self.expected(metric, key, Of::Ratio);
        let anything = paired.is_some() || published.is_some() || expected.is_some();
        anything.then(|| Ratio {
            published,
            expected,
            measured: paired.map(|paired| paired.ratio),
            ci95: paired.and_then(|paired| paired.ci95).map(interval::from_zero),
            pairs: pairs.len(),
            cut_off: pairs.iter().filter(|(above, _)| above.cut_off).count(),
            baseline_cut_off: pairs.iter().filter(|(_, below)| below.cut_off).count(),
            published_place: published_place.map(str::to_owned),
        })
    }
}

fn measured(samples: &[Sample]) -> Option<Measurement> {
    let cut_off = samples.iter().filter(|sample| sample.value.cut_off).count();
    let measured = Measurement::of(samples.iter().map(|sample| sample.value.value).collect(), cut_off)?;
    Some(Measurement {
        seeds: samples.iter().map(|sample| sample.seed).collect(),
        repeats: samples.iter().map(|sample| sample.repeat).collect(),
        ..measured
    })
}

/// Pairs values of the same repeat and seed.
fn pairs(above: &[Sample], below: &[Sample]) -> Vec<(MetricValue, MetricValue)> {
    // If a repeat has several samples, the first counts.
    let below: HashMap<(u32, u64), MetricValue> =
        below.iter().rev().map(|sample| ((sample.repeat, sample.seed), sample.value)).collect();
    above.iter().filter_map(|one| Some((one.value, *below.get(&(one.repeat, one.seed))?))).collect()
}
