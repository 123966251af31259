//! Distributions as boxes and cumulative curves: of the runs over the sweep, or of a series over the time of a run.

use super::chart::{Area, Axis, Chart, ChartLayout, ChartShape, Sign, plain};
use super::figure::{Figure, titled, variants};
use super::positions::BARS_SPREAD;
use super::timeline::chosen;
use crate::report::judge::cell::{each_once, point_name, title_of};
use crate::report::judge::number::{self, Scale};
use crate::report::judge::report::Report;
use crate::report::judge::windows::{PlotLine, WindowPlot};
use crate::scenario::{Draw, FigureSpec, TIME, Together};
use shared::model::series::Series;
use shared::model::stats;

const HEIGHT: f64 = 340.0;
/// Points of a curve over time, one per percent.
const PERCENT: usize = 100;

/// The values of one variant at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Spread {
    pub variant: String,
    pub point: String,
    /// Lowest, first quartile, median, third quartile, highest. Over time, the 5th and the 95th percentile take the place
    /// of lowest and highest, which last no time.
    pub marks: [f64; 5],
    /// Shape: values, sorted, with the share of runs or of time at or below each.
    curve: Vec<(f64, f64)>,
}

/// The distributions of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Spreads {
    pub title: &'static str,
    pub scale: Scale,
    pub over_time: bool,
    /// Shape: by point, then by variant.
    pub all: Vec<Spread>,
}

/// The distributions that a `[[figure]]` with boxes or curves draws.
pub fn spreads(report: &Report, spec: &FigureSpec) -> Spreads {
    if spec.x == TIME { of_time(report, spec) } else { of_runs(report, spec) }
}

fn of_runs(report: &Report, spec: &FigureSpec) -> Spreads {
    let cells = || report.cells.iter().filter(|cell| cell.metric == spec.y && spec.at.contain(&cell.at));
    let spread = |cell: &crate::report::judge::cell::ReportCell| {
        let mut sorted = cell.measured.as_ref()?.values.clone();
        sorted.sort_by(f64::total_cmp);
        let marks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| stats::percentile(&sorted, share).unwrap_or(f64::NAN));
        let share = |index: usize| (index + 1) as f64 / sorted.len() as f64;
        let curve = sorted.iter().enumerate().map(|(index, value)| (*value, share(index))).collect();
        Some(Spread { variant: cell.variant.clone(), point: point_name(&cell.point()), marks, curve })
    };
    let all: Vec<Spread> = cells().filter_map(spread).collect();
    let unit = cells().next().map_or("", |cell| cell.unit.as_str());
    let title = shared::model::metrics::Metric::find(&spec.y).map_or("value", |metric| metric.title);
    Spreads { title, scale: scale_of(unit, &all), over_time: false, all }
}

fn of_time(report: &Report, spec: &FigureSpec) -> Spreads {
    let plots = report.plots.iter().filter(|plot| plot.quantity == spec.y && spec.at.contain(&plot.point));
    let of_plot = |plot: WindowPlot| {
        let of_variant = |variant: &str| {
            let lines: Vec<&PlotLine> = plot.lines.iter().filter(|line| line.variant == variant).collect();
            let (variant, point) = (variant.to_owned(), plot.point_name());
            let weighted: Vec<(f64, f64)> = lines.iter().flat_map(|line| line.weighted()).collect();
            let at = |share: f64| stats::weighted_percentile(&weighted, share);
            let marks = [0.05, 0.25, 0.5, 0.75, 0.95].map(at);
            let curve = (0..=PERCENT).filter_map(|percent| {
                let share = percent as f64 / PERCENT as f64;
                Some((at(share)?, share))
            });
            marks[0].map(|_| Spread {
                variant,
                point,
                marks: marks.map(|mark| mark.unwrap_or(f64::NAN)),
                curve: curve.collect(),
            })
        };
        plot.variants().into_iter().filter_map(of_variant).collect::<Vec<_>>()
    };
    let plots = plots.map(|plot| if is_by_flow(spec) { chosen(plot, spec).by_flow() } else { chosen(plot, spec) });
    let all: Vec<Spread> = plots.flat_map(of_plot).collect();
    let (title, unit) = Series::find(&spec.y).map_or(("value", ""), |series| (series.title, series.unit));
    Spreads { title, scale: scale_of(unit, &all), over_time: true, all }
}

/// Whether each flow of a run has a distribution of its own. So has each direction of a queue, which is not of a variant.
fn is_by_flow(spec: &FigureSpec) -> bool {
    let is_of_queue = Series::find(&spec.y).is_some_and(Series::is_of_queue);
    spec.x == TIME && (is_of_queue || spec.together == Together::Flows)
}

fn scale_of(unit: &str, all: &[Spread]) -> Scale {
    Scale::of(unit, all.iter().flat_map(|one| one.marks))
}

