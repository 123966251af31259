//! What CI runs: every check, even after one failed, and one count at the end.

use std::process::Stdio;
use std::thread;

use anyhow::Result;

use crate::count::TestCount;
use crate::process::Patience;
use crate::setup::{self, SetupPurpose};
use crate::{fleet, fmt, fuzz, guest, process, prove, readme, test, tidy, vm};

/// Runs every check: `cargo xtask ci`. A check counts as one; the tests count one by one.
///
/// Errors: at least one check or test failed.
pub fn run() -> Result<()> {
    process::timed("setup", || setup::set_up(SetupPurpose::Ci))?;
    let mut count = fmt::format(true);
    count.check("tidy", tidy::run());
    if let Err(error) = count_tests(&mut count) {
        count.check("tests", Err(error));
    }
    count.check("README commands", readme::check());
    count.conclude()
}

/// Counts the three rings, and the checks that run beside the kernel ring.
///
/// Errors: the tests do not build.
fn count_tests(count: &mut TestCount) -> Result<()> {
    process::timed("build of the tests", test::build)?;
    count.add(test::count_all(check_with_guest, check_without_guest)?);
    Ok(())
}

/// What comes before the host ring, which needs the guest of virtual time.
fn check_with_guest() -> TestCount {
    let mut count = TestCount::default();
    count.check("guest of virtual time", process::timed("guest of virtual time", provide_guest));
    match fleet::lack() {
        None => count.check("cluster", fleet::check()), // at normal priority: its daemons drop a slow node
        Some(lack) => count.skip(1, lack),
    }
    process::be_patient(Patience::Some);
    count.check("table in virtual time", process::timed("table in virtual time", table_in_virtual_time));
    count
}

/// What runs beside the host and the kernel ring.
fn check_without_guest() -> TestCount {
    let mut count = TestCount::default();
    process::be_patient(Patience::Most);
    process::timed("lints", || lint(&mut count));
    count.check("proof", process::timed("proof", prove::check));
    count.check("fuzzer", process::timed("fuzzer", fuzz::check));
    process::timed("other kernels", || vm::matrix::check(&mut count));
    count
}

/// Builds the guest at a lower priority, in a thread of its own because a thread cannot raise its priority again.
fn provide_guest() -> Result<()> {
    let build = || {
        process::be_patient(Patience::Some);
        guest::provide()
    };
    thread::scope(|scope| scope.spawn(build).join().expect("a build returns what is wrong"))
}

/// Runs a published table with three runs per cell, and reports it.
fn table_in_virtual_time() -> Result<()> {
    const TABLE: &str = "scenarios/dtcp-2018/table-2.toml";
    let results = process::target().join("ci-table");
    process::remove(&results)?;
    let mut run = process::program(process::tccc());
    run.args(["run", TABLE, "--engine", "virtual", "--runs", "3", "--quiet", "--out"]).arg(&results);
    process::run("table in virtual time", run.stdout(Stdio::null()))?;
    let mut report = process::program(process::tccc());
    report.arg("report").arg(&results);
    process::run("report of the table", report.stdout(Stdio::null()))
}

fn lint(count: &mut TestCount) {
    let lack = "lints need clippy, which this toolchain lacks (`rustup component add clippy`)";
    count.check_by(process::cargo("clippy"), "lints", lack, || {
        let mut clippy = process::cargo("clippy");
        clippy.args(["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
        process::run("clippy", &mut clippy)
    });
}
