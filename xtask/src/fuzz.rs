//! Fuzzing every algorithm and every parser, led by coverage.

mod parsers;

use anyhow::Result;
use clap::Args;

use crate::process;
use crate::setup::{self, Purpose};

/// What to fuzz, and for how long.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, for example `dtcp bpf_reno`, or parsers, for example `policy http`; all when left out
    names: Vec<String>,
    /// Parsers of what others wrote, instead of algorithms
    #[arg(long)]
    parsers: bool,
    /// Seconds for each
    #[arg(long, default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Parsers that are looked at side by side
    #[arg(long, default_value_t = 1, requires = "parsers", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Write the table of parsers into tests/README.md
    #[arg(long, requires = "parsers", conflicts_with = "names")]
    bless: bool,
}

/// Enough to show that the target works and to find what is shallow; longer by hand.
const SECONDS: u32 = 2;

/// Builds the targets and lets each look for inputs that break its subject: `cargo xtask fuzz`.
///
/// Errors: an input was found; it is saved, and the command that runs it again is shown.
/// Side effects: installs what is missing; keeps inputs below `target/tmp` and begins with them the next time.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Fuzz)?;
    match arguments.parsers {
        true => parsers::fuzz(arguments),
        false => fuzz(&arguments.names, arguments.seconds),
    }
}

/// All algorithms for a moment each: what CI runs. The parsers' first inputs and damaged copies of them are in the host ring.
///
/// Errors: as [`run`].
pub fn check() -> Result<()> {
    fuzz(&[], SECONDS)
}

fn fuzz(algorithms: &[String], seconds: u32) -> Result<()> {
    let mut test = process::tests_of(["--test", "host"], "fuzz::");
    test.arg("--ignored").env("TCCC_ALGORITHMS", algorithms.join(" ")).env("TCCC_FUZZ_SECONDS", seconds.to_string());
    process::run("fuzz", &mut test)
}
