//! The kernel ring under several kernels: which algorithm stands what, on which of them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;

use super::emulator::Acceleration;
use super::guest::Job;
use super::kernel::{self, Choice};
use super::verdicts::{self, Verdicts};
use super::{Hardware, OutOfTime, boot};
use crate::count::{Count, Failed};
use crate::made::Block;
use crate::process;
use crate::setup::{self, Purpose};

/// Where the table stands.
const TABLE: Block = Block { document: "bpf/README.md", command: "cargo xtask vm-matrix --bless" };
/// The kernels that people run: the oldest supported, two long-lived ones, and the newest there is.
const KERNELS: [&str; 4] = ["6.1", "6.12", "6.18", "newest"];
/// What CI runs: the oldest and the newest.
const CHECKED_KERNELS: [&str; 2] = ["6.1", "newest"];
/// What CI runs there: every algorithm passes the verifier, and carries data through netem.
const CHECKED_TESTS: [&str; 2] =
    ["every_algorithm_passes_the_verifier_cheaply", "every_algorithm_survives_random_loss_of_netem"];
const CHECKED_FILES: [&str; 2] = ["kernel_transfer", "kernel_verify"];
/// How long CI waits for one kernel.
const CHECK_LIMIT: Duration = Duration::from_secs(120);

/// Which kernels.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Series or `newest`; repeat for more
    #[arg(long = "kernel", value_name = "SERIES|newest", default_values = KERNELS)]
    kernels: Vec<Choice>,
    /// Only test files whose name begins so, for example kernel_trace; repeat for more
    #[arg(long, value_name = "PREFIX", default_value = "kernel")]
    only: Vec<String>,
    /// Write the table into bpf/README.md
    #[arg(long)]
    bless: bool,
    #[command(flatten)]
    hardware: Hardware,
    /// Name missing packages instead of installing them
    #[arg(long)]
    no_install: bool,
}

/// Runs the kernel ring under each kernel and prints the table: `cargo xtask vm-matrix --kernel 6.1`.
///
/// Errors: [`Failed`] when a test failed, or a guest died or ran out of time: the others run nevertheless.
/// Side effects: as `cargo xtask vm`; with `--bless` writes the table into its document.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Vm, arguments.no_install)?;
    let binaries = binaries(|name| arguments.only.iter().any(|prefix| name.starts_with(prefix)))?;
    let mut columns = Vec::new();
    for choice in &arguments.kernels {
        eprintln!("xtask: vm-matrix: kernel {choice}");
        columns.push(verdicts_of(choice, &arguments.hardware, &job(&binaries, &[])).unwrap_or_else(|why| {
            eprintln!("xtask: error: vm-matrix: {why:#}");
            Verdicts::of_failure(choice.to_string(), format!("{why:#}"))
        }));
    }
    let files: Vec<&str> = binaries.keys().map(String::as_str).collect();
    let table = verdicts::table(&files, &columns);
    println!("\n{table}");
    if arguments.bless {
        TABLE.write(&table)?;
    }
    if columns.iter().any(|column| column.count.failed > 0) { Err(Failed.into()) } else { Ok(()) }
}

/// A small part of it on the oldest and the newest kernel, counted into CI's count: what CI runs.
///
/// A machine that cannot have QEMU or a kernel, or is too slow for them, skips, which is counted with the reason.
pub fn check(count: &mut Count, no_install: bool) {
    let tests = CHECKED_KERNELS.len() * CHECKED_TESTS.len();
    if let Err(why) = setup::set_up(Purpose::Vm, no_install) {
        return count.skip(tests, format!("other kernels need a virtual machine: {why:#}"));
    }
    let binaries = match binaries(|name| CHECKED_FILES.contains(&name)) {
        Ok(binaries) => binaries,
        Err(why) => return count.check("tests for other kernels", Err(why)),
    };
    let acceleration = Acceleration::Auto;
    let hardware = Hardware { limit: CHECK_LIMIT, memory: 2048, processors: 2, acceleration, renew: false };
    for name in CHECKED_KERNELS {
        let choice: Choice = name.parse().expect("a kernel of ours has a name of ours");
        if let Err(why) = kernel::prepare(&choice, false) {
            count.skip(CHECKED_TESTS.len(), format!("needs Debian's kernel {name}: {why:#}"));
            continue;
        }
        match verdicts_of(&choice, &hardware, &job(&binaries, &CHECKED_TESTS)) {
            Ok(verdicts) => count.add(verdicts.count),
            // How fast software emulation is says nothing of an algorithm.
            Err(why) if why.is::<OutOfTime>() => {
                count.skip(CHECKED_TESTS.len(), format!("needs a faster or idler host: {why:#}"));
            }
            Err(why) => count.check(&format!("tests under kernel {name}"), Err(why)),
        }
    }
}

