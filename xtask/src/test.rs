//! The three rings of tests, and what of them this machine could run.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::count::{Count, LibtestReader};
use crate::process;
use crate::setup::{self, Purpose};
use crate::web;

/// Which tests.
#[derive(Debug, Args)]
pub struct Arguments {
    /// One ring only
    #[arg(long, value_enum)]
    ring: Option<Ring>,
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
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
    setup::set_up(Purpose::Test, arguments.no_install)?;
    let rings = arguments.ring.map_or_else(|| Ring::value_variants().to_vec(), |ring| vec![ring]);
    build()?;
    let mut count = Count::default();
    for ring in rings {
        count.add(count_ring(ring)?);
    }
    count.conclude()
}

/// Builds all tests.
///
/// Errors: they do not build.
pub fn build() -> Result<()> {
    web::bundle_if_possible();
    process::run("build the tests", process::cargo("test").args(["--workspace", "--no-run"]))
}

/// Runs the tests of a ring.
///
/// Errors: they do not build.
pub fn count_ring(ring: Ring) -> Result<Count> {
    let files: Vec<_> = test_files()?.into_iter().filter(|file| ring_of(file) == Some(ring)).collect();
    if ring == Ring::Host {
        // One package alone would be built again, with the features that it alone asks for.
        let mut count = run_libtest(&files, &["--workspace", "--lib", "--bins"], 0)?;
        count.add(run_libtest(&[], &["--workspace", "--doc"], 0)?);
        return Ok(count);
    }
    if files.is_empty() {
        return Ok(Count::default());
    }
    if !process::is_root() {
        let mut count = Count::default();
        count.skip(list(&files)?, format!("the {ring:?} ring needs root").to_lowercase());
        return Ok(count);
    }
    run_libtest(&files, &[], 1)
}

/// Names of the files in `tests/`, sorted.
fn test_files() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(process::workspace().join("tests")).context("list the tests")? {
        let name = entry.context("list the tests")?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".rs").map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// The ring of a test file; benchmarks, the proof and the fuzzer are in none, they have commands of their own.
fn ring_of(file: &str) -> Option<Ring> {
    match file {
        "fuzz" | "prove" => None,
        _ if file.ends_with("_bench") => None,
        "emulators" | "link" | "link_models" | "link_runs" | "mininet" | "network" | "virtual_links" => {
            Some(Ring::Network)
        }
        _ if file.starts_with("kernel") => Some(Ring::Kernel),
        _ => Some(Ring::Host),
    }
}

/// Runs test binaries; `threads` 0 leaves their number to libtest.
fn run_libtest(files: &[String], what: &[&str], threads: usize) -> Result<Count> {
    let log = skip_log()?;
    let mut command = select(files, what);
    command.arg("--no-fail-fast").env("TCCC_SKIP_LOG", &log).stdout(Stdio::piped());
    if threads > 0 {
        command.args(["--", &format!("--test-threads={threads}")]);
    }
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

/// An empty file for the next binaries' skips.
fn skip_log() -> Result<PathBuf> {
    let folder = process::target().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let log = folder.join("skips.log");
    fs::write(&log, "").with_context(|| format!("write {}", log.display()))?;
    Ok(log)
}

fn select(files: &[String], what: &[&str]) -> Command {
    let mut command = process::cargo("test");
    command.args(what);
    for file in files {
        command.args(["--test", file]);
    }
    command
}

/// How many tests these files hold.
fn list(files: &[String]) -> Result<usize> {
    let listed = process::output("list the tests", select(files, &[]).args(["--", "--list"]))?;
    Ok(listed.lines().filter(|line| line.ends_with(": test")).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_to_the_ring_of_their_name() {
        for (file, ring) in [
            ("catalog", Some(Ring::Host)),
            ("kernel_load", Some(Ring::Kernel)),
            ("network", Some(Ring::Network)),
            ("twins", Some(Ring::Host)),
            ("link", Some(Ring::Network)),
            ("link_bench", None),
        ] {
            assert_eq!(ring_of(file), ring, "{file}");
        }
    }
}
