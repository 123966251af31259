//! Fuzzing every algorithm, led by coverage.

use anyhow::Result;
use clap::Args;

use crate::process;
use crate::setup::{self, Purpose};

/// What to fuzz, and for how long.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, for example `dtcp bpf_reno`; all when left out
    algorithms: Vec<String>,
    /// Seconds for each algorithm
    #[arg(long, default_value_t = SECONDS, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Enough to show that the target works and to find what is shallow; longer by hand.
const SECONDS: u32 = 2;

/// Builds the targets and lets each look for inputs that break its algorithm: `cargo xtask fuzz`.
///
/// Errors: an input was found; it is saved, and the command that runs it again is shown.
/// Side effects: installs what is missing; keeps inputs below `target/tmp/fuzz` and begins with them the next time.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Fuzz, arguments.no_install)?;
    fuzz(&arguments.algorithms, arguments.seconds)
}

/// All algorithms for a moment each: what CI runs.
///
/// Errors: as [`run`].
pub fn check() -> Result<()> {
    fuzz(&[], SECONDS)
}

fn fuzz(algorithms: &[String], seconds: u32) -> Result<()> {
    let mut test = process::cargo("test");
    test.args(["--quiet", "--test", "fuzz", "--", "--ignored", "--nocapture", "--test-threads=1"]);
    test.env("TCCC_ALGORITHMS", algorithms.join(" ")).env("TCCC_FUZZ_SECONDS", seconds.to_string());
    process::run("fuzz", &mut test)
}
