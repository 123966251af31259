//! Documents as Markdown, for a README or an issue.

use super::stopped;
use crate::report::document::element::{Element, List, Marks};
use crate::report::document::table::Table;
use crate::report::document::{self, ReportSection, section};
use crate::report::judge::report::Report;
use shared::sanitize::plain_lines;

const SECTIONS: [ReportSection; 11] = [
    section::header,
    section::metrics,
    section::flows,
    section::distributions,
    section::choice,
    section::verdicts,
    section::checks,
    section::sources,
    section::definitions,
    section::nodes,
    section::notes,
];

/// Writes the reports, then their overview.
pub fn write(reports: &[Report]) -> String {
    let documents = reports.iter().map(|report| document::of(report, &SECTIONS));
    written(documents.chain(document::together(reports)))
}

pub fn written(documents: impl Iterator<Item = Vec<Element>>) -> String {
    super::joined(documents, element)
}

fn element(element: &Element) -> String {
    match element {
        Element::Title(title) => format!("## {}\n\n", escaped(title)),
        Element::Heading { text, .. } => format!("\n### {}\n\n", escaped(text)),
        Element::Claim(text) | Element::Sentence(text) => format!("{}\n\n", escaped(text)),
        Element::Conclusion(text) => format!("\n{}\n", escaped(&stopped(text))),
        Element::Remark(about, text) => format!("\n{}: {}\n", super::capital(about), escaped(&stopped(text))),
        Element::Facts(facts) => {
            let lines: String =
                facts.iter().map(|(name, fact)| format!("- {}: {}\n", escaped(name), escaped(fact))).collect();
            lines + "\n"
        }
        Element::Verdicts(tally, lists) => {
            format!("\nVerdicts: {}.\n{}", tally.sentence(), lists.iter().map(list).collect::<String>())
        }
        Element::Table(table) if table.caption.is_empty() => format!("{}\n", grid(table)),
        Element::Table(table) => format!("\n### {}\n\n{}", escaped(&table.caption.to_string()), grid(table)),
        Element::List(one) => list(one),
        // Indented, because a line of the text could end a fence.
        Element::Code(code) => plain_lines(code).lines().map(|line| format!("    {line}\n")).collect(),
        Element::Plot(_) | Element::Figure(_) => String::new(),
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

/// Escapes text from files, so that it neither ends a cell nor becomes markup.
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
