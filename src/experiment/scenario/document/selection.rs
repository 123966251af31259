//! `[selection]`: which sweep variable a scenario chooses a value of, and by which metrics.

use serde::{Deserialize, Serialize};

use super::super::position::Step;
use super::super::{ALGORITHM, ScenarioError, VARIANT, Variable};
use super::{Document, Reader};
use crate::model::metrics::Metric;

/// The parameter to choose and what to choose it by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SelectionSpec {
    /// The sweep variable whose values compete.
    pub parameter: String,
    /// Metrics of which more is better.
    #[serde(default)]
    pub max: Vec<String>,
    /// Metrics of which less is better.
    #[serde(default)]
    pub min: Vec<String>,
    /// Ratios that are best at one, such as a share over that of another flow.
    #[serde(default)]
    pub near_one: Vec<String>,
}

/// When a metric counts as good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// More is better.
    Max,
    /// Less is better.
    Min,
    /// One is best.
    NearOne,
}

impl Goal {
    /// The key of `[selection]`.
    pub fn key(self) -> &'static str {
        match self {
            Goal::Max => "max",
            Goal::Min => "min",
            Goal::NearOne => "near_one",
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Goal::Max => "max",
            Goal::Min => "min",
            Goal::NearOne => "near 1",
        }
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

impl SelectionSpec {
    /// Every metric with its goal, in the order of the keys and of each list.
    pub fn goals(&self) -> Vec<(&str, Goal)> {
        let lists = [(&self.max, Goal::Max), (&self.min, Goal::Min), (&self.near_one, Goal::NearOne)];
        lists.into_iter().flat_map(|(list, goal)| list.iter().map(move |name| (name.as_str(), goal))).collect()
    }
}

impl Reader<'_> {
    /// The parameter must be swept, and the metrics shown.
    pub(super) fn check_selection(&self, document: &Document, sweep: &[Variable]) -> Result<(), ScenarioError> {
        let Some(selection) = &document.selection else { return Ok(()) };
        self.check_parameter(&selection.parameter, sweep)?;
        let mut seen: Vec<&str> = Vec::new();
        for goal in [Goal::Max, Goal::Min, Goal::NearOne] {
            let of_goal = selection.goals().into_iter().filter(|(_, other)| *other == goal);
            for (index, (name, _)) in of_goal.enumerate() {
                let path = [Step::Key("selection"), Step::Key(goal.key()), Step::Item(index)];
                self.check_metric(&path, name)?;
                self.check_criterion(&path, name, goal, document)?;
                if seen.contains(&name) {
                    return Err(self.refuse(&path, format!("\"{name}\" is listed twice")));
                }
                seen.push(name);
            }
        }
        if seen.is_empty() {
            return Err(self.refuse(&[Step::Key("selection")], "expected a metric in max, min or near_one"));
        }
        Ok(())
    }

    fn check_parameter(&self, parameter: &str, sweep: &[Variable]) -> Result<(), ScenarioError> {
        let path = [Step::Key("selection"), Step::Key("parameter")];
        let can_be = |variable: &&Variable| ![VARIANT, ALGORITHM].contains(&variable.name.as_str());
        match sweep.iter().filter(can_be).find(|variable| variable.name == parameter) {
            Some(variable) if variable.values.len() > 1 => Ok(()),
            Some(_) => Err(self.refuse(&path, format!("\"{parameter}\": expected a variable of at least two values"))),
            None => {
                let names: Vec<&str> = sweep.iter().filter(can_be).map(|variable| variable.name.as_str()).collect();
                let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
                let what = format!("\"{parameter}\": expected a variable of [sweep] that is a parameter: {known}");
                Err(self.refuse(&path, what))
            }
        }
    }

    fn check_criterion(
        &self,
        path: &[Step<'_>],
        name: &str,
        goal: Goal,
        document: &Document,
    ) -> Result<(), ScenarioError> {
        let shown = &document.report.metrics;
        if !shown.iter().any(|metric| metric == name) {
            let what = format!("\"{name}\": expected one of report.metrics, so that the choice can be checked");
            return Err(self.refuse(path, format!("{what}: {}", shown.join(", "))));
        }
        if goal == Goal::NearOne && Metric::find(name).is_none_or(|metric| metric.unit != "ratio") {
            return Err(self.refuse(path, format!("\"{name}\": expected a ratio: only that can be near one")));
        }
        Ok(())
    }
}
