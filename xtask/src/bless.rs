//! Accepting changed snapshots, with a look at what changed.

use anyhow::Result;

use crate::process;

/// Runs the snapshot tests, accepts what they show and lists the changed files: `cargo xtask bless`.
///
/// Errors: a test fails for another reason than its snapshot.
/// Side effects: rewrites snapshot files.
pub fn run() -> Result<()> {
    let mut tests = process::cargo("test");
    tests.args(["--quiet", "--test", "host", "--", "algorithms::", "report::", "view::"]);
    let accepted = process::run("bless", tests.env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1"));
    process::run("bless", process::program("git").args(["--no-pager", "diff", "--stat", "--", "*.snap"]))?;
    process::run("bless", process::program("git").args(["status", "--short", "--", "*.snap", "*.snap.new"]))?;
    accepted
}
