//! What the text, Markdown and HTML forms of a report say: built once, written in each form in its own order.

pub mod beside;
mod calibration;
mod facts;
mod metric;
pub mod part;
pub mod table;

use part::{Item, List, Marks, Part, Tally};
use table::Table;

use super::figures::{self, terminal};
use super::judge::cell::{Cell, Verdict, each_once, place_name};
use super::judge::finding::{About, Finding};
use super::judge::report::Report;
use super::judge::selection;
use super::judge::windows::{self, WindowPlot};
use crate::model::metrics::Metric;
use crate::model::notice::Notice;

/// A duty of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// What it shows.
    Claim,
    /// How it was measured, with the claim, under the title.
    Header,
    /// How it was measured, under a heading.
    HowMeasured,
    /// Verdicts in numbers, what is outside, and whether the source's numbers hold.
    Verdicts,
    /// One table per metric, with how variants stand beside the baseline.
    Metrics,
    /// The choice of a parameter.
    Choice,
    /// Where published and expected numbers come from.
    Sources,
    /// What the metrics are.
    Definitions,
    /// What concerns cells, by the numbers in the tables, then what concerns the whole report.
    Notes,
    /// Drawings.
    Figures,
    /// The windows of the place that shows most.
    Windows,
}

/// A report as a document of these sections, in their order.
pub fn of(report: &Report, order: &[Section]) -> Vec<Part> {
    let mut notes = Vec::new();
    let tables = metric::names(report).into_iter().map(|name| metric::table(report, name, &mut notes)).collect();
    let builder = Builder { report, tables, notes };
    let title = Part::Title(report.title.clone());
    std::iter::once(title).chain(order.iter().flat_map(|section| builder.section(*section))).collect()
}

/// What several reports say together: their verdicts, and those of one scenario side by side; nothing of a single one.
pub fn together(reports: &[Report]) -> Vec<Part> {
    let Some(overview) = beside::overview(reports) else { return Vec::new() };
    let mut parts = vec![Part::Title(format!("{} reports", reports.len()))];
    parts.extend(reports.iter().any(Report::has_targets).then(|| Part::Verdicts(tally(reports), Vec::new())));
    parts.push(Part::Table(overview));
    parts.extend(beside::tables(reports).into_iter().map(Part::Table));
    parts
}

/// Cells by verdict.
fn tally(reports: &[Report]) -> Tally {
    let cells = || reports.iter().flat_map(|report| &report.cells);
    let count = |verdict| cells().filter(|cell| cell.verdict == verdict).count();
    let open = || cells().filter(|cell| cell.verdict == Verdict::NotComparable).map(|cell| &cell.verdict_reason);
    let counted = |reason: &String| format!("{} {reason}", open().filter(|other| *other == reason).count());
    let reasons: Vec<String> = each_once(open()).into_iter().map(counted).collect();
    Tally { counts: Tally::VERDICTS.map(count), reasons: reasons.join(", ") }
}

/// A report on its way to a document.
struct Builder<'a> {
    report: &'a Report,
    tables: Vec<Table>,
    notes: Vec<Notice>,
}

impl Builder<'_> {
    fn section(&self, section: Section) -> Vec<Part> {
        let report = self.report;
        let claim = || ("claim".to_owned(), report.claim.clone());
        match section {
            Section::Claim => vec![Part::Claim(report.claim.clone())],
            Section::Header => vec![Part::Facts(std::iter::once(claim()).chain(facts::header(report)).collect())],
            Section::HowMeasured => headed("how", "How it was measured", vec![Part::Facts(facts::header(report))]),
            Section::Verdicts => verdicts(report).into_iter().collect(),
            Section::Metrics => self.tables.iter().flat_map(|table| self.metric(table)).collect(),
            Section::Choice => choice(report),
            Section::Sources => sources(report),
            Section::Definitions => match facts::definitions(report) {
                none if none.is_empty() => Vec::new(),
                definitions => headed("metrics", "Metrics", vec![Part::Facts(definitions)]),
            },
            Section::Notes => headed("notes", "Notes", self.notes()),
            Section::Figures => {
                headed("figures", "Figures", figures::figures(report).into_iter().map(Part::Figure).collect())
            }
            Section::Windows => windows(report),
        }
    }

    fn metric(&self, table: &Table) -> Vec<Part> {
        let is_own = |finding: &&Finding| finding.about == About::Baseline && finding.metric == table.id;
        let item = |finding: &Finding| Item { text: finding.sentence.clone(), ..Item::default() };
        let standings = self.report.findings.iter().filter(is_own).map(item).collect();
        let list = list(Marks::None, "", standings).map(Part::List);
        std::iter::once(Part::Table(table.clone())).chain(list).collect()
    }

    fn notes(&self) -> Vec<Part> {
        let item =
            |notice: &Notice| Item { text: notice.cause.clone(), advice: notice.advice.clone(), ..Item::default() };
        let numbered = list(Marks::Numbers, "", self.notes.iter().map(item).collect());
        let others = list(Marks::Bullets, "", self.report.notices.iter().map(item).collect());
        numbered.into_iter().chain(others).map(Part::List).collect()
    }
}

