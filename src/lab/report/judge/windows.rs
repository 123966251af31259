//! Windows and other quantities over time, of one representative run per point and variant.
//!
//! The representative run is the median of its cell by the first metric (the lower of two middle runs), so that plots show
//! typical behaviour and not the best or the first run.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::iter;

use anyhow::Result;

use super::cell::{each_once, point_name};
use super::compare;
use super::index::{CellKey, Index};
use super::input::OverTime;
use super::swept::ranks;
use crate::report::read::directory::StoredRun;
use crate::scenario::{self, Scenario, TIME};
use shared::model::flow::{self, Flow};
use shared::model::metrics::Metric;
use shared::model::notice::Notice;
use shared::model::queue::{self, QueueSample};
use shared::model::run::{At, FlowRecord, RunStatus};
use shared::model::series::{Series, SeriesOf};
use shared::model::stats;

/// The quantity that every report reads.
pub const WINDOWS: &str = "cwnd_pkts";
/// Most points of a line: about two per dot of the widest plot, so that every peak stays visible.
const LINE_POINTS: usize = 1600;
/// Each variant has its own axis if the tops of the variants differ by more than this factor.
const OWN_AXIS_RANGE: f64 = 4.0;
/// This percentile of the windows is the usual top. Windows [`PEAK_RANGE`] times as high are peaks; the axis then ends at
/// [`USUAL_MARGIN`] times the usual top.
const USUAL_SHARE: f64 = 0.9;
const PEAK_RANGE: f64 = 2.0;
const USUAL_MARGIN: f64 = 1.6;

/// A line ends this long after its run at the latest. Flows begin late by a handshake, and a connection over a link that
/// is down may last for minutes more.
const AFTER_S: f64 = 1.0;

/// One flow of a representative run, or the queue of one direction of a link.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlotLine {
    pub variant: String,
    /// Name in the scenario; of a queue the direction, such as `left-right`.
    pub flow: String,
    /// Its algorithm in the scenario; empty for a queue.
    pub algorithm: String,
    pub run: String,
    /// Number of runs from which the representative was chosen.
    pub runs: usize,
    /// Seconds since the first event of the run's flows, and the value.
    ///
    /// Shape: sorted by time. Long lines keep only the lowest and highest point of short spans.
    pub points: Vec<(f64, f64)>,
    /// When the sender detected losses, on the same time axis.
    pub losses: Vec<f64>,
    /// Percentiles of the value over the time of the flow, from the 0th to the 100th. Empty unless a figure draws them.
    pub percentiles: Vec<f64>,
}

/// One quantity over time at one point of the sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPlot {
    pub point: At,
    /// Name of the quantity, one of [`series::SERIES`](shared::model::series::SERIES).
    pub quantity: &'static str,
    /// One or more per variant.
    pub lines: Vec<PlotLine>,
    /// Flows of the same runs that are not of the variant. Their `variant` is the one whose run it is.
    pub beside: Vec<PlotLine>,
}

