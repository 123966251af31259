//! Figures over the time of a run: windows, sequences, delays, goodput of the representative runs.

use super::chart::{Axis, Chart, Layout, Shape, plain};
use super::figure::{Figure, legend_of, titled, variants};
use crate::model::flow::Series;
use crate::report::judge::cell::each_once;
use crate::report::judge::number::Scale;
use crate::report::judge::report::Report;
use crate::report::judge::windows::{Line, WindowPlot};
use crate::scenario::FigureSpec;

/// Height of one chart of several above each other, and of one that all share.
const PANEL_HEIGHT: f64 = 150.0;
const HEIGHT: f64 = 360.0;
/// Places along x where a pointer shows the values.
const SPANS: usize = 60;
/// From so many on, figures of one kind are folded away.
const MANY: usize = 4;
/// Lines end a little below the top.
const HEADROOM: f64 = 1.04;
/// So many losses at most are marked on a line.
const LOSSES_MARKED: usize = 300;
/// Quantities that grow with every packet: losses are marked on them.
const SEQUENCE: &str = "delivered_pkts";

/// How lines over time are drawn.
struct View<'a> {
    report: &'a Report,
    quantity: &'static Series,
    scale: Scale,
    /// Seconds at the right end.
    until: f64,
    log_y: bool,
}

/// The windows of every point, a chart per variant.
pub fn windows(report: &Report) -> Vec<Figure> {
    let plots: Vec<&WindowPlot> = report.plots.iter().filter(|plot| plot.quantity == "cwnd_pkts").collect();
    let figure = |plot: &&WindowPlot| {
        let point = plot.point_name();
        let title = if point.is_empty() { "cwnd over time".to_owned() } else { format!("cwnd over time, {point}") };
        let view = View::new(report, plot, None)?;
        Some(Figure { folded: plots.len() > MANY, ..view.stacked(title, plot) })
    };
    plots.iter().filter_map(figure).collect()
}

/// The figures that a scenario asks for, one per point.
pub fn of_spec(report: &Report, spec: &FigureSpec) -> Vec<Figure> {
    let plots = report.plots.iter().filter(|plot| plot.quantity == spec.y && spec.at.contain(&plot.point));
    let plots: Vec<WindowPlot> = plots.map(|plot| chosen(plot, spec)).filter(|plot| !plot.lines.is_empty()).collect();
    let figure = |plot: &WindowPlot| {
        let point = plot.point_name();
        let title = if plots.len() > 1 { format!("{}, {point}", titled(spec)) } else { titled(spec) };
        let mut view = View::new(report, plot, spec.until.map(|until| until.as_secs_f64()))?;
        view.log_y = spec.log_y;
        let figure = if spec.together { view.together(title, plot) } else { view.stacked(title, plot) };
        Some(Figure { folded: plots.len() > MANY, ..figure })
    };
    plots.iter().filter_map(figure).collect()
}

/// The lines of the variants that a figure is of, up to where it ends.
fn chosen(plot: &WindowPlot, spec: &FigureSpec) -> WindowPlot {
    let mut plot = plot.clone();
    let named: Vec<&Vec<String>> = ["variant", "algorithm"].iter().filter_map(|name| spec.at.0.get(*name)).collect();
    plot.lines.retain(|line| named.iter().all(|names| names.contains(&line.variant)));
    if let Some(until) = spec.until {
        plot.lines.iter_mut().for_each(|line| line.points.retain(|point| point.0 <= until.as_secs_f64()));
        plot.lines.retain(|line| !line.points.is_empty());
    }
    plot
}

