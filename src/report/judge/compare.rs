//! Published, expected and measured side by side: from the runs of a result directory to the cells of its tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;

use super::cell::{Cell, Expectation, Measured, Ratio};
use super::index::{Index, Key, point_of};
use super::verdict::{self, Terms};
use super::views::views;
use super::{interval, notices};
use crate::failure::Failure;
use crate::model::flow::{self, Flow};
use crate::model::metrics::{METRICS, Metric, MetricValue};
use crate::model::notice::Notice;
use crate::model::run::{At, RunRecord, RunStatus};
use crate::model::stats;
use crate::report::read::directory::StoredRun;
use crate::scenario::{DEFAULT_TOLERANCE, Of, Scenario, VARIANT};

/// Metrics of a scenario that names none.
const DEFAULT_METRICS: [&str; 2] = ["delivered_pkts", "goodput_bps"];

/// The cells of a report and what concerns them all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Compared {
    /// By metric, then point in the sweep, then variant.
    pub cells: Vec<Cell>,
    /// What concerns the whole report.
    pub notices: Vec<Notice>,
}

/// One metric of one variant in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    repeat: u32,
    seed: u64,
    value: MetricValue,
}

/// Computes all cells.
///
/// Errors: the scenario names a metric that does not exist; a metric needs events and they cannot be read.
pub fn compare(index: &Index<'_>) -> Result<Compared> {
    let metrics = metrics_of(index.scenario())?;
    let mut comparison = Comparison { index, samples: BTreeMap::new(), notices: notices::general(index.directory) };
    comparison.sample(&metrics)?;
    let cells = comparison.cells(&metrics);
    Ok(Compared { cells, notices: comparison.notices })
}

/// The metrics of the scenario's report, in its order.
///
/// Errors: a name that no metric has.
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
    samples: BTreeMap<(&'static str, Key), Vec<Sample>>,
    notices: Vec<Notice>,
}

