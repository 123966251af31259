//! Compares the commands and scenarios of documents, and the README's table of algorithms, with the program.

use std::path::Path;

use anyhow::{Result, bail};
use clap::{Args, Parser as _, error::ErrorKind};
use fs_err as fs;
use serde_json::Value;

use crate::XtaskCli;
use crate::process::{self, command};

mod table;

/// Documents whose commands and scenarios are checked.
const DOCUMENTS: [&str; 4] = ["README.md", "scenarios/README.md", "scenarios/known/README.md", "src/README.md"];

#[derive(Debug, Args)]
pub struct Arguments {
    /// Write the table of algorithms into README.md instead of comparing it
    #[arg(long)]
    bless: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    process::build_tccc()?;
    if arguments.bless { write(&listed(&process::tccc())?) } else { check() }
}

/// Checks the documents without changing anything; tccc must be built.
///
/// Each `tccc …` and `cargo xtask …` line of a code block names an existing verb with existing options. Each scenario can
/// be planned. The README's table of algorithms is that of this build.
pub fn check() -> Result<()> {
    let tccc = process::tccc();
    for document in DOCUMENTS {
        let text = fs::read_to_string(process::workspace().join(document))?;
        let wrong: Vec<String> = command_lines(&text).filter_map(|line| fault(line, &tccc)).collect();
        if !wrong.is_empty() {
            bail!("{document} shows commands that do not exist:\n  {}", wrong.join("\n  "));
        }
        scenarios(&text).try_for_each(|scenario| plan(document, scenario, &tccc))?;
    }
    table::TABLE.settle(&table::rows(&listed(&tccc)?)?, false)
}

/// Writes the table of algorithms; `lines` come from [`listed`].
pub fn write(lines: &[Value]) -> Result<()> {
    table::TABLE.settle(&table::rows(lines)?, true)
}

/// The algorithms in `tccc list -o json`: tccc's and this kernel's.
pub fn listed(tccc: &Path) -> Result<Vec<Value>> {
    let document = process::json("list the algorithms", command!("{tccc} list -o json"))?;
    Ok(document["algorithms"].as_array().cloned().unwrap_or_default())
}

/// The TOML blocks that are whole scenarios: they begin with a title.
fn scenarios(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.starts_with("title ="))
}

fn plan(document: &str, scenario: &str, tccc: &Path) -> Result<()> {
    let file = process::target().join("readme.toml");
    fs::write(&file, scenario)?;
    process::output(&format!("plan a scenario of {document}"), command!("{tccc} run {file} --dry-run")).map(drop)
}

/// Lines of the fenced blocks, without prompt, comment and further commands.
fn command_lines(readme: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    readme.lines().filter_map(move |line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        let line = line.trim().trim_start_matches("$ ").trim_start_matches("# ").trim_start_matches("sudo ");
        is_code.then(|| line.split(" #").next().unwrap_or(line).split(['|', ';', '&']).next().unwrap_or(line).trim())
    })
}

/// The fault of a line that is a command of tccc or xtask.
fn fault(line: &str, tccc: &Path) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["cargo", "xtask", rest @ ..] => xtask_fault(rest).map(|why| format!("{line}: {why}")),
        ["tccc" | "target/release/tccc" | "./target/release/tccc", verb, rest @ ..] if !verb.starts_with('-') => {
            tccc_fault(tccc, verb, rest).map(|why| format!("{line}: {why}"))
        }
        _ => None,
    }
}

fn xtask_fault(words: &[&str]) -> Option<String> {
    let refusal = XtaskCli::try_parse_from(std::iter::once(&"cargo xtask").chain(words)).err()?;
    let is_help = matches!(refusal.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_help).then(|| refusal.kind().to_string())
}

fn tccc_fault(tccc: &Path, verb: &str, words: &[&str]) -> Option<String> {
    let help = command!("{tccc} {verb} --help").output();
    let help = match help {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        Ok(_) => return Some(format!("there is no verb `{verb}`")),
        Err(error) => return Some(format!("{}: {error}", tccc.display())),
    };
    let options = words.iter().filter(|word| word.starts_with("--")).map(|word| word.split('=').next().unwrap_or(word));
    let unknown = options.into_iter().find(|option| !help.contains(*option))?;
    Some(format!("`{verb}` has no option `{unknown}`"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn commands_are_taken_from_code_blocks_only() {
        let readme =
            "cargo xtask nothing\n```sh\n$ cargo xtask demo   # builds\nsudo tccc list | head\n```\ntccc none\n";
        assert_eq!(command_lines(readme).collect::<Vec<_>>(), ["cargo xtask demo", "tccc list"]);
    }

    #[test]
    fn scenarios_are_the_toml_blocks_with_a_title() {
        let readme = "```sh\ntccc list\n```\n```toml\ntitle = \"a\"\n```\n```toml\nsweep = {}\n```\n";
        assert_eq!(scenarios(readme).collect::<Vec<_>>(), ["title = \"a\"\n"]);
    }

    #[test]
    fn unknown_command_of_xtask_is_a_fault() {
        XtaskCli::command().debug_assert();
        assert_eq!(xtask_fault(&["demo", "--no-install"]), None);
        assert!(xtask_fault(&["demonstrate"]).is_some());
        assert!(xtask_fault(&["demo", "--quick"]).is_some());
    }

    #[test]
    fn program_that_is_missing_is_a_fault() {
        assert!(fault("tccc list", Path::new("/no/such/tccc")).is_some());
        assert_eq!(fault("git clone tccc", Path::new("/no/such/tccc")), None);
    }
}
