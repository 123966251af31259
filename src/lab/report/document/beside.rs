//! Tables over several reports: an overview, and different measurements of one scenario side by side.

use std::collections::{BTreeMap, HashMap};

use super::element::Tally;
use super::metric;
use super::table::{Caption, Column, Role, Table, TableRow};
use crate::report::judge::bound::Bound;
use crate::report::judge::cell::{Measurement, ReportCell, Verdict, grouped, point_name};
use crate::report::judge::check::CheckVerdict;
use crate::report::judge::report::Report;
use shared::model::stats;

/// One row per report, with its origin and its cells by verdict. `None` for a single report.
pub fn overview(reports: &[Report]) -> Option<Table> {
    let all: Vec<&Report> = reports.iter().collect();
    let count = |report: &Report, verdict| report.cells.iter().filter(|cell| cell.verdict == verdict).count();
    let source = |report: &Report| report.source.as_ref().map(|one| format!("{}, {}", one.paper, one.r#where));
    let mut ways = ways(&all, &FACTS).into_iter();
    let mut columns = vec![
        Column::of("report", Role::Name, &all, |report| Some(report.title.clone())),
        Column::of("source", Role::Word, &all, |report| source(report)),
        Column::of("directory", Role::Word, &all, |report| Some(report.place.clone())),
        Column::of("measured with", Role::Word, &all, |_| ways.next()),
    ];
    let is_judged = reports.iter().any(Report::has_targets);
    columns.extend(Tally::VERDICTS.iter().filter(|_| is_judged).map(|verdict| {
        Column::of(verdict.name(), Role::Number, &all, |report| Some(count(report, *verdict).to_string()))
    }));
    let held = |report: &Report| report.checks.iter().filter(|check| check.verdict == CheckVerdict::Holds).count();
    columns.push(Column::of("checks", Role::Word, &all, |report| {
        (!report.checks.is_empty()).then(|| format!("{} of {} hold", held(report), report.checks.len()))
    }));
    let row = |(index, report): (usize, &Report)| {
        let verdict = match [Verdict::Outside, Verdict::Within].map(|verdict| count(report, verdict)) {
            [0, _] if held(report) < report.checks.len() => Verdict::Outside,
            [0, 0] if report.checks.is_empty() => Verdict::NotComparable,
            [0, _] => Verdict::Within,
            _ => Verdict::Outside,
        };
        TableRow { verdict, link: format!("r{index}"), ..TableRow::default() }
    };
    let rows = reports.iter().enumerate().map(row).collect();
    let caption = Caption::new("All reports", "their cells by verdict");
    (reports.len() > 1).then(|| Table::new("overview", caption, columns, rows))
}

/// One table per metric of every scenario with several reports, with a column per report.
pub fn tables(reports: &[Report]) -> Vec<Table> {
    let mut tables = Vec::new();
    let groups = grouped(reports.iter(), |report| (&report.scenario, &report.title));
    for group in groups.into_iter().filter(|group| group.len() > 1) {
        let labels = labels(&group);
        let metrics = metric::names(group[0]);
        tables.extend(metrics.into_iter().map(|metric| side_by_side(&group, &labels, metric)));
    }
    for (index, table) in tables.iter_mut().enumerate() {
        table.id = format!("beside{index}");
    }
    tables
}

/// A way in which reports of one scenario may differ.
type ReportFact = fn(&Report) -> String;

const FACTS: [ReportFact; 5] = [
    |report| report.host.engine.name().to_owned(),
    |report| report.host.kernel.clone(),
    |report| report.host.network.clone(),
    |report| report.host.link.clone(),
    |report| format!("profile {}", report.profile),
];

/// For each report, the facts in which any of the reports differ.
fn ways(group: &[&Report], facts: &[ReportFact]) -> Vec<String> {
    let telling: Vec<&ReportFact> =
        facts.iter().filter(|fact| group.iter().any(|report| fact(report) != fact(group[0]))).collect();
    group.iter().map(|report| telling.iter().map(|fact| fact(report)).collect::<Vec<_>>().join(", ")).collect()
}

/// Short labels that tell reports of one scenario apart, with the directory's name where facts and seed do not suffice.
fn labels(group: &[&Report]) -> Vec<String> {
    let seed: ReportFact = |report| format!("seed {}", report.seed);
    let ways = ways(group, &[&FACTS[..], &[seed]].concat());
    let mut counts: HashMap<&String, usize> = HashMap::new();
    ways.iter().for_each(|way| *counts.entry(way).or_default() += 1);
    let label = |(way, report): (&String, &&Report)| {
        let is_clear = !way.is_empty() && counts[way] == 1;
        if is_clear { way.clone() } else { format!("{} {way}", report.place).trim().to_owned() }
    };
    ways.iter().zip(group).map(label).collect()
}

/// One metric of one scenario, with a row per cell that any report measured.
fn side_by_side<'a>(group: &[&'a Report], labels: &[String], metric: &str) -> Table {
    let cells = group.iter().enumerate().flat_map(|(index, report)| report.cells.iter().map(move |one| (index, one)));
    let of_metric: Vec<(usize, &ReportCell)> = cells.filter(|(_, cell)| cell.metric == metric).collect();
    let all: Vec<&ReportCell> = of_metric.iter().map(|(_, cell)| *cell).collect();
    let (scale, series) = (metric::scale_of(&all), metric::series_of(&all));
    // The first measured cell, and the cell of each report.
    let row = |here: Vec<(usize, &'a ReportCell)>| {
        let first = here.iter().find(|(_, cell)| cell.measured.is_some())?.1;
        let mut same = vec![None; group.len()];
        here.into_iter().rev().for_each(|(index, cell)| same[index] = Some(cell));
        Some((first, same))
    };
    let points = grouped(of_metric.into_iter(), |(_, cell)| (&cell.at, &cell.variant));
    let rows: Vec<(&ReportCell, Vec<Option<&ReportCell>>)> = points.into_iter().filter_map(row).collect();
    let published = |(cell, _): &(&ReportCell, _)| Some(scale.show(cell.published?));
    let mut columns = vec![
        Column::of("at", Role::Word, &rows, |(cell, _)| Some(point_name(&cell.point()))),
        Column::of(series, Role::Name, &rows, |(cell, _)| Some(cell.variant.clone())),
        Column::of("published", Role::Number, &rows, published).unit(scale.unit()),
    ];
    for (index, label) in labels.iter().enumerate() {
        let column = |title: &str, role, show: &dyn Fn(&Measurement) -> Option<String>| {
            Column::of(title, role, &rows, |(_, same)| show(same[index]?.measured.as_ref()?)).unit(scale.unit())
        };
        columns.push(column(label, Role::Number, &|one| Some(metric::mean(one, scale))));
        columns.push(column("95 % interval", Role::Interval, &|one| one.ci95.map(|ends| scale.between(ends))));
    }
    if let [one, other] = labels {
        let [one, other] = [one, other].map(|label| label.split(',').next().unwrap_or(label));
        let ratios: Vec<_> = rows.iter().map(|(_, same)| ratio(same[0]?, same[1]?)).collect();
        // Engines that agree differ only in the fourth digit.
        let ends = |[low, high]: [f64; 2]| format!("{low:.4} to {high:.4}");
        let shown = |one: &Option<stats::PairedRatio>| one.map(|one| format!("{:.4}", one.ratio));
        let title = format!("{other} over {one}, same seeds");
        columns.push(Column::of(title, Role::Number, &ratios, shown).unit("ratio"));
        let interval = |one: &Option<stats::PairedRatio>| one.as_ref()?.ci95.map(ends);
        columns.push(Column::of("95 % interval", Role::Interval, &ratios, interval).unit("ratio"));
    }
    let overlaps: Vec<_> = rows.iter().map(|(_, same)| overlap(same)).collect();
    columns.push(Column::of("intervals", Role::Verdict, &overlaps, |one| one.map(|(_, word)| word.to_owned())));
    let row = |one: &Option<(Verdict, _)>| TableRow {
        verdict: one.map_or(Verdict::NotComparable, |(verdict, _)| verdict),
        ..TableRow::default()
    };
    let rows = overlaps.iter().map(row).collect();
    Table::new("", Caption::new("Side by side", metric::caption(metric).to_string()), columns, rows)
}

