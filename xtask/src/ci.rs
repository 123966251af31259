//! The only thing CI calls: every check, all of them even when one fails, and one plain count at the end.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum as _};

use crate::count::Count;
use crate::fmt::{self, Mode};
use crate::setup::{self, Purpose};
use crate::test::Ring;
use crate::{process, readme, test, tidy};

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
    count.add(step("tidy", tidy::run));
    count.add(lint());
    count.add(test::count_rings(Ring::value_variants()).unwrap_or_else(|error| failure("test", &error)));
    count.add(step("README commands", readme::check));
    println!("\n{count}");
    if count.failed > 0 {
        bail!("{} failed", count.failed);
    }
    Ok(())
}

fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Count {
    let mut count = Count::default();
    match work() {
        Ok(()) => count.check(true),
        Err(error) => count.add(failure(name, &error)),
    }
    count
}

/// One failed check, told on stderr.
pub fn failure(name: &str, error: &anyhow::Error) -> Count {
    eprintln!("xtask: error: {name}: {error:#}");
    Count { failed: 1, ..Count::default() }
}

fn lint() -> Count {
    if !process::answers(&mut process::cargo("clippy")) {
        let mut count = Count::default();
        count.skip(1, "lints need clippy, which this toolchain lacks (`rustup component add clippy`)");
        return count;
    }
    let mut clippy = process::cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    step("clippy", || process::run("clippy", &mut clippy))
}
