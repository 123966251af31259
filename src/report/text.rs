//! The report for a terminal: header, tables, notices, and the windows of the most telling place.

use super::plot::{self, WindowPlot};
use super::selection::{self, Selection};
use super::table::{self, Column, Table};
use super::{Report, beside};
use crate::model::notice::Notice;

/// Between two columns.
const GAP: &str = "  ";
/// Width to which sentences are wrapped.
const LINE: usize = 110;

/// Writes the reports one after the other, then what they say together.
pub fn write(reports: &[Report]) -> String {
    let mut text = reports.iter().map(one).collect::<Vec<_>>().join("\n");
    for table in beside::tables(reports).iter().chain(&beside::overview(reports)) {
        text.push_str(&format!("\n{}{}", wrapped("", &table.caption), grid(table)));
    }
    text
}

fn one(report: &Report) -> String {
    let laid_out = table::tables(report);
    let mut text = format!("{}\n", plain(&report.title));
    for (name, fact) in table::header(report) {
        text.push_str(&wrapped(&format!("  {name:<12}"), &fact));
    }
    for table in &laid_out.tables {
        text.push_str(&format!("\n{}", wrapped("", &table.caption)));
        text.push_str(&grid(table));
        let standings = table::standings(report, &table.metric);
        standings.iter().for_each(|sentence| text.push_str(&wrapped("  ", sentence)));
    }
    if let Some(selection) = &report.selection {
        text.push_str(&chosen(selection));
    }
    text.push_str(&format!("\n{}", verdict_lines(report)));
    text.push_str(&remarks(report));
    text.push_str(&notices(&laid_out.notes, &report.notices));
    if let Some(windows) = plot::telling(&report.plots) {
        let place = windows.place_name();
        let place = if place.is_empty() { String::new() } else { format!(" at {}", plain(&place)) };
        text.push_str(&format!("\ncwnd [pkts] over time{place}\n{}", plot::terminal(windows)));
        text.push_str(&other_windows(&report.plots, report.figures.is_empty()));
    }
    text
}

/// That there are windows which a terminal does not show, and where they are; `all` where no figure is chosen.
fn other_windows(plots: &[WindowPlot], all: bool) -> String {
    let others = match plots.iter().filter(|plot| plot.quantity == "cwnd_pkts").count() {
        0 | 1 => return String::new(),
        2 => "1 other place is".to_owned(),
        places => format!("{} other places are", places - 1),
    };
    let drawn = if all { "every place" } else { "the places that a [[figure]] over time asks for" };
    wrapped("", &format!("{others} not shown: `tccc report DIR -o html` draws {drawn}"))
}

/// The choice of a parameter: its table and its sentence.
fn chosen(selection: &Selection) -> String {
    let table = table::of_selection(selection);
    let table = table.map_or(String::new(), |table| format!("{}{}\n", wrapped("", &table.caption), grid(&table)));
    format!("\n{table}{}", wrapped("", &selection::sentence(selection)))
}

fn verdict_lines(report: &Report) -> String {
    let mut text = wrapped("verdicts: ", &table::summary(report));
    for cell in report.cells.iter().filter(|cell| cell.verdict == super::Verdict::Outside) {
        text.push_str(&wrapped("  outside: ", &format!("{}: {}", table::name_of(cell), cell.verdict_reason)));
    }
    for (holds, sentence) in table::published_findings(report) {
        text.push_str(&wrapped(if holds { "  holds: " } else { "  does not hold: " }, sentence));
    }
    text
}

fn remarks(report: &Report) -> String {
    let places = table::published_places(report).join("; ");
    let mut text = String::new();
    if !places.is_empty() {
        text.push_str(&wrapped("published: ", &places));
    }
    for basis in table::bases(report) {
        text.push_str(&wrapped("expected: ", &basis));
    }
    text
}

