//! Tables over several reports: which verdicts each has, and what measures one scenario in different ways side by side.

use super::number::Scale;
use super::table::{self, Column, NOTHING, Row, Table};
use super::{Cell, Report, Verdict, plot};
use crate::model::run::At;

/// One row a report: where its numbers come from and how many cells have each verdict; none for a single report.
pub fn overview(reports: &[Report]) -> Option<Table> {
    let number = |title: &str| Column { number: true, ..word(title) };
    let words = ["report", "source", "measured with"].map(word);
    let columns = words.into_iter().chain(["within", "outside", "not comparable"].map(number)).collect();
    let row = |(report, how): (&Report, String)| {
        let count = |verdict| report.cells.iter().filter(|cell| cell.verdict == verdict).count();
        let source = report.source.as_ref().map_or(NOTHING.to_owned(), |one| format!("{}, {}", one.paper, one.place));
        let counts =
            [Verdict::Within, Verdict::Outside, Verdict::NotComparable].map(|verdict| count(verdict).to_string());
        let cells = [report.title.clone(), source, how].into_iter().chain(counts).collect();
        let verdict = match (count(Verdict::Outside), count(Verdict::Within)) {
            (0, 0) => Verdict::NotComparable,
            (0, _) => Verdict::Within,
            _ => Verdict::Outside,
        };
        Row { cells, verdict, starts_group: false }
    };
    let all: Vec<&Report> = reports.iter().collect();
    let rows = reports.iter().zip(labels(&all)).map(row).collect();
    let caption = "All reports on this page and their cells by verdict".to_owned();
    (reports.len() > 1).then_some(Table { metric: "overview".into(), caption, columns, rows })
}

/// For every scenario with several reports a table per metric, with a column for each report.
pub fn tables(reports: &[Report]) -> Vec<Table> {
    let mut tables = Vec::new();
    let mut done: Vec<(&str, &str)> = Vec::new();
    for report in reports {
        let name = (report.scenario.as_str(), report.title.as_str());
        if done.contains(&name) {
            continue;
        }
        done.push(name);
        let group: Vec<&Report> =
            reports.iter().filter(|other| (other.scenario.as_str(), other.title.as_str()) == name).collect();
        if group.len() > 1 {
            let labels = labels(&group);
            tables.extend(table::metric_names(report).into_iter().map(|metric| side_by_side(&group, &labels, metric)));
        }
    }
    tables
}

/// What tells reports apart, in as few words as will do.
fn labels(group: &[&Report]) -> Vec<String> {
    let facts: [fn(&Report) -> String; 6] = [
        |report| report.host.engine.name().to_owned(),
        |report| report.host.kernel.clone(),
        |report| report.host.network.clone(),
        |report| report.host.link.clone(),
        |report| format!("profile {}", report.profile),
        |report| format!("seed {}", report.seed),
    ];
    let telling = |fact: &fn(&Report) -> String| group.iter().any(|report| fact(report) != fact(group[0]));
    let telling: Vec<_> = facts.into_iter().filter(telling).collect();
    let label = |report: &&Report| telling.iter().map(|fact| fact(report)).collect::<Vec<_>>().join(", ");
    let labels: Vec<String> = group.iter().map(label).collect();
    let is_clear =
        |index: usize| !labels[index].is_empty() && labels.iter().filter(|one| **one == labels[index]).count() == 1;
    let clear = |(index, report): (usize, &&Report)| {
        if is_clear(index) {
            labels[index].clone()
        } else {
            format!("{} {}", report.place, labels[index]).trim().into()
        }
    };
    group.iter().enumerate().map(clear).collect()
}

/// One metric of one scenario: a row per cell that any of the reports measured.
fn side_by_side(group: &[&Report], labels: &[String], metric: &str) -> Table {
    let of_metric =
        |report: &&Report| -> Vec<Cell> { report.cells.iter().filter(|cell| cell.metric == metric).cloned().collect() };
    let columns: Vec<Vec<Cell>> = group.iter().map(of_metric).collect();
    let all: Vec<&Cell> = columns.iter().flatten().collect();
    let scale = table::scale_of(&all);
    let mut rows = Vec::new();
    let mut seen: Vec<(&At, &String)> = Vec::new();
    for cell in all.iter().filter(|cell| cell.measured.is_some()) {
        let here = (&cell.at, &cell.variant);
        if !seen.contains(&here) {
            seen.push(here);
            let find = |cells: &'_ Vec<Cell>| cells.iter().position(|one| (&one.at, &one.variant) == here);
            let same: Vec<Option<&Cell>> = columns.iter().map(|cells| find(cells).map(|index| &cells[index])).collect();
            rows.push(row(cell, &same, scale));
        }
    }
    let caption = format!("Side by side: {}", table::caption(metric));
    Table { metric: metric.to_owned(), caption, columns: headings(labels, scale), rows }
}

fn headings(labels: &[String], scale: Scale) -> Vec<Column> {
    let number = |title: &str| Column { unit: scale.unit().into(), number: true, ..word(title) };
    let mut columns = vec![word("place"), word("variant"), number("published")];
    for label in labels {
        columns.extend([number(label), Column { below: true, ..number("95 % interval") }]);
    }
    columns.push(word("intervals"));
    columns
}

fn word(title: &str) -> Column {
    Column { title: title.into(), unit: String::new(), number: false, detail: false, below: false }
}

fn row(cell: &Cell, same: &[Option<&Cell>], scale: Scale) -> Row {
    let mut place = cell.at.clone();
    place.retain(|_, value| *value != cell.variant);
    let shown = |value: Option<f64>| value.map_or(NOTHING.to_owned(), |value| scale.show(value));
    let mut cells = vec![plot::place_name(&place), cell.variant.clone(), shown(cell.published)];
    for measured in same.iter().map(|one| one.and_then(|cell| cell.measured.as_ref())) {
        cells.push(shown(measured.map(|measured| measured.mean)));
        let ends = measured.and_then(|measured| measured.ci95);
        cells.push(
            ends.map_or(NOTHING.to_owned(), |[low, high]| format!("{} to {}", scale.show(low), scale.show(high))),
        );
    }
    let (verdict, word) = overlap(same);
    cells.push(word.to_owned());
    Row { cells, verdict, starts_group: false }
}

/// Whether the intervals of all reports overlap.
fn overlap(cells: &[Option<&Cell>]) -> (Verdict, &'static str) {
    let intervals: Option<Vec<[f64; 2]>> =
        cells.iter().map(|cell| cell.and_then(|cell| cell.measured.as_ref()?.ci95)).collect();
    let Some(intervals) = intervals else { return (Verdict::NotComparable, NOTHING) };
    let highest_low = intervals.iter().map(|ends| ends[0]).fold(f64::NEG_INFINITY, f64::max);
    let lowest_high = intervals.iter().map(|ends| ends[1]).fold(f64::INFINITY, f64::min);
    if highest_low <= lowest_high { (Verdict::Within, "overlap") } else { (Verdict::Outside, "apart") }
}
