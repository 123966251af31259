//! What a report shows beside its tables: `[[figure]]`, and `[[difference]]`, a known reason why numbers differ.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use strum::{IntoStaticStr, VariantArray};

use super::report::{Measured, Of, Published, ReportSpec, metric};
use super::table::{Reader, Result, Table};
use super::value::{Read, Text, Value};
use crate::model::flow::SERIES;
use crate::model::run::At;
use crate::scenario::spec::VARIANT;

/// The `x` of a figure over the time of a run.
pub const TIME: &str = "time";

/// A figure of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct FigureSpec {
    pub title: String,
    /// The figure of the source that it is drawn as.
    pub place: Option<String>,
    /// A variable of the sweep, or [`TIME`].
    pub x: String,
    /// Over the sweep a metric; over time a series of a flow.
    pub y: String,
    /// Values themselves, or divided by the baseline's.
    pub of: Of,
    /// How values over the sweep are drawn.
    pub draw: Draw,
    /// Whether x is drawn by its logarithm.
    pub log_x: bool,
    /// Whether y is drawn by its logarithm.
    pub log_y: bool,
    /// Whether all variants share one drawing over time; else each has its own, one above the other.
    pub together: bool,
    /// Where a figure over time ends.
    pub until: Option<Duration>,
    /// Only these points of the sweep.
    pub at: Points,
}

/// How values over the sweep are drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceSpec {
    /// The reason, one sentence without its full stop.
    pub cause: String,
    /// What it means for the reader.
    pub advice: String,
    /// Only these metrics; all where it is empty.
    pub metrics: Vec<String>,
    /// Only these points of the sweep; the whole report where it is empty.
    pub at: Points,
}

/// Points of the sweep: of each variable that is named, the values that are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Points(pub BTreeMap<String, Vec<String>>);

impl Points {
    /// Whether a point is among them; a variable that the point does not have excludes nothing.
    pub fn contain(&self, at: &At) -> bool {
        self.0.iter().all(|(name, values)| at.get(name).is_none_or(|value| values.contains(value)))
    }

    /// Whether they are all points there are.
    pub fn are_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl Reader<'_> {
    /// Figures draw what is measured.
    pub(super) fn figures(
        &self,
        measured: &Measured,
        report: &ReportSpec,
        published: &[Published],
    ) -> Result<Vec<FigureSpec>> {
        let read = |table: &Table<'_>| {
            let (x, of) = (table.needed("x")?, table.read("of")?.unwrap_or_default());
            let over_time = x == TIME;
            check_x(table, measured)?;
            let y = table.need("y")?;
            let y = if over_time { series(&y)? } else { shown_metric(&y, report)? };
            if of == Of::Saved {
                return Err(table.need("of")?.refuse("expected value or ratio"));
            }
            if of == Of::Ratio && (over_time || report.baseline.is_none()) {
                return Err(table.need("of")?.refuse("expected a figure over the sweep, and report.baseline"));
            }
            if let Some(value) = table.get("until").filter(|_| !over_time) {
                return Err(value.refuse_field(format!("expected only where x = \"{TIME}\"")));
            }
            let is_on = |key| -> Result<bool> { Ok(table.read(key)?.unwrap_or(false)) };
            Ok(FigureSpec {
                title: table.needed("title")?,
                place: table.read("place")?,
                x,
                y,
                of,
                draw: table.read("draw")?.unwrap_or_default(),
                log_x: is_on("log_x")?,
                log_y: is_on("log_y")?,
                together: is_on("together")?,
                until: table.read("until")?,
                at: points(table, measured, published)?,
            })
        };
        self.document().tables("figure")?.iter().map(read).collect()
    }

    /// Differences are about points that exist.
    pub(super) fn differences(&self, measured: &Measured, published: &[Published]) -> Result<Vec<DifferenceSpec>> {
        let read = |table: &Table<'_>| {
            let metrics = table.get("metrics").map_or(Ok(Vec::new()), |value| value.list(metric))?;
            let at = points(table, measured, published)?;
            Ok(DifferenceSpec { cause: table.needed("cause")?, advice: table.needed("advice")?, metrics, at })
        };
        self.document().tables("difference")?.iter().map(read).collect()
    }
}

/// A figure is over time, or over a variable of the sweep.
fn check_x(table: &Table<'_>, measured: &Measured) -> Result<()> {
    let value = table.need("x")?;
    let x = String::read(&value)?;
    if x == TIME || measured.sweep.iter().any(|variable| variable.name == x) {
        return Ok(());
    }
    Err(value.refuse(format!("expected {TIME} or a variable of [sweep]: {}", measured.names(|_| true))))
}

/// The name of a series of a flow.
fn series(value: &Value<'_>) -> Result<String> {
    let name = String::read(value)?;
    if SERIES.iter().any(|series| series.name == name) {
        return Ok(name);
    }
    let names: Vec<&str> = SERIES.iter().map(|series| series.name).collect();
    Err(value.refuse(format!("expected a series of a flow: {}", names.join(", "))))
}

/// The name of a metric that the report shows.
fn shown_metric(value: &Value<'_>, report: &ReportSpec) -> Result<String> {
    let name = metric(value)?;
    if report.metrics.is_empty() || report.metrics.contains(&name) {
        return Ok(name);
    }
    Err(value.refuse(format!("expected one of report.metrics: {}", report.metrics.join(", "))))
}

/// The points under `at`: of each variable one value or a list of them; variants may be published only.
fn points(table: &Table<'_>, measured: &Measured, published: &[Published]) -> Result<Points> {
    let Some(at) = table.get("at") else { return Ok(Points::default()) };
    let read = |(name, value): (&str, Value<'_>)| {
        let Some(variable) = measured.sweep.iter().find(|variable| variable.name == name) else {
            let names = measured.names(|_| true);
            return Err(value.refuse_field(format!("expected a variable of [sweep]: {names}")));
        };
        let is_published = |text: &str| name == VARIANT && published.iter().any(|it| it.values.contains_key(text));
        let one = |item: &Value<'_>| {
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
