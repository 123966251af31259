//! Documents for a terminal.

use crate::plain::{plain, plain_lines};
use crate::report::document::part::{List, Marks, Part};
use crate::report::document::table::{Column, Table};
use crate::report::document::{self, Section, section};
use crate::report::judge::report::Report;

/// What a report consists of here.
const SECTIONS: [Section; 8] = [
    section::header,
    section::metrics,
    section::choice,
    section::verdicts,
    section::sources,
    section::nodes,
    section::notes,
    section::windows,
];
/// Between two columns.
const GAP: &str = "  ";
/// Width to which sentences are wrapped.
const LINE: usize = 110;

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
        Part::Title(title) => format!("{}\n", one_line(title)),
        Part::Heading { text, .. } => format!("\n{}\n", one_line(text)),
        Part::Claim(text) | Part::Sentence(text) => wrapped("", text),
        Part::Conclusion(text) => format!("\n{}", wrapped("", text)),
        Part::Remark(about, text) => wrapped(&format!("{about}: "), text),
        Part::Facts(facts) => facts.iter().map(|(name, fact)| wrapped(&format!("  {name:<12}"), fact)).collect(),
        Part::Verdicts(tally, lists) => {
            format!("\n{}{}", wrapped("verdicts: ", &tally.sentence()), lists.iter().map(list).collect::<String>())
        }
        Part::Table(table) if table.caption.is_empty() => grid(table),
        Part::Table(table) => format!("\n{}{}", wrapped("", &table.caption), grid(table)),
        Part::List(one) => list(one),
        Part::Code(code) => plain_lines(code).lines().map(|line| format!("    {line}\n")).collect(),
        Part::Plot(plot) => plot.clone(),
        Part::Figure(_) => String::new(),
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

/// Aligned columns with headings of as many lines as they need.
fn grid(table: &Table) -> String {
    let columns: Vec<Laid<'_>> = table.columns.iter().filter(|column| !column.is_detail).map(Laid::out).collect();
    let lines = columns.iter().map(|column| column.heading.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..lines {
        // Headings stand at the bottom, next to their numbers.
        let above = |column: &Laid<'_>| (line + column.heading.len()).checked_sub(lines);
        let cell = |column: &Laid<'_>| above(column).map_or(String::new(), |index| column.heading[index].clone());
        text.push_str(&aligned(&columns, cell));
    }
    text.push_str(&aligned(&columns, |column| "─".repeat(column.width)));
    for (index, row) in table.rows.iter().enumerate() {
        if row.starts_group && table.rows.len() > 3 {
            text.push('\n');
        }
        text.push_str(&aligned(&columns, |column| column.cells[index].clone()));
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

/// A column with its heading broken to about the width of its cells.
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

/// Breaks a text between words so that no line is wider than asked, unless a word is.
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

/// A paragraph after a label, its further lines indented to the label's width.
fn wrapped(label: &str, text: &str) -> String {
    let indent = " ".repeat(width(label));
    let lines = broken(text, LINE - width(label));
    let mut paragraph = String::new();
    for (index, line) in lines.iter().enumerate() {
        paragraph.push_str(&format!("{}{line}\n", if index == 0 { label } else { &indent }));
    }
    paragraph
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A text of a file in one line, without what would steer the terminal.
fn one_line(text: &str) -> String {
    text.split_whitespace().map(plain).collect::<Vec<_>>().join(" ")
}
