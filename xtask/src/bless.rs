//! Accepting changed snapshots and tables of fields, with a look at what changed.

use anyhow::Result;

use crate::process;

/// Tests that compare with what is kept.
const SHOWN: [&str; 7] = ["algorithms::", "cli::", "explain::", "mistakes", "recording::", "report::", "view::"];
const REFERENCE: &str = "scenarios/REFERENCE.md";

/// Runs the tests that compare snapshots and `scenarios/REFERENCE.md`, accepts what they show and lists the changed files:
/// `cargo xtask bless`.
///
/// Errors: a test fails for another reason than its snapshot.
/// Side effects: rewrites snapshot files and the tables of `scenarios/REFERENCE.md`.
pub fn run() -> Result<()> {
    let mut tests = process::cargo("test");
    tests.args(["--quiet", "--test", "host", "--"]).args(SHOWN);
    let accepted = process::run("bless", tests.env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1"));
    process::run("bless", process::program("git").args(["--no-pager", "diff", "--stat", "--", "*.snap", REFERENCE]))?;
    process::run("bless", process::program("git").args(["status", "--short", "--", "*.snap", "*.snap.new"]))?;
    accepted
}
