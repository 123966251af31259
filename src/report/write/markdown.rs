//! Documents as Markdown, for a README or an issue.

use super::stopped;
use crate::plain::plain_lines;
use crate::report::document::part::{List, Marks, Part};
use crate::report::document::table::Table;
use crate::report::document::{self, Section, section};
use crate::report::judge::report::Report;

/// What a report consists of here.
const SECTIONS: [Section; 8] = [
    section::header,
    section::metrics,
    section::choice,
    section::verdicts,
    section::sources,
    section::definitions,
    section::nodes,
    section::notes,
];

/// Writes the reports one after the other, then what they say together.
pub fn write(reports: &[Report]) -> String {
    let documents = reports.iter().map(|report| document::of(report, &SECTIONS));
    written(documents.chain(document::together(reports)))
}

/// Writes documents one after the other.
pub fn written(documents: impl Iterator<Item = Vec<Part>>) -> String {
    documents.map(|parts| parts.iter().map(part).collect::<String>()).collect::<Vec<_>>().join("\n")
}

fn part(part: &Part) -> String {
    match part {
        Part::Title(title) => format!("## {}\n\n", escaped(title)),
        Part::Heading { text, .. } => format!("\n### {}\n\n", escaped(text)),
        Part::Claim(text) | Part::Sentence(text) => format!("{}\n\n", escaped(text)),
        Part::Conclusion(text) => format!("\n{}\n", escaped(&stopped(text))),
        Part::Remark(about, text) => format!("\n{}: {}\n", super::capital(about), escaped(&stopped(text))),
        Part::Facts(facts) => {
            facts.iter().map(|(name, fact)| format!("- {}: {}\n", escaped(name), escaped(fact))).collect()
        }
        Part::Verdicts(tally, lists) => {
            format!("\nVerdicts: {}.\n{}", tally.sentence(), lists.iter().map(list).collect::<String>())
        }
        Part::Table(table) if table.caption.is_empty() => grid(table),
        Part::Table(table) => format!("\n### {}\n\n{}", escaped(&table.caption), grid(table)),
        Part::List(one) => list(one),
        // Indented, because a fence could be ended by a line of the text.
        Part::Code(code) => plain_lines(code).lines().map(|line| format!("    {line}\n")).collect(),
        Part::Plot(_) | Part::Figure(_) => String::new(),
    }
}

fn list(list: &List) -> String {
    let items = list.items.iter().enumerate().map(|(index, item)| {
        let mark = if list.marks == Marks::Numbers { format!("{}.", index + 1) } else { "-".to_owned() };
        format!("{mark} {}{}\n", item.label(), escaped(&item.line()))
    });
    format!("\n{}", items.collect::<String>())
}

fn grid(table: &Table) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let columns = || table.columns.iter();
    let mut text = line(columns().map(|column| escaped(&column.heading())).collect());
    text.push_str(&line(columns().map(|one| if one.is_number() { "---:" } else { "---" }.to_owned()).collect()));
    for index in 0..table.rows.len() {
        text.push_str(&line(columns().map(|column| escaped(&column.cells[index])).collect()));
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
