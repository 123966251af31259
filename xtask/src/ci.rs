//! What CI runs: every check, even after one failed, and one count at the end.

use std::process::Stdio;

use anyhow::Result;

use crate::count::TestCount;
use crate::process::{self, Priority, command};
use crate::setup::{self, SetupPurpose};
use crate::{fleet, fmt, fuzz, guest, prove, readme, test, tidy, vm};

/// Runs every check: `cargo xtask ci`. A check counts as one; the tests count one by one.
///
/// # Errors
/// At least one check or test failed.
pub fn run() -> Result<()> {
    process::timed("setup", || setup::set_up(SetupPurpose::Ci))?;
    let mut count = fmt::format(true);
    count.check("tidy", tidy::run());
    // The second guest takes minutes that CI does not have: its tests count as skipped there.
    match test::count_all(guest::provide, check_with_guest, (check_without_guest, check_other_kernels)) {
        Ok(tests) => count.add(tests),
        Err(error) => count.check("tests", Err(error)),
    }
    count.check("README commands", readme::check());
    count.conclude()
}

/// What comes before the host ring, which needs the guest of virtual time.
fn check_with_guest(built: Result<()>) -> TestCount {
    let mut count = TestCount::default();
    count.check("guest of virtual time", built);
    match fleet::lack() {
        None => count.check("cluster", fleet::check()), // at normal priority: its daemons drop a slow node
        Some(lack) => count.skip(1, lack),
    }
    process::set_priority(Priority::Later);
    count.check("table in virtual time", process::timed("table in virtual time", table_in_virtual_time));
    count
}

/// What runs beside the host and the kernel ring.
fn check_without_guest() -> TestCount {
    let mut count = TestCount::default();
    process::set_priority(Priority::Later);
    process::timed("lints", || lint(&mut count));
    count.check("proof", process::timed("proof", prove::check));
    count.check("fuzzer", process::timed("fuzzer", fuzz::check));
    count
}

/// What runs after the host ring: an emulated processor that is starved does not finish in time.
fn check_other_kernels() -> TestCount {
    let mut count = TestCount::default();
    process::timed("other kernels", || vm::matrix::check(&mut count));
    count
}

/// Runs a published table with three runs per cell, and reports it.
fn table_in_virtual_time() -> Result<()> {
    const TABLE: &str = "scenarios/dtcp-2018/table-2.toml";
    let (tccc, results) = (process::tccc(), process::target().join("ci-table"));
    process::remove(&results)?;
    let mut run = command!("{tccc} run {TABLE} --engine virtual --runs 3 --quiet --out {results}");
    process::run("table in virtual time", run.stdout(Stdio::null()))?;
    process::run("report of the table", command!("{tccc} report {results}").stdout(Stdio::null()))
}

fn lint(count: &mut TestCount) {
    let lack = "lints need clippy, which this toolchain lacks (`rustup component add clippy`)";
    let clippy = |of: &[&str]| {
        let mut clippy = process::cargo("clippy");
        process::run("clippy", clippy.args(of).args(["--quiet", "--", "-D", "warnings"]))
    };
    count.check_by(process::cargo("clippy"), "lints", lack, || clippy(&["--workspace", "--all-targets"]));
    let host = ["--package", "tccc", "--no-default-features"];
    count.check_by(process::cargo("clippy"), "lints of the host's half alone", lack, || clippy(&host));
}
