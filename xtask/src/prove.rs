//! The proof of every algorithm by Frama-C's EVA, and its table in the tests/README.md.

use anyhow::Result;
use clap::Args;

use crate::made::{self, Block};
use crate::process;
use crate::setup::{self, Purpose};

/// Where the table of the proof stands.
const TABLE: Block = Block { document: "tests/README.md", command: "cargo xtask prove --bless" };

/// What to prove.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, for example `dtcp bpf_reno`; all when left out
    algorithms: Vec<String>,
    /// Write the table into tests/README.md instead of comparing it
    #[arg(long, conflicts_with = "algorithms")]
    bless: bool,
}

/// Proves and prints a line for each: `cargo xtask prove`.
///
/// Errors: an alarm, an assert without proof or a statement that is never reached; a table in tests/README.md that differs.
/// Side effects: installs Frama-C where it is missing.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Prove)?;
    let table = prove(&arguments.algorithms)?;
    if arguments.algorithms.is_empty() { TABLE.settle(&table, arguments.bless) } else { Ok(()) }
}

/// The proof of all algorithms, and the comparison with tests/README.md: what CI runs.
///
/// Errors: as [`run`].
pub fn check() -> Result<()> {
    TABLE.compare(&prove(&[])?)
}

fn prove(algorithms: &[String]) -> Result<String> {
    let mut test = process::tests_of(["--test", "host"], "prove::");
    made::table_of(test.arg("--ignored").env("TCCC_ALGORITHMS", algorithms.join(" ")), "TCCC_PROVE_TABLE")
}
