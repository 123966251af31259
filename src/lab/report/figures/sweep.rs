//! Figures of a metric over the sweep.

use std::collections::BTreeSet;

use super::chart::{Area, Axis, Chart, ChartLayout, ChartShape, Sign};
use super::figure::{Figure, legend_of, titled, variants};
use super::positions::{self, BARS_SPREAD, Positions};
use crate::report::judge::cell::{CellNumbers, ReportCell, Verdict, each_once, point_name, title_of};
use crate::report::judge::number::{self, Scale};
use crate::report::judge::report::Report;
use crate::scenario::{Draw, FigureSpec, Of, Points, Together};
use shared::model::metrics::Metric;
use shared::model::run::At;

/// Each point gets its own axis if the largest value is at least this many times the smallest.
const PANEL_RANGE: f64 = 12.0;
/// Charts in a row.
const ABREAST: usize = 3;
/// At most this many points get an axis of their own.
const MOST_PANELS: usize = 9;
const HEIGHT: f64 = 340.0;

/// A cell and its drawn number: value or ratio.
struct Drawn<'a> {
    cell: &'a ReportCell,
    series: usize,
    of: CellNumbers<'a>,
}

impl<'a> Drawn<'a> {
    fn new(report: &Report, cell: &'a ReportCell, of: Of) -> Drawn<'a> {
        let series = variants(report).iter().position(|variant| *variant == cell.variant).unwrap_or(0);
        let of = if of == Of::Ratio { cell.ratio() } else { cell.value() };
        Drawn { cell, series, of }
    }

    fn expected(&self) -> Option<[f64; 2]> {
        self.of.expected.map(|one| [one.value - one.plus_minus, one.value + one.plus_minus])
    }

    fn rerun(&self) -> Option<f64> {
        self.of.rerun.map(|(value, _)| value)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let ranges = self.expected().into_iter().chain(self.of.ci95).flatten();
        [self.of.published, self.rerun(), self.of.measured].into_iter().flatten().chain(ranges)
    }

    fn title(&self, what: &str, scale: Scale) -> String {
        let mut lines = vec![format!("{}, {}", self.cell.variant, point_name(&self.cell.point())), what.to_owned()];
        if let Some(measured) = self.of.measured {
            let interval = self.of.ci95.map(|ends| format!(" ({})", scale.between(ends)));
            let n = self.cell.measured.as_ref().map_or(0, |measured| measured.n);
            let measured = self.of.bound.signed(&scale.with_unit(measured));
            lines.push(format!("measured {measured}{}, {n} runs", interval.unwrap_or_default()));
        }
        lines.extend(self.rerun().map(|rerun| format!("re-run {}", scale.with_unit(rerun))));
        lines.extend(self.expected().map(|ends| format!("expected {}", scale.between(ends))));
        lines.extend(self.of.published.map(|published| format!("published {}", scale.with_unit(published))));
        if self.cell.verdict != Verdict::NotComparable {
            lines.push(self.cell.verdict.name().to_owned());
        }
        lines.join("\n")
    }

    /// Shapes around one x; without a mark for the measured value if bars show it.
    fn shapes(&self, x: f64, sides: [f64; 2], (what, scale): (&str, Scale), bars: bool) -> Vec<ChartShape> {
        let (series, title) = (self.series, self.title(what, scale));
        let sign = |sign, y: Option<f64>| {
            let title = title.clone();
            y.map(|y| ChartShape::Sign { sign, series, at: (x, y), title })
        };
        let expected = self.expected().map(|y| {
            let title = title.clone();
            ChartShape::Area { area: Area::Range, series, x: sides, y, title }
        });
        let measured = self.of.measured.filter(|_| !bars);
        let shapes = [
            expected,
            sign(Sign::Published, self.of.published),
            sign(Sign::Rerun, self.rerun()),
            self.of.ci95.map(|ends| ChartShape::Interval { series, x, ends }),
            sign(Sign::Measured, measured),
        ];
        shapes.into_iter().flatten().collect()
    }
}

fn explained(drawn: &[Drawn<'_>]) -> String {
    let mut parts = Vec::new();
    if drawn.iter().any(|one| one.of.measured.is_some()) {
        let interval = drawn.iter().any(|one| one.of.ci95.is_some());
        parts.push(if interval { "Filled: measured mean with its 95 % interval" } else { "Filled: measured mean" });
    }
    for (is_there, sentence) in [
        (drawn.iter().any(|one| one.rerun().is_some()), "hollow: re-run in the simulator"),
        (drawn.iter().any(|one| one.expected().is_some()), "boxes: expected"),
        (drawn.iter().any(|one| one.of.published.is_some()), "crosses: published"),
    ] {
        parts.extend(is_there.then_some(sentence));
    }
    format!("{}.", parts.join("; "))
}

fn scale_of(drawn: &[Drawn<'_>], unit: &str, of: Of) -> Scale {
    Scale::of(if of == Of::Ratio { "ratio" } else { unit }, drawn.iter().flat_map(Drawn::values))
}

fn y_axis(drawn: &[&Drawn<'_>], (title, scale): (String, Scale), log: bool) -> Axis {
    let values = || drawn.iter().flat_map(|one| one.values()).filter(|value| value.is_finite());
    let highest = values().fold(0.0, f64::max);
    let lowest = values().filter(|value| !log || *value > 0.0).fold(f64::INFINITY, f64::min);
    let ends = [if log { lowest.min(highest) } else { 0.0 }, highest * if log { 1.0 } else { 1.06 }];
    let title = format!("{title} [{}]", scale.unit());
    Axis::numbers(title, ends, log, &move |value| number::short(scale.show(value)))
}

/// Draws a metric without a `[[figure]]`: as lines over the variable with the most numbers, else point by point. A
/// single variant is always one line, because only several can be compared at one point.
pub fn of_metric(report: &Report, metric: &str) -> Figure {
    let cells: Vec<&ReportCell> = report.cells.iter().filter(|cell| cell.metric == metric).collect();
    let drawn: Vec<Drawn<'_>> = cells.iter().map(|cell| Drawn::new(report, cell, Of::Value)).collect();
    let points = points_of(&drawn).len();
    let is_wide = range(&drawn) >= PANEL_RANGE;
    match positions::telling_variable(&cells) {
        Some((x, log_x)) if !is_wide || points > MOST_PANELS || is_alone(&drawn) => {
            let title = title_of(metric).to_owned();
            let y = metric.to_owned();
            let log_y = is_wide && drawn.iter().flat_map(Drawn::values).all(|value| value > 0.0);
            let (of, draw, at) = (Of::Value, Draw::Lines, Points::default());
            let spec = FigureSpec {
                title,
                place: None,
                x,
                y,
                of,
                draw,
                log_x,
                log_y,
                together: Together::Variant,
                until: None,
                at,
            };
            let figure = over_variable(report, &spec);
            Figure { explanation: format!("{}. {}", what(metric), figure.explanation), ..figure }
        }
        _ => over_points(report, metric, &drawn),
    }
}

/// Whether all numbers are of one variant.
fn is_alone(drawn: &[Drawn<'_>]) -> bool {
    let mut series = drawn.iter().filter(|one| one.values().next().is_some()).map(|one| one.series);
    let first = series.next();
    series.all(|other| Some(other) == first)
}

fn what(metric: &str) -> &str {
    Metric::find(metric).map_or(metric, |metric| metric.what)
}

fn points_of(drawn: &[Drawn<'_>]) -> Vec<String> {
    each_once(drawn.iter().map(|one| point_name(&one.cell.point())))
}

/// Draws one metric over all points of the sweep, variants side by side. If the largest value dwarfs the others, each
/// point gets its own chart and axis. With a single point, the x axis names the variants.
fn over_points(report: &Report, metric: &str, drawn: &[Drawn<'_>]) -> Figure {
    let unit = drawn.first().map_or("", |one| one.cell.unit.as_str());
    let scale = scale_of(drawn, unit, Of::Value);
    let title = title_of(metric);
    let legend = legend_of(report, |variant| drawn.iter().any(|one| one.cell.variant == variant));
    let points = points_of(drawn);
    let is_one = points.len() == 1;
    let chart = |points: &[String]| {
        let here = |one: &&Drawn<'_>| points.contains(&point_name(&one.cell.point()));
        let drawn: Vec<&Drawn<'_>> = drawn.iter().filter(here).collect();
        let wide = BARS_SPREAD / if is_one { 3.0 } else { legend.len().max(1) as f64 };
        let shapes = |one: &&Drawn<'_>| {
            let point = points.iter().position(|point| *point == point_name(&one.cell.point())).unwrap_or(0);
            let index = legend.iter().position(|(series, _)| *series == one.series).unwrap_or(0) as f64;
            let x = if is_one { index } else { point as f64 + (index + 0.5) * wide - BARS_SPREAD / 2.0 };
            one.shapes(x, [x - 0.4 * wide, x + 0.4 * wide], (title, scale), false)
        };
        let names: Vec<String> = legend.iter().map(|(_, name)| name.clone()).collect();
        Chart {
            heading: None,
            x: Axis::names(String::new(), if is_one { &names } else { points }),
            y: y_axis(&drawn, (title.to_owned(), scale), false),
            shapes: drawn.iter().flat_map(shapes).collect(),
        }
    };
    let apart = (2..=MOST_PANELS).contains(&points.len()) && range(drawn) >= PANEL_RANGE && !is_alone(drawn);
    let charts = if apart {
        points.iter().map(|point| chart(std::slice::from_ref(point))).collect()
    } else {
        vec![chart(&points)]
    };
    let layout = ChartLayout { abreast: if apart { ABREAST } else { 1 }, height: HEIGHT, stacked: false };
    let explanation = format!("{}. {}", what(metric), explained(drawn));
    let legend = if is_one { Vec::new() } else { legend };
    Figure { title: title.to_owned(), explanation, legend, charts, layout, folded: false }
}

/// Largest over smallest drawn value; 1 without values above 0.
fn range(drawn: &[Drawn<'_>]) -> f64 {
    let values = drawn.iter().flat_map(|one| one.of.measured.into_iter().chain(one.of.published));
    let positive: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let smallest = positive.iter().copied().fold(f64::INFINITY, f64::min);
    positive.iter().map(|value| value / smallest).fold(1.0, f64::max)
}

/// Draws one metric over one variable of the sweep, with a chart per combination of the other variables.
pub fn over_variable(report: &Report, spec: &FigureSpec) -> Figure {
    let cells = report.cells.iter().filter(|cell| cell.metric == spec.y && spec.at.contain(&cell.at));
    let drawn: Vec<Drawn<'_>> = cells.map(|cell| Drawn::new(report, cell, spec.of)).collect();
    let unit = drawn.first().map_or("", |one| one.cell.unit.as_str());
    let scale = scale_of(&drawn, unit, spec.of);
    let x = Positions::new(spec, &drawn.iter().map(|one| one.cell).collect::<Vec<_>>());
    let others = each_once(drawn.iter().map(|one| other_point(one.cell, &spec.x)));
    let chart = |other: &At| {
        let here: Vec<&Drawn<'_>> = drawn.iter().filter(|one| other_point(one.cell, &spec.x) == *other).collect();
        chart_over(spec, &x, &here, (other, scale))
    };
    let layout = ChartLayout { abreast: if others.len() > 1 { 2 } else { 1 }, height: HEIGHT, stacked: false };
    Figure {
        title: titled(spec),
        explanation: explained(&drawn),
        legend: legend_of(report, |variant| drawn.iter().any(|one| one.cell.variant == variant)),
        charts: others.iter().map(chart).collect(),
        layout,
        folded: false,
    }
}

fn chart_over(spec: &FigureSpec, x: &Positions, here: &[&Drawn<'_>], (other, scale): (&At, Scale)) -> Chart {
    let title = title_of(&spec.y);
    let all: BTreeSet<usize> = here.iter().map(|one| one.series).collect();
    let mut shapes = Vec::new();
    for (index, &series) in all.iter().enumerate() {
        let position = |one: &Drawn<'_>| x.beside(x.of(one.cell), index, all.len());
        let own = here.iter().filter(|one| one.series == series);
        let mut own: Vec<(f64, &&Drawn<'_>)> = own.map(|one| (position(one), one)).collect();
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        if x.bars {
            shapes.extend(own.iter().filter_map(|(at, one)| {
                let (x, y) = (x.sides(*at, all.len()), [f64::NEG_INFINITY, one.of.measured?]);
                Some(ChartShape::Area { area: Area::Bar, series, x, y, title: one.title(title, scale) })
            }));
        } else {
            let points = own.iter().filter_map(|(at, one)| Some((*at, one.of.measured?))).collect();
            shapes.push(ChartShape::Line { series, points });
        }
        let marks = |(at, one): (f64, &&Drawn<'_>)| one.shapes(at, x.sides(at, all.len()), (title, scale), x.bars);
        shapes.extend(own.into_iter().flat_map(marks));
    }
    let heading = point_name(other);
    let over = if spec.of == Of::Ratio { " over the baseline's" } else { "" };
    Chart {
        heading: (!heading.is_empty()).then_some((heading, None)),
        x: x.axis.clone(),
        y: y_axis(here, (format!("{title}{over}"), scale), spec.log_y),
        shapes,
    }
}

/// A cell's position without its variant and one variable.
fn other_point(cell: &ReportCell, variable: &str) -> At {
    let mut point = cell.point();
    point.remove(variable);
    point
}
