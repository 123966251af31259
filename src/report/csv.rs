//! The report as CSV: one row a cell, values in base units and full precision.
//!
//! Columns are found by their headings, and new ones stand at the end. `published_place` is where the source gives the value,
//! `ratio_published_place` where it gives the ratio itself; empty where the ratio is one published value over another.

use anyhow::{Context, Result};

use super::{Bound, Cell, Report, plot};

const HEADINGS: [&str; 33] = [
    "scenario",
    "metric",
    "unit",
    "place",
    "variant",
    "published",
    "published_place",
    "expected",
    "expected_plus_minus",
    "rerun_n",
    "rerun_mean",
    "n",
    "bound",
    "mean",
    "ci95_low",
    "ci95_high",
    "ci95_kind",
    "median",
    "median_ci95_low",
    "median_ci95_high",
    "values",
    "baseline",
    "ratio_published",
    "ratio_expected",
    "ratio_expected_plus_minus",
    "ratio_rerun",
    "ratio_bound",
    "ratio_measured",
    "ratio_ci95_low",
    "ratio_ci95_high",
    "verdict",
    "notices",
    "ratio_published_place",
];

/// Writes all reports under one heading.
///
/// Errors: the text cannot be written.
pub fn write(reports: &[Report]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(HEADINGS).context("write CSV")?;
    for report in reports {
        for cell in &report.cells {
            writer.write_record(row(report, cell)).context("write CSV")?;
        }
    }
    let bytes = writer.into_inner().context("write CSV")?;
    String::from_utf8(bytes).context("write CSV")
}

fn row(report: &Report, cell: &Cell) -> [String; 33] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    let measured = cell.measured.as_ref();
    let interval = measured.and_then(|measured| measured.ci95);
    let median_interval = measured.and_then(|measured| measured.median_ci95);
    let rerun = cell.rerun.as_ref();
    let ratio = cell.ratio_to_baseline.as_ref();
    let ratio_expected = ratio.and_then(|ratio| ratio.expected.as_ref());
    let known = ratio.filter(|ratio| ratio.bound() != Bound::Nothing);
    let ratio_interval = known.and_then(|ratio| ratio.ci95);
    let values = measured
        .map_or_else(String::new, |measured| measured.values.iter().map(f64::to_string).collect::<Vec<_>>().join(" "));
    let notices: Vec<&str> = cell.notices.iter().map(|notice| notice.cause.as_str()).collect();
    [
        report.scenario.clone(),
        cell.metric.clone(),
        cell.unit.clone(),
        plot::place_name(&cell.place()),
        cell.variant.clone(),
        number(cell.published),
        cell.published_place.clone().unwrap_or_default(),
        number(cell.expected.as_ref().map(|expected| expected.value)),
        number(cell.expected.as_ref().map(|expected| expected.plus_minus)),
        rerun.map_or_else(String::new, |rerun| rerun.measured.n.to_string()),
        number(rerun.map(|rerun| rerun.measured.mean)),
        measured.map_or_else(String::new, |measured| measured.n.to_string()),
        measured.map_or(String::new(), |measured| measured.bound().name().to_owned()),
        number(measured.map(|measured| measured.mean)),
        number(interval.map(|interval| interval[0])),
        number(interval.map(|interval| interval[1])),
        measured.and_then(|measured| measured.ci95_kind).map_or(String::new(), |kind| kind.name().to_owned()),
        number(measured.map(|measured| measured.median)),
        number(median_interval.map(|interval| interval[0])),
        number(median_interval.map(|interval| interval[1])),
        values,
        report.baseline.clone().unwrap_or_default(),
        number(ratio.and_then(|ratio| ratio.published)),
        number(ratio_expected.map(|expected| expected.value)),
        number(ratio_expected.map(|expected| expected.plus_minus)),
        number(rerun.and_then(|rerun| rerun.ratio_to_baseline)),
        known.map_or(String::new(), |ratio| ratio.bound().name().to_owned()),
        number(known.and_then(|ratio| ratio.measured)),
        number(ratio_interval.map(|interval| interval[0])),
        number(ratio_interval.map(|interval| interval[1])),
        cell.verdict.name().to_owned(),
        notices.join("; "),
        ratio.and_then(|ratio| ratio.published_place.clone()).unwrap_or_default(),
    ]
}
