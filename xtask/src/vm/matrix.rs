//! Runs the kernel ring under several kernels, and tabulates which feature works on which.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use fs_err as fs;

use super::emulator::Acceleration;
use super::guest::GuestJob;
use super::kernel::{self, KernelChoice};
use super::verdicts::{self, Verdicts};
use super::{Hardware, NotStarted, OutOfTime, boot};
use crate::count::{Failed, TestCount};
use crate::made::GeneratedTable;
use crate::process;
use crate::setup::{self, SetupPurpose};

const TABLE: GeneratedTable = GeneratedTable { document: "bpf/README.md", command: "cargo xtask vm-matrix --bless" };
/// The oldest supported kernel, two with long-term support, and the newest.
const KERNELS: [&str; 4] = ["6.1", "6.12", "6.18", "newest"];
/// CI runs the oldest and the newest.
const CHECKED_KERNELS: [&str; 2] = ["6.1", "newest"];
/// Words in the names of the tests that CI runs there.
const CHECKED_TESTS: [&str; 4] =
    ["passes_the_verifier_cheaply", "survives_random_loss_of_netem", "policy_by_unit", "lease"];
const CHECKED_MODULES: [&str; 3] = ["kernel::features", "kernel::transfer", "kernel::verify"];
/// Time limit for all of CI's kernels together, after they are unpacked. They run beside the kernel ring, which takes longer.
const CHECK_LIMIT: Duration = Duration::from_secs(480);

#[derive(Debug, Args)]
pub struct Arguments {
    /// Series or `newest`; repeat for more
    #[arg(long = "kernel", value_name = "SERIES|newest", default_values = KERNELS)]
    kernels: Vec<KernelChoice>,
    /// Only tests whose path begins with this, for example `kernel::trace`; repeat for more
    #[arg(long, value_name = "PREFIX", default_value = "kernel")]
    only: Vec<String>,
    /// Only tests whose name contains this, for example netem; repeat for more
    #[arg(long = "test", value_name = "WORD")]
    tests: Vec<String>,
    /// Show the output of a kernel's last complete run, if there is one, instead of running its tests
    #[arg(long)]
    kept: bool,
    /// Write the table into bpf/README.md
    #[arg(long)]
    bless: bool,
    #[command(flatten)]
    hardware: Hardware,
}

/// `cargo xtask vm-matrix --kernel 6.1` runs the kernel ring under each kernel and prints the table.
///
/// Side effects: as `cargo xtask vm`; keeps the tests' output, so that several calls can fill one table.
///
/// # Errors
/// [`Failed`] after all kernels if a test failed, or a guest died or ran out of time.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(SetupPurpose::Vm)?;
    let [modules, words] = [&arguments.only, &arguments.tests].map(|it| it.iter().map(String::as_str).collect());
    let wanted = WantedTests { modules, words };
    let mut columns = Vec::new();
    for choice in &arguments.kernels {
        eprintln!("xtask: vm-matrix: kernel {choice}");
        columns.push(column(choice, arguments, &wanted).unwrap_or_else(|why| {
            eprintln!("xtask: error: vm-matrix: {why:#}");
            Verdicts::of_failure(choice.to_string(), format!("{why:#}"))
        }));
    }
    let table = verdicts::table(&wanted.modules, &columns);
    println!("\n{table}");
    if arguments.bless {
        TABLE.settle(&table, true)?;
    }
    if columns.iter().any(|column| column.count.failed > 0) { Err(Failed.into()) } else { Ok(()) }
}

/// The results of a kernel, from a run or from kept output.
fn column(choice: &KernelChoice, arguments: &Arguments, wanted: &WantedTests) -> Result<Verdicts> {
    let words = [&wanted.modules[..], &wanted.words[..]].concat();
    let kept = kernel::folder().join(format!("said-{choice}-{}", words.join("-")));
    if arguments.kept && kept.exists() {
        let said = fs::read_to_string(&kept)?;
        return Ok(Verdicts::read(&said));
    }
    let said = said_by_tests(choice, &arguments.hardware, &job(&wanted.build()?))?;
    fs::write(&kept, &said)?;
    Ok(Verdicts::read(&said))
}

/// Runs CI's tests on CI's kernels and adds the results to `count`.
///
/// Without QEMU or a kernel, or on a slow machine, the tests count as skips with the reason.
pub fn check(count: &mut TestCount) {
    let tests = CHECKED_KERNELS.len() * CHECKED_TESTS.len();
    if let Err(why) = setup::set_up(SetupPurpose::Vm) {
        return count.skip(tests, format!("other kernels need a virtual machine: {why:#}"));
    }
    let wanted = WantedTests { modules: CHECKED_MODULES.into(), words: CHECKED_TESTS.into() };
    let job = match wanted.build() {
        Ok(programs) => job(&programs),
        Err(why) => return count.check("tests for other kernels", Err(why)),
    };
    let mut left = CHECK_LIMIT;
    for name in CHECKED_KERNELS {
        let choice: KernelChoice = name.parse().expect("a kernel of ours has a name of ours");
        if let Err(why) = kernel::prepare(&choice, false) {
            count.skip(CHECKED_TESTS.len(), format!("needs Debian's kernel {name}: {why:#}"));
            continue;
        }
        let acceleration = Acceleration::Auto;
        let hardware = Hardware { limit: left, memory: 2048, processors: 2, acceleration, renew: false };
        let begin = Instant::now();
        let said = said_by_tests(&choice, &hardware, &job);
        left = left.saturating_sub(begin.elapsed());
        count_verdicts(count, name, said.map(|said| Verdicts::read(&said)));
    }
}

