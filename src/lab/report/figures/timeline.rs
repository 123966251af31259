//! Figures over time: windows, sequences, delays and goodput of representative runs.

use super::chart::{Area, Axis, Chart, ChartLayout, ChartShape, Sign, plain};
use super::figure::{Figure, legend_of, titled, variants};
use crate::report::judge::cell::each_once;
use crate::report::judge::number::{self, Scale};
use crate::report::judge::report::Report;
use crate::report::judge::windows::{PlotLine, WINDOWS, WindowPlot};
use crate::scenario::{FigureSpec, Together};
use shared::model::series::Series;

/// Height of each stacked chart.
const PANEL_HEIGHT: f64 = 150.0;
/// Height of a chart shared by all variants.
const HEIGHT: f64 = 360.0;
/// Height of a chart with the flows of one of several runs.
const RUN_HEIGHT: f64 = 240.0;
/// More flows than this have no legend.
const LEGEND_MAX: usize = 16;
/// Number of spans along x whose values a pointer shows.
const SPANS: usize = 60;
/// More figures of one kind than this are folded.
const MANY: usize = 4;
/// Top of the y axis, as a multiple of the highest value.
const HEADROOM: f64 = 1.04;
/// Most losses marked on a line.
const LOSSES_MARKED: usize = 300;
/// Losses are marked on lines of this quantity.
const SEQUENCE: &str = "delivered_pkts";

struct WindowTimeline<'a> {
    report: &'a Report,
    quantity: &'static Series,
    scale: Scale,
    /// Right end, seconds.
    until: f64,
    log_y: bool,
    /// Names of flows in the order of their colours. Empty if colours show variants.
    flows: Vec<&'a str>,
}

/// One figure of windows per point, with a chart per variant.
pub fn windows(report: &Report) -> Vec<Figure> {
    let plots: Vec<&WindowPlot> = report.plots.iter().filter(|plot| plot.quantity == WINDOWS).collect();
    let figure = |plot: &&WindowPlot| {
        let point = plot.point_name();
        let title = if point.is_empty() { "cwnd over time".to_owned() } else { format!("cwnd over time, {point}") };
        let view = WindowTimeline::new(report, plot, None)?;
        Some(Figure { folded: plots.len() > MANY, ..view.stacked(title, plot) })
    };
    plots.iter().filter_map(figure).collect()
}

/// The figures of a `[[figure]]`, one per point.
pub fn of_spec(report: &Report, spec: &FigureSpec) -> Vec<Figure> {
    let plots = report.plots.iter().filter(|plot| plot.quantity == spec.y && spec.at.contain(&plot.point));
    let plots: Vec<WindowPlot> = plots.map(|plot| chosen(plot, spec)).filter(|plot| !plot.lines.is_empty()).collect();
    let figure = |plot: &WindowPlot| {
        let point = plot.point_name();
        let title = if plots.len() > 1 { format!("{}, {point}", titled(spec)) } else { titled(spec) };
        let mut view = WindowTimeline::new(report, plot, spec.until.map(|until| until.as_secs_f64()))?;
        view.log_y = spec.log_y;
        let figure = match spec.together {
            // A queue is not of a variant: colours tell the links apart.
            Together::Variant if view.quantity.is_of_queue() => view.flows(title, plot),
            Together::Variant => view.stacked(title, plot),
            Together::Variants => view.together(title, plot),
            Together::Flows => view.flows(title, plot),
        };
        Some(Figure { folded: plots.len() > MANY, ..figure })
    };
    plots.iter().filter_map(figure).collect()
}

/// The lines of the figure's variants, up to its end.
pub fn chosen(plot: &WindowPlot, spec: &FigureSpec) -> WindowPlot {
    let mut plot = plot.clone();
    let named: Vec<&Vec<String>> = ["variant", "algorithm"].iter().filter_map(|name| spec.at.0.get(*name)).collect();
    for lines in [&mut plot.lines, &mut plot.beside] {
        lines.retain(|line| named.iter().all(|names| names.contains(&line.variant)));
        if let Some(until) = spec.until {
            lines.iter_mut().for_each(|line| line.points.retain(|point| point.0 <= until.as_secs_f64()));
            lines.retain(|line| !line.points.is_empty());
        }
    }
    plot
}

