//! Runs the three rings of tests, as far as this machine can.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fs_err as fs;
use serde_json::Value;

use crate::count::{LibtestReader, TestCount};
use crate::process::{self, Priority, command};
use crate::setup::{self, SetupPurpose, Unmet};
use crate::{guest, tidy, web};

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
    let count = match arguments.ring {
        Some(ring) => count_one(ring)?,
        None => count_all(guest::provide_all, guest_or_skip, (TestCount::default, TestCount::default))?,
    };
    count.conclude()
}

/// One ring; the host ring with the guest of virtual time.
fn count_one(ring: TestRing) -> Result<TestCount> {
    let mut count = match ring {
        TestRing::Host => guest_or_skip(guest::provide_all()),
        TestRing::Kernel | TestRing::Network => TestCount::default(),
    };
    count.add(count_ring(ring, &build()?)?);
    Ok(count)
}

/// A guest whose needs this machine lacks is a skip: the tests that need it name it too. One that does not compile fails.
fn guest_or_skip(built: Result<()>) -> TestCount {
    let mut count = TestCount::default();
    match built {
        Err(why) if why.is::<Unmet>() => count.skip(1, format!("the guest of virtual time: {why:#}")),
        built => count.check("guest of virtual time", built),
    }
    count
}

/// Builds guests of virtual time unless they exist.
fn provide_guests(provide: fn() -> Result<()>) -> Result<()> {
    process::set_priority(Priority::Later);
    process::timed("guests of virtual time", provide)
}

/// A program that cargo built of tests.
#[derive(Debug)]
struct TestProgram {
    /// "lib", "bin" or "test".
    kind: String,
    name: String,
    executable: PathBuf,
    manifest: PathBuf,
}

/// Builds all tests. Cargo locks the build folder while the lints use it, so the rings start these programs themselves.
fn build() -> Result<Vec<TestProgram>> {
    web::bundle_if_possible();
    let mut cargo = process::cargo("test");
    cargo.args(["--workspace", "--no-run", "--message-format=json-render-diagnostics"]).stderr(Stdio::inherit());
    let built = process::output("build the tests", &mut cargo)?;
    let messages = built.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter(|message| message["profile"]["test"] == true).filter_map(|it| TestProgram::of(&it)).collect())
}

impl TestProgram {
    /// None: cargo made nothing that can be started.
    fn of(message: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(TestProgram {
            kind: text(&message["target"]["kind"][0])?,
            name: text(&message["target"]["name"])?,
            executable: text(&message["executable"])?.into(),
            manifest: text(&message["manifest_path"])?.into(),
        })
    }

    fn is_in(&self, ring: TestRing) -> bool {
        match ring {
            TestRing::Host => self.kind == "lib" || ["host", "xtask"].contains(&self.name.as_str()),
            TestRing::Kernel => self.name == "kernel",
            TestRing::Network => self.name == "network",
        }
    }

    /// Starts in the package's folder, as with `cargo test`.
    fn command(&self) -> Command {
        let mut command = process::program(&self.executable);
        let folder = self.manifest.parent().unwrap_or(Path::new("/"));
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        command
    }
}

/// Builds the tests and the guests of virtual time, and runs all rings and other checks. `first` counts the guests, and then
/// the host ring runs beside the others. The kernel ring mostly waits. The network ring measures links, so it comes after that
/// and goes before all that runs beside it. `beside` runs beside all of them, and `after` after the host ring.
///
/// # Errors
/// The tests do not build.
pub fn count_all(
    guests: fn() -> Result<()>,
    first: impl FnOnce(Result<()>) -> TestCount + Send,
    (beside, after): (impl FnOnce() -> TestCount + Send, impl FnOnce() -> TestCount + Send),
) -> Result<TestCount> {
    let programs = OnceLock::new();
    let counts = thread::scope(|scope| {
        let guest = scope.spawn(move || provide_guests(guests));
        let built = process::timed("build of the tests", build)?; // an error waits for the guest
        let programs = programs.get_or_init(|| built);
        let others = scope.spawn(|| Ok(beside()));
        let host = scope.spawn(|| {
            let mut count = first(guest.join().expect("a build returns what is wrong"));
            process::set_priority(Priority::Later);
            count.add(count_ring(TestRing::Host, programs)?);
            count.add(after());
            anyhow::Ok(count)
        });
        let privileged = scope.spawn(|| {
            let mut count = count_ring(TestRing::Kernel, programs)?;
            process::set_priority(Priority::First);
            count.add(count_ring(TestRing::Network, programs)?);
            anyhow::Ok(count)
        });
        let counts = [others, host, privileged].map(|thread| thread.join().expect("tests return what is wrong"));
        counts.into_iter().collect::<Result<Vec<_>>>()
    })?;
    let mut count = TestCount::default();
    counts.into_iter().for_each(|one| count.add(one));
    Ok(count)
}

fn count_ring(ring: TestRing, programs: &[TestProgram]) -> Result<TestCount> {
    let mut count = TestCount::default();
    process::timed(&format!("the ring {ring:?}"), || {
        for program in programs.iter().filter(|program| program.is_in(ring)) {
            count.add(if ring == TestRing::Host || process::is_root() {
                run_libtest(program, ring)?
            } else {
                skip(program)?
            });
        }
        Ok(count)
    })
}

/// Counts the tests of a program that needs root as skips.
fn skip(program: &TestProgram) -> Result<TestCount> {
    let listed = process::output("list the tests", program.command().arg("--list"))?;
    let mut count = TestCount::default();
    let tests = listed.lines().filter(|line| line.ends_with(": test")).count();
    count.skip(tests, format!("the {} ring needs root", program.name));
    Ok(count)
}

/// Runs a test program and counts its results. What needs root runs one test at a time.
fn run_libtest(program: &TestProgram, ring: TestRing) -> Result<TestCount> {
    let log = skip_log(&program.name)?;
    let mut command = program.command();
    command.env("TCCC_SKIP_LOG", &log).stdout(Stdio::piped());
    if ring != TestRing::Host {
        command.arg("--test-threads=1");
    }
    println!("\n     Running {} {}", program.kind, program.name);
    let mut child = command.spawn().with_context(|| format!("start {}", program.executable.display()))?;
    let mut reader = LibtestReader::default();
    for line in BufReader::new(child.stdout.take().expect("stdout is piped")).split(b'\n') {
        let line = line.context("read the tests' output")?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        reader.read_line(&line);
    }
    let status = child.wait().with_context(|| format!("wait for the tests of {}", program.name))?;
    let mut count = reader.finish();
    if !status.success() && count.failed == 0 {
        count.fail(format!("the tests of {} ended with {status} although they name no failed test", program.name));
    }
    count.correct_by_skip_log(&fs::read_to_string(&log).unwrap_or_default());
    Ok(count)
}

/// Creates an empty file for the skips of a ring.
fn skip_log(ring: &str) -> Result<PathBuf> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder)?;
    let log = folder.join(format!("skips-{ring}.log"));
    fs::write(&log, "")?;
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
/// # Errors
/// A test fails for another reason than its snapshot.
pub fn bless() -> Result<()> {
    let mut tests = process::cargo("test");
    tests.args(["--quiet", "--test", "host", "--"]).args(SHOWN);
    let accepted = process::run("bless", tests.env("INSTA_UPDATE", "always").env("INSTA_FORCE_PASS", "1"));
    process::run("bless", command!("git --no-pager diff --stat -- *.snap {REFERENCE}"))?;
    process::run("bless", command!("git status --short -- *.snap *.snap.new"))?;
    accepted
}
