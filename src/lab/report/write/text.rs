//! Documents as text for a terminal.

use crate::report::document::element::{Element, List, Marks};
use crate::report::document::table::{Column, Table};
use crate::report::document::{self, ReportSection, section};
use crate::report::judge::report::Report;
use shared::sanitize::{plain, plain_lines};

const SECTIONS: [ReportSection; 11] = [
    section::header,
    section::metrics,
    section::flows,
    section::distributions,
    section::choice,
    section::verdicts,
    section::checks,
    section::sources,
    section::nodes,
    section::notes,
    section::windows,
];
const GAP: &str = "  ";
/// Width of wrapped text.
const LINE: usize = 110;

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
        Element::Title(title) => format!("{}\n", one_line(title)),
        Element::Heading { text, .. } => format!("\n{}\n", one_line(text)),
        Element::Claim(text) | Element::Sentence(text) => wrapped("", text),
        Element::Conclusion(text) => format!("\n{}", wrapped("", text)),
        Element::Remark(about, text) => wrapped(&format!("{about}: "), text),
        Element::Facts(facts) => facts.iter().map(|(name, fact)| wrapped(&format!("  {name:<12}"), fact)).collect(),
        Element::Verdicts(tally, lists) => {
            format!("\n{}{}", wrapped("verdicts: ", &tally.sentence()), lists.iter().map(list).collect::<String>())
        }
        Element::Table(table) if table.caption.is_empty() => grid(table),
        Element::Table(table) => format!("\n{}{}", wrapped("", &table.caption.to_string()), grid(table)),
        Element::List(one) => list(one),
        Element::Code(code) => plain_lines(code).lines().map(|line| format!("    {line}\n")).collect(),
        Element::Plot(plot) => plot.clone(),
        Element::Figure(_) => String::new(),
    }
}

fn list(list: &List) -> String {
    let items = list.items.iter().enumerate().map(|(index, item)| {
        let mark = match list.marks {
            Marks::None => "  ".to_owned(),
            Marks::Verdicts => format!("  {}", item.label()),
            Marks::Numbers => format!("  {:>2} ", index + 1),
            Marks::Bullets => "   - ".to_owned(),
        };
        wrapped(&mark, &item.line())
    });
    items.collect()
}

fn grid(table: &Table) -> String {
    let columns: Vec<Laid<'_>> = table.columns.iter().filter(|column| !column.is_detail).map(Laid::out).collect();
    let lines = columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..lines {
        // Headings are aligned at the bottom.
        let above = |column: &Laid<'_>| (line + column.heading.len()).checked_sub(lines);
        let cell = |column: &Laid<'_>| above(column).map_or(String::new(), |index| column.heading[index].clone());
        text.push_str(&aligned(&columns, cell));
    }
    text.push_str(&aligned(&columns, |column| "─".repeat(column.width)));
    for (index, row) in table.rows.iter().enumerate() {
        let gap = if row.starts_group && table.rows.len() > 3 { "\n" } else { "" };
        text += &format!("{gap}{}", aligned(&columns, |column| column.cells[index].clone()));
    }
    text
}

fn aligned(columns: &[Laid<'_>], cell: impl Fn(&Laid<'_>) -> String) -> String {
    let pad = |column: &Laid<'_>| {
        let text = cell(column);
        let space = " ".repeat(column.width.saturating_sub(width(&text)));
        if column.of.is_number() { format!("{space}{text}") } else { format!("{text}{space}") }
    };
    let row: Vec<String> = columns.iter().map(pad).collect();
    format!("{}\n", row.join(GAP).trim_end())
}

/// A column with its heading wrapped to about the width of its cells.
struct Laid<'a> {
    of: &'a Column,
    heading: Vec<String>,
    cells: Vec<String>,
    width: usize,
}

impl Laid<'_> {
    fn out(of: &Column) -> Laid<'_> {
        let cells: Vec<String> = of.cells.iter().map(|cell| one_line(cell)).collect();
        let title = one_line(&of.title);
        let unit = if of.unit.is_empty() { String::new() } else { format!("[{}]", of.unit) };
        let widest = cells.iter().map(|cell| width(cell)).max().unwrap_or(0);
        let longest = title.split(' ').map(width).max().unwrap_or(0);
        let width = widest.max(longest).max(width(&unit));
        let mut heading = broken(&title, width);
        heading.extend((!unit.is_empty()).then_some(unit));
        Laid { of, heading, cells, width }
    }
}

/// Wraps a text. Only single words may be wider than `wide`.
fn broken(text: &str, wide: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace().map(plain) {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= wide => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// A paragraph after a label, with a hanging indent.
fn wrapped(label: &str, text: &str) -> String {
    let indent = " ".repeat(width(label));
    let lines = broken(text, LINE - width(label)).into_iter().enumerate();
    lines.map(|(index, line)| format!("{}{line}\n", if index == 0 { label } else { &indent })).collect()
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Text from a file in one line, without control characters.
fn one_line(text: &str) -> String {
    text.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")
}
