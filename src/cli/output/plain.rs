//! Columns for people: each as wide as its widest cell, the last one unpadded.

use std::io::{self, Write};

use crate::plain::plain;

/// Makes cells [`plain`], because some hold names from other programs.
pub fn write_columns<const N: usize>(
    out: &mut impl Write,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> io::Result<()> {
    let rows: Vec<[String; N]> =
        [row(header)].into_iter().chain(rows).map(|row| row.map(|cell| plain(&cell))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

pub fn row<const N: usize>(cells: [&str; N]) -> [String; N] {
    cells.map(str::to_owned)
}

pub fn marked_title(title: &str, is_patented: bool) -> String {
    if is_patented { format!("{title} [patented]") } else { title.to_owned() }
}
