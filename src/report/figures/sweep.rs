//! Figures of a metric over the sweep.

use super::chart::{Axis, Chart, Layout, Shape};
use super::figure::{Figure, legend_of, titled, variants};
use super::positions::{self, BARS_SPREAD, Positions};
use crate::model::metrics::Metric;
use crate::model::run::At;
use crate::report::judge::cell::{Cell, Numbers, Verdict, each_once, point_name, title_of};
use crate::report::judge::number::Scale;
use crate::report::judge::report::Report;
use crate::scenario::{Draw, FigureSpec, Of, Points};

/// From this ratio of largest to smallest value on, differences between the small ones cannot be seen on one axis.
const PANEL_RANGE: f64 = 12.0;
/// Charts beside each other, and how many points can have one.
const ABREAST: usize = 3;
const MOST_PANELS: usize = 9;
const HEIGHT: f64 = 340.0;

/// One number that is drawn.
struct Drawn<'a> {
    cell: &'a Cell,
    series: usize,
    of: Numbers<'a>,
}

impl<'a> Drawn<'a> {
    fn new(report: &Report, cell: &'a Cell, of: Of) -> Drawn<'a> {
        let series = variants(report).iter().position(|variant| *variant == cell.variant).unwrap_or(0);
        let of = if of == Of::Ratio { cell.ratio() } else { cell.value() };
        Drawn { cell, series, of }
    }

    /// The range of what is expected.
    fn expected(&self) -> Option<[f64; 2]> {
        self.of.expected.map(|one| [one.value - one.plus_minus, one.value + one.plus_minus])
    }

    /// What the re-run gave.
    fn rerun(&self) -> Option<f64> {
        self.of.rerun.map(|(value, _)| value)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        let ranges = self.expected().into_iter().chain(self.of.ci95).flatten();
        [self.of.published, self.rerun(), self.of.measured].into_iter().flatten().chain(ranges)
    }

    /// What a pointer shows about the cell.
    fn title(&self, what: &str, scale: Scale) -> String {
        let mut lines = vec![format!("{}, {}", self.cell.variant, point_name(&self.cell.point())), what.to_owned()];
        if let Some(measured) = self.of.measured {
            let interval = self.of.ci95.map(|[low, high]| format!(" ({} to {})", scale.show(low), scale.show(high)));
            let n = self.cell.measured.as_ref().map_or(0, |measured| measured.n);
            let measured = self.of.bound.signed(&scale.with_unit(measured));
            lines.push(format!("measured {measured}{}, {n} runs", interval.unwrap_or_default()));
        }
        lines.extend(self.rerun().map(|rerun| format!("re-run {}", scale.with_unit(rerun))));
        lines
            .extend(self.expected().map(|[low, high]| format!("expected {} to {}", scale.show(low), scale.show(high))));
        lines.extend(self.of.published.map(|published| format!("published {}", scale.with_unit(published))));
        if self.cell.verdict != Verdict::NotComparable {
            lines.push(self.cell.verdict.name().to_owned());
        }
        lines.join("\n")
    }

    /// Expected range, published cross, interval and marks around one x.
    fn shapes(&self, x: f64, sides: [f64; 2], (what, scale): (&str, Scale)) -> Vec<Shape> {
        let (series, title) = (self.series, || self.title(what, scale));
        let mut shapes = Vec::new();
        shapes.extend(self.expected().map(|y| Shape::Range { series, x: sides, y, title: title() }));
        shapes.extend(self.of.published.map(|y| Shape::Cross { series, at: (x, y), title: title() }));
        shapes.extend(self.rerun().map(|y| Shape::Hollow { series, at: (x, y), title: title() }));
        shapes.extend(self.of.ci95.map(|ends| Shape::Interval { series, x, ends }));
        shapes.extend(self.of.measured.map(|y| Shape::Mark { series, at: (x, y), title: title() }));
        shapes
    }
}

/// What the shapes of a figure over the sweep mean.
fn explained(drawn: &[Drawn<'_>]) -> String {
    let mut parts = Vec::new();
    if drawn.iter().any(|one| one.of.measured.is_some()) {
        let interval = drawn.iter().any(|one| one.of.ci95.is_some());
        parts.push(if interval { "Filled: measured mean with its 95 % interval" } else { "Filled: measured mean" });
    }
    for (is_there, sentence) in [
        (drawn.iter().any(|one| one.rerun().is_some()), "hollow: the simulator run again"),
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
    Axis::numbers(title, ends, log, &move |value| scale.show_short(value))
}

/// One metric where the scenario does not say how: lines over the variable with the most numbers, else every point
/// beside the next.
pub fn of_metric(report: &Report, metric: &str) -> Figure {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.metric == metric).collect();
    let drawn: Vec<Drawn<'_>> = cells.iter().map(|cell| Drawn::new(report, cell, Of::Value)).collect();
    let points = points_of(&drawn).len();
    let is_wide = range(&drawn) >= PANEL_RANGE;
    match positions::telling_variable(&cells) {
        Some((x, log_x)) if !is_wide || points > MOST_PANELS => {
            let title = title_of(metric).to_owned();
            let y = metric.to_owned();
            let log_y = is_wide && drawn.iter().flat_map(Drawn::values).all(|value| value > 0.0);
            let (of, draw, at) = (Of::Value, Draw::Lines, Points::default());
            let spec =
                FigureSpec { title, place: None, x, y, of, draw, log_x, log_y, together: false, until: None, at };
            let figure = over_variable(report, &spec);
            Figure { explanation: format!("{}. {}", what(metric), figure.explanation), ..figure }
        }
        _ => over_points(report, metric, &drawn),
    }
}

fn what(metric: &str) -> &str {
    Metric::find(metric).map_or(metric, |metric| metric.what)
}

/// The points of the sweep that are drawn, by name.
fn points_of(drawn: &[Drawn<'_>]) -> Vec<String> {
    each_once(drawn.iter().map(|one| point_name(&one.cell.point())))
}

/// One metric over all points of the sweep, variants side by side. Where the largest value would press all others to
/// the ground, each point has a chart and an axis of its own; where there is one point, the variants have names below.
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
        let wide = if is_one { BARS_SPREAD / 3.0 } else { BARS_SPREAD / legend.len().max(1) as f64 };
        let x = |one: &Drawn<'_>| {
            let point = points.iter().position(|point| *point == point_name(&one.cell.point())).unwrap_or(0);
            let index = legend.iter().position(|(series, _)| *series == one.series).unwrap_or(0) as f64;
            if is_one { index } else { point as f64 + (index + 0.5) * wide - BARS_SPREAD / 2.0 }
        };
        let names: Vec<String> = legend.iter().map(|(_, name)| name.clone()).collect();
        Chart {
            heading: None,
            x: Axis::names(String::new(), if is_one { &names } else { points }),
            y: y_axis(&drawn, (title.to_owned(), scale), false),
            shapes: drawn
                .iter()
                .flat_map(|one| one.shapes(x(one), around(x(one), wide * 0.8), (title, scale)))
                .collect(),
        }
    };
    let apart = (2..=MOST_PANELS).contains(&points.len()) && range(drawn) >= PANEL_RANGE;
    let charts = if apart {
        points.iter().map(|point| chart(std::slice::from_ref(point))).collect()
    } else {
        vec![chart(&points)]
    };
    let layout = Layout { abreast: if apart { ABREAST } else { 1 }, height: HEIGHT, stacked: false };
    let explanation = format!("{}. {}", what(metric), explained(drawn));
    let legend = if is_one { Vec::new() } else { legend };
    Figure { title: title.to_owned(), explanation, legend, charts, layout, folded: false }
}