/// Counts a guest that did not start or was too slow as skips: that shows nothing about an algorithm.
fn count_verdicts(count: &mut TestCount, kernel: &str, verdicts: Result<Verdicts>) {
    let skipped = CHECKED_TESTS.len();
    match verdicts {
        Ok(verdicts) => count.add(verdicts.count),
        Err(why) if why.is::<OutOfTime>() => count.skip(skipped, format!("needs a faster or less busy host: {why:#}")),
        Err(why) if why.is::<NotStarted>() => {
            count.skip(skipped, format!("needs a machine that boots {kernel}: {why:#}"));
        }
        Err(why) => count.check(&format!("tests under kernel {kernel}"), Err(why)),
    }
}

/// The chosen tests.
struct WantedTests<'a> {
    /// Beginnings of paths, for example `kernel::trace`.
    modules: Vec<&'a str>,
    /// Words of which a name contains at least one; empty takes every name.
    words: Vec<&'a str>,
}

impl WantedTests<'_> {
    fn holds(&self, test: &str) -> bool {
        let has_word = self.words.is_empty() || self.words.iter().any(|word| test.contains(word));
        has_word && self.modules.iter().any(|module| test.starts_with(module))
    }

    /// Builds the test programs; returns the chosen tests by the program's path.
    fn build(&self) -> Result<BTreeMap<String, Vec<String>>> {
        let mut build = process::cargo("test");
        build.args(["--workspace", "--no-run"]);
        let names: BTreeSet<&str> = self.modules.iter().filter_map(|module| module.split("::").next()).collect();
        build.args(names.iter().flat_map(|name| ["--test", name]));
        let output = build.output().context("start `cargo test`")?;
        let said = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            bail!("build the tests: {said}");
        }
        let mut programs = BTreeMap::new();
        for (name, path) in said.lines().filter_map(built_test) {
            let listed = process::output("list the tests", process::program(path).arg("--list"))?;
            let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
            let wanted: Vec<_> =
                tests.filter(|test| self.holds(&format!("{name}::{test}"))).map(str::to_owned).collect();
            if !wanted.is_empty() {
                programs.insert(path.to_owned(), wanted);
            }
        }
        if programs.is_empty() { bail!("no test of {:?} has a matching name", self.modules) } else { Ok(programs) }
    }
}

/// Name and path in a line `  Executable tests/kernel/main.rs (target/debug/deps/kernel-1a2b)` of cargo.
fn built_test(line: &str) -> Option<(&str, &str)> {
    let (name, program) = line.trim().strip_prefix("Executable tests/")?.split_once("/main.rs (")?;
    Some((name, program.strip_suffix(')')?))
}

/// Runs tests of the programs one after another, then prints the two logs that they wrote.
fn job(programs: &BTreeMap<String, Vec<String>>) -> GuestJob {
    let runs: Vec<String> = programs
        .iter()
        .map(|(program, tests)| format!("{program} --test-threads=1 --exact {}\n", tests.join(" ")))
        .collect();
    let script = format!(
        "echo \"kernel: $(uname -v)\"\n{}cat \"$TCCC_VERDICT_LOG\" \"$TCCC_SKIP_LOG\" || true\n",
        runs.concat()
    );
    let mut job = GuestJob::in_a_guest_alone(script);
    let logs = [("TCCC_VERDICT_LOG", "/run/verdicts"), ("TCCC_SKIP_LOG", "/run/skips")];
    job.environment.extend(logs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    job
}

/// Runs a job of tests, and shows and returns its output.
fn said_by_tests(choice: &KernelChoice, hardware: &Hardware, job: &GuestJob) -> Result<String> {
    let mut said = CopiedOutput::default();
    let code = match boot(choice, hardware, job, &mut said) {
        Err(why) if said.bytes.is_empty() && !why.is::<OutOfTime>() => return Err(why.context(NotStarted)),
        booted => booted?,
    };
    ensure!(code == 0, "the tests under kernel {choice} could not be run: code {code}");
    Ok(String::from_utf8_lossy(&said.bytes).into_owned())
}

/// Writes to stdout and keeps a copy.
#[derive(Default)]
struct CopiedOutput {
    bytes: Vec<u8>,
}

impl Write for CopiedOutput {
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
    fn host_that_is_too_slow_or_boots_nothing_skips() {
        let mut count = TestCount::default();
        let slow = OutOfTime("6.1".into(), CHECK_LIMIT);
        count_verdicts(&mut count, "6.1", Err(slow.into()));
        count_verdicts(&mut count, "6.1", Err(anyhow::anyhow!("no memory").context(NotStarted)));
        assert_eq!((count.failed, count.skipped), (0, 2 * CHECKED_TESTS.len()));
        count_verdicts(&mut count, "6.1", Err(anyhow::anyhow!("the guest died twice")));
        assert_eq!(count.failed, 1);
    }

    #[test]
    fn built_tests_are_found_in_what_cargo_says() {
        let line = "  Executable tests/kernel/main.rs (target/debug/deps/kernel-64a5)";
        assert_eq!(built_test(line), Some(("kernel", "target/debug/deps/kernel-64a5")));
        assert_eq!(built_test("  Executable unittests src/lib.rs (target/debug/deps/tccc-7ff2)"), None);
    }

    #[test]
    fn tests_are_wanted_by_module_and_word() {
        let wanted = WantedTests { modules: vec!["kernel::load", "kernel::trace"], words: vec!["netem"] };
        let tests = ["kernel::load::netem_a", "kernel::trace::b", "kernel::serve::netem_c", "network::load::netem_d"];
        assert_eq!(tests.map(|test| wanted.holds(test)), [true, false, false, false]);
    }
}
