//! One table per metric, as text cells: what the text, Markdown and HTML writers have in common.

use super::calibration;
use super::interval::{self, IntervalKind};
use super::number::{self, Scale};
use super::plot::place_name;
use super::selection::Selection;
use super::{About, Bound, Cell, Finding, Measured, Report, Verdict, common_place};
use crate::experiment::scenario::VARIANT;
use crate::model::metrics::Metric;
use crate::model::notice::Notice;
use crate::model::run::Engine;

/// A column's heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it is.
    pub title: String,
    /// Unit; empty where the cells have none.
    pub unit: String,
    /// Numbers stand at the right.
    pub number: bool,
    /// Left out where there is no room.
    pub detail: bool,
    /// It is the interval of the column before and can stand below its number.
    pub below: bool,
    /// Its cells name their rows.
    pub names_rows: bool,
}

impl Column {
    /// Heading with its unit.
    pub fn heading(&self) -> String {
        if self.unit.is_empty() { self.title.clone() } else { format!("{} [{}]", self.title, self.unit) }
    }
}

/// One row, one text per column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The cells.
    pub cells: Vec<String>,
    /// Its verdict, for colour.
    pub verdict: Verdict,
    /// What it rests on.
    pub reason: String,
    /// The first row of another place in the sweep.
    pub starts_group: bool,
}

/// The table of one metric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name of the metric.
    pub metric: String,
    /// What the metric is.
    pub caption: String,
    /// Headings.
    pub columns: Vec<Column>,
    /// Rows in the order of the sweep.
    pub rows: Vec<Row>,
}

impl Table {
    /// The same without the columns that are left out where there is no room.
    pub fn without_details(&self) -> Table {
        let kept: Vec<bool> = self.columns.iter().map(|column| !column.detail).collect();
        let mut table = self.clone();
        let mut columns = kept.iter();
        table.columns.retain(|_| columns.next() == Some(&true));
        for row in &mut table.rows {
            let mut columns = kept.iter();
            row.cells.retain(|_| columns.next() == Some(&true));
        }
        table
    }
}

/// The tables of a report and the notices their rows point to by number, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// One per metric.
    pub tables: Vec<Table>,
    /// Footnotes.
    pub notes: Vec<Notice>,
}

/// Characters of a digest in the header.
const DIGEST_LENGTH: usize = 12;
/// Shown where there is no value.
pub const NOTHING: &str = "-";

/// Lays out every metric of the report.
pub fn tables(report: &Report) -> Tables {
    let mut notes: Vec<Notice> = Vec::new();
    let mut tables = Vec::new();
    for metric in metric_names(report) {
        let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.metric == metric).collect();
        tables.push(Layout::new(report, &cells).table(metric, &mut notes));
    }
    Tables { tables, notes }
}

/// Lays out the choice of a parameter: per metric its mean at each place and its score, then the sum; none while cells
/// are missing.
pub fn of_selection(selection: &Selection) -> Option<Table> {
    let column = |title: &str, unit: &str| Column {
        title: title.into(),
        unit: unit.into(),
        number: true,
        detail: false,
        below: false,
        names_rows: false,
    };
    let mut columns = vec![Column { number: false, ..column(&selection.parameter, "") }];
    let mut rows: Vec<Vec<String>> = selection.values.iter().map(|one| vec![one.value.clone()]).collect();
    for (index, metric) in selection.metrics().into_iter().enumerate() {
        for (heading, means) in means_of(selection, metric) {
            columns.push(heading);
            rows.iter_mut().zip(means).for_each(|(row, mean)| row.push(mean));
        }
        columns.push(column("score", ""));
        rows.iter_mut().zip(&selection.values).for_each(|(row, one)| row.push(format!("{:.2}", one.scores[index])));
    }
    columns.extend([column("sum", ""), column("best in resamples", "%"), Column { number: false, ..column("", "") }]);
    for (row, one) in rows.iter_mut().zip(&selection.values) {
        row.push(format!("{:.2}", one.cumulative));
        row.push(optional(one.wins, |wins| format!("{:.0}", 100.0 * wins)));
        row.push(if selection.winner.as_ref() == Some(&one.value) { "chosen".to_owned() } else { String::new() });
    }
    let row = |cells| Row { cells, verdict: Verdict::NotComparable, reason: String::new(), starts_group: false };
    let caption = format!("Choice of {}: {}", selection.parameter, selection.procedure);
    let rows: Vec<Row> = rows.into_iter().map(row).collect();
    (!rows.is_empty()).then(|| Table { metric: selection.parameter.clone(), caption, columns, rows })
}