/// Reads the representative runs of every point: windows, and the quantities of the scenario's figures over time.
///
/// Shape: by quantity, windows first, then by point.
///
/// # Errors
/// As [`compare::metrics_of`]; events that cannot be read.
pub fn windows(index: &Index<'_>) -> Result<(Vec<WindowPlot>, Vec<Notice>)> {
    let scenario = index.scenario();
    let metrics = compare::metrics_of(scenario)?;
    // With a metric that needs events, the choice would have to read every run.
    let metric = metrics
        .into_iter()
        .find(|metric| !metric.needs_events && !metric.needs_queues)
        .or(Metric::find("delivered_pkts"));
    let quantities = quantities(scenario);
    let has_queues = quantities.iter().any(|series| series.is_of_queue());
    let mut notices = Vec::new();
    let mut plots: Vec<Vec<WindowPlot>> = vec![Vec::new(); quantities.len()];
    for point in &index.points {
        let mut lines: Vec<[Vec<PlotLine>; 2]> = vec![Default::default(); quantities.len()];
        for variant in &index.variants {
            let key = CellKey { point: point.clone(), variant: variant.clone() };
            let Some(chosen) = representative(index, &key, metric) else { continue };
            let stored = chosen.run.events()?;
            notices.extend(stored.notices);
            let flows = flow::fold(&stored.events);
            let queues = if has_queues { chosen.run.queues()? } else { Vec::new() };
            if has_queues && queues.is_empty() {
                notices.push(without_queues());
            }
            for (lines, quantity) in lines.iter_mut().zip(&quantities) {
                let is_spread = is_spread(scenario, quantity);
                for (is_own, line) in chosen.lines(variant, (&flows, &queues), (quantity, is_spread)) {
                    lines[usize::from(!is_own)].push(line);
                }
            }
        }
        for ((plots, [lines, beside]), quantity) in plots.iter_mut().zip(lines).zip(&quantities) {
            if !lines.is_empty() {
                plots.push(WindowPlot { point: point.clone(), quantity: quantity.name, lines, beside });
            }
        }
    }
    Ok((plots.concat(), notices))
}

fn without_queues() -> Notice {
    let cause = "the queues of links over time were not recorded in some runs, so their figures leave them out";
    Notice::new(
        cause,
        "virtual time and the user-space emulator (`--link tunlink`) record them; netem and older versions do not",
    )
}

/// Windows, which terminals always show, and the quantities of figures over time.
fn quantities(scenario: &Scenario) -> Vec<&'static Series> {
    let of_figures = scenario.figures.iter().filter(|figure| figure.x == TIME).map(|figure| figure.y.as_str());
    each_once([WINDOWS].into_iter().chain(of_figures)).into_iter().filter_map(Series::find).collect()
}

/// The median run of a cell, with the variant's flows.
struct MedianRun<'a> {
    run: &'a StoredRun,
    runs: usize,
    /// Names of the variant's flows.
    own: Vec<&'a str>,
    cell: Option<&'a scenario::Cell>,
}

impl MedianRun<'_> {
    /// A line for each traced flow, and whether it is of the variant; or a line for each queue.
    fn lines(
        &self,
        variant: &str,
        (flows, queues): (&[Flow], &[QueueSample]),
        (quantity, is_spread): (&Series, bool),
    ) -> Vec<(bool, PlotLine)> {
        let begin = flows.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
        let lines: Vec<(bool, PlotLine)> = match quantity.of {
            SeriesOf::Flow(points) => {
                flows.iter().filter_map(|flow| self.of_flow(variant, (flow, begin), points)).collect()
            }
            SeriesOf::Queue(value) => {
                let waits = |samples: &&[QueueSample]| samples.iter().any(|sample| sample.queue_pkts > 0);
                let queues = queue::by_direction(queues).into_iter().filter(waits);
                queues.map(|samples| (true, self.of_queue(variant, (samples, begin), value))).collect()
            }
        };
        let until_s = self.run.record.duration_s + AFTER_S;
        let finish = |(is_own, mut line): (bool, PlotLine)| {
            line.points.retain(|(time_s, _)| *time_s <= until_s);
            line.losses.retain(|time_s| *time_s <= until_s);
            let percentiles = if is_spread { percentiles(&line.points) } else { Vec::new() };
            (is_own, PlotLine { percentiles, points: thin(line.points), ..line })
        };
        lines.into_iter().map(finish).collect()
    }

    fn of_flow(
        &self,
        variant: &str,
        (flow, begin): (&Flow, f64),
        points: fn(&Flow) -> Vec<(f64, f64)>,
    ) -> Option<(bool, PlotLine)> {
        let record = self.run.record.flows.iter().find(|record| record.socket == Some(flow.socket))?;
        let shift = flow.start_s - begin;
        let points = points(flow).into_iter().map(|(time, value)| (time + shift, value)).collect();
        let line = PlotLine {
            variant: variant.to_owned(),
            flow: record.name.clone(),
            algorithm: self.algorithm(record),
            run: self.run.name(),
            runs: self.runs,
            points,
            losses: flow.losses_s().into_iter().map(|time| time + shift).collect(),
            percentiles: Vec::new(),
        };
        Some((self.own.contains(&record.name.as_str()), line))
    }

    /// From the first event of a flow on, like the lines of flows.
    fn of_queue(
        &self,
        variant: &str,
        (samples, begin): (&[QueueSample], f64),
        value: fn(&QueueSample) -> f64,
    ) -> PlotLine {
        let points = samples.iter().map(|sample| (sample.time_ns as f64 / 1e9 - begin, value(sample)));
        PlotLine {
            variant: variant.to_owned(),
            flow: samples[0].direction(),
            algorithm: String::new(),
            run: self.run.name(),
            runs: self.runs,
            points: points.filter(|(time, _)| *time >= 0.0).collect(),
            losses: Vec::new(),
            percentiles: Vec::new(),
        }
    }

    /// A flow's algorithm as the scenario names it. The kernel may know it under a derived name.
    fn algorithm(&self, record: &FlowRecord) -> String {
        let spec = self.cell.and_then(|cell| cell.flows.iter().find(|flow| flow.name == record.name));
        spec.map_or(&record.algorithm, |flow| &flow.algorithm).clone()
    }
}

