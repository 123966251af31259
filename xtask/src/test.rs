//! The three rings of tests, and what of them this machine could run.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::count::{Count, LibtestReader};
use crate::process;
use crate::setup::{self, Purpose};
use crate::{tidy, web};

/// The test programs of the host ring.
const HOST: [&str; 5] = ["--lib", "--bin", "xtask", "--test", "host"];

/// Tests that compare with snapshots and tables of fields.
const SHOWN: [&str; 7] = ["algorithms::", "cli::", "explain::", "mistakes", "recording::", "report::", "view::"];
const REFERENCE: &str = "scenarios/REFERENCE.md";

/// Which tests.
#[derive(Debug, Args)]
pub struct Arguments {
    /// One ring only
    #[arg(long, value_enum)]
    ring: Option<Ring>,
}

/// Tests by what they need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ring {
    /// No privilege: equations, parsing, tables, simulated paths
    Host,
    /// Root and struct_ops: loading and tracing on this kernel
    Kernel,
    /// The above and a link: calibration and scenarios
    Network,
}

/// Runs the tests and prints the count: `cargo xtask test`.
///
/// Errors: a test failed, or the tests do not build.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Test)?;
    build()?;
    let count = match arguments.ring {
        Some(ring) => count_ring(ring)?,
        None => count_all(|| ())?.0,
    };
    count.conclude()
}

/// Builds all tests.
///
/// Errors: they do not build.
pub fn build() -> Result<()> {
    web::bundle_if_possible();
    process::run("build the tests", process::cargo("test").args(["--workspace", "--no-run"]))
}

/// Runs all rings, and `also` something else. `also` and then the host ring run beside the kernel ring, whose tests mostly
/// wait. The network ring measures links, and runs alone.
///
/// Errors: the tests do not build.
pub fn count_all<T: Send>(also: impl FnOnce() -> T + Send) -> Result<(Count, T)> {
    let (kernel, host, also) = thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let also = also();
            process::be_patient();
            (count_ring(Ring::Host), also)
        });
        let kernel = count_ring(Ring::Kernel);
        let (host, also) = beside.join().expect("tests return what is wrong");
        (kernel, host, also)
    });
    let mut count = host?;
    count.add(kernel?);
    count.add(count_ring(Ring::Network)?);
    Ok((count, also))
}

/// Runs the tests of a ring.
///
/// Errors: they do not build.
fn count_ring(ring: Ring) -> Result<Count> {
    match ring {
        Ring::Host => run_libtest(&HOST, &[]),
        Ring::Kernel => privileged("kernel"),
        Ring::Network => privileged("network"),
    }
}

/// Runs a test program whose tests need root, one at a time.
fn privileged(program: &str) -> Result<Count> {
    if process::is_root() {
        return run_libtest(&["--test", program], &["--test-threads=1"]);
    }
    let mut list = process::cargo("test");
    let listed = process::output("list the tests", list.args(["--workspace", "--test", program, "--", "--list"]))?;
    let mut count = Count::default();
    let tests = listed.lines().filter(|line| line.ends_with(": test")).count();
    count.skip(tests, format!("the {program} ring needs root"));
    Ok(count)
}

/// Runs test programs by `cargo test` and counts what they say.
fn run_libtest(programs: &[&str], options: &[&str]) -> Result<Count> {
    let log = skip_log(programs.last().expect("some test program"))?;
    let mut command = process::cargo("test");
    // One package alone would be built again, with the features that it alone asks for.
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
        count.fail(format!("`cargo test` ended with {status} although no test is named as failed"));
    }
    count.correct_by_skip_log(&fs::read_to_string(&log).unwrap_or_default());
    Ok(count)
}

/// An empty file for the skips of a ring.
fn skip_log(ring: &str) -> Result<PathBuf> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let log = folder.join(format!("skips-{ring}.log"));
    fs::write(&log, "").with_context(|| format!("write {}", log.display()))?;
    Ok(log)
}

/// Builds for the kernel, checks the rules, drives every algorithm over the simulated paths: `cargo xtask check`.
///
/// Errors: the first of the three that does not hold.
pub fn check() -> Result<()> {
    process::run("kernel build", process::cargo("check").args(["--quiet", "--all-targets"]))?;
    tidy::run()?;
    process::run(
        "host ring",
        process::cargo("test").args(["--quiet", "--test", "host", "--", "algorithms::", "catalog::"]),
    )
}

/// Loads every algorithm without registering it and prints the instructions the verifier walked: `cargo xtask verify`.
///
/// Errors: the verifier refuses an algorithm, or one costs more than the test allows.
pub fn verify() -> Result<()> {
    let mut test = process::tests_of(["--test", "kernel"], "verify::");
    process::run("verify", test.env("TCCC_REQUIRE", "root,struct_ops"))
}

/// Runs the tests that compare snapshots and `scenarios/REFERENCE.md`, accepts what they show and lists the changed files:
/// `cargo xtask bless`.
///
/// Errors: a test fails for another reason than its snapshot.
/// Side effects: rewrites snapshot files and the tables of `scenarios/REFERENCE.md`.
pub fn bless() -> Result<()> {
    let mut tests = process::cargo("test");
    tests.args(["--quiet", "--test", "host", "--"]).args(SHOWN);
    let accepted = process::run("bless", tests.env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1"));
    process::run("bless", process::program("git").args(["--no-pager", "diff", "--stat", "--", "*.snap", REFERENCE]))?;
    process::run("bless", process::program("git").args(["status", "--short", "--", "*.snap", "*.snap.new"]))?;
    accepted
}
