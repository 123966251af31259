//! `[selection]`: the sweep variable that a scenario chooses a value of, and the metrics that decide.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::CellReader;
use super::report::{MeasuredNames, ReportSpec};
use crate::scenario::reference::SelectionFields;
use crate::scenario::spec::{ALGORITHM, VARIANT};
use host::toml_reader::{Found, Result, Value};
use shared::model::metrics::Metric;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectionSpec {
    /// The sweep variable whose values compete.
    pub parameter: String,
    /// In the order of [`Goal`], then of each list.
    pub goals: Vec<(String, Goal)>,
}

/// Which values of a metric are better: a key of `[selection]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Goal {
    /// More is better.
    Max,
    /// Less is better.
    Min,
    /// The ratio that is nearest to 1 is best.
    NearOne,
}

impl Goal {
    pub fn name(self) -> &'static str {
        if self == Goal::NearOne { "near 1" } else { self.into() }
    }

    /// A number that is larger for a better mean. A ratio r and its inverse count alike, as min(r, 1/r).
    pub fn merit(self, mean: f64) -> f64 {
        match self {
            Goal::Max => mean,
            Goal::Min => -mean,
            Goal::NearOne if mean > 1.0 => 1.0 / mean,
            Goal::NearOne => mean,
        }
    }
}

impl CellReader<'_> {
    /// # Errors
    /// The parameter is not swept, or the report does not show a metric.
    pub(super) fn selection(
        &self,
        fields: &SelectionFields,
        measured: &MeasuredNames,
        report: &ReportSpec,
    ) -> Result<SelectionSpec> {
        let table = self.document().table("selection")?;
        let mut found = Found::default();
        found.keep(check_parameter(&table.need("parameter")?, measured));
        let mut goals: Vec<(String, Goal)> = Vec::new();
        for &goal in Goal::VARIANTS {
            for item in table.get(goal.into()).map_or(Vec::new(), |value| value.items()) {
                if found.is_full() {
                    break;
                }
                let Some(name) = found.keep(criterion(&item, goal, report)) else { continue };
                if goals.iter().any(|(listed, _)| *listed == name) {
                    found.add(item.refuse_field(format!("\"{name}\" is listed twice")));
                }
                goals.push((name, goal));
            }
        }
        if goals.is_empty() && found.is_empty() {
            found.add(table.refuse("expected a metric in max, min or near_one"));
        }
        found.end().map(|()| SelectionSpec { parameter: fields.parameter.clone(), goals })
    }
}

fn check_parameter(value: &Value<'_>, measured: &MeasuredNames) -> Result<()> {
    let parameters = measured.variables().filter(|name| ![VARIANT, ALGORITHM].contains(name));
    let name = value.one_of(parameters, "a variable of [sweep] that is a parameter:")?;
    match measured.sweep.iter().any(|variable| variable.name == name && variable.values.len() > 1) {
        true => Ok(()),
        false => Err(value.refuse("expected a variable with at least two values").into()),
    }
}

fn criterion(value: &Value<'_>, goal: Goal, report: &ReportSpec) -> Result<String> {
    let name = value.one_of(report.metrics.iter().map(String::as_str), "one of report.metrics:")?;
    if goal == Goal::NearOne && Metric::find(&name).is_none_or(|metric| metric.unit != "ratio") {
        return Err(value.refuse("expected a ratio: only ratios can be near one").into());
    }
    Ok(name)
}
