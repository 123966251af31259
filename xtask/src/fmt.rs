//! The formatters decide the layout: rustfmt and clang-format.

use anyhow::{Result, bail};
use clap::Args;

use crate::count::Count;
use crate::process;
use crate::tidy::tree;

/// How to format.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Change nothing, fail where the layout differs
    #[arg(long)]
    check: bool,
}

/// Formats Rust and C: `cargo xtask fmt`.
///
/// Errors: a formatter is missing or, when checking, the layout differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let count = format(arguments.check);
    for reason in count.reasons.keys() {
        eprintln!("xtask: fmt: not done: {reason}");
    }
    if count.failed + count.skipped > 0 {
        bail!("the layout of {} of 2 languages is not right or not known", count.failed + count.skipped);
    }
    Ok(())
}

/// Both languages, each counted as one check, which changes nothing if so asked; a formatter that is not there is a skip.
pub fn format(is_check: bool) -> Count {
    let mut count = Count::default();
    if process::answers(&mut process::cargo("fmt")) {
        count.check("layout of Rust", format_rust(is_check));
    } else {
        count.skip(1, "the layout of Rust needs rustfmt, which this toolchain lacks (`rustup component add rustfmt`)");
    }
    if process::answers(&mut process::program("clang-format")) {
        count.check("layout of C", format_c(is_check));
    } else {
        count.skip(1, "the layout of C needs clang-format (`cargo xtask setup --for ci`)");
    }
    count
}

fn format_rust(is_check: bool) -> Result<()> {
    let mut rustfmt = process::cargo("fmt");
    rustfmt.arg("--all");
    if is_check {
        rustfmt.arg("--check");
    }
    process::run("fmt", &mut rustfmt)
}

fn format_c(is_check: bool) -> Result<()> {
    let mut files = tree::paths()?;
    files.retain(|path| path.ends_with(".c") || path.ends_with(".h"));
    if files.is_empty() {
        return Ok(());
    }
    let mut clang_format = process::program("clang-format");
    clang_format.args(if is_check { &["--dry-run", "-Werror"][..] } else { &["-i"][..] });
    eprintln!("xtask: fmt: clang-format over {} C files", files.len());
    process::output("fmt", clang_format.args(files)).map(drop)
}
