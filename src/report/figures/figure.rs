//! A figure, and what all figures of a report have in common.

use super::chart::{Chart, Layout};
use crate::report::judge::cell::each_once;
use crate::report::judge::report::Report;
use crate::scenario::FigureSpec;

/// A figure as it stands on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    pub title: String,
    /// What it shows, as sentences.
    pub explanation: String,
    pub legend: Vec<(usize, String)>,
    pub charts: Vec<Chart>,
    pub layout: Layout,
    /// Whether it is one of many of its kind.
    pub folded: bool,
}

/// Variants of the report in the order of its rows: a variant has the same colour in every figure.
pub fn variants(report: &Report) -> Vec<&str> {
    each_once(report.cells.iter().map(|cell| cell.variant.as_str()))
}

/// Title of a figure with the place of the source it is drawn as.
pub fn titled(spec: &FigureSpec) -> String {
    spec.place.as_ref().map_or_else(|| spec.title.clone(), |place| format!("{} (as {place})", spec.title))
}

/// Series with their names, of the variants that are shown.
pub fn legend_of(report: &Report, shown: impl Fn(&str) -> bool) -> Vec<(usize, String)> {
    let all = variants(report).into_iter().enumerate();
    all.filter(|(_, variant)| shown(variant)).map(|(series, variant)| (series, variant.to_owned())).collect()
}
