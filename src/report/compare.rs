//! Published, expected and measured side by side: from the runs of a result directory to the cells of its tables.

use std::collections::BTreeMap;

use anyhow::Result;

use super::interval;
use super::load::{ResultDir, StoredRun};
use super::number::Scale;
use super::verdict::{self, Evidence};
use super::views::views;
use super::{Cell, Expectation, Measured, Ratio};
use crate::experiment::scenario::{self, DEFAULT_TOLERANCE, DifferenceSpec, Of, Profile, Scenario, VARIANT};
use crate::failure::Failure;
use crate::model::flow::{self, Flow};
use crate::model::metrics::{METRICS, Metric, Value};
use crate::model::notice::Notice;
use crate::model::run::{At, Calibration, Engine, RunRecord, RunStatus};
use crate::model::stats;

/// Metrics of a scenario that names none.
const DEFAULT_METRICS: [&str; 2] = ["delivered_pkts", "goodput_bps"];

/// A flow that begins later than this after its time lost packets of its handshakes: the first timeout takes as long.
const BEGAN_LATE_S: f64 = 1.0;

/// What helps against late attempts beside which no other run sent: `fewer --jobs` was said to those who had one.
const ALONE: &str = "no other run sent at the time: less other work on the host avoids the repeats";

/// Metrics and series that show windows during recovery too.
const WINDOWS: [&str; 2] = ["cwnd_pkts", "mean_cwnd_pkts"];

/// The cells of a report and what concerns them all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Compared {
    /// By metric, then place in the sweep, then variant.
    pub cells: Vec<Cell>,
    /// What concerns the whole report.
    pub notices: Vec<Notice>,
}

/// One metric of one variant in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    repeat: u32,
    seed: u64,
    value: Value,
}

/// Where a cell lies: the sweep without the compared variable, and the variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: At,
    variant: String,
}

