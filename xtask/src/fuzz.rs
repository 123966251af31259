//! Fuzzes every algorithm and every parser, guided by coverage.

mod parsers;

use anyhow::Result;
use clap::Args;

use crate::process;
use crate::setup::{self, SetupPurpose};

#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, for example `dtcp bpf_reno`, or parsers, for example `policy http` [default: all]
    names: Vec<String>,
    /// Parsers of untrusted input, instead of algorithms
    #[arg(long)]
    parsers: bool,
    /// Seconds for each
    #[arg(long, default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Parsers fuzzed in parallel
    #[arg(long, default_value_t = 1, requires = "parsers", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Write the table of parsers into tests/campaigns.md
    #[arg(long, requires = "parsers", conflicts_with = "names")]
    bless: bool,
}

/// Enough to show that the target works and to find shallow defects.
const SECONDS: u32 = 2;
/// In CI, which repeats it with each change.
const SECONDS_IN_CI: u32 = 1;

/// `cargo xtask fuzz`.
///
/// Side effects: installs packages; keeps inputs below `target/tmp` for the next call.
///
/// # Errors
/// An input breaks its target. The message shows the command that repeats it.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Fuzz)?;
    match arguments.parsers {
        true => parsers::fuzz(arguments),
        false => fuzz(&arguments.names, arguments.seconds),
    }
}

/// Fuzzes all algorithms briefly, for CI. The host ring reads the parsers' seeds and damaged copies of them.
pub fn check() -> Result<()> {
    fuzz(&[], SECONDS_IN_CI)
}

fn fuzz(algorithms: &[String], seconds: u32) -> Result<()> {
    let mut test = process::tests_of(["--test", "host"], "fuzz::");
    test.arg("--ignored").env("TCCC_ALGORITHMS", algorithms.join(" ")).env("TCCC_FUZZ_SECONDS", seconds.to_string());
    process::run("fuzz", &mut test)
}