/// The heading and the means of each place where a metric competes.
fn means_of(selection: &Selection, metric: &str) -> Vec<(Column, Vec<String>)> {
    let criteria = &selection.criteria;
    let of_metric = criteria.iter().enumerate().filter(|(_, criterion)| criterion.metric == metric);
    let column = of_metric.map(|(index, criterion)| {
        let measured = || selection.values.iter().map(|one| &one.measured[index]);
        let (title, unit) = Metric::find(metric).map_or((metric, ""), |found| (found.title, found.unit));
        let scale = Scale::of(unit, measured().flat_map(|measured| measured.values.iter().copied()));
        // Only what tells the places apart.
        let mut place = criterion.place.clone();
        place.retain(|name, value| criteria.iter().any(|other| other.place.get(name) != Some(value)));
        let place = if place.is_empty() { String::new() } else { format!(" at {}", place_name(&place)) };
        let title = format!("{title}{place}, {}", criterion.goal.name());
        let unit = scale.unit().to_owned();
        let heading = Column { title, unit, number: true, detail: false, below: false, names_rows: false };
        (heading, measured().map(|measured| mean(measured, scale)).collect())
    });
    column.collect()
}

/// A mean with the half width of its interval, where it has one.
fn mean(measured: &Measured, scale: Scale) -> String {
    let mean = match measured.ci95 {
        Some([low, high]) => scale.plus_minus(measured.mean, (high - low) / 2.0),
        None => scale.show(measured.mean),
    };
    measured.bound().signed(&mean)
}

/// Metrics in the order of the cells.
pub fn metric_names(report: &Report) -> Vec<&str> {
    each_once(report.cells.iter().map(|cell| cell.metric.as_str()))
}

/// Each name once, in the order they come.
pub fn each_once<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for name in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// What a metric is, for a heading.
pub fn caption(metric: &str) -> String {
    Metric::find(metric).map_or_else(|| metric.to_owned(), |m| format!("{}: {}", m.title, m.what))
}

/// The variable whose values are the variants, for the heading of those.
pub fn series_of<'a>(cells: &[&'a Cell]) -> &'a str {
    cells.first().map_or(VARIANT, |cell| cell.series.as_str())
}

/// The scale in which all values of these cells are shown.
pub fn scale_of(cells: &[&Cell]) -> Scale {
    let unit = cells.first().map_or("pkts", |cell| cell.unit.as_str());
    let values = cells.iter().flat_map(|cell| {
        let measured = cell.measured.iter().flat_map(|m| m.values.iter().copied());
        measured.chain(cell.published).chain(cell.expected.as_ref().map(|e| e.value))
    });
    Scale::of(unit, values)
}

/// Which columns a table has: those with something in them.
struct Layout<'a> {
    report: &'a Report,
    cells: &'a [&'a Cell],
    scale: Scale,
    variables: Vec<String>,
    published: bool,
    expected: bool,
    rerun: bool,
    median: bool,
    ratio: bool,
    ratio_published: bool,
    ratio_expected: bool,
}