fn notices(notes: &[Notice], general: &[Notice]) -> String {
    if notes.is_empty() && general.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nnotes\n");
    for (index, note) in notes.iter().enumerate() {
        text.push_str(&wrapped(&format!("  {:>2} ", index + 1), &format!("{}; {}", note.cause, note.advice)));
    }
    for notice in general {
        text.push_str(&wrapped("   - ", &format!("{}; {}", notice.cause, notice.advice)));
    }
    text
}

/// Aligned columns with headings of as many lines as they need.
fn grid(table: &Table) -> String {
    let table = &table.without_details();
    let layout = |(index, column): (usize, &Column)| {
        let widest = table.rows.iter().map(|row| width(&row.cells[index])).max().unwrap_or(0);
        heading(column, widest)
    };
    let columns: Vec<(Vec<String>, usize)> = table.columns.iter().enumerate().map(layout).collect();
    let lines = columns.iter().map(|(heading, _)| heading.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in 0..lines {
        // Headings stand at the bottom, next to their numbers.
        let cell = |(heading, _): &(Vec<String>, usize)| {
            (line + heading.len()).checked_sub(lines).map_or(String::new(), |index| heading[index].clone())
        };
        text.push_str(&aligned(table, &columns, columns.iter().map(cell)));
    }
    let rules = columns.iter().map(|(_, width)| "─".repeat(*width));
    text.push_str(&aligned(table, &columns, rules));
    for row in &table.rows {
        if row.starts_group && table.rows.len() > 3 {
            text.push('\n');
        }
        text.push_str(&aligned(table, &columns, row.cells.iter().map(|cell| plain(cell))));
    }
    text
}

fn aligned(table: &Table, columns: &[(Vec<String>, usize)], cells: impl Iterator<Item = String>) -> String {
    let pad = |((column, (_, wide)), cell): ((&Column, &(Vec<String>, usize)), String)| {
        let space = " ".repeat(wide.saturating_sub(width(&cell)));
        if column.number { format!("{space}{cell}") } else { format!("{cell}{space}") }
    };
    let row: Vec<String> = table.columns.iter().zip(columns).zip(cells).map(pad).collect();
    format!("{}\n", row.join(GAP).trim_end())
}

/// A heading broken to about the width of its column, and the column's width.
fn heading(column: &Column, widest: usize) -> (Vec<String>, usize) {
    let title = plain(&column.title);
    let unit = if column.unit.is_empty() { String::new() } else { format!("[{}]", column.unit) };
    let longest = title.split(' ').map(width).max().unwrap_or(0);
    let wide = widest.max(longest).max(width(&unit));
    let mut lines = broken(&title, wide);
    lines.extend((!unit.is_empty()).then_some(unit));
    (lines, wide)
}

/// Breaks a text between words so that no line is wider than asked, unless a word is.
fn broken(text: &str, wide: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= wide => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A paragraph after a label, its further lines indented to the label's width.
fn wrapped(label: &str, text: &str) -> String {
    let indent = " ".repeat(width(label));
    let lines = broken(&plain(text), LINE - width(label));
    let mut paragraph = String::new();
    for (index, line) in lines.iter().enumerate() {
        paragraph.push_str(&format!("{}{line}\n", if index == 0 { label } else { &indent }));
    }
    paragraph
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Without control characters: a title from a file must not steer the terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_of_other_places_are_said_to_be_elsewhere() {
        let plot = |quantity| WindowPlot { place: Default::default(), quantity, lines: Vec::new() };
        assert_eq!(other_windows(&[plot("cwnd_pkts"), plot("srtt_us"), plot("srtt_us")], true), "", "one place");
        let windows = [(); 3].map(|()| plot("cwnd_pkts"));
        let drawn = "not shown: `tccc report DIR -o html` draws";
        assert_eq!(other_windows(&windows[..2], true), format!("1 other place is {drawn} every place\n"));
        let chosen = "the places that a [[figure]] over time asks for";
        assert_eq!(other_windows(&windows, false), format!("2 other places are {drawn} {chosen}\n"));
    }
}