fn representative<'a>(index: &Index<'a>, key: &CellKey, metric: Option<&Metric>) -> Option<MedianRun<'a>> {
    let mut runs: Vec<(f64, &StoredRun, Vec<&str>)> = Vec::new();
    let is_own = |run: &&&StoredRun| index.may_be_of(&run.record, &key.variant);
    let done = index.runs_at(&key.point).iter().filter(|run| run.record.status == RunStatus::Done);
    for run in done.filter(is_own) {
        let Some(view) = index.views(&run.record, OverTime::default()).remove(&key.variant) else { continue };
        let value = metric.and_then(|metric| metric.value(&view)).map_or(0.0, |value| value.value);
        runs.push((value, run, view.own.iter().map(|flow| flow.record.name.as_str()).collect()));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.folder.cmp(&b.1.folder)));
    let count = runs.len();
    let (_, run, own) = runs.into_iter().nth(count.checked_sub(1)? / 2)?;
    Some(MedianRun { run, runs: count, own, cell: index.cell(&run.record.at) })
}

/// Whether a figure draws the distribution of a quantity.
fn is_spread(scenario: &Scenario, quantity: &Series) -> bool {
    let mut figures = scenario.figures.iter();
    figures.any(|figure| figure.x == TIME && figure.y == quantity.name && figure.draw.is_distribution())
}

/// Percentiles of values that each last until the next one, from the 0th to the 100th. Empty if nothing lasts.
fn percentiles(points: &[(f64, f64)]) -> Vec<f64> {
    let mut held: Vec<(f64, f64)> = points.windows(2).map(|pair| (pair[0].1, pair[1].0 - pair[0].0)).collect();
    held.sort_by(|one, other| one.0.total_cmp(&other.0));
    let total: f64 = held.iter().map(|(_, seconds)| seconds).sum();
    let mut percentiles = Vec::new();
    let mut below = 0.0;
    for (value, seconds) in held.into_iter().filter(|(_, seconds)| *seconds > 0.0) {
        below += seconds;
        while percentiles.len() <= 100 && below >= percentiles.len() as f64 / 100.0 * total * (1.0 - 1e-12) {
            percentiles.push(value);
        }
    }
    percentiles
}

impl PlotLine {
    /// The percentiles, each weighted by its part of the flow's time.
    pub fn weighted(&self) -> impl Iterator<Item = (f64, f64)> {
        let length = self.points.last().zip(self.points.first()).map_or(0.0, |(last, first)| last.0 - first.0);
        self.percentiles.iter().map(move |value| (*value, length))
    }
}

