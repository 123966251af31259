//! The README's commands exist, with the options it gives them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Parser as _, error::ErrorKind};

use crate::{Cli, process};

/// Checks every `tccc …` and `cargo xtask …` line in the README's code blocks without running it.
///
/// Errors: the lines whose verb or option does not exist; the program is not built.
pub fn check() -> Result<()> {
    let readme = fs::read_to_string(process::workspace().join("README.md")).context("read README.md")?;
    let tccc = process::target().join("debug/tccc");
    let wrong: Vec<String> = command_lines(&readme).filter_map(|line| fault(line, &tccc)).collect();
    if !wrong.is_empty() {
        bail!("README.md shows commands that do not exist:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

/// Lines of the fenced blocks, without prompt and comment.
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

/// What is wrong with a line, if it is a command of ours.
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
    let refusal = Cli::try_parse_from(std::iter::once(&"cargo xtask").chain(words)).err()?;
    let is_help = matches!(refusal.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    (!is_help).then(|| refusal.kind().to_string())
}

fn tccc_fault(tccc: &Path, verb: &str, words: &[&str]) -> Option<String> {
    let help = Command::new(tccc).args([verb, "--help"]).output();
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
    fn unknown_command_of_xtask_is_a_fault() {
        Cli::command().debug_assert();
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
