//! Tables that a command generates and a document shows, each between two marks. The first mark names the command.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use fs_err as fs;
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
    /// Writes `table` into the document, or compares it with the document's table.
    ///
    /// # Errors
    /// The document has no marks; it shows another table.
    pub fn settle(&self, table: &str, is_written: bool) -> Result<()> {
        if is_written {
            return Ok(fs::write(process::workspace().join(self.document), self.filled(table)?)?);
        }
        ensure!(self.shown()? == table, "{} shows a different table: `{}` updates it", self.document, self.command);
        Ok(())
    }

    /// The table that the document shows.
    pub fn shown(&self) -> Result<String> {
        self.parts().map(|[_, table, _]| table)
    }

    /// The document's text with `table` between its marks.
    pub fn filled(&self, table: &str) -> Result<String> {
        self.parts().map(|[before, _, after]| before + table + &after)
    }

    /// The document's text until the first mark's end, its table, and the text from the second mark on.
    fn parts(&self) -> Result<[String; 3]> {
        let text = fs::read_to_string(process::workspace().join(self.document))?;
        let begin = format!("<!-- made by `{}` -->\n", self.command);
        parts(&text, &begin).with_context(|| format!("find `{}` and `{END}` in {}", begin.trim(), self.document))
    }
}

fn parts(text: &str, begin: &str) -> Option<[String; 3]> {
    let (before, rest) = text.split_once(begin)?;
    let (table, after) = rest.split_once(END)?;
    Some([before.to_owned() + begin, table.to_owned(), END.to_owned() + after])
}

/// Runs tests that write a table into the file that a variable names, and returns the table.
///
/// # Errors
/// A test fails, or is skipped.
pub fn table_of(tests: &mut Command, variable: &str) -> Result<String> {
    let file = NamedTempFile::new().context("create the file of a table")?;
    process::run("tests that write a table", tests.env(variable, file.path()))?;
    let table = fs::read_to_string(file.path())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_found_between_its_own_marks() {
        let text = format!("a\n<!-- 1 -->\nold\n{END}\nb\n<!-- 2 -->\nnew\n{END}\n");
        let [before, table, after] = parts(&text, "<!-- 2 -->\n").unwrap();
        assert_eq!(table, "new\n");
        assert_eq!(before + &table + &after, text);
        assert_eq!(parts("no marks", "<!-- 1 -->\n"), None);
    }
}
