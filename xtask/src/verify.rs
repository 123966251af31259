//! What each algorithm costs the verifier, on this kernel.

use anyhow::Result;

use crate::process;

/// Loads every algorithm without registering it and prints the instructions the verifier walked: `cargo xtask verify`.
///
/// Errors: the verifier refuses an algorithm, or one costs more than the test allows.
pub fn run() -> Result<()> {
    let mut test = process::tests_of(["--test", "kernel"], "verify::");
    process::run("verify", test.env("TCCC_REQUIRE", "root,struct_ops"))
}