/// Thins a long line to the lowest and the highest point of equal spans, in their order.
fn thin(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    if points.len() <= LINE_POINTS {
        return points;
    }
    let span = points.len().div_ceil(LINE_POINTS / 2);
    let by_window = |a: &(usize, (f64, f64)), b: &(usize, (f64, f64))| a.1.1.total_cmp(&b.1.1);
    let extremes = |chunk: &[(f64, f64)]| {
        let indexed = || chunk.iter().copied().enumerate();
        let mut kept: Vec<_> = indexed().min_by(by_window).into_iter().chain(indexed().max_by(by_window)).collect();
        kept.sort_by_key(|(index, _)| *index);
        kept.dedup();
        kept.into_iter().map(|(_, point)| point).collect::<Vec<_>>()
    };
    points.chunks(span).flat_map(extremes).collect()
}

impl PlotLine {
    /// `beside (reno)`, or the direction of a queue.
    pub fn flow_name(&self) -> String {
        if self.algorithm.is_empty() {
            return self.flow.clone();
        }
        format!("{} ({})", self.flow, self.algorithm)
    }
}

impl WindowPlot {
    pub fn length_s(&self) -> f64 {
        self.lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(0.0, f64::max)
    }

    pub fn variants(&self) -> Vec<&str> {
        each_once(self.lines.iter().map(|line| line.variant.as_str()))
    }

    /// Top of a variant's axis, packets. It is the same for all variants unless that would flatten one of them, and it cuts
    /// off short peaks, such as the first overshoot of slow start, that would flatten everything else.
    pub fn top_pkts(&self, variant: &str) -> f64 {
        let own: Vec<f64> = self.variants().into_iter().map(|variant| self.usual_top(variant)).collect();
        let largest = own.iter().copied().fold(0.0, f64::max);
        let smallest = own.iter().copied().fold(f64::INFINITY, f64::min);
        if largest > OWN_AXIS_RANGE * smallest { self.usual_top(variant) } else { largest }
    }

    /// Largest window above the top of its variant's axis. `None` if all fit.
    pub fn cut_pkts(&self, variant: &str) -> Option<f64> {
        let highest = self.windows(variant).into_iter().fold(0.0, f64::max);
        (highest > self.top_pkts(variant)).then_some(highest)
    }

    fn windows(&self, variant: &str) -> Vec<f64> {
        let lines = self.lines.iter().filter(|line| line.variant == variant);
        lines.flat_map(|line| &line.points).map(|point| point.1).collect()
    }

    fn usual_top(&self, variant: &str) -> f64 {
        let windows = self.windows(variant);
        let highest = windows.iter().copied().fold(0.0, f64::max);
        let usual = stats::percentile(&windows, USUAL_SHARE).unwrap_or(highest);
        if highest > PEAK_RANGE * usual { (USUAL_MARGIN * usual).ceil() } else { highest }
    }

    /// The runs with all their flows, each with its first variant.
    pub fn runs(&self) -> Vec<(&str, Vec<&PlotLine>)> {
        let mut runs: Vec<(&str, Vec<&PlotLine>)> = Vec::new();
        for line in self.lines.iter().chain(&self.beside) {
            match runs.iter_mut().find(|(_, lines)| lines[0].run == line.run) {
                // Variants that are flows of one run have the same lines.
                Some((variant, lines)) if *variant == line.variant => lines.push(line),
                Some(_) => (),
                None => runs.push((&line.variant, vec![line])),
            }
        }
        runs
    }

    /// A copy in which each flow of each run counts as a variant.
    pub fn by_flow(&self) -> WindowPlot {
        let runs = self.runs();
        let of_run = |(variant, lines): &(&str, Vec<&PlotLine>)| {
            let run = if runs.len() > 1 { format!("{variant}: ") } else { String::new() };
            let named =
                |line: &&PlotLine| PlotLine { variant: format!("{run}{}", line.flow_name()), ..(*line).clone() };
            lines.iter().map(named).collect::<Vec<_>>()
        };
        WindowPlot { lines: runs.iter().flat_map(of_run).collect(), beside: Vec::new(), ..self.clone() }
    }