impl<'a> WindowTimeline<'a> {
    fn new(report: &'a Report, plot: &'a WindowPlot, until: Option<f64>) -> Option<WindowTimeline<'a>> {
        let quantity = Series::find(plot.quantity)?;
        let values = plot.lines.iter().chain(&plot.beside).flat_map(|line| line.points.iter().map(|point| point.1));
        let scale = Scale::of(quantity.unit, values);
        Some(WindowTimeline {
            report,
            quantity,
            scale,
            until: until.unwrap_or(plot.length_s()).max(1e-3),
            log_y: false,
            flows: Vec::new(),
        })
    }

    /// One chart per variant, one above the other.
    fn stacked(&self, title: String, plot: &WindowPlot) -> Figure {
        let shown = legend_of(self.report, |variant| plot.lines.iter().any(|line| line.variant == variant));
        let chart = |(series, variant): &(usize, String)| {
            let lines: Vec<&PlotLine> = plot.lines.iter().filter(|line| line.variant == *variant).collect();
            let cut = plot.cut_pkts(variant).map(|peak| format!(" (peak of {} cut off)", self.scale.with_unit(peak)));
            let heading = format!("{variant}{}", cut.unwrap_or_default());
            self.chart(Some((heading, Some(*series))), &lines, plot.top_pkts(variant))
        };
        let layout = ChartLayout { abreast: 1, height: PANEL_HEIGHT, stacked: true };
        let charts = shown.iter().map(chart).collect();
        Figure { title, explanation: explained(plot), legend: Vec::new(), charts, layout, folded: false }
    }

    /// All variants in one chart.
    fn together(&self, title: String, plot: &WindowPlot) -> Figure {
        let lines: Vec<&PlotLine> = plot.lines.iter().collect();
        let top = plot.lines.iter().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
        let legend = legend_of(self.report, |variant| plot.lines.iter().any(|line| line.variant == variant));
        let layout = ChartLayout { abreast: 1, height: HEIGHT, stacked: false };
        let charts = vec![self.chart(None, &lines, top)];
        Figure { title, explanation: explained(plot), legend, charts, layout, folded: false }
    }

    /// One chart per run, with all its flows.
    fn flows(mut self, title: String, plot: &'a WindowPlot) -> Figure {
        let runs = plot.runs();
        let all = || runs.iter().flat_map(|(_, lines)| lines.iter().copied());
        self.flows = each_once(all().map(|line| line.flow.as_str()));
        let top = all().flat_map(|line| &line.points).map(|point| point.1).fold(0.0, f64::max);
        let chart = |(variant, lines): &(&str, Vec<&PlotLine>)| {
            let heading = (runs.len() > 1).then(|| ((*variant).to_owned(), None));
            self.chart(heading, lines, top)
        };
        let height = if runs.len() > 1 { RUN_HEIGHT } else { HEIGHT };
        let layout = ChartLayout { abreast: 1, height, stacked: false };
        let charts = runs.iter().map(chart).collect();
        let flows = self.flows.iter().enumerate().map(|(series, flow)| (series, named(flow, all())));
        let mut legend: Vec<(usize, String)> = flows.collect();
        let mut explanation = explained(plot);
        if legend.len() > LEGEND_MAX {
            explanation = format!("{} flows. {explanation}", legend.len());
            legend.clear();
        }
        Figure { title, explanation, legend, charts, layout, folded: false }
    }

    fn chart(&self, heading: Option<(String, Option<usize>)>, lines: &[&PlotLine], top: f64) -> Chart {
        let scale = self.scale;
        let lowest = lines.iter().flat_map(|line| &line.points).map(|point| point.1).filter(|value| *value > 0.0);
        let lowest = if self.log_y { lowest.fold(f64::INFINITY, f64::min) } else { 0.0 };
        let title = format!("{} [{}]", self.quantity.title, scale.unit());
        let y = Axis::numbers(title, [lowest.min(top), HEADROOM * top], self.log_y, &move |value| {
            number::short(scale.show(value))
        });
        let mut x = Axis::numbers("time [s]".into(), [0.0, self.until], false, &plain);
        x.ends[1] = self.until;
        let mut shapes: Vec<ChartShape> = Vec::new();
        for line in lines {
            let series = self.series(line);
            shapes.push(ChartShape::Line { series, points: line.points.clone() });
            if self.quantity.name == SEQUENCE {
                shapes.extend(line.losses.iter().take(LOSSES_MARKED).filter_map(|time| loss(line, series, *time)));
            }
        }
        shapes.extend((0..SPANS).filter_map(|index| self.span(lines, index)));
        Chart { heading, x, y, shapes }
    }

    fn series(&self, line: &PlotLine) -> usize {
        if let Some(flow) = self.flows.iter().position(|flow| *flow == line.flow) {
            return flow;
        }
        variants(self.report).iter().position(|variant| *variant == line.variant).unwrap_or(0)
    }

    /// An invisible span with the values of all lines in its middle.
    fn span(&self, lines: &[&PlotLine], index: usize) -> Option<ChartShape> {
        let step = self.until / SPANS as f64;
        let from = index as f64 * step;
        let middle = from + step / 2.0;
        let text = |line: &&PlotLine| {
            let value = value_at(line, middle)?;
            if !self.flows.is_empty() {
                return Some(format!("{}: {}", line.flow_name(), self.scale.with_unit(value)));
            }
            let several = lines.iter().any(|other| other.variant == line.variant && other.flow != line.flow);
            let flow = if several { format!(" {}", line.flow) } else { String::new() };
            Some(format!("{}{flow}: {}", line.variant, self.scale.with_unit(value)))
        };
        let texts: Vec<String> = lines.iter().filter_map(text).collect();
        let title = format!("{} s\n{}", plain(middle), texts.join("\n"));
        let (x, y) = ([from, from + step], [f64::NEG_INFINITY, f64::INFINITY]);
        (!texts.is_empty()).then_some(ChartShape::Area { area: Area::Span, series: 0, x, y, title })
    }
}