impl<'a> Comparison<'a> {
    fn scenario(&self) -> &'a Scenario {
        self.index.scenario()
    }

    /// Computes every metric of every run that counts.
    fn sample(&mut self, metrics: &[&'static Metric]) -> Result<()> {
        let need_events = metrics.iter().any(|metric| metric.needs_events());
        let index = self.index;
        for run in index.done() {
            let over_time = if need_events { self.flows_over_time(run)? } else { Vec::new() };
            self.sample_run(metrics, &run.record, &over_time);
        }
        self.samples.values_mut().for_each(|samples| samples.sort_by_key(|sample| (sample.repeat, sample.seed)));
        Ok(())
    }

    fn sample_run(&mut self, metrics: &[&'static Metric], record: &RunRecord, over_time: &[Flow]) {
        for (variant, view) in views(self.index, record, over_time) {
            let key = Key { point: point_of(self.scenario(), &record.at), variant };
            for metric in metrics {
                let Some(value) = metric.value(&view) else { continue };
                let sample = Sample { repeat: record.repeat, seed: record.seed, value };
                self.samples.entry((metric.name, key.clone())).or_default().push(sample);
            }
        }
    }

    fn flows_over_time(&mut self, run: &StoredRun) -> Result<Vec<Flow>> {
        let stored = run.events()?;
        self.notices.extend(stored.notices);
        Ok(flow::fold(&stored.events))
    }

    fn cells(&mut self, metrics: &[&'static Metric]) -> Vec<Cell> {
        let mut cells = Vec::new();
        for metric in metrics {
            let rows = self.rows(metric);
            for point in &self.index.points {
                let key = |variant: &String| Key { point: point.clone(), variant: variant.clone() };
                cells.extend(rows.iter().map(|variant| self.cell(metric, key(variant))));
            }
        }
        let shows = |cell: &Cell| cell.measured.is_some() || cell.published.is_some() || cell.is_expected();
        let (shown, empty): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(shows);
        // A variant that the source names without a number and the scenario does not run is nothing to wait for, nor
        // is one that exists elsewhere in the sweep only, such as another value of a swept tunable.
        let awaited = empty.iter().filter(|cell| self.index.is_planned(&self.key(cell)));
        let (undefined, left_out): (Vec<&Cell>, Vec<&Cell>) = awaited.partition(|cell| self.has_finished(cell));
        let mut notices = Vec::new();
        let left_out: BTreeSet<Key> = left_out.into_iter().map(|cell| self.key(cell)).collect();
        notices.extend((!left_out.is_empty()).then(|| Notice::cells_left_out(left_out.len())));
        for metric in metrics {
            let cells = undefined.iter().filter(|cell| cell.metric == metric.name).count();
            notices.extend((cells > 0).then(|| Notice::metric_undefined(metric, cells)));
        }
        self.notices.extend(notices);
        shown
    }

    /// Whether the cell has a run that counts, and so lacks its value for another reason.
    fn has_finished(&self, cell: &Cell) -> bool {
        self.index.runs_of(&self.key(cell)).iter().any(|record| record.status == RunStatus::Done)
    }

    /// The variants measured, then those only the source has.
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

    fn cell(&self, metric: &'static Metric, key: Key) -> Cell {
        let measured = measured(self.samples_of(metric, &key));
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
        let mut cell = Cell {
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
            ..Cell::default()
        };
        (cell.verdict, cell.verdict_reason) = verdict::judge(&cell, terms);
        cell
    }

    /// The profile of the runs where it is not the one the scenario's numbers are for.
    fn other_profile(&self) -> Option<&str> {
        let profile = self.index.directory.host.profile.as_str();
        (profile != self.scenario().profile.name()).then_some(profile)
    }

    /// The variable whose values are the variants.
    fn series(&self) -> &str {
        self.scenario().series_variable().unwrap_or(VARIANT)
    }

    /// Where a cell lies: [`Comparison::position`] taken apart.
    fn key(&self, cell: &Cell) -> Key {
        Key { point: cell.point(), variant: cell.variant.clone() }
    }

    /// The whole position of a cell, the variant included.
    fn position(&self, key: &Key) -> At {
        let mut at = key.point.clone();
        at.insert(self.series().to_owned(), key.variant.clone());
        at
    }

    fn samples_of(&self, metric: &'static Metric, key: &Key) -> &[Sample] {
        self.samples.get(&(metric.name, key.clone())).map_or(&[], Vec::as_slice)
    }

    /// Index of a cell along a variable that a list goes over.
    fn index_over(&self, over: &str, key: &Key) -> Option<usize> {
        let value = self.position(key).remove(over)?;
        self.scenario().values_of(over).iter().position(|known| *known == value)
    }

    /// The published value and its place in the source. Where that says what is saved: the baseline's measured mean
    /// less it.
    fn published(&self, metric: &'static Metric, key: &Key) -> Option<(f64, &str)> {
        let saved = || {
            let (saved, place) = self.published_of(metric, key, Of::Saved)?;
            Some((self.mean_of_baseline(metric, key)? - saved, place))
        };
        self.published_of(metric, key, Of::Value).or_else(saved)
    }

    fn published_of(&self, metric: &Metric, key: &Key, of: Of) -> Option<(f64, &str)> {
        let of_metric = self.scenario().published.iter().filter(|p| p.metric == metric.name && p.of == of);
        of_metric.into_iter().find_map(|published| {
            let list = published.values.get(&key.variant)?;
            let value = *list.get(self.index_over(&published.over, key)?)?;
            value.is_finite().then_some((value, published.place.as_str()))
        })
    }

    /// What the baseline measured at the same point.
    fn mean_of_baseline(&self, metric: &'static Metric, key: &Key) -> Option<f64> {
        let baseline = self.scenario().report.baseline.clone()?;
        let below = Key { point: key.point.clone(), variant: baseline };
        let values: Vec<f64> = self.samples_of(metric, &below).iter().map(|sample| sample.value.value).collect();
        stats::mean(&values)
    }

    /// What is expected of a value, or of what it saves.
    fn expected_value(&self, metric: &'static Metric, key: &Key) -> Option<Expectation> {
        let saved = || {
            let saved = self.expected(metric, key, Of::Saved)?;
            Some(Expectation { value: self.mean_of_baseline(metric, key)? - saved.value, ..saved })
        };
        self.expected(metric, key, Of::Value).or_else(saved)
    }

    fn expected(&self, metric: &Metric, key: &Key, of: Of) -> Option<Expectation> {
        let of_metric = self.scenario().expected.iter().filter(|e| e.metric == metric.name && e.of == of);
        of_metric.into_iter().find_map(|expected| {
            let index = self.index_over(&expected.over, key)?;
            let value = *expected.values.get(&key.variant)?.get(index)?;
            let plus_minus = *expected.plus_minus.get(&key.variant)?.get(index)?;
            let basis = expected.basis.clone();
            (value.is_finite() && plus_minus.is_finite()).then_some(Expectation { value, plus_minus, basis })
        })
    }

    /// The cell over the baseline's, from the runs both have; none for the baseline itself and with nothing to divide.
    fn ratio(&self, metric: &'static Metric, key: &Key) -> Option<Ratio> {
        let baseline = self.scenario().report.baseline.clone().filter(|baseline| *baseline != key.variant)?;
        let below = Key { point: key.point.clone(), variant: baseline };
        let pairs: Vec<(MetricValue, MetricValue)> =
            pairs(self.samples_of(metric, key), self.samples_of(metric, &below));
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

fn measured(samples: &[Sample]) -> Option<Measured> {
    let cut_off = samples.iter().filter(|sample| sample.value.cut_off).count();
    let measured = Measured::of(samples.iter().map(|sample| sample.value.value).collect(), cut_off)?;
    Some(Measured { seeds: samples.iter().map(|sample| sample.seed).collect(), ..measured })
}

/// Values of the same repeat and seed.
fn pairs(above: &[Sample], below: &[Sample]) -> Vec<(MetricValue, MetricValue)> {
    // Of several of one repeat the first counts.
    let below: HashMap<(u32, u64), MetricValue> =
        below.iter().rev().map(|sample| ((sample.repeat, sample.seed), sample.value)).collect();
    above.iter().filter_map(|one| Some((one.value, *below.get(&(one.repeat, one.seed))?))).collect()
}
