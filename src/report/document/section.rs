//! The sections of a report, each a function to its parts.

use super::part::{Item, List, Marks, Part};
use super::table::Table;
use super::{Content, facts, metric, tally};
use crate::model::notice::Notice;
use crate::report::figures::{self as drawings, terminal};
use crate::report::judge::cell::{Cell, Verdict, point_name, title_of};
use crate::report::judge::finding::{About, Finding};
use crate::report::judge::report::Report;
use crate::report::judge::selection;
use crate::report::judge::windows::{self as plots, WindowPlot};

/// What it shows.
pub fn claim(content: &Content<'_>) -> Vec<Part> {
    vec![Part::Claim(content.report.claim.clone())]
}

/// What it shows and how it was measured, under the title.
pub fn header(content: &Content<'_>) -> Vec<Part> {
    let claim = ("claim".to_owned(), content.report.claim.clone());
    vec![Part::Facts(std::iter::once(claim).chain(facts::header(content.report)).collect())]
}

/// How it was measured, under a heading.
pub fn how_measured(content: &Content<'_>) -> Vec<Part> {
    headed("how", "How it was measured", vec![Part::Facts(facts::header(content.report))])
}

/// One table per metric, with how variants stand beside the baseline.
pub fn metrics(content: &Content<'_>) -> Vec<Part> {
    content.tables.iter().flat_map(|table| of_table(content.report, table)).collect()
}

fn of_table(report: &Report, table: &Table) -> Vec<Part> {
    let is_own = |finding: &&Finding| finding.about == About::Baseline && finding.metric == table.id;
    let item = |finding: &Finding| Item { text: finding.sentence.clone(), ..Item::default() };
    let standings = report.findings.iter().filter(is_own).map(item).collect();
    let list = list(Marks::None, "", standings).map(Part::List);
    std::iter::once(Part::Table(table.clone())).chain(list).collect()
}

/// Verdicts in numbers, what is outside, and whether the source's numbers hold.
pub fn verdicts(content: &Content<'_>) -> Vec<Part> {
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
    vec![Part::Verdicts(tally(std::slice::from_ref(report)), lists)]
}

/// The choice of a parameter.
pub fn choice(content: &Content<'_>) -> Vec<Part> {
    let Some(chosen) = &content.report.selection else { return Vec::new() };
    let table = metric::of_selection(chosen).map(Part::Table);
    table.into_iter().chain([Part::Conclusion(selection::sentence(chosen))]).collect()
}

/// Where published and expected numbers come from.
pub fn sources(content: &Content<'_>) -> Vec<Part> {
    let places = facts::published_places(content.report).join("; ");
    let published = (!places.is_empty()).then_some(Part::Remark("published", places));
    let expected = facts::bases(content.report).into_iter().map(|basis| Part::Remark("expected", basis.to_owned()));
    published.into_iter().chain(expected).collect()
}

pub use super::nodes::nodes;

/// What the metrics are.
pub fn definitions(content: &Content<'_>) -> Vec<Part> {
    let definitions = Some(facts::definitions(content.report)).filter(|definitions| !definitions.is_empty());
    headed("metrics", "Metrics", definitions.into_iter().map(Part::Facts).collect())
}

/// What concerns cells, then what concerns the whole report.
pub fn notes(content: &Content<'_>) -> Vec<Part> {
    let item = |notice: &Notice| Item { text: notice.cause.clone(), advice: notice.advice.clone(), ..Item::default() };
    let numbered = list(Marks::Numbers, "", content.notes.iter().map(item).collect());
    let others = list(Marks::Bullets, "", content.report.notices.iter().map(item).collect());
    headed("notes", "Notes", numbered.into_iter().chain(others).map(Part::List).collect())
}

pub fn figures(content: &Content<'_>) -> Vec<Part> {
    headed("figures", "Figures", drawings::figures(content.report).into_iter().map(Part::Figure).collect())
}

/// The windows of the point that shows most, for a terminal.
pub fn windows(content: &Content<'_>) -> Vec<Part> {
    let Some(telling) = plots::telling(&content.report.plots) else { return Vec::new() };
    let point = telling.point_name();
    let at = if point.is_empty() { point } else { format!(" at {point}") };
    let heading = Part::Heading { id: "", text: format!("cwnd [pkts] over time{at}") };
    let plot = Part::Plot(terminal::terminal(telling));
    let others = other_windows(&content.report.plots, content.report.figures.is_empty()).map(Part::Sentence);
    [heading, plot].into_iter().chain(others).collect()
}

/// Parts under their heading; nothing where there is none.
fn headed(id: &'static str, heading: &str, parts: Vec<Part>) -> Vec<Part> {
    let heading = (!parts.is_empty()).then(|| Part::Heading { id, text: heading.to_owned() });
    heading.into_iter().chain(parts).collect()
}

fn list(marks: Marks, what: &'static str, items: Vec<Item>) -> Option<List> {
    (!items.is_empty()).then_some(List { question: "", what, marks, items })
}

/// What a cell is, for a sentence: its metric, variant and point.
fn name_of(cell: &Cell) -> String {
    let point = point_name(&cell.point());
    let at = if point.is_empty() { point } else { format!(" at {point}") };
    format!("{}, {}{at}", title_of(&cell.metric), cell.variant)
}

/// That there are windows which a terminal does not show, and where they are; `all` where no figure is chosen.
fn other_windows(plots: &[WindowPlot], all: bool) -> Option<String> {
    let others = match plots.iter().filter(|plot| plot.quantity == "cwnd_pkts").count() {
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
        let plot = |quantity| WindowPlot { point: Default::default(), quantity, lines: Vec::new() };
        assert_eq!(other_windows(&[plot("cwnd_pkts"), plot("srtt_us"), plot("srtt_us")], true), None, "one point");
        let windows = [(); 3].map(|()| plot("cwnd_pkts"));
        let drawn = "not shown: `tccc report DIR -o html` draws";
        assert_eq!(
            other_windows(&windows[..2], true),
            Some(format!("1 other point of the sweep is {drawn} every point"))
        );
        let chosen = "the points that a [[figure]] over time asks for";
        assert_eq!(other_windows(&windows, false), Some(format!("2 other points of the sweep are {drawn} {chosen}")));
    }
}
