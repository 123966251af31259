//! `[report]`, `[[published]]` and `[[expected]]`: the numbers that a report compares measurements with.

use std::time::Duration;

use strum::{IntoStaticStr, VariantArray};

use super::CellReader;
use crate::scenario::reference::{Expected, MarginSpec, NumberLists, Published, ReportFields};
use crate::scenario::spec::{ALGORITHM, Cell, VARIANT, Variable};
use host::read_with;
use host::toml_reader::{Found, Mistake, Result, Table, Value, each};
use shared::suggest::nearest;
use shared::units::Share;

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

read_with!(Value::word => Of);

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
        let names = || self.variables().collect::<Vec<_>>().join(", ");
        Ok(found.ok_or_else(|| refuse(format!("expected a variable of [sweep]: {}", names())))?)
    }

    /// Checks that each list has one number per value of `over`.
    fn check_lists(&self, table: &Table<'_>, key: &str, over: &str, lists: &NumberLists) -> Result<()> {
        let over = self.variable(over, |expected| table.refuse_field("over", &expected))?;
        let values = table.need(key)?.table()?;
        each(lists, |(name, numbers)| {
            let (given, needed) = (numbers.len(), over.values.len());
            if given == needed {
                return Ok(());
            }
            let what = format!("{given} numbers for {needed} values of `{}`", over.name);
            Err(values.need(name)?.refuse_field(what).into())
        })
        .map(drop)
    }

    fn check_over(&self, table: &Table<'_>, over: &str) -> Result<()> {
        let value = table.need("over")?;
        self.variable(over, |expected| value.refuse(expected)).map(drop)
    }
}

/// Refuses names that a list has twice.
fn check_distinct(value: &Value<'_>, names: &[String]) -> Result<()> {
    each(value.items().iter().zip(names).enumerate(), |(index, (item, name))| match names[..index].contains(name) {
        true => Err(item.refuse_field(format!("\"{name}\" is listed twice")).into()),
        false => Ok(()),
    })
    .map(drop)
}

pub(super) fn check_published(document: &Table<'_>, all: &[Published], measured: &MeasuredNames) -> Result<()> {
    let check = |(table, one): (Table<'_>, &Published)| {
        measured.check_over(&table, &one.over)?;
        measured.check_lists(&table, "values", &one.over, &one.values)?;
        let is_negative = |(_, numbers): &(&String, &Vec<f64>)| numbers.iter().any(|number| *number < 0.0);
        let Some((name, _)) = one.values.iter().find(is_negative) else { return Ok(()) };
        let value = table.need("values")?.table()?.need(name)?;
        Err(value.refuse_field("expected numbers from 0, or nan where the source has none").into())
    };
    each(document.tables("published")?.into_iter().zip(all), check).map(drop)
}

pub(super) fn check_expected(document: &Table<'_>, all: &[Expected], measured: &MeasuredNames) -> Result<()> {
    let check = |(table, one): (Table<'_>, &Expected)| {
        measured.check_over(&table, &one.over)?;
        each(table.need("values")?.table()?.entries(), |(name, value)| {
            if measured.labels.iter().any(|label| label == name) {
                return Ok(());
            }
            let labels = measured.labels.join(", ");
            let mistake = value.refuse(format!("expected one that is measured: {labels}"));
            let near = nearest(name, measured.labels.iter().map(String::as_str));
            Err(Found::from(mistake.given(format!("\"{name}\"")).suggest(near)))
        })?;
        measured.check_lists(&table, "values", &one.over, &one.values)?;
        measured.check_lists(&table, "plus_minus", &one.over, &one.plus_minus)?;
        match one.values.keys().eq(one.plus_minus.keys()) {
            true => Ok(()),
            false => Err(table.refuse_field("plus_minus", "expected the same names as `values`").into()),
        }
    };
    each(document.tables("expected")?.into_iter().zip(all), check).map(drop)
}

/// Checks that each margin is one limit of a metric of the report, on the good side of 1.
pub(super) fn check_margins(document: &Table<'_>, all: &[MarginSpec], report: &ReportSpec) -> Result<()> {
    let check = |(table, margin): (Table<'_>, &MarginSpec)| {
        let mut found = Found::default();
        let metrics = report.metrics.iter().map(String::as_str);
        found.keep(table.need("metric")?.one_of(metrics, "one of report.metrics:"));
        if report.baseline.is_none() {
            found.add(table.need("metric")?.refuse_field("expected report.baseline, which ratios divide by"));
        }
        match (margin.at_most, margin.at_least) {
            (Some(most), None) if !(1.0..).contains(&most) => {
                found.add(table.need("at_most")?.refuse("expected a ratio of at least 1"));
            }
            (None, Some(least)) if !(least > 0.0 && least <= 1.0) => {
                found.add(table.need("at_least")?.refuse("expected a ratio above 0 and at most 1"));
            }
            (Some(_), None) | (None, Some(_)) => (),
            _ => found.add(table.need("metric")?.refuse_field("expected either `at_most` or `at_least` beside it")),
        }
        if let Some(value) = table.get("negligible") {
            if margin.at_most.is_none() {
                found.add(value.refuse_field("expected only beside `at_most`"));
            } else if !margin.negligible.is_some_and(|most| most >= 0.0) {
                found.add(value.refuse("expected a number from 0"));
            }
        }
        found.end()
    };
    each(document.tables("margin")?.into_iter().zip(all), check).map(drop)
}

impl CellReader<'_> {
    pub(super) fn report(&self, fields: ReportFields, measured: &MeasuredNames) -> Result<ReportSpec> {
        let table = self.document().table("report")?;
        let mut found = Found::default();
        if let (Some(metrics), Some(value)) = (&fields.metrics, table.get("metrics")) {
            if metrics.is_empty() {
                let what = "expected at least one metric; without the field, delivered_pkts and goodput_bps are shown";
                found.add(value.refuse_field(what));
            }
            found.keep(check_distinct(&value, metrics));
        }
        let labels = measured.labels.iter().map(String::as_str);
        if let Some(value) = table.get("baseline") {
            found.keep(value.one_of(labels, "one that is measured:"));
        }
        let part = found.keep(self.part(&table, &fields));
        let Some(part) = part.filter(|_| found.is_empty()) else { return Err(found) };
        let ReportFields { baseline, metrics, tolerance, .. } = fields;
        Ok(ReportSpec { baseline, metrics: metrics.unwrap_or_default(), tolerance, part })
    }

    /// The part of the run that metrics count.
    fn part(&self, table: &Table<'_>, fields: &ReportFields) -> Result<Option<[Duration; 2]>> {
        let duration = self.duration()?;
        let (begin, end) = (fields.from.unwrap_or_default(), fields.to.unwrap_or(duration));
        if end > duration {
            return Err(table.need("to")?.refuse("expected at most the duration of a run").into());
        }
        match table.get("from").or_else(|| table.get("to")) {
            Some(value) if begin >= end => {
                Err(value.refuse("expected `from` before `to` and the end of the run").into())
            }
            given => Ok(given.map(|_| [begin, end])),
        }
    }
}
