//! `[source]`, `[report]`, `[[published]]` and `[[expected]]`: the numbers that a report compares measurements with.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::table::{CellReader, Result, ScenarioTable};
use super::value::{Read, ScenarioValue};
use crate::scenario::spec::{ALGORITHM, Cell, VARIANT, Variable};
use host::written::Mistake;
use shared::model::metrics::METRICS;
use shared::nearest::nearest;
use shared::units::Share;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceSpec {
    pub paper: String,
    /// Table or figure.
    #[serde(rename = "where")]
    pub place: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportSpec {
    /// Variant or algorithm that ratios divide by.
    pub baseline: Option<String>,
    /// Metrics in the order of the table.
    pub metrics: Vec<String>,
    /// Largest distance from a published number at which a measurement is `within`.
    pub tolerance: Option<Share>,
    /// The part of each run that metrics count, from the first event of its flows. `None` is the whole run.
    pub part: Option<[Duration; 2]>,
}

impl ReportSpec {
    /// [`ReportSpec::part`] in seconds.
    pub fn part_s(&self) -> Option<[f64; 2]> {
        self.part.map(|part| part.map(|end| end.as_secs_f64()))
    }
}

/// Numbers of the source along one sweep variable. Ratios are shown if the source has no value of the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    pub metric: String,
    pub of: Of,
    /// Table, row and column of the source.
    pub place: String,
    /// The sweep variable that the lists follow.
    pub over: String,
    /// Variant or algorithm to one number per value of `over`, in its order; NaN if the source has none.
    pub values: BTreeMap<String, Vec<f64>>,
}

/// Meaning of a published or expected number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Of {
    /// The metric itself.
    #[default]
    Value,
    /// The metric divided by that of the baseline.
    Ratio,
    /// How far the metric is below that of the baseline. Shown as the baseline's measured mean minus this number.
    Saved,
}

impl Read for Of {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        value.word()
    }
}

/// Numbers a faithful implementation should give.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    pub metric: String,
    pub of: Of,
    /// The sweep variable that the lists follow.
    pub over: String,
    /// Variant or algorithm to one number per value of `over`, in its order; NaN if nothing is expected.
    pub values: BTreeMap<String, Vec<f64>>,
    /// Allowed distance from each of `values`, in the same shape and unit.
    pub plus_minus: BTreeMap<String, Vec<f64>>,
    pub basis: String,
}

/// Names that the parts of a report may refer to.
pub(super) struct MeasuredNames {
    pub(super) sweep: Vec<Variable>,
    /// The compared variants or algorithms: values of that sweep variable, else the labels of the flows.
    labels: Vec<String>,
}

impl MeasuredNames {
    pub(super) fn new(sweep: Vec<Variable>, cells: &[Cell]) -> Self {
        let of = |name| sweep.iter().find(|variable| variable.name == name);
        let mut labels = Vec::new();
        if let Some(variable) = of(VARIANT).or_else(|| of(ALGORITHM)) {
            labels.clone_from(&variable.values);
        } else {
            for label in cells.iter().flat_map(|cell| cell.flows.iter().map(|flow| cell.label(flow))) {
                if !labels.contains(&label) {
                    labels.push(label);
                }
            }
        }
        MeasuredNames { sweep, labels }
    }

    /// Names of the sweep variables.
    pub(super) fn variables(&self) -> impl Iterator<Item = &str> {
        self.sweep.iter().map(|variable| variable.name.as_str())
    }

    /// The sweep variable of this name.
    pub(super) fn variable(&self, name: &str, refuse: impl FnOnce(String) -> Box<Mistake>) -> Result<&Variable> {
        let found = self.sweep.iter().find(|variable| variable.name == name);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.variables().collect();
            refuse(format!("expected a variable of [sweep]: {}", names.join(", ")))
        })
    }

    fn over(&self, table: &ScenarioTable<'_>) -> Result<&Variable> {
        let value = table.need("over")?;
        self.variable(&String::read(&value)?, |expected| value.refuse(expected))
    }

    /// Reads lists of numbers. Each list has one number per value of `over`.
    fn lists(&self, table: &ScenarioTable<'_>, key: &str, over: &Variable) -> Result<BTreeMap<String, Vec<f64>>> {
        let read = |(name, value): (&str, ScenarioValue<'_>)| {
            let numbers = Vec::<f64>::read(&value)?;
            if numbers.len() != over.values.len() {
                let (given, needed) = (numbers.len(), over.values.len());
                return Err(value.refuse_field(format!("{given} numbers for {needed} values of `{}`", over.name)));
            }
            Ok((name.to_owned(), numbers))
        };
        table.need(key)?.table()?.entries().map(read).collect()
    }
}

