//! The proof of every algorithm by Frama-C's EVA, and its table in the README.

use std::fs;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process;
use crate::setup::{self, Purpose};

const BEGIN: &str = "<!-- made by `cargo xtask prove --bless` -->\n";
const END: &str = "<!-- end of what is made -->";

/// What to prove.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, for example `dtcp bpf_reno`; all when left out
    algorithms: Vec<String>,
    /// Write the table into README.md instead of comparing it
    #[arg(long, conflicts_with = "algorithms")]
    bless: bool,
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Proves and prints a line for each: `cargo xtask prove`.
///
/// Errors: an alarm, an assert without proof or a statement that is never reached; a table in the README that differs.
/// Side effects: installs Frama-C where it is missing.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Prove, arguments.no_install)?;
    let table = prove(&arguments.algorithms)?;
    match arguments.algorithms.is_empty() {
        true => place(&table, arguments.bless),
        false => Ok(()),
    }
}

/// The proof of all algorithms, and the comparison with the README: what CI runs.
///
/// Errors: as [`run`].
pub fn check() -> Result<()> {
    place(&prove(&[])?, false)
}

/// The table in Markdown.
fn prove(algorithms: &[String]) -> Result<String> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let table = folder.join("prove.md");
    let mut test = process::cargo("test");
    test.args(["--quiet", "--test", "prove", "--", "--ignored", "--nocapture", "--test-threads=1"]);
    test.env("TCCC_ALGORITHMS", algorithms.join(" ")).env("TCCC_PROVE_TABLE", &table);
    process::run("prove", &mut test)?;
    fs::read_to_string(&table).with_context(|| format!("read {}", table.display()))
}

/// Compares the README's table with this one, or replaces it.
fn place(table: &str, is_blessed: bool) -> Result<()> {
    let path = process::workspace().join("README.md");
    let readme = fs::read_to_string(&path).context("read README.md")?;
    let placed = replaced(&readme, table)
        .with_context(|| format!("find the lines `{}` and `{END}` in README.md", BEGIN.trim()))?;
    if placed == readme {
        return Ok(());
    }
    if !is_blessed {
        bail!("README.md shows another result than this proof: `cargo xtask prove --bless` writes it");
    }
    fs::write(&path, placed).context("write README.md")
}

/// The text with what is between the two marks replaced; none without the marks.
fn replaced(text: &str, table: &str) -> Option<String> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some(format!("{}{table}{}", &text[..begin], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_placed_between_the_marks() {
        let text = format!("before\n{BEGIN}old\n{END}\nafter\n");
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("before\n{BEGIN}new\n{END}\nafter\n"));
        assert_eq!(replaced("no marks", "new\n"), None);
    }
}