impl<'a> Layout<'a> {
    fn new(report: &'a Report, cells: &'a [&'a Cell]) -> Self {
        let ratios = || cells.iter().filter_map(|cell| cell.ratio_to_baseline.as_ref());
        let common = common_place(&report.cells);
        let variables = cells.first().map(|cell| cell.place().into_keys()).into_iter().flatten();
        let variables = variables.filter(|name| !common.contains_key(name)).collect();
        Layout {
            report,
            cells,
            scale: scale_of(cells),
            variables,
            published: cells.iter().any(|cell| cell.published.is_some()),
            expected: cells.iter().any(|cell| cell.expected.is_some()),
            rerun: cells.iter().any(|cell| cell.rerun.is_some()),
            median: cells.iter().any(|cell| cell.measured.as_ref().is_some_and(|m| m.median_ci95.is_some())),
            ratio: ratios().any(|ratio| ratio.measured.is_some()),
            ratio_published: ratios().any(|ratio| ratio.published.is_some()),
            ratio_expected: ratios().any(|ratio| ratio.expected.is_some()),
        }
    }

    fn table(&self, metric: &str, notes: &mut Vec<Notice>) -> Table {
        let caption = caption(metric);
        let mut rows: Vec<Row> = Vec::new();
        let mut before: Option<Vec<&String>> = None;
        for cell in self.cells {
            let place: Vec<&String> = self.variables.iter().filter_map(|name| cell.at.get(name)).collect();
            let starts_group = before.as_ref().is_some_and(|before| *before != place);
            before = Some(place);
            let reason = cell.verdict_reason.clone();
            rows.push(Row { cells: self.row(cell, notes), verdict: cell.verdict, reason, starts_group });
        }
        if rows.iter().skip(1).all(|row| row.starts_group) {
            rows.iter_mut().for_each(|row| row.starts_group = false); // groups of one row would only space it out
        }
        Table { metric: metric.to_owned(), caption, columns: self.columns(), rows }
    }

    fn columns(&self) -> Vec<Column> {
        let unit = self.scale.unit();
        let over = self.report.baseline.as_ref().map_or_else(String::new, |name| format!(" over {name}"));
        let column = |title: &str, unit: &str, number| Column {
            title: title.into(),
            unit: unit.into(),
            number,
            detail: false,
            below: false,
            names_rows: false,
        };
        let mut columns: Vec<Column> = self.variables.iter().map(|name| column(name, "", false)).collect();
        columns.push(Column { names_rows: true, ..column(series_of(self.cells), "", false) });
        columns.extend(self.published.then(|| column("published", unit, true)));
        columns.extend(self.expected.then(|| column("expected", unit, true)));
        columns.extend(self.rerun.then(|| column("re-run mean", unit, true)));
        columns.push(column("measured mean", unit, true));
        let interval = |title, unit| Column { below: true, ..column(title, unit, true) };
        columns.push(interval("95 % interval", unit));
        if self.median {
            let detail = |title| Column { detail: true, ..column(title, unit, true) };
            columns.extend([detail("median"), Column { below: true, ..detail("its 95 % interval") }]);
        }
        columns.push(column("n", "runs", true));
        columns.extend(self.ratio_published.then(|| column(&format!("published{over}"), "ratio", true)));
        columns.extend(self.ratio_expected.then(|| column(&format!("expected{over}"), "ratio", true)));
        columns.extend((self.ratio && self.rerun).then(|| column(&format!("re-run{over}"), "ratio", true)));
        if self.ratio {
            columns.push(column(&format!("measured{over}"), "ratio", true));
            columns.push(interval("95 % interval", "ratio"));
        }
        columns.push(column("verdict", "", false));
        columns.push(column("notes", "", false));
        columns
    }

    fn row(&self, cell: &Cell, notes: &mut Vec<Notice>) -> Vec<String> {
        let scale = self.scale;
        let mut row: Vec<String> =
            self.variables.iter().map(|name| cell.at.get(name).cloned().unwrap_or_default()).collect();
        row.push(cell.variant.clone());
        row.extend(self.published.then(|| optional(cell.published, |value| scale.show(value))));
        row.extend(
            self.expected.then(|| optional(cell.expected.as_ref(), |e| scale.plus_minus(e.value, e.plus_minus))),
        );
        row.extend(self.rerun.then(|| optional(cell.rerun.as_ref(), |rerun| mean(&rerun.measured, scale))));
        row.push(optional(cell.measured.as_ref(), |measured| measured.bound().signed(&scale.show(measured.mean))));
        row.push(optional(cell.measured.as_ref().and_then(|measured| measured.ci95), |ci95| range(ci95, scale)));
        if self.median {
            row.push(optional(cell.measured.as_ref(), |one| one.bound().signed(&scale.show(one.median))));
            row.push(optional(cell.measured.as_ref().and_then(|one| one.median_ci95), |ci95| range(ci95, scale)));
        }
        row.push(optional(cell.measured.as_ref(), |measured| measured.n.to_string()));
        let ratio = cell.ratio_to_baseline.as_ref();
        row.extend(self.ratio_published.then(|| optional(ratio.and_then(|r| r.published), number::significant)));
        let expected = ratio.and_then(|ratio| ratio.expected.as_ref());
        row.extend(self.ratio_expected.then(|| optional(expected, |e| Scale::Ratio.plus_minus(e.value, e.plus_minus))));
        let bounded = |(value, bound): (f64, Bound)| bound.signed(&number::significant(value));
        let rerun = cell.rerun.as_ref().and_then(|rerun| Some((rerun.ratio_to_baseline?, rerun.ratio_bound)));
        row.extend((self.ratio && self.rerun).then(|| optional(rerun, bounded)));
        if self.ratio {
            let known = ratio.filter(|ratio| ratio.bound() != Bound::Nothing);
            row.push(optional(known.and_then(|r| Some((r.measured?, r.bound()))), bounded));
            row.push(optional(known.and_then(|r| r.ci95), |ci95| range(ci95, Scale::Ratio)));
        }
        row.push(cell.verdict.name().to_owned());
        row.push(references(&cell.notices, notes));
        row
    }
}

fn optional<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| NOTHING.to_owned(), show)
}

