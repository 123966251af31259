//! Formats Rust with rustfmt and C with clang-format.

use anyhow::{Result, bail};
use clap::Args;

use crate::count::TestCount;
use crate::process::{self, command};
use crate::tidy::tree;

#[derive(Debug, Args)]
pub struct Arguments {
    /// Change nothing; fail where the layout differs
    #[arg(long)]
    check: bool,
}

/// `cargo xtask fmt`. Errors: a formatter is missing or, with `--check`, the layout differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let count = format(arguments.check);
    for reason in count.reasons.keys() {
        eprintln!("xtask: fmt: not done: {reason}");
    }
    if count.failed + count.skipped > 0 {
        bail!("the layout of {} of 2 languages is wrong or was not checked", count.failed + count.skipped);
    }
    Ok(())
}

/// Counts each language as one check. With `is_check` no file changes. A missing formatter is a skip.
pub fn format(is_check: bool) -> TestCount {
    let mut count = TestCount::default();
    let lack = "the layout of Rust needs rustfmt, which this toolchain lacks (`rustup component add rustfmt`)";
    count.check_by(process::cargo("fmt"), "layout of Rust", lack, || format_rust(is_check));
    let lack = "the layout of C needs clang-format (`cargo xtask setup --for ci`)";
    count.check_by(process::program("clang-format"), "layout of C", lack, || format_c(is_check));
    count
}

fn format_rust(is_check: bool) -> Result<()> {
    let mut rustfmt = process::cargo("fmt");
    process::run("fmt", rustfmt.arg("--all").args(is_check.then_some("--check")))
}

fn format_c(is_check: bool) -> Result<()> {
    let mut files = tree::paths()?;
    files.retain(|path| path.ends_with(".c") || path.ends_with(".h"));
    let mode = if is_check { &["--dry-run", "-Werror"][..] } else { &["-i"] };
    eprintln!("xtask: fmt: clang-format over {} C files", files.len());
    process::output("fmt", command!("clang-format {mode...} {files...}")).map(drop)
}
