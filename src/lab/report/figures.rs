//! The figures of a report: those of the scenario's `[[figure]]` tables, else every metric and the windows over time.

pub mod chart;
pub mod figure;
mod positions;
pub mod spread;
mod sweep;
pub mod terminal;
mod timeline;

use crate::scenario::TIME;
use figure::Figure;

use super::judge::cell::each_once;
use super::judge::report::Report;

/// Shape: in the order of the page.
pub fn figures(report: &Report) -> Vec<Figure> {
    if report.figures.is_empty() {
        let metrics = each_once(report.cells.iter().map(|cell| cell.metric.as_str()))
            .into_iter()
            .map(|metric| of_part(report, sweep::of_metric(report, metric)));
        return metrics.chain(timeline::windows(report)).collect();
    }
    let figures = report.figures.iter().flat_map(|spec| match spec.x.as_str() {
        TIME if spec.draw.is_distribution() => vec![spread::of_spec(report, spec)],
        TIME => timeline::of_spec(report, spec),
        _ if spec.draw.is_distribution() => vec![of_part(report, spread::of_spec(report, spec))],
        _ => vec![of_part(report, sweep::over_variable(report, spec))],
    });
    figures.collect()
}

/// Adds the part of the run that metrics count.
fn of_part(report: &Report, figure: Figure) -> Figure {
    let Some(part) = report.part() else { return figure };
    let stop = if figure.explanation.ends_with(['.', '!']) || figure.explanation.is_empty() { "" } else { "." };
    Figure { explanation: format!("{}{stop} Metrics count {part}.", figure.explanation), ..figure }
}
