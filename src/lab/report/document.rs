//! Content shared by the text, Markdown and HTML forms of a report. Each form chooses its own order.

pub mod beside;
mod calibration;
pub mod element;
mod facts;
mod flows;
mod links;
mod metric;
mod nodes;
pub mod section;
pub mod table;

use element::{Element, Tally};
use table::Table;

use super::judge::cell::{Verdict, each_once};
use super::judge::report::Report;
use shared::model::notice::Notice;

/// A section's elements; empty if it has nothing to show.
pub type ReportSection = fn(&ReportContent<'_>) -> Vec<Element>;

/// The document of a report: its title, then these sections.
pub fn of(report: &Report, sections: &[ReportSection]) -> Vec<Element> {
    let content = ReportContent::new(report);
    let title = Element::Title(report.title.clone());
    std::iter::once(title).chain(sections.iter().flat_map(|section| section(&content))).collect()
}

/// The overview of several reports: verdicts, and reports of one scenario side by side. `None` for a single report.
pub fn together(reports: &[Report]) -> Option<Vec<Element>> {
    let overview = beside::overview(reports)?;
    let title = Element::Title(format!("{} reports", reports.len()));
    let is_judged = reports.iter().any(Report::has_targets);
    let verdicts = is_judged.then(|| Element::Verdicts(tally(reports), Vec::new()));
    let tables = beside::tables(reports).into_iter().map(Element::Table);
    Some([title].into_iter().chain(verdicts).chain([Element::Table(overview)]).chain(tables).collect())
}

fn tally(reports: &[Report]) -> Tally {
    let cells = || reports.iter().flat_map(|report| &report.cells);
    let count = |verdict| cells().filter(|cell| cell.verdict == verdict).count();
    let open = || cells().filter(|cell| cell.verdict == Verdict::NotComparable).map(|cell| &cell.verdict_reason);
    let counted = |reason: &String| format!("{} {reason}", open().filter(|other| *other == reason).count());
    let reasons: Vec<String> = each_once(open()).into_iter().map(counted).collect();
    Tally { counts: Tally::VERDICTS.map(count), reasons: reasons.join(", ") }
}

/// A report with its tables, which share one list of notes.
pub struct ReportContent<'a> {
    report: &'a Report,
    tables: Vec<Table>,
    /// Notes about cells. Tables refer to them by number.
    notes: Vec<Notice>,
}

impl ReportContent<'_> {
    fn new(report: &Report) -> ReportContent<'_> {
        let mut notes = Vec::new();
        let tables = metric::names(report).into_iter().map(|name| metric::table(report, name, &mut notes)).collect();
        ReportContent { report, tables, notes }
    }
}