fn around(x: f64, wide: f64) -> [f64; 2] {
    [x - wide / 2.0, x + wide / 2.0]
}

/// Largest over smallest value drawn; 1 without values above zero.
fn range(drawn: &[Drawn<'_>]) -> f64 {
    let values = drawn.iter().flat_map(|one| one.of.measured.into_iter().chain(one.of.published));
    let positive: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let smallest = positive.iter().copied().fold(f64::INFINITY, f64::min);
    positive.iter().map(|value| value / smallest).fold(1.0, f64::max)
}

/// One metric over one variable of the sweep; every combination of the others has a chart.
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
    let layout = Layout { abreast: if others.len() > 1 { 2 } else { 1 }, height: HEIGHT, stacked: false };
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
    let mut series: Vec<usize> = here.iter().map(|one| one.series).collect();
    series.sort_unstable();
    series.dedup();
    let mut shapes = Vec::new();
    for (index, number) in series.iter().enumerate() {
        let position = |one: &Drawn<'_>| x.beside(x.of(one.cell), index, series.len());
        let own = here.iter().filter(|one| one.series == *number);
        let mut own: Vec<(f64, &&Drawn<'_>)> = own.map(|one| (position(one), one)).collect();
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        if x.bars {
            shapes.extend(own.iter().filter_map(|(at, one)| {
                let sides = x.sides(*at, series.len());
                Some(Shape::Bar { series: *number, x: sides, y: one.of.measured?, title: one.title(title, scale) })
            }));
        } else {
            let points = own.iter().filter_map(|(at, one)| Some((*at, one.of.measured?))).collect();
            shapes.push(Shape::Line { series: *number, points });
        }
        for (at, one) in own {
            let marks = one.shapes(at, x.sides(at, series.len()), (title, scale));
            shapes.extend(marks.into_iter().filter(|shape| !x.bars || !matches!(shape, Shape::Mark { .. })));
        }
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

/// Everything of a cell's position but its variant and one variable.
fn other_point(cell: &Cell, variable: &str) -> At {
    let mut point = cell.point();
    point.remove(variable);
    point
}