/// Computes all cells.
///
/// Errors: the scenario names a metric that does not exist; a metric needs events and they cannot be read.
pub fn compare(directory: &ResultDir) -> Result<Compared> {
    let metrics = metrics_of(&directory.scenario)?;
    let mut comparison = Comparison { directory, samples: BTreeMap::new(), notices: general_notices(directory) };
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

/// The part of a position that is not the compared variable.
pub fn place_of(scenario: &Scenario, at: &At) -> At {
    let series = scenario.series_variable();
    at.iter().filter(|(name, _)| Some(name.as_str()) != series).map(|(n, v)| (n.clone(), v.clone())).collect()
}

/// Every place of the sweep, in the scenario's order.
pub fn places(scenario: &Scenario) -> Vec<At> {
    let mut places: Vec<At> = Vec::new();
    for cell in &scenario.cells {
        let place = place_of(scenario, &cell.at);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// The variants that the scenario measures, in its order.
pub fn measured_variants(scenario: &Scenario) -> Vec<String> {
    if let Some(variable) = scenario.series_variable() {
        return scenario.values_of(variable).to_vec();
    }
    let labels = scenario.cells.iter().flat_map(|cell| cell.flows.iter().map(|flow| cell.label(flow)));
    let mut variants: Vec<String> = Vec::new();
    for label in labels {
        if !variants.contains(&label) {
            variants.push(label);
        }
    }
    variants
}

struct Comparison<'a> {
    directory: &'a ResultDir,
    /// By metric name and cell.
    samples: BTreeMap<(&'static str, Key), Vec<Sample>>,
    notices: Vec<Notice>,
}

impl Comparison<'_> {
    fn scenario(&self) -> &Scenario {
        &self.directory.scenario
    }

    /// Computes every metric of every run that counts.
    fn sample(&mut self, metrics: &[&'static Metric]) -> Result<()> {
        let need_events = metrics.iter().any(|metric| metric.needs_events());
        let directory = self.directory;
        for run in directory.runs.iter().filter(|run| run.record.status == RunStatus::Done) {
            let over_time = if need_events { self.flows_over_time(run)? } else { Vec::new() };
            self.sample_run(metrics, &run.record, &over_time);
        }
        self.samples.values_mut().for_each(|samples| samples.sort_by_key(|sample| (sample.repeat, sample.seed)));
        Ok(())
    }

    fn sample_run(&mut self, metrics: &[&'static Metric], record: &RunRecord, over_time: &[Flow]) {
        for (variant, view) in views(self.scenario(), record, over_time) {
            let key = Key { place: place_of(self.scenario(), &record.at), variant };
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
            for place in places(self.scenario()) {
                let key = |variant| Key { place: place.clone(), variant };
                cells.extend(self.rows(metric).into_iter().map(|variant| self.cell(metric, key(variant))));
            }
        }
        let shows = |cell: &Cell| cell.measured.is_some() || cell.published.is_some() || cell.is_expected();
        let (shown, empty): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(shows);
        // A variant that the source names without a number and the scenario does not run is nothing to wait for, nor
        // is one that exists elsewhere in the sweep only, such as another value of a swept tunable.
        let awaited = empty.iter().filter(|cell| self.is_planned(&self.key(cell)));
        let (undefined, left_out): (Vec<&Cell>, Vec<&Cell>) = awaited.partition(|cell| self.has_finished(cell));
        let mut notices = Vec::new();
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
        self.runs_of(&self.key(cell)).iter().any(|record| record.status == RunStatus::Done)
    }

    /// Whether the scenario runs this variant at this place.
    fn is_planned(&self, key: &Key) -> bool {
        let is_of = |cell: &scenario::Cell| match self.scenario().series_variable() {
            Some(series) => cell.at.get(series) == Some(&key.variant),
            None => cell.flows.iter().any(|flow| cell.label(flow) == key.variant),
        };
        self.scenario().cells.iter().any(|cell| place_of(self.scenario(), &cell.at) == key.place && is_of(cell))
    }

    /// The variants measured, then those only the source has.
    fn rows(&self, metric: &Metric) -> Vec<String> {
        let mut rows = measured_variants(self.scenario());
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
        let shown = [measured.as_ref().map(|m| m.mean), published.map(|(value, _)| value)];
        let evidence = Evidence {
            measured: measured.as_ref(),
            ratio: ratio.as_ref(),
            expected: expected.as_ref(),
            lacks_baseline: expected.is_none() && self.expected(metric, &key, Of::Saved).is_some(),
            published: published.map(|(value, _)| value),
            other_profile: self.other_profile(),
            tolerance: self.scenario().report.tolerance.unwrap_or(DEFAULT_TOLERANCE).0,
            scale: Scale::of(metric.unit, shown.into_iter().flatten()),
        };
        let (verdict, verdict_reason) = verdict::judge(evidence);
        let mut notices = self.cell_notices(&key, measured.as_ref(), ratio.as_ref());
        notices.extend(self.known_differences(metric, &key));
        Cell {
            at: self.position(&key),
            series: self.series().to_owned(),
            variant: key.variant,
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            published: published.map(|(value, _)| value),
            published_place: published.map(|(_, place)| place.to_owned()),
            expected,
            rerun: None,
            measured,
            ratio_to_baseline: ratio,
            verdict,
            verdict_reason,
            notices,
        }
    }

    /// The profile of the runs where it is not the one the scenario's numbers are for.
    fn other_profile(&self) -> Option<&str> {
        let profile = self.directory.host.profile.as_str();
        (profile != self.scenario().profile.name()).then_some(profile)
    }

    /// The variable whose values are the variants.
    fn series(&self) -> &str {
        self.scenario().series_variable().unwrap_or(VARIANT)
    }

    /// Where a cell lies: [`Comparison::position`] taken apart.
    fn key(&self, cell: &Cell) -> Key {
        Key { place: cell.place(), variant: cell.variant.clone() }
    }

    /// The whole position of a cell, the variant included.
    fn position(&self, key: &Key) -> At {
        let mut at = key.place.clone();
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

    /// The published value and its place; of one that says what is saved, the baseline's measured mean less it.
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

    /// What the baseline measured at the same place.
    fn mean_of_baseline(&self, metric: &'static Metric, key: &Key) -> Option<f64> {
        let baseline = self.scenario().report.baseline.clone()?;
        let below = Key { place: key.place.clone(), variant: baseline };
        measured(self.samples_of(metric, &below)).map(|measured| measured.mean)
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
        let below = Key { place: key.place.clone(), variant: baseline };
        let pairs: Vec<(Value, Value)> = pairs(self.samples_of(metric, key), self.samples_of(metric, &below));
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

    /// Whether a run is of a variant; a failed one may have no flows to tell by.
    fn may_be_of(&self, record: &RunRecord, variant: &str) -> bool {
        match self.scenario().series_variable().and_then(|variable| record.at.get(variable)) {
            Some(swept) => swept == variant,
            None if record.flows.is_empty() => measured_variants(self.scenario()).iter().any(|name| name == variant),
            None => record.flows.iter().any(|flow| flow.variant == variant),
        }
    }

    /// The runs of a cell, however they ended.
    fn runs_of(&self, key: &Key) -> Vec<&RunRecord> {
        let runs = self.directory.runs.iter().map(|run| &run.record);
        runs.filter(|record| place_of(self.scenario(), &record.at) == key.place)
            .filter(|record| self.may_be_of(record, &key.variant))
            .collect()
    }

    /// What the scenario says about differences of this cell from the published numbers.
    fn known_differences(&self, metric: &Metric, key: &Key) -> Vec<Notice> {
        let at = self.position(key);
        let of_cell = self.scenario().differences.iter().filter(|difference| {
            let metrics = &difference.metrics;
            !is_general(difference)
                && (metrics.is_empty() || metrics.iter().any(|name| name == metric.name))
                && difference.at.contain(&at)
        });
        of_cell.map(|one| Notice::known_difference(&one.cause, &one.advice)).collect()
    }

    fn cell_notices(&self, key: &Key, measured: Option<&Measured>, ratio: Option<&Ratio>) -> Vec<Notice> {
        let n = measured.map_or(0, |measured| measured.n);
        let runs = self.runs_of(key);
        let mut notices = run_notices(&runs);
        let late = runs.iter().filter(|run| run.status == RunStatus::Done && began_late(self.scenario(), run)).count();
        notices.extend((late > 0).then(|| Notice::began_late(late, BEGAN_LATE_S)));
        let cut_off = measured.map_or(0, |measured| measured.cut_off);
        notices.extend((cut_off > 0).then(|| Notice::cut_off(cut_off, n)));
        match n {
            0 if measured_variants(self.scenario()).contains(&key.variant) => notices.push(Notice::not_measured()),
            0 => notices.push(Notice::published_only()),
            n if n < stats::FEWEST_FOR_INTERVAL => notices.push(Notice::few_runs(n)),
            _ => {}
        }
        let unpaired = ratio.filter(|ratio| ratio.measured.is_some()).map_or(0, |ratio| n - ratio.pairs);
        if unpaired > 0 {
            notices.push(Notice::unpaired_runs(unpaired));
        }
        notices
    }
}

/// Whether a flow's first data came long after its time.
fn began_late(scenario: &Scenario, run: &RunRecord) -> bool {
    let cell = scenario.cells.iter().find(|cell| cell.at == run.at);
    let start_of = |name: &str| cell?.flows.iter().find(|flow| flow.name == name).map(|flow| flow.start.as_secs_f64());
    run.flows.iter().any(|flow| {
        let began = flow.begin_s.zip(start_of(&flow.name));
        began.is_some_and(|(begin_s, start_s)| begin_s - start_s > BEGAN_LATE_S)
    })
}

/// What the runs of one cell say about themselves.
fn run_notices(runs: &[&RunRecord]) -> Vec<Notice> {
    let mut notices = Vec::new();
    let done: Vec<&&RunRecord> = runs.iter().filter(|run| run.status == RunStatus::Done).collect();
    let missing = |status| {
        let of_status = runs.iter().filter(move |run| run.status == status);
        of_status.filter(|run| !done.iter().any(|done| done.repeat == run.repeat)).collect::<Vec<_>>()
    };
    let failed = missing(RunStatus::Failed);
    if let Some(first) = failed.first() {
        notices.push(Notice::failed_runs(failed.len(), first.why.as_deref().unwrap_or("no reason was recorded")));
    }
    let late = missing(RunStatus::Late);
    if !late.is_empty() {
        notices.push(Notice::late_runs(late.len()));
    }
    let repeated = done.iter().filter(|run| run.late_attempts > 0).count();
    if repeated > 0 {
        let attempts = done.iter().map(|run| run.late_attempts).fold(0, u32::saturating_add);
        let repeats = Notice::repeated_for_lateness(repeated, attempts);
        notices.push(if were_alone(runs, attempts) { Notice { advice: ALONE.to_owned(), ..repeats } } else { repeats });
    }
    let dropped = done.iter().map(|run| run.events_dropped).fold(0, u64::saturating_add);
    if dropped > 0 {
        notices.push(Notice::dropped_events(dropped));
    }
    let failed = done.iter().flat_map(|run| &run.links).flat_map(|link| &link.counters);
    let failed = failed.map(|counters| counters.failed_pkts).fold(0, u64::saturating_add);
    if failed > 0 {
        notices.push(Notice::emulator_failed(failed));
    }
    notices
}

/// Whether so many late attempts are known, and no run sent beside any of them: `--jobs 1`, or no other run left.
fn were_alone(runs: &[&RunRecord], attempts: u32) -> bool {
    let late: Vec<&&RunRecord> = runs.iter().filter(|run| run.status == RunStatus::Late).collect();
    late.len() >= attempts as usize && late.iter().all(|run| run.jobs <= 1)
}

/// Whether a difference concerns the whole report.
fn is_general(difference: &DifferenceSpec) -> bool {
    difference.at.are_all() && difference.metrics.is_empty()
}

/// How this kernel differs from the simulators whose numbers stand beside its own.
fn kernel_differences(directory: &ResultDir) -> Vec<Notice> {
    let scenario = &directory.scenario;
    let is_paper = directory.host.profile == Profile::Paper.name();
    let mut notices = vec![if is_paper { Notice::recovery_differs() } else { Notice::delayed_acknowledgements() }];
    let drawn = scenario.figures.iter().map(|figure| &figure.y);
    if drawn.chain(&scenario.report.metrics).any(|name| WINDOWS.contains(&name.as_str())) {
        notices.push(Notice::window_in_recovery());
    }
    notices
}

/// What concerns every number of the report.
fn general_notices(directory: &ResultDir) -> Vec<Notice> {
    let scenario = &directory.scenario;
    let mut notices = Vec::new();
    if !scenario.published.is_empty() {
        notices.push(Notice::published_without_spread());
        if directory.host.engine == Engine::Kernel {
            notices.extend(kernel_differences(directory));
        }
    }
    let general = scenario.differences.iter().filter(|difference| is_general(difference));
    notices.extend(general.map(|one| Notice::known_difference(&one.cause, &one.advice)));
    if directory.host.profile != directory.scenario.profile.name() {
        notices.push(Notice::other_profile(&directory.host.profile, directory.scenario.profile.name()));
    }
    let outside = directory.host.calibration.iter().filter(|calibration| !calibration.within);
    notices.extend(outside.map(|calibration| calibration_outside(directory, calibration)));
    let again = directory.host.calibration.iter().filter(|calibration| calibration.within && calibration.attempts > 1);
    notices.extend(again.map(|one| Notice::calibration_repeated(&one.quantity.to_string(), one.attempts)));
    notices
}

/// What a calibration outside its range means: the cells of such a path are not measured, unless another calibration
/// finds it within. Only runs on a path that none found within are of a path that is not the scenario's.
fn calibration_outside(directory: &ResultDir, outside: &Calibration) -> Notice {
    let others = &directory.host.calibration;
    let is_within = others.iter().any(|other| other.within && other.quantity == outside.quantity);
    let mut done = directory.runs.iter().map(|run| &run.record).filter(|record| record.status == RunStatus::Done);
    let has_runs = !is_within && done.any(|record| outside.quantity.is_at(&record.at));
    Notice::calibration_outside(&outside.quantity.to_string(), has_runs)
}

fn measured(samples: &[Sample]) -> Option<Measured> {
    let cut_off = samples.iter().filter(|sample| sample.value.cut_off).count();
    let measured = Measured::of(samples.iter().map(|sample| sample.value.value).collect(), cut_off)?;
    Some(Measured { seeds: samples.iter().map(|sample| sample.seed).collect(), ..measured })
}

/// Values of the same repeat and seed.
fn pairs(above: &[Sample], below: &[Sample]) -> Vec<(Value, Value)> {
    let partner = |sample: &Sample| {
        let same = below.iter().find(|other| (other.repeat, other.seed) == (sample.repeat, sample.seed));
        same.map(|other| (sample.value, other.value))
    };
    above.iter().filter_map(partner).collect()
}
