//! The report as Markdown, for a README or an issue.

use super::selection::{self, Selection};
use super::table::{self, Table};
use super::{Report, Verdict, beside};

/// Writes the reports one after the other, then what they say together.
pub fn write(reports: &[Report]) -> String {
    let mut text = reports.iter().map(one).collect::<Vec<_>>().join("\n");
    for table in beside::tables(reports).iter().chain(&beside::overview(reports)) {
        text.push_str(&format!("\n### {}\n\n{}", escaped(&table.caption), grid(table)));
    }
    text
}

fn one(report: &Report) -> String {
    let laid_out = table::tables(report);
    let mut text = format!("## {}\n\n", escaped(&report.title));
    for (name, fact) in table::header(report) {
        text.push_str(&format!("- {name}: {}\n", escaped(&fact)));
    }
    for table in &laid_out.tables {
        text.push_str(&format!("\n### {}\n\n{}", escaped(&table.caption), grid(table)));
        let standings = table::standings(report, &table.metric);
        text.push_str(if standings.is_empty() { "" } else { "\n" });
        standings.iter().for_each(|sentence| text.push_str(&format!("- {}\n", escaped(sentence))));
    }
    text.push_str(&report.selection.as_ref().map_or(String::new(), chosen));
    text.push_str(&format!("\nVerdicts: {}.\n", table::summary(report)));
    for cell in report.cells.iter().filter(|cell| cell.verdict == Verdict::Outside) {
        text.push_str(&format!("- outside: {}: {}\n", escaped(&table::name_of(cell)), escaped(&cell.verdict_reason)));
    }
    for (_, sentence) in table::published_findings(report) {
        text.push_str(&format!("- {}\n", escaped(sentence)));
    }
    let places = table::published_places(report).join("; ");
    if !places.is_empty() {
        text.push_str(&format!("\nPublished: {}.\n", escaped(&places)));
    }
    for basis in table::bases(report) {
        text.push_str(&format!("\nExpected: {}\n", escaped(&basis)));
    }
    let definitions = table::definitions(report);
    text.push_str(if definitions.is_empty() { "" } else { "\nMetrics:\n\n" });
    for (name, definition) in definitions {
        text.push_str(&format!("- {}: {}\n", escaped(name), escaped(&definition)));
    }
    if !laid_out.notes.is_empty() || !report.notices.is_empty() {
        text.push_str("\nNotes:\n\n");
    }
    for (index, note) in laid_out.notes.iter().enumerate() {
        text.push_str(&format!("{}. {}; {}\n", index + 1, escaped(&note.cause), escaped(&note.advice)));
    }
    if !laid_out.notes.is_empty() && !report.notices.is_empty() {
        text.push('\n');
    }
    for notice in &report.notices {
        text.push_str(&format!("- {}; {}\n", escaped(&notice.cause), escaped(&notice.advice)));
    }
    text
}

/// The choice of a parameter: its table and its sentence.
fn chosen(selection: &Selection) -> String {
    let table = table::of_selection(selection);
    let table = table.map_or(String::new(), |table| format!("\n### {}\n\n{}", escaped(&table.caption), grid(&table)));
    format!("{table}\n{}.\n", escaped(&selection::sentence(selection)))
}

fn grid(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(table.columns.iter().map(|column| escaped(&column.heading())).collect());
    text.push_str(&line(table.columns.iter().map(|c| if c.number { "---:" } else { "---" }.to_owned()).collect()));
    for row in &table.rows {
        text.push_str(&line(row.cells.iter().map(|cell| escaped(cell)).collect()));
    }
    text
}

/// Text from a file that must neither end a cell nor become markup.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '<' | '>' | '\\' | '#' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