/// A flow with its algorithm, if that is the same in all runs.
fn named<'a>(flow: &str, lines: impl Iterator<Item = &'a PlotLine>) -> String {
    match each_once(lines.filter(|line| line.flow == flow).map(PlotLine::flow_name)).as_slice() {
        [name] => name.clone(),
        _ => flow.to_owned(),
    }
}

/// The latest value at a time. `None` before the first point, and from the last point on.
fn value_at(line: &PlotLine, time: f64) -> Option<f64> {
    let beyond = line.points.partition_point(|point| point.0 <= time);
    let before = line.points.get(beyond.checked_sub(1)?)?;
    (beyond < line.points.len()).then_some(before.1)
}

fn loss(line: &PlotLine, series: usize, time: f64) -> Option<ChartShape> {
    let at = (time, value_at(line, time)?);
    let title = format!("{} detected a loss at {} s", line.variant, plain(time));
    Some(ChartShape::Sign { sign: Sign::Loss, series, at, title })
}

fn explained(plot: &WindowPlot) -> String {
    let run = |line: &PlotLine| {
        let of = if line.runs > 1 { format!("the median of {} runs", line.runs) } else { "the only run".into() };
        format!("{}: {} ({of})", line.variant, line.run)
    };
    let runs = each_once(plot.lines.iter().map(run));
    let losses = if plot.quantity == SEQUENCE { " Crosses: losses the sender detected." } else { "" };
    format!("Representative runs: {}.{losses}", runs.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_between_two_points_is_the_one_before() {
        let points = vec![(1.0, 10.0), (2.0, 20.0), (4.0, 5.0)];
        let line = PlotLine { variant: "v".into(), flow: "f".into(), points, ..PlotLine::default() };
        assert_eq!([0.5, 1.0, 3.9, 4.0].map(|time| value_at(&line, time)), [None, Some(10.0), Some(20.0), None]);
        assert!(matches!(loss(&line, 0, 2.5), Some(ChartShape::Sign { sign: Sign::Loss, at: (2.5, 20.0), .. })));
    }
}
