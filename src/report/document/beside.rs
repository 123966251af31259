//! Tables over several reports: which verdicts each has, and what measures one scenario in different ways side by side.

use std::collections::{BTreeMap, HashMap};

use super::metric;
use super::part::Tally;
use super::table::{Column, Role, Row, Table};
use crate::model::stats;
use crate::report::judge::bound::Bound;
use crate::report::judge::cell::{Cell, Measured, Verdict, grouped, point_name};
use crate::report::judge::number::Scale;
use crate::report::judge::report::Report;

/// One row a report: where its numbers come from and how many cells have each verdict; none for a single report.
pub fn overview(reports: &[Report]) -> Option<Table> {
    let all: Vec<&Report> = reports.iter().collect();
    let count = |report: &Report, verdict| report.cells.iter().filter(|cell| cell.verdict == verdict).count();
    let source = |report: &Report| report.source.as_ref().map(|one| format!("{}, {}", one.paper, one.place));
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
    let row = |(index, report): (usize, &Report)| {
        let verdict = match [Verdict::Outside, Verdict::Within].map(|verdict| count(report, verdict)) {
            [0, 0] => Verdict::NotComparable,
            [0, _] => Verdict::Within,
            _ => Verdict::Outside,
        };
        Row { verdict, link: format!("r{index}"), ..Row::default() }
    };
    let rows = reports.iter().enumerate().map(row).collect();
    let caption = "All reports: their cells by verdict".to_owned();
    (reports.len() > 1).then(|| Table::new("overview", caption, columns, rows))
}

/// For every scenario with several reports a table per metric, with a column for each report.
pub fn tables(reports: &[Report]) -> Vec<Table> {
    let mut tables = Vec::new();
    let groups = grouped(reports.iter(), |report| (&report.scenario, &report.title));
    for group in groups.into_iter().filter(|group| group.len() > 1) {
        let labels = labels(&group);
        let metrics = metric::names(group[0]);
        tables.extend(metrics.into_iter().map(|metric| SideBySide::new(&group, &labels, metric).table()));
    }
    for (index, table) in tables.iter_mut().enumerate() {
        table.id = format!("beside{index}");
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
    let mut counts: HashMap<&String, usize> = HashMap::new();
    ways.iter().for_each(|way| *counts.entry(way).or_default() += 1);
    let label = |(way, report): (&String, &&Report)| {
        let is_clear = !way.is_empty() && counts[way] == 1;
        if is_clear { way.clone() } else { format!("{} {way}", report.place).trim().to_owned() }
    };
    ways.iter().zip(group).map(label).collect()
}

/// One metric of one scenario: a row per cell that any of the reports measured.
struct SideBySide<'a> {
    metric: &'a str,
    labels: &'a [String],
    scale: Scale,
    series: &'a str,
    /// The first of the cells, and what each report has there.
    rows: Vec<(&'a Cell, Vec<Option<&'a Cell>>)>,
}

