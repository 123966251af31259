//! Tables that a command generates and a document shows, each between two marks. The first mark names the command.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::NamedTempFile;

use crate::process;

const END: &str = "<!-- end of what is made -->";

#[derive(Debug, Clone, Copy)]
pub struct GeneratedTable {
    /// Path of the document from the top of the workspace.
    pub document: &'static str,
    /// The command that generates the table.
    pub command: &'static str,
}

impl GeneratedTable {
    pub fn write(&self, table: &str) -> Result<()> {
        self.settle(table, true)
    }

    pub fn compare(&self, table: &str) -> Result<()> {
        self.settle(table, false)
    }

    /// Writes `table` into the document, or compares it with the document's table.
    ///
    /// Errors: the document has no marks; it shows another table.
    pub fn settle(&self, table: &str, is_written: bool) -> Result<()> {
        let placed = self.filled(table)?;
        let path = process::workspace().join(self.document);
        if is_written {
            return fs::write(path, placed).with_context(|| format!("write {}", self.document));
        }
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", self.document))?;
        ensure!(text == placed, "{} shows a different table: `{}` updates it", self.document, self.command);
        Ok(())
    }

    /// The document's text with `table` between its marks.
    ///
    /// Errors: the document cannot be read, or has no marks.
    pub fn filled(&self, table: &str) -> Result<String> {
        let path = process::workspace().join(self.document);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", self.document))?;
        let begin = format!("<!-- made by `{}` -->\n", self.command);
        replaced(&text, &begin, table)
            .with_context(|| format!("find the lines `{}` and `{END}` in {}", begin.trim(), self.document))
    }
}

/// Runs tests that write a table into the file that a variable names, and returns the table.
///
/// Errors: a test fails, or is skipped.
pub fn table_of(tests: &mut Command, variable: &str) -> Result<String> {
    let file = NamedTempFile::new().context("create the file of a table")?;
    process::run("tests that write a table", tests.env(variable, file.path()))?;
    let table = fs::read_to_string(file.path()).context("read the table")?;
    ensure!(!table.is_empty(), "the tests that write the table were skipped: they need root");
    Ok(table)
}

/// A Markdown table. `head` and `rows` separate cells by ` | `. A heading that ends with a colon aligns its column right.
pub fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let rule = |cell: &str| if cell.ends_with(':') { "---:" } else { "---" };
    let rule: Vec<&str> = head.split(" | ").map(rule).collect();
    let head = head.trim_end_matches(':').replace(": |", " |");
    [head, rule.join(" | ")].into_iter().chain(rows).map(|line| format!("| {line} |\n")).collect()
}

/// Replaces the text between `begin` and [`END`]; `None` if a mark is missing.
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
