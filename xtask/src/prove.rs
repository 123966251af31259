//! Proves every algorithm with Frama-C's EVA, and writes the table in tests/campaigns.md.

use anyhow::Result;
use clap::Args;

use crate::made::{self, GeneratedTable};
use crate::process;
use crate::setup::{self, SetupPurpose};

const TABLE: GeneratedTable = GeneratedTable { document: "tests/campaigns.md", command: "cargo xtask prove --bless" };

#[derive(Debug, Args)]
pub struct Arguments {
    /// Algorithms, for example `dtcp bpf_reno` [default: all]
    algorithms: Vec<String>,
    /// Write the table into tests/campaigns.md instead of comparing it
    #[arg(long, conflicts_with = "algorithms")]
    bless: bool,
}

/// `cargo xtask prove`.
///
/// # Errors
/// An alarm, an unproved assertion or an unreached statement; the table differs from the document's.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Prove)?;
    let table = prove(&arguments.algorithms)?;
    if arguments.algorithms.is_empty() { TABLE.settle(&table, arguments.bless) } else { Ok(()) }
}

/// Proves all algorithms and compares the table, for CI.
pub fn check() -> Result<()> {
    TABLE.settle(&prove(&[])?, false)
}

fn prove(algorithms: &[String]) -> Result<String> {
    let mut test = process::tests_of(["--test", "host"], "prove::");
    made::table_of(test.arg("--ignored").env("TCCC_ALGORITHMS", algorithms.join(" ")), "TCCC_PROVE_TABLE")
}
