//! The tables of a report: one per metric, and one for the choice of a parameter.

use std::collections::BTreeSet;

use super::table::{Caption, Column, Role, Table, TableRow};
use crate::report::judge::cell::{CellNumbers, Measurement, ReportCell, common_point, each_once, point_name};
use crate::report::judge::number::{self, Scale};
use crate::report::judge::report::Report;
use crate::report::judge::selection::{Criterion, ParameterCandidate, ParameterSelection};
use crate::scenario::VARIANT;
use shared::model::metrics::Metric;
use shared::model::notice::Notice;

/// Shape: in the order of the cells.
pub fn names(report: &Report) -> Vec<&str> {
    each_once(report.cells.iter().map(|cell| cell.metric.as_str()))
}

/// Title and meaning of a metric.
pub fn caption(metric: &str) -> Caption {
    Metric::find(metric).map_or_else(|| Caption::new(metric, ""), |known| Caption::new(known.title, known.what))
}

/// The caption of a report's table, with the part of the run that it counts.
fn caption_in(report: &Report, metric: &str) -> Caption {
    let caption = caption(metric);
    match report.part() {
        Some(part) => Caption { name: format!("{}, {part}", caption.name), ..caption },
        None => caption,
    }
}

/// The variable that names the variants.
pub fn series_of<'a>(cells: &[&'a ReportCell]) -> &'a str {
    cells.first().map_or(VARIANT, |cell| cell.series.as_str())
}

/// The common scale of these cells.
pub fn scale_of(cells: &[&ReportCell]) -> Scale {
    let unit = cells.first().map_or("pkts", |cell| cell.unit.as_str());
    let values = cells.iter().flat_map(|cell| {
        let measured = cell.measured.iter().flat_map(|m| m.values.iter().copied());
        measured.chain(cell.published).chain(cell.expected.as_ref().map(|e| e.value))
    });
    Scale::of(unit, values)
}

/// The mean, as a bound if runs were cut off.
pub fn mean(measured: &Measurement, scale: Scale) -> String {
    measured.bound().signed(&scale.show(measured.mean))
}

/// The mean with the half width of its interval, if it has one.
fn mean_with_margin(measured: &Measurement, scale: Scale) -> String {
    let half = |[low, high]: [f64; 2]| scale.plus_minus(measured.mean, (high - low) / 2.0);
    measured.ci95.map_or_else(|| mean(measured, scale), |ci95| measured.bound().signed(&half(ci95)))
}

/// The variants of a table's row, and one of their cells.
type MetricRow<'a> = (String, &'a ReportCell);

/// One row per cell. Variants that are flows of the same runs share one row if the metric belongs to their path.
fn lines<'a>(cells: &[&'a ReportCell]) -> Vec<MetricRow<'a>> {
    let mut lines: Vec<MetricRow<'_>> = Vec::new();
    for cell in cells {
        match lines.last_mut().filter(|(_, last)| last.has_path_of(cell)) {
            Some((names, _)) => names.push_str(&format!(", {}", cell.variant)),
            None => lines.push((cell.variant.clone(), cell)),
        }
    }
    lines
}

/// The table of one metric. Its new notes are added to `notes`.
pub fn table(report: &Report, metric: &str, notes: &mut Vec<Notice>) -> Table {
    let cells: Vec<&ReportCell> = report.cells.iter().filter(|cell| cell.metric == metric).collect();
    let common = common_point(&report.cells);
    let variables = cells.first().map(|cell| cell.point().into_keys()).into_iter().flatten();
    let variables: Vec<String> = variables.filter(|name| !common.contains_key(name)).collect();
    let lines = lines(&cells);
    let word = |name: &String| Column::of(name, Role::Word, &lines, |(_, cell)| cell.at.get(name).cloned());
    let mut columns: Vec<Column> = variables.iter().map(word).collect();
    columns.push(Column::of(series_of(&cells), Role::Name, &lines, |(names, _)| Some(names.clone())));
    columns.extend(values(&lines, scale_of(&cells)));
    columns.extend(ratios(&lines, report.baseline.as_deref()));
    let is_judged = report.has_targets();
    let verdict = |cell: &ReportCell| is_judged.then(|| cell.verdict.name().to_owned());
    columns.push(Column::of("verdict", Role::Verdict, &lines, |(_, cell)| verdict(cell)));
    columns.push(Column::of("notes", Role::Notes, &lines, |(_, cell)| Some(references(&cell.notices, notes))));
    Table::new(metric, caption_in(report, metric), columns, rows(&lines, &variables))
}