fn range([low, high]: [f64; 2], scale: Scale) -> String {
    format!("{} to {}", scale.show(low), scale.show(high))
}

/// Numbers of the notices in the list of all notes, which grows by those it lacks.
fn references(notices: &[Notice], notes: &mut Vec<Notice>) -> String {
    let mut numbers = Vec::new();
    for notice in notices {
        let known = notes.iter().position(|note| note == notice);
        let index = known.unwrap_or_else(|| {
            notes.push(notice.clone());
            notes.len() - 1
        });
        numbers.push(index + 1);
    }
    numbers.sort_unstable();
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

/// Facts of the report's header as name and text, in the order they are shown.
pub fn header(report: &Report) -> Vec<(&'static str, String)> {
    let host = &report.host;
    let named = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| format!("{name} {}", shortened(value))).collect::<Vec<_>>().join(", ")
    };
    let mut facts = vec![("claim", report.claim.clone())];
    facts.extend(report.source.as_ref().map(|source| ("source", format!("{}, {}", source.paper, source.place))));
    facts.push(("kernel", format!("{}, {} processors", host.kernel, host.cpus)));
    facts.push(("path", format!("link {}, network {}, offloads {}", host.link, host.network, host.offloads)));
    facts.push(("profile", report.profile.clone()));
    let common = common_place(&report.cells);
    facts.extend((!common.is_empty()).then(|| ("every cell", place_name(&common))));
    facts.extend((!host.tools.is_empty()).then(|| ("tools", named(&host.tools))));
    facts.extend((!host.algorithms.is_empty()).then(|| ("algorithms", named(&host.algorithms))));
    facts.extend(report.reruns.iter().map(|rerun| ("re-run", rerun.clone())));
    facts.push(("seed", report.seed.to_string()));
    facts.extend(report.digest.as_ref().map(|digest| ("digest", digest.clone())));
    facts.extend(intervals(report).into_iter().map(|sentence| ("intervals", sentence)));
    // Virtual time has no clock to be late by.
    let calibration = (host.engine != Engine::Virtual).then(|| calibration::lines(&report.calibration));
    facts.extend(calibration.into_iter().flatten().map(|line| ("calibration", line)));
    facts
}

/// Of a digest the beginning: enough to tell objects apart; JSON has the whole. Anything else as it is.
fn shortened(value: &str) -> &str {
    let is_digest = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_digest { &value[..DIGEST_LENGTH] } else { value }
}

/// Findings on how variants stand beside the baseline in one metric.
pub fn standings<'a>(report: &'a Report, metric: &str) -> Vec<&'a str> {
    let of_metric = |finding: &&Finding| finding.about == About::Baseline && finding.metric == metric;
    report.findings.iter().filter(of_metric).map(|finding| finding.sentence.as_str()).collect()
}