impl<'a> View<'a> {
    fn new(report: &'a Report, plot: &WindowPlot, until: Option<f64>) -> Option<View<'a>> {
        let quantity = Series::find(plot.quantity)?;
        let values = plot.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
        let scale = Scale::of(quantity.unit, values);
        Some(View { report, quantity, scale, until: until.unwrap_or(plot.length_s()).max(1e-3), log_y: false })
    }

    /// One chart per variant, one above the other.
    fn stacked(&self, title: String, plot: &WindowPlot) -> Figure {
        let shown = legend_of(self.report, |variant| plot.lines.iter().any(|line| line.variant == variant));
        let chart = |(series, variant): &(usize, String)| {
            let lines: Vec<&Line> = plot.lines.iter().filter(|line| line.variant == *variant).collect();
            let cut = plot.cut_pkts(variant).map(|peak| format!(" (peak of {} cut off)", self.scale.with_unit(peak)));
            let heading = format!("{variant}{}", cut.unwrap_or_default());
            self.chart(Some((heading, Some(*series))), &lines, plot.top_pkts(variant))
        };
        let layout = Layout { abreast: 1, height: PANEL_HEIGHT, stacked: true };
        let charts = shown.iter().map(chart).collect();
        Figure { title, explanation: explained(plot), legend: Vec::new(), charts, layout, folded: false }
    }

    /// All variants in one chart.
    fn together(&self, title: String, plot: &WindowPlot) -> Figure {
        let lines: Vec<&Line> = plot.lines.iter().collect();
        let top = plot.lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
        let legend = legend_of(self.report, |variant| plot.lines.iter().any(|line| line.variant == variant));
        let layout = Layout { abreast: 1, height: HEIGHT, stacked: false };
        let charts = vec![self.chart(None, &lines, top)];
        Figure { title, explanation: explained(plot), legend, charts, layout, folded: false }
    }

    fn chart(&self, heading: Option<(String, Option<usize>)>, lines: &[&Line], top: f64) -> Chart {
        let scale = self.scale;
        let lowest = lines.iter().flat_map(|line| &line.points).map(|point| point.1).filter(|value| *value > 0.0);
        let lowest = if self.log_y { lowest.fold(f64::INFINITY, f64::min) } else { 0.0 };
        let title = format!("{} [{}]", self.quantity.title, scale.unit());
        let y =
            Axis::numbers(title, [lowest.min(top), HEADROOM * top], self.log_y, &move |value| scale.show_short(value));
        let mut x = Axis::numbers("time [s]".into(), [0.0, self.until], false, &plain);
        x.ends[1] = self.until;
        let mut shapes: Vec<Shape> = Vec::new();
        for line in lines {
            let series = self.series(line);
            shapes.push(Shape::Line { series, points: line.points.clone() });
            if self.quantity.name == SEQUENCE {
                shapes.extend(line.losses.iter().take(LOSSES_MARKED).filter_map(|time| loss(line, series, *time)));
            }
        }
        shapes.extend((0..SPANS).filter_map(|index| self.span(lines, index)));
        Chart { heading, x, y, shapes }
    }

    fn series(&self, line: &Line) -> usize {
        variants(self.report).iter().position(|variant| *variant == line.variant).unwrap_or(0)
    }

    /// What every line is at in the middle of a part of the time.
    fn span(&self, lines: &[&Line], index: usize) -> Option<Shape> {
        let step = self.until / SPANS as f64;
        let from = index as f64 * step;
        let middle = from + step / 2.0;
        let told = |line: &&Line| {
            let value = value_at(line, middle)?;
            let several = lines.iter().any(|other| other.variant == line.variant && other.flow != line.flow);
            let flow = if several { format!(" {}", line.flow) } else { String::new() };
            Some(format!("{}{flow}: {}", line.variant, self.scale.with_unit(value)))
        };
        let told: Vec<String> = lines.iter().filter_map(told).collect();
        let title = format!("{} s\n{}", plain(middle), told.join("\n"));
        (!told.is_empty()).then_some(Shape::Span { x: [from, from + step], title })
    }
}

/// The last value before a time; none before the first and after the last.
fn value_at(line: &Line, time: f64) -> Option<f64> {
    let beyond = line.points.partition_point(|point| point.0 <= time);
    let before = line.points.get(beyond.checked_sub(1)?)?;
    (beyond < line.points.len()).then_some(before.1)
}

fn loss(line: &Line, series: usize, time: f64) -> Option<Shape> {
    let at = (time, value_at(line, time)?);
    Some(Shape::Tick { series, at, title: format!("{} noticed a loss at {} s", line.variant, plain(time)) })
}

/// Which runs are shown.
fn explained(plot: &WindowPlot) -> String {
    let run = |line: &Line| {
        let of = if line.runs > 1 { format!("the median of {} runs", line.runs) } else { "the only run".into() };
        format!("{}: {} ({of})", line.variant, line.run)
    };
    let runs = each_once(plot.lines.iter().map(run));
    let losses = if plot.quantity == SEQUENCE { " Crosses: losses the sender noticed." } else { "" };
    format!("Representative runs: {}.{losses}", runs.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_between_two_points_is_the_one_before() {
        let points = vec![(1.0, 10.0), (2.0, 20.0), (4.0, 5.0)];
        let line = Line { variant: "v".into(), flow: "f".into(), run: "r".into(), runs: 1, points, losses: Vec::new() };
        assert_eq!([0.5, 1.0, 3.9, 4.0].map(|time| value_at(&line, time)), [None, Some(10.0), Some(20.0), None]);
        assert!(matches!(loss(&line, 0, 2.5), Some(Shape::Tick { at: (2.5, 20.0), .. })));
    }
}
