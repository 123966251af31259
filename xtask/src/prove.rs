//! The proof of every algorithm by Frama-C's EVA, and its table in the tests/README.md.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

use crate::made::Block;
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
    match (arguments.algorithms.is_empty(), arguments.bless) {
        (true, true) => TABLE.write(&table),
        (true, false) => TABLE.compare(&table),
        (false, _) => Ok(()),
    }
}

/// The proof of all algorithms, and the comparison with tests/README.md: what CI runs.
///
/// Errors: as [`run`].
pub fn check() -> Result<()> {
    TABLE.compare(&prove(&[])?)
}

fn prove(algorithms: &[String]) -> Result<String> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let table = folder.join("prove.md");
    let mut test = process::patient(process::tests_of(["--test", "host"], "prove::").arg("--ignored"));
    test.env("TCCC_ALGORITHMS", algorithms.join(" ")).env("TCCC_PROVE_TABLE", &table);
    process::run("prove", &mut test)?;
    fs::read_to_string(&table).with_context(|| format!("read {}", table.display()))
}