/// Findings on whether the published numbers hold, with whether they do.
pub fn published_findings(report: &Report) -> Vec<(bool, &str)> {
    let of_published = report.findings.iter().filter(|finding| finding.about == About::Published);
    of_published.map(|finding| (finding.holds == Some(true), finding.sentence.as_str())).collect()
}

/// What the metrics of the report are and where their definitions come from, each as a name and a sentence.
pub fn definitions(report: &Report) -> Vec<(&str, String)> {
    let define = |name| Metric::find(name).map(|metric| (name, format!("{} ({})", metric.what, metric.source)));
    metric_names(report).into_iter().filter_map(define).collect()
}

/// How the intervals of the report were computed, one sentence each.
fn intervals(report: &Report) -> Vec<String> {
    let kinds = || report.cells.iter().filter_map(|cell| cell.measured.as_ref()?.ci95_kind);
    let fewest = interval::FEWEST;
    let mut sentences = Vec::new();
    if kinds().any(|kind| kind == IntervalKind::Bootstrap) {
        sentences.push(format!(
            "means and medians over {fewest} runs or more: seeded bootstrap, expanded percentiles (Hesterberg 2015)"
        ));
    }
    if kinds().any(|kind| kind == IntervalKind::Student) {
        sentences.push(format!("means over fewer than {fewest} runs: Student's t, from 0 on"));
    }
    if report.cells.iter().any(|cell| cell.ratio_to_baseline.as_ref().is_some_and(|ratio| ratio.ci95.is_some())) {
        sentences.push("ratios: Fieller's, over the runs that share a seed".to_owned());
    }
    sentences
}

/// The distinct reasons behind the expectations, each with the metric it is for.
pub fn bases(report: &Report) -> Vec<String> {
    let mut bases: Vec<String> = Vec::new();
    for cell in &report.cells {
        let of_ratio = cell.ratio_to_baseline.as_ref().and_then(|ratio| ratio.expected.as_ref());
        for expected in of_ratio.into_iter().chain(&cell.expected) {
            if !bases.contains(&expected.basis) {
                bases.push(expected.basis.clone());
            }
        }
    }
    bases
}

/// The distinct places of the published numbers: of the values, then of the ratios that the source gives itself.
pub fn published_places(report: &Report) -> Vec<&str> {
    let values = report.cells.iter().filter_map(|cell| cell.published_place.as_deref());
    let ratios = report.cells.iter().filter_map(|cell| cell.ratio_to_baseline.as_ref()?.published_place.as_deref());
    each_once(values.chain(ratios))
}

/// Why cells are not comparable, with their numbers; empty where all are.
pub fn not_comparable(reports: &[&Report]) -> String {
    let all = || reports.iter().flat_map(|report| &report.cells);
    let cells = || all().filter(|cell| cell.verdict == Verdict::NotComparable);
    let reasons = each_once(cells().map(|cell| cell.verdict_reason.as_str()));
    let counted = |reason: &str| format!("{} {reason}", cells().filter(|cell| cell.verdict_reason == reason).count());
    reasons.into_iter().map(counted).collect::<Vec<_>>().join(", ")
}

/// What a cell is, for a sentence: its metric, variant and place.
pub fn name_of(cell: &Cell) -> String {
    let title = Metric::find(&cell.metric).map_or(cell.metric.as_str(), |metric| metric.title);
    let place = place_name(&cell.place());
    if place.is_empty() {
        format!("{title}, {}", cell.variant)
    } else {
        format!("{title}, {} at {place}", cell.variant)
    }
}

/// How many cells have each verdict, as one sentence.
pub fn summary(report: &Report) -> String {
    let count = |verdict| report.cells.iter().filter(|cell| cell.verdict == verdict).count();
    let reasons = not_comparable(&[report]);
    let reasons = if reasons.is_empty() { reasons } else { format!(" ({reasons})") };
    format!(
        "{} within, {} outside, {} not comparable{reasons}",
        count(Verdict::Within),
        count(Verdict::Outside),
        count(Verdict::NotComparable)
    )
}
