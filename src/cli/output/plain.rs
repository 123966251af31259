//! Columns for people: each as wide as its widest cell, the last one free.

use std::io::{self, Write};

use crate::plain::plain;

/// Writes rows of equal length; the first is the header.
///
/// Cells hold words of other programs, whose control characters must not reach the terminal.
pub fn write_columns(out: &mut impl Write, rows: &[Vec<String>]) -> io::Result<()> {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

/// A title as tables show it: what is patented says so.
pub fn marked_title(title: &str, is_patented: bool) -> String {
    if is_patented { format!("{title} [patented]") } else { title.to_owned() }
}
