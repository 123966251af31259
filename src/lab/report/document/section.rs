//! The sections of a report.

use super::element::{Element, Item, List, Marks};
use super::table::{Caption, Column, Role, Table, TableRow};
use super::{ReportContent, facts, metric, tally};
use crate::report::figures::{self as drawings, spread, terminal};
use crate::report::judge::cell::{ReportCell, Verdict, each_once, grouped, point_name, title_of};
use crate::report::judge::check::{CheckVerdict, ReportCheck};
use crate::report::judge::finding::{About, Finding};
use crate::report::judge::report::Report;
use crate::report::judge::selection;
use crate::report::judge::windows::{self as plots, WindowPlot};
use crate::scenario::{FigureSpec, Together};
use shared::model::metrics::Metric;
use shared::model::notice::Notice;
use shared::model::series::Series;
use shared::sanitize::count;

pub fn claim(content: &ReportContent<'_>) -> Vec<Element> {
    vec![Element::Claim(content.report.claim.clone())]
}

/// Claim and measurement, without a heading.
pub fn header(content: &ReportContent<'_>) -> Vec<Element> {
    let claim = ("claim".to_owned(), content.report.claim.clone());
    vec![Element::Facts(std::iter::once(claim).chain(facts::header(content.report)).collect())]
}

pub fn how_measured(content: &ReportContent<'_>) -> Vec<Element> {
    headed("how", "How it was measured", vec![Element::Facts(facts::header(content.report))])
}

/// One table per metric, with findings about the baseline.
pub fn metrics(content: &ReportContent<'_>) -> Vec<Element> {
    let tables = content.tables.iter().flat_map(|table| of_table(content.report, table));
    tables.chain(without_ratios(content.report)).collect()
}

/// How to get ratios, in a report of several variants that has none.
fn without_ratios(report: &Report) -> Option<Element> {
    let variants = each_once(report.cells.iter().map(|cell| cell.variant.as_str()));
    let [first, _, ..] = variants[..] else { return None };
    let how = format!("No ratios: the scenario names no baseline; `report = {{ baseline = \"{first}\" }}` adds them");
    report.baseline.is_none().then_some(Element::Conclusion(how))
}

fn of_table(report: &Report, table: &Table) -> Vec<Element> {
    let is_own = |finding: &&Finding| finding.about == About::Baseline && finding.metric == table.id;
    let item = |finding: &Finding| Item { text: finding.sentence.clone(), ..Item::default() };
    let standings = report.findings.iter().filter(is_own).map(item).collect();
    let list = list(Marks::None, "", standings).map(Element::List);
    std::iter::once(Element::Table(table.clone())).chain(list).collect()
}

/// Counts of verdicts, cells outside their range, and whether the published numbers hold.
pub fn verdicts(content: &ReportContent<'_>) -> Vec<Element> {
    let report = content.report;
    if !report.has_targets() {
        return Vec::new();
    }
    let outside = report.cells.iter().filter(|cell| cell.verdict == Verdict::Outside).map(|cell| Item {
        verdict: Some((Verdict::Outside, "outside")),
        about: Some((cell.metric.clone(), name_of(cell))),
        text: cell.verdict_reason.clone(),
        ..Item::default()
    });
    let published = report.findings.iter().filter(|finding| finding.about == About::Published).map(|finding| {
        let holds = finding.holds == Some(true);
        let verdict = if holds { (Verdict::Within, "holds") } else { (Verdict::Outside, "does not hold") };
        Item { verdict: Some(verdict), text: finding.sentence.clone(), ..Item::default() }
    });
    let outside = list(Marks::Verdicts, "outside their range", outside.collect());
    let published = list(Marks::Verdicts, "published numbers", published.collect());
    let published = published.map(|list| List { question: "Do the published numbers hold on Linux?", ..list });
    let lists = outside.into_iter().chain(published).collect();
    vec![Element::Verdicts(tally(std::slice::from_ref(report)), lists)]
}