fn values(lines: &[MetricRow<'_>], scale: Scale) -> Vec<Column> {
    let measured = |title: &str, role: Role, show: &dyn Fn(&Measurement) -> Option<String>| {
        Column::of(title, role, lines, |(_, cell)| show(cell.measured.as_ref()?)).unit(scale.unit())
    };
    let rerun = |cell: &ReportCell| Some(mean_with_margin(&cell.rerun.as_ref()?.measured, scale));
    let median = |one: &Measurement| one.median_ci95.map(|_| one.bound().signed(&scale.show(one.median)));
    let [published, expected, measured_mean, interval] =
        numbers(lines, ReportCell::value, scale, ["published", "expected", "measured mean"].map(str::to_owned));
    vec![
        published,
        expected,
        Column::of("re-run mean", Role::Number, lines, |(_, cell)| rerun(cell)).unit(scale.unit()),
        measured_mean,
        interval,
        measured("median", Role::Number, &median).detail(),
        measured("its 95 % interval", Role::Interval, &|one| one.median_ci95.map(|ends| scale.between(ends))).detail(),
        measured("n", Role::Number, &|one| Some(one.n.to_string())).unit("runs"),
    ]
}

fn ratios(lines: &[MetricRow<'_>], baseline: Option<&str>) -> Vec<Column> {
    let over = |what: &str| baseline.map_or_else(|| what.to_owned(), |name| format!("{what} over {name}"));
    let rerun = |cell: &ReportCell| cell.ratio().rerun.map(|(value, bound)| bound.signed(&number::significant(value)));
    let titles = ["published", "expected", "measured"].map(over);
    let [published, expected, measured, interval] = numbers(lines, ReportCell::ratio, Scale::Ratio, titles);
    let rerun = Column::of(over("re-run"), Role::Number, lines, |(_, cell)| rerun(cell)).unit("ratio");
    vec![published, expected, rerun, measured, interval]
}

/// Published, expected and measured numbers, and intervals.
fn numbers(
    lines: &[MetricRow<'_>],
    of: fn(&ReportCell) -> CellNumbers<'_>,
    scale: Scale,
    [published, expected, measured]: [String; 3],
) -> [Column; 4] {
    let column = |title: String, role: Role, show: &dyn Fn(CellNumbers<'_>) -> Option<String>| {
        Column::of(title, role, lines, |(_, cell)| show(of(cell))).unit(scale.unit())
    };
    [
        column(published, Role::Number, &|one| Some(scale.show(one.published?))),
        column(expected, Role::Number, &|one| one.expected.map(|it| scale.plus_minus(it.value, it.plus_minus))),
        column(measured, Role::Number, &|one| Some(one.bound.signed(&scale.show(one.measured?)))),
        column("95 % interval".to_owned(), Role::Interval, &|one| one.ci95.map(|ends| scale.between(ends))),
    ]
}

fn rows(lines: &[MetricRow<'_>], variables: &[String]) -> Vec<TableRow> {
    let begins = |pair: &[MetricRow<'_>]| variables.iter().any(|name| pair[0].1.at.get(name) != pair[1].1.at.get(name));
    let begins: Vec<bool> = std::iter::once(false).chain(lines.windows(2).map(begins)).collect();
    // Groups of one row would only add space.
    let is_grouped = !begins.iter().skip(1).all(|begins| *begins);
    let row = |((_, cell), begins): (&MetricRow<'_>, bool)| TableRow {
        verdict: cell.verdict,
        reason: cell.verdict_reason.clone(),
        starts_group: is_grouped && begins,
        ..TableRow::default()
    };
    lines.iter().zip(begins).map(row).collect()
}

/// Numbers of the notices in `notes`, after adding missing ones.
fn references(notices: &[Notice], notes: &mut Vec<Notice>) -> String {
    let number = |notice: &Notice| match notes.iter().position(|note| note == notice) {
        Some(known) => known + 1,
        None => {
            notes.push(notice.clone());
            notes.len()
        }
    };
    let numbers: BTreeSet<usize> = notices.iter().map(number).collect();
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

/// The table of a parameter's choice: for each metric its means and its score, then the sum. `None` while cells are
/// missing.
pub fn of_selection(selection: &ParameterSelection) -> Option<Table> {
    let values = &selection.values;
    let number = |title: &str, show: &dyn Fn(&ParameterCandidate) -> Option<String>| {
        Column::of(title, Role::Number, values, show)
    };
    let mut columns = vec![Column::of(&selection.parameter, Role::Word, values, |one| Some(one.value.clone()))];
    for (index, metric) in selection.metrics().into_iter().enumerate() {
        let of_metric = selection.criteria.iter().enumerate().filter(|(_, criterion)| criterion.metric == metric);
        columns.extend(of_metric.map(|(index, criterion)| means(selection, index, criterion)));
        columns.push(number("score", &|one| Some(format!("{:.2}", one.scores[index]))));
    }
    let chosen =
        |one: &ParameterCandidate| (selection.winner.as_ref() == Some(&one.value)).then(|| "chosen".to_owned());
    columns.extend([
        number("sum", &|one| Some(format!("{:.2}", one.cumulative))),
        number("best in resamples", &|one| Some(format!("{:.0}", 100.0 * one.wins?))).unit("%"),
        Column::of("", Role::Word, values, chosen),
    ]);
    let caption = Caption::new(format!("Choice of {}", selection.parameter), selection.procedure.clone());
    (!values.is_empty()).then(|| Table::new("", caption, columns, vec![TableRow::default(); values.len()]))
}

fn means(selection: &ParameterSelection, index: usize, criterion: &Criterion) -> Column {
    let metric = criterion.metric.as_str();
    let (title, unit) = Metric::find(metric).map_or((metric, ""), |found| (found.title, found.unit));
    let scale = Scale::of(unit, selection.values.iter().flat_map(|one| one.measured[index].values.iter().copied()));
    // Keeps only the variables that tell the points apart.
    let mut point = criterion.point.clone();
    point.retain(|name, value| selection.criteria.iter().any(|other| other.point.get(name) != Some(value)));
    let point = if point.is_empty() { String::new() } else { format!(" at {}", point_name(&point)) };
    let title = format!("{title}{point}, {}", criterion.goal.name());
    let show = |one: &ParameterCandidate| Some(mean_with_margin(&one.measured[index], scale));
    Column::of(title, Role::Number, &selection.values, show).unit(scale.unit())
}
