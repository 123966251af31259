//! Columns for people, as wide as their cells. On a terminal that is too narrow, cells take several lines.

use std::io::{self, Write};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::stdout::terminal_width;
use shared::sanitize::plain;

/// Columns between two columns of a table.
const GAP: u16 = 2;

/// Makes cells [`plain`], because some hold names from other programs.
pub fn write_columns<const N: usize>(
    out: &mut impl Write,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    write_indented(out, 0, header, rows)
}

/// Like [`write_columns`], with this many blanks before each line.
pub fn write_indented<const N: usize>(
    out: &mut impl Write,
    indent: u16,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| plain(&cell))));
    let paddings: [(u16, u16); N] =
        std::array::from_fn(|column| (if column == 0 { indent } else { 0 }, if column + 1 < N { GAP } else { 0 }));
    table.column_iter_mut().zip(paddings).for_each(|(column, padding)| _ = column.set_padding(padding));
    if let Ok(width) = u16::try_from(line_limit()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        keep_words_whole(&mut table, width);
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// Makes each column at least as wide as its longest word, so that names and paths can be copied, if all of them fit.
fn keep_words_whole(table: &mut Table, width: u16) {
    let longest = |column: usize| {
        let cells = table.column_cells_with_header_iter(column).flatten();
        let words =
            cells.flat_map(|cell| cell.content().split(' ').map(|word| word.chars().count()).collect::<Vec<_>>());
        u16::try_from(words.max().unwrap_or(0)).unwrap_or(u16::MAX)
    };
    let columns = table.column_iter().enumerate();
    let least: Vec<u16> =
        columns.map(|(index, column)| longest(index).saturating_add(column.padding_width())).collect();
    if least.iter().copied().map(u32::from).sum::<u32>() > width.into() {
        return;
    }
    for (column, least) in table.column_iter_mut().zip(least) {
        column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
    }
}

/// Width of the terminal, characters; unlimited if stdout is not a terminal.
pub fn line_limit() -> usize {
    terminal_width().unwrap_or(usize::MAX)
}

pub fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(str::to_owned)
}

pub fn marked_title(title: &str, is_patented: bool) -> String {
    if is_patented { format!("{title} [patented]") } else { title.to_owned() }
}
