//! Runs the three rings of tests, as far as this machine can.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::count::{LibtestReader, TestCount};
use crate::process::{self, Patience};
use crate::setup::{self, SetupPurpose};
use crate::{tidy, web};

/// Test programs of the host ring.
const HOST: [&str; 5] = ["--lib", "--bin", "xtask", "--test", "host"];

/// Tests that compare with snapshots and tables of fields.
const SHOWN: [&str; 8] =
    ["algorithms::", "cli::", "explain::", "mistakes", "recording::", "refusals::", "report::", "view::"];
const REFERENCE: &str = "scenarios/REFERENCE.md";

#[derive(Debug, Args)]
pub struct Arguments {
    /// One ring only
    #[arg(long, value_enum)]
    ring: Option<TestRing>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestRing {
    /// No privilege: equations, parsing, tables, simulated paths
    Host,
    /// Root and struct_ops: loading and tracing on this kernel
    Kernel,
    /// Root, struct_ops and a link: calibration and scenarios
    Network,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Test)?;
    build()?;
    let count = match arguments.ring {
        Some(ring) => count_ring(ring)?,
        None => count_all(TestCount::default, TestCount::default)?,
    };
    count.conclude()
}

pub fn build() -> Result<()> {
    web::bundle_if_possible();
    process::run("build the tests", process::cargo("test").args(["--workspace", "--no-run"]))
}

/// Runs all rings and other checks. `first` and then the host ring run beside the kernel ring, whose tests mostly wait;
/// `beside` runs beside all of them. The network ring measures links and runs alone, after them.
pub fn count_all(
    first: impl FnOnce() -> TestCount + Send,
    beside: impl FnOnce() -> TestCount + Send,
) -> Result<TestCount> {
    let counts = thread::scope(|scope| {
        let others = scope.spawn(|| Ok(beside()));
        let host = scope.spawn(|| {
            let mut count = first();
            process::be_patient(Patience::Some);
            count.add(count_ring(TestRing::Host)?);
            anyhow::Ok(count)
        });
        let kernel = count_ring(TestRing::Kernel);
        let joined = [others, host].map(|thread| thread.join().expect("tests return what is wrong"));
        joined.into_iter().chain([kernel]).collect::<Vec<_>>()
    });
    let mut count = TestCount::default();
    for one in counts {
        count.add(one?);
    }
    count.add(count_ring(TestRing::Network)?);
    Ok(count)
}

fn count_ring(ring: TestRing) -> Result<TestCount> {
    process::timed(&format!("the ring {ring:?}"), || match ring {
        TestRing::Host => run_libtest(&HOST, &[]),
        TestRing::Kernel => privileged("kernel"),
        TestRing::Network => privileged("network"),
    })
}

/// Runs a test program one test at a time, or counts its tests as skips without root.
fn privileged(program: &str) -> Result<TestCount> {
    if process::is_root() {
        return run_libtest(&["--test", program], &["--test-threads=1"]);
    }
    let mut list = process::cargo("test");
    let listed = process::output("list the tests", list.args(["--workspace", "--test", program, "--", "--list"]))?;
    let mut count = TestCount::default();
    let tests = listed.lines().filter(|line| line.ends_with(": test")).count();
    count.skip(tests, format!("the {program} ring needs root"));
    Ok(count)
}

/// Runs test programs by `cargo test` and counts their results.
fn run_libtest(programs: &[&str], options: &[&str]) -> Result<TestCount> {
    let log = skip_log(programs.last().expect("some test program"))?;
    let mut command = process::cargo("test");
    command
        .arg("--workspace")
        .args(programs)
        .args(["--no-fail-fast", "--"])
        .args(options)
        .env("TCCC_SKIP_LOG", &log)
        .stdout(Stdio::piped());
    let mut child = command.spawn().context("start `cargo test`")?;
    let mut reader = LibtestReader::default();
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).split(b'\n') {
        let line = line.context("read the tests' output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        reader.read_line(&line);
    }
    let status = child.wait().context("wait for `cargo test`")?;
    let mut count = reader.finish();
    if !status.success() && count.failed == 0 {
        count.fail(format!("`cargo test` ended with {status} although it names no failed test"));
    }
    count.correct_by_skip_log(&fs::read_to_string(&log).unwrap_or_default());
    Ok(count)
}

/// Creates an empty file for the skips of a ring.
fn skip_log(ring: &str) -> Result<PathBuf> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let log = folder.join(format!("skips-{ring}.log"));
    fs::write(&log, "").with_context(|| format!("write {}", log.display()))?;
    Ok(log)
}

/// `cargo xtask check`. Stops at the first failure.
pub fn check() -> Result<()> {
    process::run("kernel build", process::cargo("check").args(["--quiet", "--all-targets"]))?;
    tidy::run()?;
    process::run(
        "host ring",
        process::cargo("test").args(["--quiet", "--test", "host", "--", "algorithms::", "catalog::"]),
    )
}

/// `cargo xtask verify`: loads every algorithm without registering it and prints the instructions that the verifier processed.
pub fn verify() -> Result<()> {
    let mut test = process::tests_of(["--test", "kernel"], "verify::");
    process::run("verify", test.env("TCCC_REQUIRE", "root,struct_ops"))
}

/// `cargo xtask bless`: rewrites snapshots and the tables of `scenarios/REFERENCE.md`, and lists the changed files.
///
/// Errors: a test fails for another reason than its snapshot.
pub fn bless() -> Result<()> {
    let mut tests = process::cargo("test");
    tests.args(["--quiet", "--test", "host", "--"]).args(SHOWN);
    let accepted = process::run("bless", tests.env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1"));
    process::run("bless", process::program("git").args(["--no-pager", "diff", "--stat", "--", "*.snap", REFERENCE]))?;
    process::run("bless", process::program("git").args(["status", "--short", "--", "*.snap", "*.snap.new"]))?;
    accepted
}
