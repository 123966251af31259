//! Proves every algorithm with Frama-C's EVA, and writes the table in tests/campaigns.md.

use std::path::Path;

use anyhow::Result;
use clap::Args;

use crate::made::{self, GeneratedTable};
use crate::process;
use crate::setup::{self, SetupPurpose};

/// Digests of what was proved, each with its row of the table.
const RECORD: &str = "tests/proved.txt";
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
    let record = process::workspace().join(RECORD);
    let variables = if arguments.bless { vec![("TCCC_PROVE_RECORD", record.as_path())] } else { Vec::new() };
    let table = prove(&arguments.algorithms, &variables)?;
    if arguments.algorithms.is_empty() { TABLE.settle(&table, arguments.bless) } else { Ok(()) }
}

/// Proves the algorithms whose digest is not recorded and compares the table, for CI.
pub fn check() -> Result<()> {
    TABLE.settle(&prove(&[], &[("TCCC_PROVED", &process::workspace().join(RECORD))])?, false)
}

fn prove(algorithms: &[String], variables: &[(&str, &Path)]) -> Result<String> {
    let mut test = process::tests_of(["--test", "host"], "prove::");
    test.arg("--ignored").env("TCCC_ALGORITHMS", algorithms.join(" ")).envs(variables.iter().copied());
    made::table_of(&mut test, "TCCC_PROVE_TABLE")
}
