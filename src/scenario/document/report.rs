//! `[source]`, `[report]`, `[[published]]` and `[[expected]]`: what a report compares measurements with.

use std::collections::BTreeMap;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::table::{Reader, Result, Table};
use super::value::{Read, Value};
use crate::model::metrics::{METRICS, Metric};
use crate::nearest::nearest;
use crate::scenario::spec::{ALGORITHM, Cell, VARIANT, Variable};
use crate::units::Share;
use crate::written::Mistake;

/// Where published numbers come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    pub paper: String,
    /// Table or figure.
    #[serde(rename = "where")]
    pub place: String,
}

/// What the report shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportSpec {
    /// The variant or algorithm others are compared with.
    pub baseline: Option<String>,
    /// Metrics in the order of the table.
    pub metrics: Vec<String>,
    /// How far a measurement may lie from its target to be `within`.
    pub tolerance: Option<Share>,
}

/// Numbers of the source along one sweep variable.
///
/// As a ratio, they are shown where the source has no value of the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    pub metric: String,
    /// The metric itself, its ratio to the baseline, or what it saves.
    pub of: Of,
    /// Table, row, column.
    pub place: String,
    /// The sweep variable the lists go along.
    pub over: String,
    /// Variant or algorithm to one number per value of `over`, in its order; NaN where the source has none.
    pub values: BTreeMap<String, Vec<f64>>,
}

/// What a published or expected number is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Of {
    /// The metric itself.
    #[default]
    Value,
    /// The metric divided by that of the baseline.
    Ratio,
    /// By how much the metric is below that of the baseline: shown as the baseline's measured mean less it.
    Saved,
}

/// Numbers a faithful implementation should give.
#[derive(Debug, Clone, PartialEq)]
pub struct Expected {
    pub metric: String,
    /// The metric itself, its ratio to the baseline, or what it saves.
    pub of: Of,
    /// The sweep variable the lists go along.
    pub over: String,
    /// Variant or algorithm to one number per value of `over`, in its order; NaN where nothing is expected.
    pub values: BTreeMap<String, Vec<f64>>,
    /// Allowed distance from each of `values`, in the same shape and unit.
    pub plus_minus: BTreeMap<String, Vec<f64>>,
    pub basis: String,
}

/// What is measured: what the parts of a report refer to.
pub(super) struct Measured {
    pub(super) sweep: Vec<Variable>,
    /// The names under which results are compared.
    labels: Vec<String>,
}

impl Measured {
    /// The names are the values of the variable that names them, else the flows' labels.
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
        Measured { sweep, labels }
    }

    /// Names of the variables that can be meant.
    pub(super) fn names(&self, can_be: impl Fn(&str) -> bool) -> String {
        let names = self.sweep.iter().map(|variable| variable.name.as_str()).filter(|name| can_be(name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The variable that a value names.
    pub(super) fn variable(&self, value: &Value<'_>) -> Result<&Variable> {
        let name = String::read(value)?;
        let found = self.sweep.iter().find(|variable| variable.name == name);
        found.ok_or_else(|| value.refuse(format!("expected a variable of [sweep]: {}", self.names(|_| true))))
    }

    /// A name that has to be one of those measured.
    fn check(&self, name: &str, refuse: impl FnOnce(String) -> Box<Mistake>) -> Result<()> {
        if self.labels.iter().any(|label| label == name) {
            return Ok(());
        }
        let mut mistake = refuse(format!("expected one that is measured: {}", self.labels.join(", ")));
        mistake.given = Some(format!("\"{name}\""));
        mistake.suggest(nearest(name, self.labels.iter().map(String::as_str)));
        Err(mistake)
    }

    /// The lists of numbers under a key, each as long as the values of the variable that they go along.
    fn lists(&self, table: &Table<'_>, key: &str, over: &Variable) -> Result<BTreeMap<String, Vec<f64>>> {
        let read = |(name, value): (&str, Value<'_>)| {
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

/// The name of a metric.
pub(super) fn metric(value: &Value<'_>) -> Result<String> {
    let name = String::read(value)?;
    if Metric::find(&name).is_some() {
        return Ok(name);
    }
    let names = || METRICS.iter().map(|metric| metric.name);
    let near = nearest(&name, names()).or(names().find(|known| known.starts_with(&name) && !name.is_empty()));
    let mut mistake = value.refuse(format!("expected one of {}", names().collect::<Vec<_>>().join(", ")));
    mistake.suggest(near);
    Err(mistake)
}

/// A list of metrics, each once.
pub(super) fn metrics(value: &Value<'_>) -> Result<Vec<String>> {
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

impl Reader<'_> {
    pub(super) fn source(&self) -> Result<Option<Source>> {
        let document = self.document();
        if !document.has("source") {
            return Ok(None);
        }
        let table = document.table("source")?;
        Ok(Some(Source { paper: table.needed("paper")?, place: table.needed("where")? }))
    }

    pub(super) fn report(&self, measured: &Measured) -> Result<ReportSpec> {
        let table = self.document().table("report")?;
        let listed = table.get("metrics");
        let metrics = listed.as_ref().map(metrics).transpose()?.unwrap_or_default();
        if let Some(value) = listed.filter(|_| metrics.is_empty()) {
            return Err(value.refuse_field("expected at least one metric; without the field all are shown"));
        }
        let baseline = table.get("baseline").map(|value| {
            let name = String::read(&value)?;
            measured.check(&name, |what| value.refuse(what)).map(|()| name)
        });
        Ok(ReportSpec { baseline: baseline.transpose()?, metrics, tolerance: table.read("tolerance")? })
    }

    pub(super) fn published(&self, measured: &Measured) -> Result<Vec<Published>> {
        let read = |table: &Table<'_>| {
            let over = measured.variable(&table.need("over")?)?;
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

    pub(super) fn expected(&self, measured: &Measured) -> Result<Vec<Expected>> {
        let read = |table: &Table<'_>| {
            let over = measured.variable(&table.need("over")?)?;
            let metric = metric(&table.need("metric")?)?;
            for (name, value) in table.need("values")?.table()?.entries() {
                measured.check(name, |what| value.refuse(what))?;
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
