//! Tables over several reports: which verdicts each has, and what measures one scenario in different ways side by side.

use std::collections::BTreeMap;

use super::number::Scale;
use super::table::{self, Column, NOTHING, Row, Table};
use super::{Bound, Cell, Measured, Report, Verdict, plot};
use crate::model::run::At;
use crate::model::stats;

/// One row a report: where its numbers come from and how many cells have each verdict; none for a single report.
pub fn overview(reports: &[Report]) -> Option<Table> {
    let number = |title: &str| Column { number: true, ..word(title) };
    let ways = ways(&reports.iter().collect::<Vec<_>>(), &FACTS);
    let is_told = ways.iter().any(|way| !way.is_empty());
    let mut columns = vec![word("report"), word("source"), word("directory")];
    columns.extend(is_told.then(|| word("measured with")));
    columns.extend(["within", "outside", "not comparable"].map(number));
    let row = |(report, way): (&Report, String)| {
        let count = |verdict| report.cells.iter().filter(|cell| cell.verdict == verdict).count();
        let source = report.source.as_ref().map_or(NOTHING.to_owned(), |one| format!("{}, {}", one.paper, one.place));
        let mut cells = vec![report.title.clone(), source, report.place.clone()];
        cells.extend(is_told.then_some(way));
        cells.extend([Verdict::Within, Verdict::Outside, Verdict::NotComparable].map(|one| count(one).to_string()));
        let verdict = match (count(Verdict::Outside), count(Verdict::Within)) {
            (0, 0) => Verdict::NotComparable,
            (0, _) => Verdict::Within,
            _ => Verdict::Outside,
        };
        Row { cells, verdict, reason: String::new(), starts_group: false }
    };
    let rows = reports.iter().zip(ways).map(row).collect();
    let caption = "All reports: their cells by verdict".to_owned();
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

/// One way in which reports of one scenario may differ.
type Fact = fn(&Report) -> String;

/// What a report was measured with.
const FACTS: [Fact; 5] = [
    |report| report.host.engine.name().to_owned(),
    |report| report.host.kernel.clone(),
    |report| report.host.network.clone(),
    |report| report.host.link.clone(),
    |report| format!("profile {}", report.profile),
];

/// The facts in which any of the reports differ.
fn ways(group: &[&Report], facts: &[Fact]) -> Vec<String> {
    let telling: Vec<&Fact> =
        facts.iter().filter(|fact| group.iter().any(|report| fact(report) != fact(group[0]))).collect();
    group.iter().map(|report| telling.iter().map(|fact| fact(report)).collect::<Vec<_>>().join(", ")).collect()
}

/// What tells reports of one scenario apart, in as few words as will do; else the names of their directories.
fn labels(group: &[&Report]) -> Vec<String> {
    let seed: Fact = |report| format!("seed {}", report.seed);
    let ways = ways(group, &[&FACTS[..], &[seed]].concat());
    let is_clear = |way: &String| !way.is_empty() && ways.iter().filter(|one| *one == way).count() == 1;
    let label = |(way, report): (&String, &&Report)| {
        if is_clear(way) { way.clone() } else { format!("{} {way}", report.place).trim().to_owned() }
    };
    ways.iter().zip(group).map(label).collect()
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
    Table { metric: metric.to_owned(), caption, columns: headings(table::series_of(&all), labels, scale), rows }
}

fn headings(series: &str, labels: &[String], scale: Scale) -> Vec<Column> {
    let number = |title: &str| Column { unit: scale.unit().into(), number: true, ..word(title) };
    let mut columns = vec![word("place"), Column { names_rows: true, ..word(series) }, number("published")];
    for label in labels {
        columns.extend([number(label), Column { below: true, ..number("95 % interval") }]);
    }
    if let [one, other] = labels {
        let ratio = |title: &str| Column { unit: "ratio".into(), ..number(title) };
        let first = |label: &str| label.split(',').next().unwrap_or(label).to_owned();
        columns.extend([
            ratio(&format!("{} over {}, same seeds", first(other), first(one))),
            Column { below: true, ..ratio("95 % interval") },
        ]);
    }
    columns.push(word("intervals"));
    columns
}

fn word(title: &str) -> Column {
    Column { title: title.into(), unit: String::new(), number: false, detail: false, below: false, names_rows: false }
}

fn row(cell: &Cell, same: &[Option<&Cell>], scale: Scale) -> Row {
    let shown = |value: Option<f64>| value.map_or(NOTHING.to_owned(), |value| scale.show(value));
    let mut cells = vec![plot::place_name(&cell.place()), cell.variant.clone(), shown(cell.published)];
    for measured in same.iter().map(|one| one.and_then(|cell| cell.measured.as_ref())) {
        let mean = |measured: &Measured| measured.bound().signed(&scale.show(measured.mean));
        cells.push(measured.map_or(NOTHING.to_owned(), mean));
        let ends = measured.and_then(|measured| measured.ci95);
        cells.push(
            ends.map_or(NOTHING.to_owned(), |[low, high]| format!("{} to {}", scale.show(low), scale.show(high))),
        );
    }
    if let [one, other] = same {
        cells.extend(ratio(one.as_deref(), other.as_deref()));
    }
    let (verdict, word) = overlap(same);
    cells.push(word.to_owned());
    Row { cells, verdict, reason: String::new(), starts_group: false }
}

/// What the second measured over what the first did, with its interval, over the runs of the same seeds.
fn ratio(one: Option<&Cell>, other: Option<&Cell>) -> [String; 2] {
    let exact = |cell: Option<&Cell>| {
        let measured = cell?.measured.as_ref().filter(|measured| measured.bound() == Bound::Exact)?;
        Some(measured.seeds.iter().copied().zip(measured.values.iter().copied()).collect::<BTreeMap<u64, f64>>())
    };
    let pairs = exact(other).zip(exact(one)).map(|(above, below)| {
        below.iter().filter_map(|(seed, below)| Some((*above.get(seed)?, *below))).collect::<Vec<_>>()
    });
    let Some(ratio) = pairs.and_then(|pairs| stats::paired_ratio(&pairs)) else {
        return [NOTHING.to_owned(), NOTHING.to_owned()];
    };
    // Engines that agree differ in the fourth digit.
    let ends = ratio.ci95.map(|[low, high]| format!("{low:.4} to {high:.4}"));
    [format!("{:.4}", ratio.ratio), ends.unwrap_or_else(|| NOTHING.to_owned())]
}

/// Whether the intervals of all reports overlap; of bounds it cannot be said.
fn overlap(cells: &[Option<&Cell>]) -> (Verdict, &'static str) {
    let is_exact = |measured: &&Measured| measured.bound() == Bound::Exact;
    let intervals: Option<Vec<[f64; 2]>> =
        cells.iter().map(|cell| cell.as_ref()?.measured.as_ref().filter(is_exact)?.ci95).collect();
    let Some(intervals) = intervals else { return (Verdict::NotComparable, NOTHING) };
    let highest_low = intervals.iter().map(|ends| ends[0]).fold(f64::NEG_INFINITY, f64::max);
    let lowest_high = intervals.iter().map(|ends| ends[1]).fold(f64::INFINITY, f64::min);
    if highest_low <= lowest_high { (Verdict::Within, "overlap") } else { (Verdict::Outside, "apart") }
}
