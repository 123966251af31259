//! The only thing CI calls: every check, all of them even when one fails, and one plain count at the end.

use anyhow::Result;
use clap::{Args, ValueEnum as _};

use crate::count::Count;
use crate::fmt::{self, Mode};
use crate::setup::{self, Purpose};
use crate::test::Ring;
use crate::{fuzz, process, prove, readme, test, tidy, vm};

/// How to check.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Runs every check and counts each as one, the tests one by one: `cargo xtask ci`.
///
/// Errors: at least one check or test failed.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Ci, arguments.no_install)?;
    let mut count = fmt::format(Mode::Check);
    count.check("tidy", tidy::run());
    lint(&mut count);
    match test::count_rings(Ring::value_variants()) {
        Ok(tests) => count.add(tests),
        Err(error) => count.check("tests", Err(error)),
    }
    count.check("proof", prove::check());
    count.check("fuzzer", fuzz::check());
    vm::matrix::check(&mut count, arguments.no_install);
    count.check("README commands", readme::check());
    count.conclude()
}

fn lint(count: &mut Count) {
    if !process::answers(&mut process::cargo("clippy")) {
        count.skip(1, "lints need clippy, which this toolchain lacks (`rustup component add clippy`)");
        return;
    }
    let mut clippy = process::cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    count.check("lints", process::run("clippy", &mut clippy));
}
