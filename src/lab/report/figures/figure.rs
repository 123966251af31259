//! A figure, and helpers shared by all figures of a report.

use super::chart::{Chart, ChartLayout};
use crate::report::judge::cell::each_once;
use crate::report::judge::report::Report;
use crate::scenario::FigureSpec;

#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub title: String,
    /// Whole sentences.
    pub explanation: String,
    pub legend: Vec<(usize, String)>,
    pub charts: Vec<Chart>,
    pub layout: ChartLayout,
    /// Folded on the page, because there are many of its kind.
    pub folded: bool,
}

/// Variants in the order of the cells. The index gives a variant the same colour in every figure.
pub fn variants(report: &Report) -> Vec<&str> {
    each_once(report.cells.iter().map(|cell| cell.variant.as_str()))
}

/// Title with the figure of the source that it reproduces.
pub fn titled(spec: &FigureSpec) -> String {
    spec.place.as_ref().map_or_else(|| spec.title.clone(), |place| format!("{} (as {place})", spec.title))
}

pub fn legend_of(report: &Report, shown: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let all = variants(report).into_iter().enumerate();
    all.filter(|(_, variant)| shown(variant)).map(|(series, variant)| (series, variant.to_owned())).collect()
}