/// Whether each check holds. One item stands for all points at which a check holds.
pub fn checks(content: &ReportContent<'_>) -> Vec<Element> {
    let checks = &content.report.checks;
    let item = |check: &ReportCheck, text: String| Item {
        verdict: Some((check.verdict.alike(), check.verdict.name())),
        text,
        advice: check.advice.clone(),
        ..Item::default()
    };
    let mut items = Vec::new();
    for group in grouped(checks.iter(), |check| &check.name) {
        let (held, others): (Vec<&ReportCheck>, Vec<&ReportCheck>) =
            group.into_iter().partition(|check| check.verdict == CheckVerdict::Holds);
        items.extend(others.into_iter().map(|check| item(check, format!("{}: {}", check.title(), check.reason))));
        let Some(first) = held.first() else { continue };
        let sum = |of: fn(&ReportCheck) -> usize, what| count(held.iter().map(|check| of(check)).sum(), what);
        let points = if held.len() > 1 { format!(" at {} points", held.len()) } else { String::new() };
        let at = [sum(|check| check.runs, "run"), sum(|check| check.moments, "moment")].join(", ");
        items.push(item(first, format!("{}: {}{points} ({at}; {})", first.name, first.asks, first.why)));
    }
    let list = list(Marks::Verdicts, "checks", items).map(Element::List);
    headed("checks", "Checks", list.into_iter().collect())
}

pub fn choice(content: &ReportContent<'_>) -> Vec<Element> {
    let Some(chosen) = &content.report.selection else { return Vec::new() };
    let table = metric::of_selection(chosen).map(Element::Table);
    table.into_iter().chain([Element::Conclusion(selection::sentence(chosen))]).collect()
}

/// Sources of published numbers and reasons of expected ones: distinct, in the order of the cells.
pub fn sources(content: &ReportContent<'_>) -> Vec<Element> {
    let cells = &content.report.cells;
    let values = cells.iter().filter_map(|cell| cell.published_place.as_deref());
    let ratios = cells.iter().filter_map(|cell| cell.ratio_to_baseline.as_ref()?.published_place.as_deref());
    let places = each_once(values.chain(ratios)).join("; ");
    let expected = cells.iter().flat_map(|cell| cell.ratio().expected.into_iter().chain(&cell.expected));
    let bases = each_once(expected.map(|expected| expected.basis.as_str()));
    let published = (!places.is_empty()).then_some(Element::Remark("published", places));
    let expected = bases.into_iter().map(|basis| Element::Remark("expected", basis.to_owned()));
    published.into_iter().chain(expected).collect()
}

pub use super::flows::{all_flows, flows};
pub use super::links::links;
pub use super::nodes::nodes;

pub fn definitions(content: &ReportContent<'_>) -> Vec<Element> {
    let found = metric::names(content.report).into_iter().filter_map(Metric::find);
    let facts: Vec<_> = found.map(|one| (one.name.to_owned(), format!("{} ({})", one.what, one.source))).collect();
    headed("metrics", "Metrics", (!facts.is_empty()).then_some(Element::Facts(facts)).into_iter().collect())
}

/// Notes about cells, then about the whole report.
pub fn notes(content: &ReportContent<'_>) -> Vec<Element> {
    let item = |notice: &Notice| Item { text: notice.cause.clone(), advice: notice.advice.clone(), ..Item::default() };
    let numbered = list(Marks::Numbers, "", content.notes.iter().map(item).collect());
    let others = list(Marks::Bullets, "", content.report.notices.iter().map(item).collect());
    headed("notes", "Notes", numbered.into_iter().chain(others).map(Element::List).collect())
}

pub fn figures(content: &ReportContent<'_>) -> Vec<Element> {
    headed("figures", "Figures", drawings::figures(content.report).into_iter().map(Element::Figure).collect())
}

/// The most telling windows, for a terminal. If a figure shows all flows of a run, its series by flow.
pub fn windows(content: &ReportContent<'_>) -> Vec<Element> {
    let report = content.report;
    let of_flows = report.figures.iter().filter(|figure| figure.together == Together::Flows);
    let of_flows = each_once(of_flows.map(|figure| figure.y.as_str()));
    let others = other_windows(&report.plots, report.figures.is_empty()).map(Element::Sentence);
    let mut drawn: Vec<Element> =
        of_flows.iter().flat_map(|quantity| over_time(report, quantity, WindowPlot::by_flow)).collect();
    if drawn.is_empty() {
        drawn = over_time(report, plots::WINDOWS, WindowPlot::clone);
    }
    let others = others.filter(|_| !drawn.is_empty());
    drawn.into_iter().chain(others).collect()
}