/// Draws a `[[figure]]` with boxes or curves.
pub fn of_spec(report: &Report, spec: &FigureSpec) -> Figure {
    let spreads = spreads(report, spec);
    let names = match is_by_flow(spec) {
        true => each_once(spreads.all.iter().map(|one| one.variant.as_str())),
        false => variants(report),
    };
    let series = |one: &Spread| names.iter().position(|variant| *variant == one.variant).unwrap_or(0);
    let drawn: Vec<(usize, &Spread)> = spreads.all.iter().map(|one| (series(one), one)).collect();
    let points = each_once(spreads.all.iter().map(|one| one.point.clone()));
    let charts: Vec<Chart> = match spec.draw {
        Draw::Cdf => {
            let of_point = |point: &String| drawn.iter().filter(|(_, one)| one.point == *point).copied().collect();
            points.iter().map(|point| curves(spec, &spreads, point, of_point(point))).collect()
        }
        _ => vec![boxes(spec, &spreads, &points, &drawn)],
    };
    let is_drawn = |(series, _): &(usize, &&str)| drawn.iter().any(|(shown, _)| shown == series);
    Figure {
        title: titled(spec),
        explanation: explained(spec.draw, spreads.over_time),
        legend: names.iter().enumerate().filter(is_drawn).map(|(series, name)| (series, (*name).to_owned())).collect(),
        layout: ChartLayout { abreast: charts.len().clamp(1, 2), height: HEIGHT, stacked: false },
        charts,
        folded: false,
    }
}

fn explained(draw: Draw, over_time: bool) -> String {
    let text = match (draw, over_time) {
        (Draw::Cdf, false) => "Share of the runs with at most this value.",
        (Draw::Cdf, true) => "Share of the time with at most this value, in the median run.",
        (_, false) => "Marks: median of the runs; boxes: first to third quartile; whiskers: lowest and highest run.",
        (_, true) => {
            "Marks: median over the time of the median run; boxes: first to third quartile; whiskers: 5th to 95th \
             percentile."
        }
    };
    text.to_owned()
}

fn axis(spreads: &Spreads, ends: [f64; 2], log: bool) -> Axis {
    let scale = spreads.scale;
    let title = format!("{} [{}]", spreads.title, scale.unit());
    Axis::numbers(title, ends, log, &move |value| number::short(scale.show(value)))
}

fn ends(values: impl Iterator<Item = f64> + Clone) -> [f64; 2] {
    [values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max)]
}

/// Boxes over the points, variants side by side.
fn boxes(spec: &FigureSpec, spreads: &Spreads, points: &[String], drawn: &[(usize, &Spread)]) -> Chart {
    let all = each_once(drawn.iter().map(|(series, _)| *series));
    let wide = BARS_SPREAD / all.len().max(1) as f64;
    let shapes = |(series, one): &(usize, &Spread)| {
        let point = points.iter().position(|point| *point == one.point).unwrap_or(0) as f64;
        let index = all.iter().position(|other| other == series).unwrap_or(0) as f64;
        let x = point + (index + 0.5) * wide - BARS_SPREAD / 2.0;
        let [low, first, median, third, high] = one.marks;
        let shown = one.marks.map(|mark| spreads.scale.show(mark)).join(", ");
        let title = format!("{}, {}\n{} [{}]: {shown}", one.variant, one.point, spreads.title, spreads.scale.unit());
        let (series, sides, y) = (*series, [x - 0.36 * wide, x + 0.36 * wide], [first, third]);
        [
            ChartShape::Area { area: Area::Bar, series, x: sides, y, title: title.clone() },
            ChartShape::Interval { series, x, ends: [low, high] },
            ChartShape::Sign { sign: Sign::Measured, series, at: (x, median), title },
        ]
    };
    let [low, high] = ends(drawn.iter().flat_map(|(_, one)| one.marks));
    let low = if spec.log_y { low } else { 0.0 };
    Chart {
        heading: None,
        x: Axis::names(String::new(), points),
        y: axis(spreads, [low, 1.06 * high], spec.log_y),
        shapes: drawn.iter().flat_map(shapes).collect(),
    }
}

/// One step curve per variant at a point.
fn curves(spec: &FigureSpec, spreads: &Spreads, point: &str, here: Vec<(usize, &Spread)>) -> Chart {
    let line = |(series, one): &(usize, &Spread)| {
        let mut share = 0.0;
        let steps = one.curve.iter().flat_map(|(value, next)| {
            let before = std::mem::replace(&mut share, *next);
            [(*value, before), (*value, *next)]
        });
        ChartShape::Line { series: *series, points: steps.collect() }
    };
    let what = if spreads.over_time { "share of time" } else { "share of runs" };
    let values = here.iter().flat_map(|(_, one)| one.curve.iter().map(|(value, _)| *value));
    Chart {
        heading: (!point.is_empty()).then(|| (point.to_owned(), None)),
        x: axis(spreads, ends(values), spec.log_x),
        y: Axis::numbers(what.to_owned(), [0.0, 1.0], false, &plain),
        shapes: here.iter().map(line).collect(),
    }
}

/// Heading of the table of a figure's distributions.
pub fn heading(spec: &FigureSpec, spreads: &Spreads) -> String {
    let over = if spreads.over_time { "over the time of the median run" } else { "over the runs" };
    let what = if spreads.over_time { spreads.title } else { title_of(&spec.y) };
    format!("{what}, distribution {over}")
}
