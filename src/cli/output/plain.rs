//! Columns for people, as wide as their cells. On a terminal that is too narrow, cells take several lines.

use std::io::{self, IsTerminal as _, Write};

use comfy_table::{ContentArrangement, Table, presets};
use terminal_size::{Width, terminal_size_of};

use crate::plain::plain;

/// Makes cells [`plain`], because some hold names from other programs.
pub fn write_columns<const N: usize>(
    out: &mut impl Write,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| plain(&cell))));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Ok(width) = u16::try_from(line_limit()) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

/// Width of the terminal, characters; unlimited if stdout is not a terminal.
pub fn line_limit() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return usize::MAX;
    }
    terminal_size_of(&stdout).map_or(80, |(Width(columns), _)| columns.into())
}

pub fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(str::to_owned)
}

pub fn marked_title(title: &str, is_patented: bool) -> String {
    if is_patented { format!("{title} [patented]") } else { title.to_owned() }
}
