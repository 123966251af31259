//! The figures of a report: those its scenario asks for, else every metric over the sweep and the windows over time.

pub mod chart;
pub mod figure;
mod positions;
mod sweep;
pub mod terminal;
mod timeline;

use crate::scenario::TIME;
use figure::Figure;

use super::judge::cell::each_once;
use super::judge::report::Report;

/// Everything that is to be drawn, in the order of the page.
pub fn figures(report: &Report) -> Vec<Figure> {
    if report.figures.is_empty() {
        let metrics = each_once(report.cells.iter().map(|cell| cell.metric.as_str()))
            .into_iter()
            .map(|metric| sweep::of_metric(report, metric));
        return metrics.chain(timeline::windows(report)).collect();
    }
    let mut figures = Vec::new();
    for spec in &report.figures {
        match spec.x.as_str() {
            TIME => figures.extend(timeline::of_spec(report, spec)),
            _ => figures.push(sweep::over_variable(report, spec)),
        }
    }
    figures
}
