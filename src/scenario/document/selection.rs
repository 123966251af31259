//! `[selection]`: which sweep variable a scenario chooses a value of, and by which metrics.

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::report::{Measured, ReportSpec, metric};
use super::table::{Reader, Result};
use super::value::{Read, Value};
use crate::model::metrics::Metric;
use crate::scenario::spec::{ALGORITHM, VARIANT};

/// The parameter to choose and what to choose it by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SelectionSpec {
    /// The sweep variable whose values compete.
    pub parameter: String,
    /// Every metric with its goal, in the order of the keys and of each list.
    pub goals: Vec<(String, Goal)>,
}

/// When a metric counts as good. The words are keys of `[selection]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Goal {
    /// More is better.
    Max,
    /// Less is better.
    Min,
    /// One is best, such as for a share over that of another flow.
    NearOne,
}

impl Goal {
    /// For people.
    pub fn name(self) -> &'static str {
        if self == Goal::NearOne { "near 1" } else { self.into() }
    }

    /// How good a mean is: more is better, on a scale of its own.
    ///
    /// A ratio r and its inverse are equally far from one, so that min(r, 1/r) counts.
    pub fn merit(self, mean: f64) -> f64 {
        match self {
            Goal::Max => mean,
            Goal::Min => -mean,
            Goal::NearOne if mean > 1.0 => 1.0 / mean,
            Goal::NearOne => mean,
        }
    }
}

impl Reader<'_> {
    /// The parameter must be swept, and the metrics shown.
    pub(super) fn selection(&self, measured: &Measured, report: &ReportSpec) -> Result<Option<SelectionSpec>> {
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

fn parameter(value: &Value<'_>, measured: &Measured) -> Result<String> {
    let can_be = |name: &str| ![VARIANT, ALGORITHM].contains(&name);
    let name = String::read(value)?;
    match measured.sweep.iter().find(|variable| variable.name == name && can_be(&name)) {
        Some(variable) if variable.values.len() > 1 => Ok(name),
        Some(_) => Err(value.refuse("expected a variable of at least two values")),
        None => {
            let known = Some(measured.names(can_be)).filter(|names| !names.is_empty());
            let known = known.unwrap_or("there is none".to_owned());
            Err(value.refuse(format!("expected a variable of [sweep] that is a parameter: {known}")))
        }
    }
}

fn criterion(value: &Value<'_>, goal: Goal, report: &ReportSpec) -> Result<String> {
    let name = metric(value)?;
    let shown = &report.metrics;
    if !shown.contains(&name) {
        let what = format!("expected one of report.metrics, so that the choice can be checked: {}", shown.join(", "));
        return Err(value.refuse(what));
    }
    if goal == Goal::NearOne && Metric::find(&name).is_none_or(|metric| metric.unit != "ratio") {
        return Err(value.refuse("expected a ratio: only that can be near one"));
    }
    Ok(name)
}
