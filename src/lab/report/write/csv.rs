//! Reports as CSV: one row per cell, values in base units and full precision. Then one row per check, whose value is 1 in
//! runs in which it holds; its expected mean is 1.
//!
//! Readers find columns by heading; new columns are added at the end. `published_place` is the place of the value in the
//! source, `ratio_published_place` that of the ratio. The latter is empty if the ratio is one published value over another.

use anyhow::{Context, Result};

use crate::report::judge::cell::{Expectation, Measurement, ReportCell, point_name};
use crate::report::judge::check::{CheckVerdict, ReportCheck};
use crate::report::judge::report::Report;
use shared::model::notice::Notice;

struct CsvRow<'a> {
    report: &'a Report,
    cell: &'a ReportCell,
}

/// A heading, and the text of a row below it.
type CsvColumn = (&'static str, fn(&CsvRow<'_>) -> Option<String>);

const COLUMNS: [CsvColumn; 33] = [
    ("scenario", |row| Some(row.report.scenario.clone())),
    ("metric", |row| Some(row.cell.metric.clone())),
    ("unit", |row| Some(row.cell.unit.clone())),
    ("place", |row| Some(point_name(&row.cell.point()))),
    ("variant", |row| Some(row.cell.variant.clone())),
    ("published", |row| number(row.cell.published?)),
    ("published_place", |row| row.cell.published_place.clone()),
    ("expected", |row| number(row.cell.expected.as_ref()?.value)),
    ("expected_plus_minus", |row| number(row.cell.expected.as_ref()?.plus_minus)),
    ("rerun_n", |row| Some(row.cell.rerun.as_ref()?.measured.n.to_string())),
    ("rerun_mean", |row| number(row.cell.rerun.as_ref()?.measured.mean)),
    ("n", |row| Some(row.measured()?.n.to_string())),
    ("bound", |row| Some(row.measured()?.bound().name().to_owned())),
    ("mean", |row| number(row.measured()?.mean)),
    ("ci95_low", |row| number(row.measured()?.ci95?[0])),
    ("ci95_high", |row| number(row.measured()?.ci95?[1])),
    ("ci95_kind", |row| Some(row.measured()?.ci95_kind?.name().to_owned())),
    ("median", |row| number(row.measured()?.median)),
    ("median_ci95_low", |row| number(row.measured()?.median_ci95?[0])),
    ("median_ci95_high", |row| number(row.measured()?.median_ci95?[1])),
    ("values", |row| Some(row.measured()?.values.iter().map(f64::to_string).collect::<Vec<_>>().join(" "))),
    ("baseline", |row| row.report.baseline.clone()),
    ("ratio_published", |row| number(row.cell.ratio().published?)),
    ("ratio_expected", |row| number(row.cell.ratio().expected?.value)),
    ("ratio_expected_plus_minus", |row| number(row.cell.ratio().expected?.plus_minus)),
    ("ratio_rerun", |row| number(row.cell.rerun.as_ref()?.ratio_to_baseline?)),
    ("ratio_bound", |row| Some(row.cell.ratio().bound.name().to_owned())),
    ("ratio_measured", |row| number(row.cell.ratio().measured?)),
    ("ratio_ci95_low", |row| number(row.cell.ratio().ci95?[0])),
    ("ratio_ci95_high", |row| number(row.cell.ratio().ci95?[1])),
    ("verdict", |row| Some(row.cell.verdict.name().to_owned())),
    ("notices", |row| Some(row.cell.notices.iter().map(|one| one.cause.as_str()).collect::<Vec<_>>().join("; "))),
    ("ratio_published_place", |row| row.cell.ratio_to_baseline.as_ref()?.published_place.clone()),
];

impl CsvRow<'_> {
    fn measured(&self) -> Option<&Measurement> {
        self.cell.measured.as_ref()
    }
}

fn number(value: f64) -> Option<String> {
    Some(value.to_string())
}

/// A check as a cell whose metric is its name.
fn as_cell(check: &ReportCheck) -> ReportCell {
    let is_judged = check.verdict != CheckVerdict::NotJudged;
    let values = [vec![0.0; check.broken_runs], vec![1.0; check.runs - check.broken_runs]].concat();
    ReportCell {
        at: check.at.clone(),
        series: check.series.clone(),
        variant: check.at.get(&check.series).cloned().unwrap_or_default(),
        metric: format!("check: {}", check.name),
        unit: "ratio".to_owned(),
        expected: Some(Expectation { value: 1.0, plus_minus: 0.0, basis: check.why.clone() }),
        measured: if is_judged { Measurement::of(values, 0) } else { None },
        verdict: check.verdict.alike(),
        notices: vec![Notice::new(check.reason.as_str(), check.advice.as_str())],
        ..ReportCell::default()
    }
}

/// Writes all reports below one line of headings.
pub fn write(reports: &[Report]) -> Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS.map(|(heading, _)| heading)).context("write CSV")?;
    for report in reports {
        let checks: Vec<ReportCell> = report.checks.iter().map(as_cell).collect();
        for cell in report.cells.iter().chain(&checks) {
            let row = CsvRow { report, cell };
            writer.write_record(COLUMNS.map(|(_, show)| show(&row).unwrap_or_default())).context("write CSV")?;
        }
    }
    let bytes = writer.into_inner().context("write CSV")?;
    String::from_utf8(bytes).context("write CSV")
}