/// Parts under their heading; nothing where there is none.
fn headed(id: &'static str, heading: &str, parts: Vec<Part>) -> Vec<Part> {
    let heading = (!parts.is_empty()).then(|| Part::Heading { id, text: heading.to_owned() });
    heading.into_iter().chain(parts).collect()
}

fn list(marks: Marks, what: &'static str, items: Vec<Item>) -> Option<List> {
    (!items.is_empty()).then_some(List { question: "", what, marks, items })
}

/// None: nothing is published or expected.
fn verdicts(report: &Report) -> Option<Part> {
    let outside = report.cells.iter().filter(|cell| cell.verdict == Verdict::Outside).map(|cell| Item {
        verdict: Some((Verdict::Outside, "outside")),
        about: Some((cell.metric.clone(), name_of(cell))),
        text: cell.verdict_reason.clone(),
        ..Item::default()
    });
    let published = report.findings.iter().filter(|finding| finding.about == About::Published).map(|finding| {
        let verdict = match finding.holds {
            Some(true) => (Verdict::Within, "holds"),
            _ => (Verdict::Outside, "does not hold"),
        };
        Item { verdict: Some(verdict), text: finding.sentence.clone(), ..Item::default() }
    });
    let outside = list(Marks::Verdicts, "outside their range", outside.collect());
    let published = list(Marks::Verdicts, "published numbers", published.collect());
    let published = published.map(|list| List { question: "Do the published numbers hold on Linux?", ..list });
    let lists = outside.into_iter().chain(published).collect();
    report.has_targets().then(|| Part::Verdicts(tally(std::slice::from_ref(report)), lists))
}

/// What a cell is, for a sentence: its metric, variant and place.
fn name_of(cell: &Cell) -> String {
    let title = Metric::find(&cell.metric).map_or(cell.metric.as_str(), |metric| metric.title);
    let place = place_name(&cell.place());
    let at = if place.is_empty() { place } else { format!(" at {place}") };
    format!("{title}, {}{at}", cell.variant)
}

fn choice(report: &Report) -> Vec<Part> {
    let Some(chosen) = &report.selection else { return Vec::new() };
    let table = metric::of_selection(chosen).map(Part::Table);
    table.into_iter().chain([Part::Conclusion(selection::sentence(chosen))]).collect()
}

fn sources(report: &Report) -> Vec<Part> {
    let places = facts::published_places(report).join("; ");
    let published = (!places.is_empty()).then(|| Part::Remark("published", places));
    let expected = facts::bases(report).into_iter().map(|basis| Part::Remark("expected", basis.to_owned()));
    published.into_iter().chain(expected).collect()
}

fn windows(report: &Report) -> Vec<Part> {
    let Some(telling) = windows::telling(&report.plots) else { return Vec::new() };
    let place = telling.place_name();
    let at = if place.is_empty() { place } else { format!(" at {place}") };
    let heading = Part::Heading { id: "", text: format!("cwnd [pkts] over time{at}") };
    let plot = Part::Plot(terminal::terminal(telling));
    let others = other_windows(&report.plots, report.figures.is_empty()).map(Part::Sentence);
    [heading, plot].into_iter().chain(others).collect()
}

/// That there are windows which a terminal does not show, and where they are; `all` where no figure is chosen.
fn other_windows(plots: &[WindowPlot], all: bool) -> Option<String> {
    let others = match plots.iter().filter(|plot| plot.quantity == "cwnd_pkts").count() {
        0 | 1 => return None,
        2 => "1 other place is".to_owned(),
        places => format!("{} other places are", places - 1),
    };
    let drawn = if all { "every place" } else { "the places that a [[figure]] over time asks for" };
    Some(format!("{others} not shown: `tccc report DIR -o html` draws {drawn}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_other_places_are_said_to_be_elsewhere() {
        let plot = |quantity| WindowPlot { place: Default::default(), quantity, lines: Vec::new() };
        assert_eq!(other_windows(&[plot("cwnd_pkts"), plot("srtt_us"), plot("srtt_us")], true), None, "one place");
        let windows = [(); 3].map(|()| plot("cwnd_pkts"));
        let drawn = "not shown: `tccc report DIR -o html` draws";
        assert_eq!(other_windows(&windows[..2], true), Some(format!("1 other place is {drawn} every place")));
        let chosen = "the places that a [[figure]] over time asks for";
        assert_eq!(other_windows(&windows, false), Some(format!("2 other places are {drawn} {chosen}")));
    }
}
