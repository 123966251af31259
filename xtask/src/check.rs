//! What an author of an algorithm runs after each edit.

use anyhow::Result;

use crate::{process, tidy};

/// Builds for the kernel, checks the rules, drives every algorithm over the simulated paths: `cargo xtask check`.
///
/// Errors: the first of the three that does not hold.
pub fn run() -> Result<()> {
    process::run("kernel build", process::cargo("check").args(["--quiet", "--all-targets"]))?;
    tidy::run()?;
    process::run(
        "host ring",
        process::cargo("test").args(["--quiet", "--test", "host", "--", "algorithms::", "catalog::"]),
    )
}