pub(super) fn metric(value: &ScenarioValue<'_>) -> Result<String> {
    value.one_of(METRICS.iter().map(|metric| metric.name), "one of")
}

/// Reads a list of metrics without duplicates.
fn metrics(value: &ScenarioValue<'_>) -> Result<Vec<String>> {
    let mut metrics: Vec<String> = Vec::new();
    value.list(|item| {
        let name = metric(item)?;
        if metrics.contains(&name) {
            return Err(item.refuse_field(format!("\"{name}\" is listed twice")));
        }
        metrics.push(name);
        Ok(())
    })?;
    Ok(metrics)
}

impl CellReader<'_> {
    pub(super) fn source(&self) -> Result<Option<SourceSpec>> {
        let Some(value) = self.document().get("source") else { return Ok(None) };
        let table = value.table()?;
        Ok(Some(SourceSpec { paper: table.needed("paper")?, place: table.needed("where")? }))
    }

    pub(super) fn report(&self, measured: &MeasuredNames) -> Result<ReportSpec> {
        let table = self.document().table("report")?;
        let listed = table.get("metrics");
        let metrics = listed.as_ref().map(metrics).transpose()?.unwrap_or_default();
        if let Some(value) = listed.filter(|_| metrics.is_empty()) {
            let what = "expected at least one metric; without the field, delivered_pkts and goodput_bps are shown";
            return Err(value.refuse_field(what));
        }
        let labels = measured.labels.iter().map(String::as_str);
        let baseline = table.get("baseline").map(|value| value.one_of(labels, "one that is measured:"));
        let part = self.part(&table)?;
        Ok(ReportSpec { baseline: baseline.transpose()?, metrics, tolerance: table.read("tolerance")?, part })
    }

    /// The part of the run that metrics count.
    fn part(&self, table: &ScenarioTable<'_>) -> Result<Option<[Duration; 2]>> {
        let duration = self.duration()?;
        let given = |key| match table.get(key) {
            Some(value) => Duration::read(&value).map(|time| Some((time, value))),
            None => Ok(None),
        };
        let (from, to) = (given("from")?, given("to")?);
        let begin = from.as_ref().map_or(Duration::ZERO, |(time, _)| *time);
        let end = to.as_ref().map_or(duration, |(time, _)| *time);
        if let Some((_, value)) = to.as_ref().filter(|_| end > duration) {
            return Err(value.refuse("expected at most the duration of a run"));
        }
        match from.as_ref().or(to.as_ref()) {
            Some((_, value)) if begin >= end => Err(value.refuse("expected `from` before `to` and the end of the run")),
            given => Ok(given.map(|_| [begin, end])),
        }
    }

    pub(super) fn published(&self, measured: &MeasuredNames) -> Result<Vec<Published>> {
        let read = |table: &ScenarioTable<'_>| {
            let over = measured.over(table)?;
            let metric = metric(&table.need("metric")?)?;
            let values = measured.lists(table, "values", over)?;
            if let Some((name, _)) = values.iter().find(|(_, numbers)| numbers.iter().any(|number| *number < 0.0)) {
                let value = table.need("values")?.table()?.need(name)?;
                return Err(value.refuse_field("expected numbers from 0, or nan where the source has none"));
            }
            let (of, place) = (table.read("of")?.unwrap_or_default(), table.needed("place")?);
            Ok(Published { metric, of, place, over: over.name.clone(), values })
        };
        self.document().tables("published")?.iter().map(read).collect()
    }

    pub(super) fn expected(&self, measured: &MeasuredNames) -> Result<Vec<Expected>> {
        let read = |table: &ScenarioTable<'_>| {
            let over = measured.over(table)?;
            let metric = metric(&table.need("metric")?)?;
            for (name, value) in table.need("values")?.table()?.entries() {
                if !measured.labels.iter().any(|label| label == name) {
                    let labels = measured.labels.join(", ");
                    let mut mistake = value.refuse(format!("expected one that is measured: {labels}"));
                    mistake.given = Some(format!("\"{name}\""));
                    mistake.suggest(nearest(name, measured.labels.iter().map(String::as_str)));
                    return Err(mistake);
                }
            }
            let values = measured.lists(table, "values", over)?;
            let plus_minus = measured.lists(table, "plus_minus", over)?;
            if values.keys().ne(plus_minus.keys()) {
                return Err(table.need("plus_minus")?.refuse_field("expected the same names as `values`"));
            }
            let (of, basis) = (table.read("of")?.unwrap_or_default(), table.needed("basis")?);
            Ok(Expected { metric, of, over: over.name.clone(), values, plus_minus, basis })
        };
        self.document().tables("expected")?.iter().map(read).collect()
    }
}