impl<'a> SideBySide<'a> {
    fn new(group: &[&'a Report], labels: &'a [String], metric: &'a str) -> SideBySide<'a> {
        let cells =
            group.iter().enumerate().flat_map(|(index, report)| report.cells.iter().map(move |one| (index, one)));
        let of_metric: Vec<(usize, &Cell)> = cells.filter(|(_, cell)| cell.metric == metric).collect();
        let all: Vec<&Cell> = of_metric.iter().map(|(_, cell)| *cell).collect();
        let row = |here: Vec<(usize, &'a Cell)>| {
            let first = here.iter().find(|(_, cell)| cell.measured.is_some())?.1;
            let mut same = vec![None; group.len()];
            here.into_iter().rev().for_each(|(index, cell)| same[index] = Some(cell));
            Some((first, same))
        };
        let points = grouped(of_metric.into_iter(), |(_, cell)| (&cell.at, &cell.variant));
        let rows = points.into_iter().filter_map(row).collect();
        let (scale, series) = (metric::scale_of(&all), metric::series_of(&all));
        SideBySide { metric, labels, scale, series, rows }
    }

    fn table(&self) -> Table {
        let (rows, scale) = (&self.rows, self.scale);
        let mut columns = vec![
            Column::of("at", Role::Word, rows, |(cell, _)| Some(point_name(&cell.point()))),
            Column::of(self.series, Role::Name, rows, |(cell, _)| Some(cell.variant.clone())),
            Column::of("published", Role::Number, rows, |(cell, _)| Some(scale.show(cell.published?)))
                .unit(scale.unit()),
        ];
        for (index, label) in self.labels.iter().enumerate() {
            let column = |title: &str, role, show: &dyn Fn(&Measured) -> Option<String>| {
                Column::of(title, role, rows, |(_, same)| show(same[index]?.measured.as_ref()?)).unit(scale.unit())
            };
            columns.push(column(label, Role::Number, &|one| Some(metric::mean(one, scale))));
            columns
                .push(column("95 % interval", Role::Interval, &|one| one.ci95.map(|ci95| metric::ends(ci95, scale))));
        }
        if let [one, other] = self.labels {
            columns.extend(self.ratios(one, other));
        }
        let overlap = |same: &[Option<&Cell>]| Some(overlap(same)?.1.to_owned());
        columns.push(Column::of("intervals", Role::Verdict, rows, |(_, same)| overlap(same)));
        let row = |(_, same): &(&Cell, Vec<Option<&Cell>>)| Row {
            verdict: self::overlap(same).map_or(Verdict::NotComparable, |(verdict, _)| verdict),
            ..Row::default()
        };
        let caption = format!("Side by side: {}", metric::caption(self.metric));
        Table::new("", caption, columns, rows.iter().map(row).collect())
    }

    /// What the second measured over what the first did.
    fn ratios(&self, one: &str, other: &str) -> [Column; 2] {
        let first = |label: &str| label.split(',').next().unwrap_or(label).to_owned();
        let ratios: Vec<_> = self.rows.iter().map(|(_, same)| ratio(same[0]?, same[1]?)).collect();
        // Engines that agree differ in the fourth digit.
        let ends = |[low, high]: [f64; 2]| format!("{low:.4} to {high:.4}");
        let title = format!("{} over {}, same seeds", first(other), first(one));
        [
            Column::of(title, Role::Number, &ratios, |one| one.map(|one| format!("{:.4}", one.ratio))).unit("ratio"),
            Column::of("95 % interval", Role::Interval, &ratios, |one| one.as_ref()?.ci95.map(ends)).unit("ratio"),
        ]
    }
}

/// What the second measured over what the first did, over the runs of the same seeds.
fn ratio(one: &Cell, other: &Cell) -> Option<stats::PairedRatio> {
    let exact = |cell: &Cell| {
        let measured = cell.measured.as_ref().filter(|measured| measured.bound() == Bound::Exact)?;
        Some(measured.seeds.iter().copied().zip(measured.values.iter().copied()).collect::<BTreeMap<u64, f64>>())
    };
    let (above, below) = (exact(other)?, exact(one)?);
    let pairs: Vec<(f64, f64)> = below.iter().filter_map(|(seed, below)| Some((*above.get(seed)?, *below))).collect();
    stats::paired_ratio(&pairs)
}

/// Whether the intervals of all reports overlap; none where one has no interval, or only a bound.
fn overlap(cells: &[Option<&Cell>]) -> Option<(Verdict, &'static str)> {
    let is_exact = |measured: &&Measured| measured.bound() == Bound::Exact;
    let intervals: Option<Vec<[f64; 2]>> =
        cells.iter().map(|cell| cell.as_ref()?.measured.as_ref().filter(is_exact)?.ci95).collect();
    let intervals = intervals?;
    let highest_low = intervals.iter().map(|ends| ends[0]).fold(f64::NEG_INFINITY, f64::max);
    let lowest_high = intervals.iter().map(|ends| ends[1]).fold(f64::INFINITY, f64::min);
    Some(if highest_low <= lowest_high { (Verdict::Within, "overlap") } else { (Verdict::Outside, "apart") })
}
