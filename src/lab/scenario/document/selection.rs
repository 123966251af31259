//! `[selection]`: the sweep variable that a scenario chooses a value of, and the metrics that decide.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::report::{MeasuredNames, ReportSpec};
use super::table::{CellReader, Result};
use super::value::ScenarioValue;
use crate::scenario::spec::{ALGORITHM, VARIANT};
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
    /// Errors: the parameter is not swept, or the report does not show a metric.
    pub(super) fn selection(&self, measured: &MeasuredNames, report: &ReportSpec) -> Result<Option<SelectionSpec>> {
        let Some(value) = self.document().get("selection") else { return Ok(None) };
        let table = value.table()?;
        let parameter = parameter(&table.need("parameter")?, measured)?;
        let mut goals: Vec<(String, Goal)> = Vec::new();
        for &goal in Goal::VARIANTS {
            let Some(value) = table.get(goal.into()) else { continue };
            value.list(|item| {
                let name = criterion(item, goal, report)?;
                if goals.iter().any(|(listed, _)| *listed == name) {
                    return Err(item.refuse_field(format!("\"{name}\" is listed twice")));
                }
                goals.push((name, goal));
                Ok(())
            })?;
        }
        if goals.is_empty() {
            return Err(value.refuse_field("expected a metric in max, min or near_one"));
        }
        Ok(Some(SelectionSpec { parameter, goals }))
    }
}

fn parameter(value: &ScenarioValue<'_>, measured: &MeasuredNames) -> Result<String> {
    let parameters = measured.variables().filter(|name| ![VARIANT, ALGORITHM].contains(name));
    let name = value.one_of(parameters, "a variable of [sweep] that is a parameter:")?;
    match measured.sweep.iter().any(|variable| variable.name == name && variable.values.len() > 1) {
        true => Ok(name),
        false => Err(value.refuse("expected a variable with at least two values")),
    }
}

fn criterion(value: &ScenarioValue<'_>, goal: Goal, report: &ReportSpec) -> Result<String> {
    let name = value.one_of(report.metrics.iter().map(String::as_str), "one of report.metrics:")?;
    if goal == Goal::NearOne && Metric::find(&name).is_none_or(|metric| metric.unit != "ratio") {
        return Err(value.refuse("expected a ratio: only ratios can be near one"));
    }
    Ok(name)
}
