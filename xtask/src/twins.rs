//! Compares the ports of the kernel's algorithms with the originals in virtual time.

use anyhow::Result;
use clap::Args;

use crate::made::{self, GeneratedTable};
use crate::process;

const TABLE: GeneratedTable = GeneratedTable { document: "bpf/README.md", command: "cargo xtask twins --bless" };

#[derive(Debug, Args)]
pub struct Arguments {
    /// Ports, for example `bpf_vegas bpf_htcp` [default: all]
    ports: Vec<String>,
    /// Write the table into bpf/README.md instead of comparing it
    #[arg(long, conflicts_with = "ports")]
    bless: bool,
}

/// `cargo xtask twins bpf_vegas` runs `tests/host/twins.rs` for one port.
///
/// # Errors
/// A port differs for a reason that its patch does not undo; the table differs; no guest is built.
pub fn run(arguments: &Arguments) -> Result<()> {
    let mut test = process::tests_of(["--test", "host"], "twins::");
    test.env("TCCC_ALGORITHMS", arguments.ports.join(" ")).env("TCCC_REQUIRE", "guest,gcc,patch");
    let table = made::table_of(&mut test, "TCCC_TWINS_TABLE")?;
    if arguments.ports.is_empty() { TABLE.settle(&table, arguments.bless) } else { Ok(()) }
}
