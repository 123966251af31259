//! The ports of the kernel's algorithms beside the originals in virtual time, and their table in the bpf/README.md.

use std::fs;

use anyhow::{Context, Result};
use clap::Args;

use crate::made::Block;
use crate::process;

const TABLE: Block = Block { document: "bpf/README.md", command: "cargo xtask twins --bless" };

/// What to compare.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Ports, for example `bpf_vegas bpf_htcp`; all when left out
    ports: Vec<String>,
    /// Write the table into bpf/README.md instead of comparing it
    #[arg(long, conflicts_with = "ports")]
    bless: bool,
}

/// Runs `tests/host/twins.rs` and compares its table with the document's: `cargo xtask twins bpf_vegas` runs one port.
///
/// Errors: a port differs for a reason that its patch does not undo; the table differs; no guest is built.
pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let table = folder.join("twins.md");
    let mut test = process::tests_of(["--test", "host"], "twins::");
    test.env("TCCC_ALGORITHMS", arguments.ports.join(" ")).env("TCCC_TWINS_TABLE", &table);
    // Skipped, the test would leave the table of another day.
    test.env("TCCC_REQUIRE", "guest,gcc,patch");
    process::run("twins", &mut test)?;
    let table = fs::read_to_string(&table).with_context(|| format!("read {}", table.display()))?;
    match (arguments.ports.is_empty(), arguments.bless) {
        (true, true) => TABLE.write(&table),
        (true, false) => TABLE.compare(&table),
        (false, _) => Ok(()),
    }
}
