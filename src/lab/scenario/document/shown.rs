//! `[[figure]]`, and `[[difference]]`: a known reason why numbers differ.

use std::collections::BTreeMap;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::report::{MeasuredNames, Of, ReportSpec};
use crate::scenario::reference::{FigureSpec, Published, ScenarioFields};
use crate::scenario::spec::VARIANT;
use host::read_with;
use host::toml_reader::{Found, Read, Result, Table, Text, Value, each};
use shared::model::metrics::METRICS;
use shared::model::run::At;
use shared::model::series::{SERIES, Series};

/// The `x` of a figure over the time of a run.
pub const TIME: &str = "time";

impl FigureSpec {
    /// A series of every flow over time.
    pub fn of_flows(series: &Series) -> FigureSpec {
        FigureSpec {
            title: format!("{} over time", series.title),
            place: None,
            x: TIME.to_owned(),
            y: series.name.to_owned(),
            of: Of::Value,
            draw: Draw::Auto,
            log_x: false,
            log_y: false,
            together: Together::Flows,
            until: None,
            at: Points::default(),
        }
    }
}

/// What shares a chart over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Together {
    /// The flows of one variant. The charts of the variants stand one above the other.
    #[default]
    Variant,
    /// The flows of all variants.
    Variants,
    /// All flows of one run, also those beside the variant's.
    Flows,
}

impl Read for Together {
    fn read(value: &Value<'_>) -> Result<Self> {
        match value.text()?.as_deref() {
            Some("false") => Ok(Together::Variant),
            Some("true") => Ok(Together::Variants),
            Some("flows") => Ok(Together::Flows),
            _ => Err(value.refuse("expected true, false or \"flows\"").into()),
        }
    }
}

/// How values over the sweep are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum Draw {
    /// Lines if x is a number, else bars.
    #[default]
    Auto,
    /// A line per variant, with marks and intervals.
    Lines,
    /// A bar per variant, side by side, with intervals.
    Bars,
    /// A box per variant, side by side: the distribution of the runs, or over the time of a run.
    Box,
    /// A cumulative curve per variant of the same distribution.
    Cdf,
}

impl Draw {
    pub fn is_distribution(self) -> bool {
        matches!(self, Draw::Box | Draw::Cdf)
    }
}

read_with!(Value::word => Draw);

/// Points of the sweep: the chosen values of some variables, and every value of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Points(pub BTreeMap<String, Vec<String>>);

impl Points {
    /// Whether `at` is one of the points. A variable that `at` lacks excludes nothing.
    pub fn contain(&self, at: &At) -> bool {
        self.0.iter().all(|(name, values)| at.get(name).is_none_or(|value| values.contains(value)))
    }

    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads a value or a list for each variable.
impl Read for Points {
    fn read(value: &Value<'_>) -> Result<Self> {
        let text = |item: &Value<'_>| Text::read(item).map(|Text(text)| text);
        let read = |(name, value): (&str, Value<'_>)| Ok((name.to_owned(), each(&value.items(), text)?));
        let points = each(value.table()?.entries(), read)?;
        Ok(Points(points.into_iter().collect()))
    }
}

pub(super) fn check_figures(
    document: &Table<'_>,
    fields: &ScenarioFields,
    measured: &MeasuredNames,
    report: &ReportSpec,
) -> Result<()> {
    let check = |(table, figure): (Table<'_>, &FigureSpec)| {
        let mut found = Found::default();
        let names = [TIME].into_iter().chain(measured.variables());
        found.keep(table.need("x")?.one_of(names, "one of"));
        let (of, over_time) = (figure.of, figure.x == TIME);
        let y = table.need("y")?;
        found.keep(match report.metrics.iter().map(String::as_str) {
            _ if over_time => {
                y.one_of(SERIES.iter().map(|series| series.name), "one of the series of flows and queues:")
            }
            metrics if metrics.len() > 0 => y.one_of(metrics, "one of report.metrics:"),
            _ => y.one_of(METRICS.iter().map(|metric| metric.name), "one of"),
        });
        let why = match of {
            Of::Ratio if figure.draw.is_distribution() => Some("expected value, because a distribution has no ratio"),
            Of::Saved => Some("expected value or ratio"),
            Of::Ratio if over_time || report.baseline.is_none() => {
                Some("expected a figure over the sweep, and report.baseline")
            }
            _ => None,
        };
        if let Some(why) = why {
            found.add(table.need("of")?.refuse(why));
        }
        if let Some(value) = table.get("until").filter(|_| !over_time || figure.draw.is_distribution()) {
            found.add(value.refuse_field(format!("expected only where lines are drawn over x = \"{TIME}\"")));
        }
        found.keep(check_points(&table, measured, &fields.published));
        found.end()
    };
    each(document.tables("figure")?.into_iter().zip(&fields.figure), check).map(drop)
}

pub(super) fn check_differences(document: &Table<'_>, fields: &ScenarioFields, measured: &MeasuredNames) -> Result<()> {
    each(document.tables("difference")?, |table| check_points(&table, measured, &fields.published)).map(drop)
}

/// Checks the variables and values of `at`. A variant may exist in published numbers only.
pub(super) fn check_points(table: &Table<'_>, measured: &MeasuredNames, published: &[Published]) -> Result<()> {
    let Some(at) = table.get("at") else { return Ok(()) };
    let check = |(name, value): (&str, Value<'_>)| {
        let variable = measured.variable(name, |expected| value.refuse_field(expected))?;
        let is_published = |text: &str| name == VARIANT && published.iter().any(|it| it.values.contains_key(text));
        each(&value.items(), |item| {
            let Text(text) = Text::read(item)?;
            if variable.values.contains(&text) || is_published(&text) {
                return Ok(());
            }
            Err(item.refuse(format!("expected values of `{name}`: {}", variable.values.join(", "))).into())
        })
        .map(drop)
    };
    each(at.table()?.entries(), check).map(drop)
}
