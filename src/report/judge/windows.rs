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
use super::swept::ranks;
use crate::model::flow::{self, Flow, FlowSeries};
use crate::model::metrics::Metric;
use crate::model::notice::Notice;
use crate::model::run::{At, FlowRecord, RunStatus};
use crate::model::stats;
use crate::report::read::directory::StoredRun;
use crate::scenario::{Scenario, TIME};

/// Most points of a line: about two per dot of the widest plot, so that every peak stays visible.
const LINE_POINTS: usize = 1600;
/// Each variant has its own axis if the tops of the variants differ by more than this factor.
const OWN_AXIS_RANGE: f64 = 4.0;
/// This percentile of the windows is the usual top. Windows [`PEAK_RANGE`] times as high are peaks; the axis then ends at
/// [`USUAL_MARGIN`] times the usual top.
const USUAL_SHARE: f64 = 0.9;
const PEAK_RANGE: f64 = 2.0;
const USUAL_MARGIN: f64 = 1.6;

/// One flow of a representative run.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotLine {
    pub variant: String,
    /// Name in the scenario.
    pub flow: String,
    pub run: String,
    /// Number of runs from which the representative was chosen.
    pub runs: usize,
    /// Seconds since the first event of the run's flows, and the value.
    ///
    /// Shape: sorted by time. Long lines keep only the lowest and highest point of short spans.
    pub points: Vec<(f64, f64)>,
    /// When the sender detected losses, on the same time axis.
    pub losses: Vec<f64>,
}

/// One quantity over time at one point of the sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowPlot {
    pub point: At,
    /// Name of the quantity, one of [`flow::SERIES`].
    pub quantity: &'static str,
    /// One or more per variant.
    pub lines: Vec<PlotLine>,
}

/// Reads the representative runs of every point: windows, and the quantities of the scenario's figures over time.
///
/// Shape: by quantity, windows first, then by point.
/// Errors: as [`compare::metrics_of`]; events that cannot be read.
pub fn windows(index: &Index<'_>) -> Result<(Vec<WindowPlot>, Vec<Notice>)> {
    let scenario = index.scenario();
    let metrics = compare::metrics_of(scenario)?;
    // With a metric that needs events, the choice would have to read every run.
    let metric = metrics.into_iter().find(|metric| !metric.needs_events).or(Metric::find("delivered_pkts"));
    let quantities = quantities(scenario);
    let mut notices = Vec::new();
    let mut plots: Vec<Vec<WindowPlot>> = vec![Vec::new(); quantities.len()];
    for point in &index.points {
        let mut lines: Vec<Vec<PlotLine>> = vec![Vec::new(); quantities.len()];
        for variant in &index.variants {
            let key = CellKey { point: point.clone(), variant: variant.clone() };
            let Some(chosen) = representative(index, &key, metric) else { continue };
            let stored = chosen.run.events()?;
            notices.extend(stored.notices);
            let flows = flow::fold(&stored.events);
            for (lines, quantity) in lines.iter_mut().zip(&quantities) {
                lines.extend(chosen.lines(variant, &flows, quantity));
            }
        }
        for ((plots, lines), quantity) in plots.iter_mut().zip(lines).zip(&quantities) {
            if !lines.is_empty() {
                plots.push(WindowPlot { point: point.clone(), quantity: quantity.name, lines });
            }
        }
    }
    Ok((plots.concat(), notices))
}

/// Windows, which terminals always show, and the quantities of figures over time.
fn quantities(scenario: &Scenario) -> Vec<&'static FlowSeries> {
    let of_figures = scenario.figures.iter().filter(|figure| figure.x == TIME).map(|figure| figure.y.as_str());
    each_once(["cwnd_pkts"].into_iter().chain(of_figures)).into_iter().filter_map(FlowSeries::find).collect()
}

/// The median run of a cell, with the variant's flows.
struct MedianRun<'a> {
    run: &'a StoredRun,
    runs: usize,
    records: Vec<&'a FlowRecord>,
}

impl MedianRun<'_> {
    fn lines(&self, variant: &str, flows: &[Flow], quantity: &FlowSeries) -> Vec<PlotLine> {
        let begin = flows.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
        let line = |flow: &Flow| {
            let record = self.records.iter().find(|record| record.socket == Some(flow.socket))?;
            let shift = flow.start_s - begin;
            let points = (quantity.points)(flow).into_iter().map(|(time, value)| (time + shift, value)).collect();
            Some(PlotLine {
                variant: variant.to_owned(),
                flow: record.name.clone(),
                run: self.run.name(),
                runs: self.runs,
                points: thin(points),
                losses: flow.losses_s().into_iter().map(|time| time + shift).collect(),
            })
        };
        flows.iter().filter_map(line).collect()
    }
}

fn representative<'a>(index: &Index<'a>, key: &CellKey, metric: Option<&Metric>) -> Option<MedianRun<'a>> {
    let mut runs: Vec<(f64, &StoredRun, Vec<&FlowRecord>)> = Vec::new();
    let is_own = |run: &&&StoredRun| index.may_be_of(&run.record, &key.variant);
    let done = index.runs_at(&key.point).iter().filter(|run| run.record.status == RunStatus::Done);
    for run in done.filter(is_own) {
        let Some(view) = index.views(&run.record, &[]).remove(&key.variant) else { continue };
        let value = metric.and_then(|metric| metric.value(&view)).map_or(0.0, |value| value.value);
        runs.push((value, run, view.own.iter().map(|flow| flow.record).collect()));
    }
    runs.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.folder.cmp(&b.1.folder)));
    let count = runs.len();
    let (_, run, records) = runs.into_iter().nth(count.checked_sub(1)? / 2)?;
    Some(MedianRun { run, runs: count, records })
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

    pub fn point_name(&self) -> String {
        point_name(&self.point)
    }
}

/// The most telling windows: at the highest loss, then at the highest values of the other variables.
pub fn telling(plots: &[WindowPlot]) -> Option<&WindowPlot> {
    let plots: Vec<&WindowPlot> = plots.iter().filter(|plot| plot.quantity == "cwnd_pkts").collect();
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
    fn highest_loss_tells_most() {
        let plots: Vec<WindowPlot> = ["0", "1%", "0.001"]
            .iter()
            .map(|loss| WindowPlot { point: point(loss), quantity: "cwnd_pkts", lines: vec![] })
            .collect();
        assert_eq!(telling(&plots).unwrap().point, point("1%"));
        let rates = ["10mbit", "900kbit"].map(|rate| At::from([("rate".to_owned(), rate.to_owned())]));
        let plots = rates.clone().map(|point| WindowPlot { point, quantity: "cwnd_pkts", lines: vec![] });
        assert_eq!(telling(&plots).unwrap().point, rates[0], "units differ");
        assert_eq!(telling(&[]), None);
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