/// Test files that are built, by their name, with the program of each.
pub fn binaries(is_wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, String>> {
    let output = process::cargo("test").args(["--no-run", "--tests"]).output().context("start `cargo test`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("build the tests: {said}");
    }
    let built = said.lines().filter_map(built_test);
    Ok(built.filter(|(name, _)| is_wanted(name)).map(|(name, program)| (name.into(), program.into())).collect())
}

/// `  Executable tests/link.rs (target/debug/deps/link-1a2b)` to its name and program.
fn built_test(line: &str) -> Option<(&str, &str)> {
    let (file, program) = line.trim().strip_prefix("Executable tests/")?.split_once(".rs (")?;
    Some((file, program.strip_suffix(')')?))
}

/// Runs the test binaries one after another, then prints what they wrote into the two logs.
fn job(binaries: &BTreeMap<String, String>, filters: &[&str]) -> Job {
    let runs: Vec<String> =
        binaries.values().map(|program| format!("{program} --test-threads=1 {}\n", filters.join(" "))).collect();
    let script = format!(
        "echo \"kernel: $(uname -v)\"\n{}cat \"$TCCC_VERDICT_LOG\" \"$TCCC_SKIP_LOG\" || true\n",
        runs.concat()
    );
    let mut job = Job::in_a_guest_alone(script);
    let logs = [("TCCC_VERDICT_LOG", "/run/verdicts"), ("TCCC_SKIP_LOG", "/run/skips")];
    job.environment.extend(logs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    job
}

/// Runs a job and reads what it said.
fn verdicts_of(choice: &Choice, hardware: &Hardware, job: &Job) -> Result<Verdicts> {
    let (code, output) = output_of(choice, hardware, job)?;
    if code != 0 {
        bail!("the tests under kernel {choice} could not be run: code {code}");
    }
    Ok(Verdicts::read(&output))
}

/// Runs a job; its exit code and what it said, which is shown meanwhile.
pub fn output_of(choice: &Choice, hardware: &Hardware, job: &Job) -> Result<(u8, String)> {
    let mut said = Copied::default();
    let code = boot(choice, hardware, job, &mut said)?;
    Ok((code, String::from_utf8_lossy(&said.bytes).into_owned()))
}

/// Standard output, with a copy kept.
#[derive(Default)]
struct Copied {
    bytes: Vec<u8>,
}

impl Write for Copied {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        io::stdout().write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_tests_are_found_in_what_cargo_says() {
        let line = "  Executable tests/kernel_load.rs (target/debug/deps/kernel_load-64a5)";
        assert_eq!(built_test(line), Some(("kernel_load", "target/debug/deps/kernel_load-64a5")));
        assert_eq!(built_test("  Executable unittests src/lib.rs (target/debug/deps/tccc-7ff2)"), None);
    }

    #[test]
    fn job_runs_each_binary_alone_on_a_host_of_its_own() {
        let binaries = BTreeMap::from([("a".into(), "deps/a-1".into()), ("b".into(), "deps/b-2".into())]);
        let job = job(&binaries, &["netem"]);
        let script = &job.command[2];
        assert!(script.contains("deps/a-1 --test-threads=1 netem\ndeps/b-2 --test-threads=1 netem\n"), "{script}");
        assert!(!job.environment.iter().any(|(name, _)| name == "TCCC_SHARED_HOST"));
    }
}
