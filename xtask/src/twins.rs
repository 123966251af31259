//! The ports of the kernel's algorithms beside the originals in virtual time, and their table in the bpf/README.md.

use anyhow::Result;
use clap::Args;

use crate::made::{self, Block};
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
    let mut test = process::tests_of(["--test", "host"], "twins::");
    test.env("TCCC_ALGORITHMS", arguments.ports.join(" ")).env("TCCC_REQUIRE", "guest,gcc,patch");
    let table = made::table_of(&mut test, "TCCC_TWINS_TABLE")?;
    if arguments.ports.is_empty() { TABLE.settle(&table, arguments.bless) } else { Ok(()) }
}
