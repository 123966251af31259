//! The only thing CI calls: every check, all of them even when one fails, and one plain count at the end.

use std::process::Stdio;

use anyhow::Result;

use crate::count::Count;
use crate::setup::{self, Purpose};
use crate::{fleet, fmt, fuzz, guest, process, prove, readme, test, tidy, vm};

/// Runs every check and counts each as one, the tests one by one: `cargo xtask ci`.
///
/// Errors: at least one check or test failed.
pub fn run() -> Result<()> {
    setup::set_up(Purpose::Ci)?;
    let mut count = fmt::format(true);
    count.check("tidy", tidy::run());
    lint(&mut count);
    count.check("guest of virtual time", guest::provide());
    if let Err(error) = count_tests(&mut count) {
        count.check("tests", Err(error));
    }
    count.check("README commands", readme::check());
    count.conclude()
}

/// The rings. The cluster, the proof, the fuzzer, a table in virtual time and other kernels run beside them.
///
/// Errors: the tests do not build.
fn count_tests(count: &mut Count) -> Result<()> {
    test::build()?;
    let (tests, beside) = test::count_all(|| {
        let mut beside = Count::default();
        match fleet::lack() {
            None => beside.check("cluster", fleet::check()), // before the others, because its daemons miss a node that is slow
            Some(lack) => beside.skip(1, lack),
        }
        process::be_patient();
        beside.check("proof", prove::check());
        beside.check("fuzzer", fuzz::check());
        beside.check("table in virtual time", table_in_virtual_time());
        vm::matrix::check(&mut beside);
        beside
    })?;
    count.add(beside);
    count.add(tests);
    Ok(())
}

/// A published table, three runs of each cell, and its report.
///
/// Errors: a run fails; the report cannot be made.
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

fn lint(count: &mut Count) {
    if !process::answers(&mut process::cargo("clippy")) {
        count.skip(1, "lints need clippy, which this toolchain lacks (`rustup component add clippy`)");
        return;
    }
    let mut clippy = process::cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    count.check("lints", process::run("clippy", &mut clippy));
}