/// The second measurement over the first, paired by seed. `None` for bounds.
fn ratio(one: &ReportCell, other: &ReportCell) -> Option<stats::PairedRatio> {
    let exact = |cell: &ReportCell| {
        let measured = cell.measured.as_ref().filter(|measured| measured.bound() == Bound::Exact)?;
        Some(measured.seeds.iter().copied().zip(measured.values.iter().copied()).collect::<BTreeMap<u64, f64>>())
    };
    let (above, below) = (exact(other)?, exact(one)?);
    let pairs: Vec<(f64, f64)> = below.iter().filter_map(|(seed, below)| Some((*above.get(seed)?, *below))).collect();
    stats::paired_ratio(&pairs)
}

/// Whether all intervals overlap. `None` if one is missing or only a bound.
fn overlap(cells: &[Option<&ReportCell>]) -> Option<(Verdict, &'static str)> {
    let is_exact = |measured: &&Measurement| measured.bound() == Bound::Exact;
    let intervals: Option<Vec<[f64; 2]>> =
        cells.iter().map(|cell| cell.as_ref()?.measured.as_ref().filter(is_exact)?.ci95).collect();
    let intervals = intervals?;
    let highest_low = intervals.iter().map(|ends| ends[0]).fold(f64::NEG_INFINITY, f64::max);
    let lowest_high = intervals.iter().map(|ends| ends[1]).fold(f64::INFINITY, f64::min);
    Some(if highest_low <= lowest_high { (Verdict::Within, "overlap") } else { (Verdict::Outside, "apart") })
}
