//! `[[figure]]`, and `[[difference]]`: a known reason why numbers differ.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::report::{MeasuredNames, Of, Published, ReportSpec, metric};
use super::table::{CellReader, Result, ScenarioTable};
use super::value::{Read, ScenarioValue, Text};
use crate::scenario::spec::VARIANT;
use shared::model::run::At;
use shared::model::series::{SERIES, Series};

/// The `x` of a figure over the time of a run.
pub const TIME: &str = "time";

#[derive(Debug, Clone, PartialEq)]
pub struct FigureSpec {
    pub title: String,
    /// The figure of the source that this one reproduces.
    pub place: Option<String>,
    /// A variable of the sweep, or [`TIME`].
    pub x: String,
    /// A metric; in a figure over time, a series of a flow.
    pub y: String,
    /// [`Of::Value`] or [`Of::Ratio`].
    pub of: Of,
    pub draw: Draw,
    pub log_x: bool,
    pub log_y: bool,
    /// What shares a chart over time.
    pub together: Together,
    /// End of a figure over time.
    pub until: Option<Duration>,
    pub at: Points,
}

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
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        match value.text()?.as_deref() {
            Some("false") => Ok(Together::Variant),
            Some("true") => Ok(Together::Variants),
            Some("flows") => Ok(Together::Flows),
            _ => Err(value.refuse("expected true, false or \"flows\"")),
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

impl Read for Draw {
    fn read(value: &ScenarioValue<'_>) -> Result<Self> {
        value.word()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceSpec {
    /// Why numbers differ: one sentence without its full stop.
    pub cause: String,
    /// What this means for the reader: one sentence without its full stop.
    pub advice: String,
    /// All metrics if it is empty.
    pub metrics: Vec<String>,
    /// The whole report if it is empty.
    pub at: Points,
}

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

impl CellReader<'_> {
    pub(super) fn figures(
        &self,
        measured: &MeasuredNames,
        report: &ReportSpec,
        published: &[Published],
    ) -> Result<Vec<FigureSpec>> {
        let read = |table: &ScenarioTable<'_>| {
            let x = table.need("x")?.one_of([TIME].into_iter().chain(measured.variables()), "one of")?;
            let of = table.read("of")?.unwrap_or_default();
            let over_time = x == TIME;
            let y = table.need("y")?;
            let y = match report.metrics.iter().map(String::as_str) {
                _ if over_time => {
                    y.one_of(SERIES.iter().map(|series| series.name), "one of the series of flows and queues:")?
                }
                metrics if metrics.len() > 0 => y.one_of(metrics, "one of report.metrics:")?,
                _ => metric(&y)?,
            };
            let draw: Draw = table.read("draw")?.unwrap_or_default();
            if of == Of::Ratio && draw.is_distribution() {
                return Err(table.need("of")?.refuse("expected value, because a distribution has no ratio"));
            }
            if of == Of::Saved {
                return Err(table.need("of")?.refuse("expected value or ratio"));
            }
            if of == Of::Ratio && (over_time || report.baseline.is_none()) {
                return Err(table.need("of")?.refuse("expected a figure over the sweep, and report.baseline"));
            }
            if let Some(value) = table.get("until").filter(|_| !over_time || draw.is_distribution()) {
                return Err(value.refuse_field(format!("expected only where lines are drawn over x = \"{TIME}\"")));
            }
            let is_on = |key| -> Result<bool> { Ok(table.read(key)?.unwrap_or(false)) };
            Ok(FigureSpec {
                title: table.needed("title")?,
                place: table.read("place")?,
                x,
                y,
                of,
                draw,
                log_x: is_on("log_x")?,
                log_y: is_on("log_y")?,
                together: table.read("together")?.unwrap_or_default(),
                until: table.read("until")?,
                at: points(table, measured, published)?,
            })
        };
        self.document().tables("figure")?.iter().map(read).collect()
    }

    pub(super) fn differences(&self, measured: &MeasuredNames, published: &[Published]) -> Result<Vec<DifferenceSpec>> {
        let read = |table: &ScenarioTable<'_>| {
            let metrics = table.get("metrics").map_or(Ok(Vec::new()), |value| value.list(metric))?;
            let at = points(table, measured, published)?;
            Ok(DifferenceSpec { cause: table.needed("cause")?, advice: table.needed("advice")?, metrics, at })
        };
        self.document().tables("difference")?.iter().map(read).collect()
    }
}

/// Reads `at`, which has a value or a list for each variable. A variant may exist in published numbers only.
fn points(table: &ScenarioTable<'_>, measured: &MeasuredNames, published: &[Published]) -> Result<Points> {
    let Some(at) = table.get("at") else { return Ok(Points::default()) };
    let read = |(name, value): (&str, ScenarioValue<'_>)| {
        let variable = measured.variable(name, |expected| value.refuse_field(expected))?;
        let is_published = |text: &str| name == VARIANT && published.iter().any(|it| it.values.contains_key(text));
        let one = |item: &ScenarioValue<'_>| {
            let Text(text) = Text::read(item)?;
            let is_known = variable.values.contains(&text) || is_published(&text);
            let known = || format!("expected values of `{name}`: {}", variable.values.join(", "));
            if is_known { Ok(text) } else { Err(item.refuse(known())) }
        };
        let values = value.items().unwrap_or(vec![value.clone()]).iter().map(one).collect::<Result<_, _>>()?;
        Ok((name.to_owned(), values))
    };
    at.table()?.entries().map(read).collect::<Result<_, _>>().map(Points)
}
