//! What a report shows beside its tables: `[[figure]]`, and `[[difference]]`, a known reason why numbers differ.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::de::{Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::super::position::Step;
use super::super::{ScenarioError, VARIANT, Variable};
use super::value::{Text, some_duration};
use super::{Document, Reader};
use crate::model::flow::SERIES;
use crate::model::run::At;

/// The `x` of a figure over the time of a run.
pub const TIME: &str = "time";

/// A figure of the report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureSpec {
    /// Heading.
    pub title: String,
    /// The figure of the source that it is drawn as.
    pub place: Option<String>,
    /// A variable of the sweep, or [`TIME`].
    pub x: String,
    /// Over the sweep a metric; over time a series of a flow.
    pub y: String,
    /// Values themselves, or divided by the baseline's.
    #[serde(default)]
    pub of: super::Of,
    /// How values over the sweep are drawn.
    #[serde(default)]
    pub draw: Draw,
    /// Whether x is drawn by its logarithm.
    #[serde(default)]
    pub log_x: bool,
    /// Whether y is drawn by its logarithm.
    #[serde(default)]
    pub log_y: bool,
    /// Whether all variants share one drawing over time; else each has its own, one above the other.
    #[serde(default)]
    pub together: bool,
    /// Where a figure over time ends.
    #[serde(default, deserialize_with = "some_duration")]
    pub until: Option<Duration>,
    /// Only these places of the sweep.
    #[serde(default)]
    pub at: Places,
}

/// How values over the sweep are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Lines where x is a number, else bars.
    #[default]
    Auto,
    /// A line per variant, with marks and intervals.
    Lines,
    /// Bars per variant beside each other, with intervals.
    Bars,
}

/// A known reason why measured numbers differ from published ones.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DifferenceSpec {
    /// The reason, one sentence without its full stop.
    pub cause: String,
    /// What it means for the reader.
    pub advice: String,
    /// Only these metrics; all where it is empty.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Only these places of the sweep; the whole report where it is empty.
    #[serde(default)]
    pub at: Places,
}

/// Places of the sweep: of each variable that is named, the values that are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Places(pub BTreeMap<String, Vec<String>>);

impl Places {
    /// Whether a place is among them; a variable that the place does not have excludes nothing.
    pub fn contain(&self, at: &At) -> bool {
        self.0.iter().all(|(name, values)| at.get(name).is_none_or(|value| values.contains(value)))
    }

    /// Whether they are all places there are.
    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Places {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let places = BTreeMap::<String, Values>::deserialize(deserializer)?;
        Ok(Places(places.into_iter().map(|(name, values)| (name, values.0)).collect()))
    }
}

/// One value or a list of them.
struct Values(Vec<String>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Values;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of the variable, or a list of them")
            }
            fn visit_str<E>(self, text: &str) -> Result<Values, E> {
                Ok(Values(vec![text.to_owned()]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Values, A::Error> {
                let mut values = Vec::new();
                while let Some(Text(value)) = items.next_element()? {
                    values.push(value);
                }
                Ok(Values(values))
            }
        }
        deserializer.deserialize_any(Read)
    }
}

impl Reader<'_> {
    /// Figures draw what is measured, and differences are about places that exist.
    pub(super) fn check_shown(&self, document: &Document, sweep: &[Variable]) -> Result<(), ScenarioError> {
        for (index, figure) in document.figure.iter().enumerate() {
            self.check_figure(index, figure, document, sweep)?;
        }
        for (index, difference) in document.difference.iter().enumerate() {
            let at = |key| [Step::Key("difference"), Step::Item(index), Step::Key(key)];
            for (item, name) in difference.metrics.iter().enumerate() {
                let [table, entry, key] = at("metrics");
                self.check_metric(&[table, entry, key, Step::Item(item)], name)?;
            }
            self.check_places(&at("at"), &difference.at, document, sweep)?;
        }
        Ok(())
    }

    fn check_figure(
        &self,
        index: usize,
        figure: &FigureSpec,
        document: &Document,
        sweep: &[Variable],
    ) -> Result<(), ScenarioError> {
        let at = |key| [Step::Key("figure"), Step::Item(index), Step::Key(key)];
        let over_time = figure.x == TIME;
        if !over_time && !sweep.iter().any(|variable| variable.name == figure.x) {
            let names: Vec<&str> = sweep.iter().map(|variable| variable.name.as_str()).collect();
            let what = format!("\"{}\": expected {TIME} or a variable of [sweep]: {}", figure.x, names.join(", "));
            return Err(self.refuse(&at("x"), what));
        }
        if over_time && !SERIES.iter().any(|series| series.name == figure.y) {
            let names: Vec<&str> = SERIES.iter().map(|series| series.name).collect();
            let what = format!("\"{}\": expected a series of a flow: {}", figure.y, names.join(", "));
            return Err(self.refuse(&at("y"), what));
        }
        if !over_time {
            self.check_metric(&at("y"), &figure.y)?;
            let shown = &document.report.metrics;
            if !shown.is_empty() && !shown.contains(&figure.y) {
                let what = format!("\"{}\": expected one of report.metrics: {}", figure.y, shown.join(", "));
                return Err(self.refuse(&at("y"), what));
            }
        }
        if figure.of == super::Of::Saved {
            return Err(self.refuse(&at("of"), "expected value or ratio"));
        }
        if figure.of == super::Of::Ratio && (over_time || document.report.baseline.is_none()) {
            return Err(self.refuse(&at("of"), "expected a figure over the sweep, and report.baseline"));
        }
        if figure.until.is_some() && !over_time {
            return Err(self.refuse(&at("until"), format!("expected only where x = \"{TIME}\"")));
        }
        self.check_places(&at("at"), &figure.at, document, sweep)
    }

    fn check_places(
        &self,
        path: &[Step<'_>],
        places: &Places,
        document: &Document,
        sweep: &[Variable],
    ) -> Result<(), ScenarioError> {
        let variants = || document.published.iter().flat_map(|published| published.values.keys());
        for (name, values) in &places.0 {
            let path: Vec<Step<'_>> = path.iter().copied().chain([Step::Key(name)]).collect();
            let Some(variable) = sweep.iter().find(|variable| variable.name == *name) else {
                let names: Vec<&str> = sweep.iter().map(|variable| variable.name.as_str()).collect();
                return Err(self.refuse(&path, format!("expected a variable of [sweep]: {}", names.join(", "))));
            };
            let known = |value: &String| {
                variable.values.contains(value) || (name == VARIANT && variants().any(|other| other == value))
            };
            if let Some(unknown) = values.iter().find(|value| !known(value)) {
                let what = format!("\"{unknown}\": expected values of `{name}`: {}", variable.values.join(", "));
                return Err(self.refuse(&path, what));
            }
        }
        Ok(())
    }
}
