//! Tables that a command makes and a document shows: each between two marks, the first of which names the command.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::NamedTempFile;

use crate::process;

const END: &str = "<!-- end of what is made -->";

#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Path of the document from the top of the workspace.
    pub document: &'static str,
    /// The command that makes what is in it.
    pub command: &'static str,
}

impl Block {
    /// Writes `table` into the document.
    ///
    /// Errors: the document lacks the marks, or cannot be written.
    pub fn write(&self, table: &str) -> Result<()> {
        let placed = self.with(table)?.1;
        fs::write(process::workspace().join(self.document), placed).with_context(|| format!("write {}", self.document))
    }

    /// Compares `table` with what the document shows.
    ///
    /// Errors: the document shows another one, or lacks the marks.
    pub fn compare(&self, table: &str) -> Result<()> {
        let (text, placed) = self.with(table)?;
        if text != placed {
            bail!("{} shows another result than this one: `{}` writes it", self.document, self.command);
        }
        Ok(())
    }

    /// Writes or compares.
    ///
    /// Errors: as [`Block::write`] or [`Block::compare`].
    pub fn settle(&self, table: &str, is_written: bool) -> Result<()> {
        if is_written { self.write(table) } else { self.compare(table) }
    }

    /// The document as it is, and as it is with this table.
    fn with(&self, table: &str) -> Result<(String, String)> {
        let path = process::workspace().join(self.document);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", self.document))?;
        let begin = self.begin();
        let placed = replaced(&text, &begin, table)
            .with_context(|| format!("find the lines `{}` and `{END}` in {}", begin.trim(), self.document))?;
        Ok((text, placed))
    }

    fn begin(&self) -> String {
        format!("<!-- made by `{}` -->\n", self.command)
    }
}

/// The table that tests write into the file which a variable names.
///
/// Errors: a test fails, or is skipped.
pub fn table_of(tests: &mut Command, variable: &str) -> Result<String> {
    let file = NamedTempFile::new().context("create the file of a table")?;
    process::run("tests that write a table", tests.env(variable, file.path()))?;
    let table = fs::read_to_string(file.path()).context("read the table")?;
    ensure!(!table.is_empty(), "the tests that write the table were skipped: they need root");
    Ok(table)
}

/// A table in Markdown of cells between ` | `; the heading of a column of numbers ends with a colon.
pub fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let rule = |cell: &str| if cell.ends_with(':') { "---:" } else { "---" };
    let rule: Vec<&str> = head.split(" | ").map(rule).collect();
    let head = head.trim_end_matches(':').replace(": |", " |");
    [head, rule.join(" | ")].into_iter().chain(rows).map(|line| format!("| {line} |\n")).collect()
}

/// The text with what is between the two marks replaced; none without the marks.
fn replaced(text: &str, begin: &str, table: &str) -> Option<String> {
    let begin = text.find(begin)? + begin.len();
    let end = begin + text[begin..].find(END)?;
    Some(format!("{}{table}{}", &text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_placed_between_its_own_marks() {
        let text = format!("a\n<!-- 1 -->\nold\n{END}\nb\n<!-- 2 -->\n{END}\n");
        let placed = replaced(&text, "<!-- 2 -->\n", "new\n").unwrap();
        assert_eq!(placed, format!("a\n<!-- 1 -->\nold\n{END}\nb\n<!-- 2 -->\nnew\n{END}\n"));
        assert_eq!(replaced("no marks", "<!-- 1 -->\n", "new\n"), None);
    }
}