/// The most telling plot of a quantity under its heading, if there is one.
fn over_time(report: &Report, quantity: &str, shown: fn(&WindowPlot) -> WindowPlot) -> Vec<Element> {
    let found = plots::telling(&report.plots, quantity).zip(Series::find(quantity));
    let Some((telling, series)) = found else { return Vec::new() };
    let point = telling.point_name();
    let at = if point.is_empty() { point } else { format!(" at {point}") };
    let text = format!("{} [{}] over time{at}", series.title, series.unit);
    vec![Element::Heading { id: "", text }, Element::Plot(terminal::terminal(&shown(telling)))]
}

/// The numbers behind figures of distributions, where figures are not drawn.
pub fn distributions(content: &ReportContent<'_>) -> Vec<Element> {
    let drawn = content.report.figures.iter().filter(|spec| spec.draw.is_distribution());
    let table = |spec: &FigureSpec| {
        let spreads = spread::spreads(content.report, spec);
        let (rows, scale) = (&spreads.all, spreads.scale);
        let titles = if spreads.over_time {
            ["5th percentile", "first quartile", "median", "third quartile", "95th percentile"]
        } else {
            ["lowest", "first quartile", "median", "third quartile", "highest"]
        };
        let mark = |(index, title): (usize, &str)| {
            Column::of(title, Role::Number, rows, |one| Some(scale.show(one.marks[index]))).unit(scale.unit())
        };
        let mut columns = vec![
            Column::of("at", Role::Word, rows, |one| Some(one.point.clone())),
            Column::of("variant", Role::Name, rows, |one| Some(one.variant.clone())),
        ];
        columns.extend(titles.into_iter().enumerate().map(mark));
        let caption = Caption::new(spec.title.clone(), spread::heading(spec, &spreads));
        let lines = vec![TableRow { verdict: Verdict::NotComparable, ..TableRow::default() }; rows.len()];
        Table::new("", caption, columns, lines)
    };
    drawn.map(table).filter(|table| !table.rows.is_empty()).map(Element::Table).collect()
}

/// Elements under a heading, if there are any.
fn headed(id: &'static str, heading: &str, parts: Vec<Element>) -> Vec<Element> {
    let heading = (!parts.is_empty()).then(|| Element::Heading { id, text: heading.to_owned() });
    heading.into_iter().chain(parts).collect()
}

fn list(marks: Marks, what: &'static str, items: Vec<Item>) -> Option<List> {
    (!items.is_empty()).then_some(List { question: "", what, marks, items })
}

/// Metric, variant and point of a cell.
fn name_of(cell: &ReportCell) -> String {
    let point = point_name(&cell.point());
    let at = if point.is_empty() { point } else { format!(" at {point}") };
    format!("{}, {}{at}", title_of(&cell.metric), cell.variant)
}

/// Points out windows that a terminal does not show. `all`: the page draws every point.
fn other_windows(plots: &[WindowPlot], all: bool) -> Option<String> {
    let others = match plots.iter().filter(|plot| plot.quantity == plots::WINDOWS).count() {
        0 | 1 => return None,
        2 => "1 other point of the sweep is".to_owned(),
        points => format!("{} other points of the sweep are", points - 1),
    };
    let drawn = if all { "every point" } else { "the points that a [[figure]] over time asks for" };
    Some(format!("{others} not shown: `tccc report DIR -o html` draws {drawn}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_other_points_are_said_to_be_elsewhere() {
        let plot = |quantity| WindowPlot { point: Default::default(), quantity, lines: Vec::new(), beside: Vec::new() };
        assert_eq!(other_windows(&[plot("cwnd_pkts"), plot("srtt_us"), plot("srtt_us")], true), None, "one point");
        let windows = [(); 3].map(|()| plot("cwnd_pkts"));
        let drawn = "not shown: `tccc report DIR -o html` draws";
        let one = format!("1 other point of the sweep is {drawn} every point");
        let two = format!("2 other points of the sweep are {drawn} the points that a [[figure]] over time asks for");
        assert_eq!([other_windows(&windows[..2], true), other_windows(&windows, false)], [Some(one), Some(two)]);
    }
}
