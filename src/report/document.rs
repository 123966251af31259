//! What the text, Markdown and HTML forms of a report say: built once, written in each form in its own order.

pub mod beside;
mod calibration;
mod facts;
mod metric;
mod nodes;
pub mod part;
pub mod section;
pub mod table;

use part::{Part, Tally};
use table::Table;

use super::judge::cell::{Verdict, each_once};
use super::judge::report::Report;
use crate::model::notice::Notice;

/// A section of a report: the parts that it consists of, none where it has nothing to say.
pub type Section = fn(&Content<'_>) -> Vec<Part>;

/// A report as a document of these sections, in their order.
pub fn of(report: &Report, sections: &[Section]) -> Vec<Part> {
    let content = Content::new(report);
    let title = Part::Title(report.title.clone());
    std::iter::once(title).chain(sections.iter().flat_map(|section| section(&content))).collect()
}

/// What several reports say together: their verdicts, and those of one scenario side by side; none of a single one.
pub fn together(reports: &[Report]) -> Option<Vec<Part>> {
    let overview = beside::overview(reports)?;
    let title = Part::Title(format!("{} reports", reports.len()));
    let is_judged = reports.iter().any(Report::has_targets);
    let verdicts = is_judged.then(|| Part::Verdicts(tally(reports), Vec::new()));
    let tables = beside::tables(reports).into_iter().map(Part::Table);
    Some([title].into_iter().chain(verdicts).chain([Part::Table(overview)]).chain(tables).collect())
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

/// A report with its tables laid out, which are of the same notes.
pub struct Content<'a> {
    report: &'a Report,
    tables: Vec<Table>,
    /// What concerns cells, by the numbers in the tables.
    notes: Vec<Notice>,
}

impl Content<'_> {
    fn new(report: &Report) -> Content<'_> {
        let mut notes = Vec::new();
        let tables = metric::names(report).into_iter().map(|name| metric::table(report, name, &mut notes)).collect();
        Content { report, tables, notes }
    }
}