    pub fn point_name(&self) -> String {
        point_name(&self.point)
    }
}

/// The most telling plot of a quantity: at the highest loss, then at the highest values of the other variables.
pub fn telling<'a>(plots: &'a [WindowPlot], quantity: &str) -> Option<&'a WindowPlot> {
    let plots: Vec<&WindowPlot> = plots.iter().filter(|plot| plot.quantity == quantity).collect();
    let names = each_once(iter::once("loss").chain(plots.first()?.point.keys().map(String::as_str)));
    let of_variable = |name: &str| {
        let values = each_once(plots.iter().filter_map(|plot| plot.point.get(name)).cloned());
        let ranks = ranks(&values);
        values.into_iter().zip(ranks).collect::<HashMap<_, _>>()
    };
    let ranked: Vec<_> = names.into_iter().map(|name| (name, of_variable(name))).collect();
    plots.iter().copied().max_by(|a, b| {
        let by = |(name, ranks): &(&str, HashMap<String, f64>)| {
            let rank = |plot: &WindowPlot| plot.point.get(*name).map_or(0.0, |value| ranks[value]);
            rank(a).total_cmp(&rank(b))
        };
        ranked.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(loss: &str) -> At {
        At::from([("loss".to_owned(), loss.to_owned())])
    }

    #[test]
    fn runs_have_each_flow_once() {
        let line = |variant: &str, flow: &str, run: &str| PlotLine {
            variant: variant.into(),
            flow: flow.into(),
            algorithm: "reno".into(),
            run: run.into(),
            runs: 1,
            ..PlotLine::default()
        };
        let plot = |lines, beside| WindowPlot { point: At::new(), quantity: WINDOWS, lines, beside };
        let swept = plot(
            vec![line("x", "own", "r1"), line("y", "own", "r2")],
            vec![line("x", "beside", "r1"), line("y", "beside", "r2")],
        );
        let names = |plot: WindowPlot| plot.by_flow().lines.into_iter().map(|line| line.variant).collect::<Vec<_>>();
        assert_eq!(names(swept), ["x: own (reno)", "x: beside (reno)", "y: own (reno)", "y: beside (reno)"]);
        let one_run = plot(
            vec![line("x", "own", "r1"), line("y", "beside", "r1")],
            vec![line("x", "beside", "r1"), line("y", "own", "r1")],
        );
        assert_eq!(names(one_run), ["own (reno)", "beside (reno)"]);
    }

    #[test]
    fn highest_loss_tells_most() {
        let plots: Vec<WindowPlot> = ["0", "1%", "0.001"]
            .iter()
            .map(|loss| WindowPlot { point: point(loss), quantity: "cwnd_pkts", lines: vec![], beside: vec![] })
            .collect();
        assert_eq!(telling(&plots, WINDOWS).unwrap().point, point("1%"));
        let rates = ["10mbit", "900kbit"].map(|rate| At::from([("rate".to_owned(), rate.to_owned())]));
        let plots =
            rates.clone().map(|point| WindowPlot { point, quantity: "cwnd_pkts", lines: vec![], beside: vec![] });
        assert_eq!(telling(&plots, WINDOWS).unwrap().point, rates[0], "units differ");
        assert_eq!(telling(&[], WINDOWS), None);
    }

    #[test]
    fn thinning_keeps_every_peak_and_the_order() {
        let points: Vec<(f64, f64)> = (0..50_000).map(|i| (f64::from(i), f64::from(i % 977))).collect();
        let thinned = thin(points);
        assert!(thinned.len() <= LINE_POINTS);
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
        assert!(thinned.iter().any(|point| point.1 == 976.0));
    }
}
