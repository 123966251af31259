//! The kernel ring under several kernels: which feature works on which of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::emulator::Acceleration;
use super::guest::Job;
use super::kernel::{self, Choice};
use super::verdicts::{self, Verdicts};
use super::{Hardware, NotStarted, OutOfTime, boot};
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
/// What CI runs there: every algorithm passes the verifier, and carries data through netem; a policy finds a unit that is made
/// anew, and ends with its lease.
const CHECKED_TESTS: [&str; 4] = [
    "every_algorithm_passes_the_verifier_cheaply",
    "every_algorithm_survives_random_loss_of_netem",
    "policy_by_unit",
    "lease",
];
const CHECKED_FILES: [&str; 3] = ["kernel_features", "kernel_transfer", "kernel_verify"];
/// How long CI waits for all of its kernels together, once they are unpacked.
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
    /// Only tests whose name holds this, for example netem; repeat for more
    #[arg(long = "test", value_name = "WORD")]
    tests: Vec<String>,
    /// Show what a kernel's tests said when they last ran to their end, where they did, instead of running them
    #[arg(long)]
    kept: bool,
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
/// Side effects: as `cargo xtask vm`; keeps what the tests said beside the kernel, so that a table of several kernels can
/// be made of several runs; with `--bless` writes the table into its document.
pub fn run(arguments: &Arguments) -> Result<()> {
    setup::set_up(Purpose::Vm, arguments.no_install)?;
    let is_wanted = |name: &str| arguments.only.iter().any(|prefix| name.starts_with(prefix));
    let mut columns = Vec::new();
    for choice in &arguments.kernels {
        eprintln!("xtask: vm-matrix: kernel {choice}");
        columns.push(column(choice, arguments, &is_wanted).unwrap_or_else(|why| {
            eprintln!("xtask: error: vm-matrix: {why:#}");
            Verdicts::of_failure(choice.to_string(), format!("{why:#}"))
        }));
    }
    let files = files(is_wanted)?;
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let table = verdicts::table(&files, &columns);
    println!("\n{table}");
    if arguments.bless {
        TABLE.write(&table)?;
    }
    if columns.iter().any(|column| column.count.failed > 0) { Err(Failed.into()) } else { Ok(()) }
}

/// What a kernel's tests say, or said when they last ran.
fn column(choice: &Choice, arguments: &Arguments, is_wanted: &dyn Fn(&str) -> bool) -> Result<Verdicts> {
    let words = [&arguments.only[..], &arguments.tests[..]].concat();
    let kept = kernel::folder().join(format!("said-{choice}-{}", words.join("-")));
    if arguments.kept && kept.exists() {
        let said = fs::read_to_string(&kept).with_context(|| format!("read {}", kept.display()))?;
        return Ok(Verdicts::read(&said));
    }
    let filters: Vec<&str> = arguments.tests.iter().map(String::as_str).collect();
    let said = said_by_tests(choice, &arguments.hardware, &job(&binaries(is_wanted)?, &filters))?;
    fs::write(&kept, &said).with_context(|| format!("write {}", kept.display()))?;
    Ok(Verdicts::read(&said))
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
    let mut left = CHECK_LIMIT;
    for name in CHECKED_KERNELS {
        let choice: Choice = name.parse().expect("a kernel of ours has a name of ours");
        if let Err(why) = kernel::prepare(&choice, false) {
            count.skip(CHECKED_TESTS.len(), format!("needs Debian's kernel {name}: {why:#}"));
            continue;
        }
        let acceleration = Acceleration::Auto;
        let hardware = Hardware { limit: left, memory: 2048, processors: 2, acceleration, renew: false };
        let begin = Instant::now();
        let said = said_by_tests(&choice, &hardware, &job(&binaries, &CHECKED_TESTS));
        left = left.saturating_sub(begin.elapsed());
        count_verdicts(count, name, said.map(|said| Verdicts::read(&said)));
    }
}

/// How fast software emulation is, or whether it works here at all, says nothing of an algorithm.
fn count_verdicts(count: &mut Count, kernel: &str, verdicts: Result<Verdicts>) {
    let skipped = CHECKED_TESTS.len();
    match verdicts {
        Ok(verdicts) => count.add(verdicts.count),
        Err(why) if why.is::<OutOfTime>() => count.skip(skipped, format!("needs a faster or idler host: {why:#}")),
        Err(why) if why.is::<NotStarted>() => {
            count.skip(skipped, format!("needs a machine that boots {kernel}: {why:#}"));
        }
        Err(why) => count.check(&format!("tests under kernel {kernel}"), Err(why)),
    }
}

/// Names of the test files that are wanted, in order.
///
/// Errors: none is.
fn files(is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(process::workspace().join("tests")).context("list the tests")? {
        let file = entry.context("list the tests")?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix(".rs").filter(|name| is_wanted(name)).map(str::to_owned));
    }
    names.sort();
    if names.is_empty() { bail!("no file of tests/ has such a name") } else { Ok(names) }
}

/// Builds the test files that are wanted; the program of each by its name.
pub fn binaries(is_wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<String, String>> {
    let mut build = process::cargo("test");
    build.arg("--no-run");
    for name in files(is_wanted)? {
        build.args(["--test", &name]);
    }
    let output = build.output().context("start `cargo test`")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("build the tests: {said}");
    }
    let built = said.lines().filter_map(built_test);
    Ok(built.map(|(name, program)| (name.into(), program.into())).collect())
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

/// Runs a job of tests and returns what it said.
fn said_by_tests(choice: &Choice, hardware: &Hardware, job: &Job) -> Result<String> {
    match output_of(choice, hardware, job)? {
        (0, said) => Ok(said),
        (code, _) => bail!("the tests under kernel {choice} could not be run: code {code}"),
    }
}

/// Runs a job; its exit code and what it said, which is shown meanwhile.
pub fn output_of(choice: &Choice, hardware: &Hardware, job: &Job) -> Result<(u8, String)> {
    let mut said = Copied::default();
    let code = match boot(choice, hardware, job, &mut said) {
        Err(why) if said.bytes.is_empty() && !why.is::<OutOfTime>() => return Err(why.context(NotStarted)),
        booted => booted?,
    };
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
    fn host_that_is_too_slow_or_boots_nothing_skips() {
        let mut count = Count::default();
        let slow = OutOfTime("6.1".into(), CHECK_LIMIT);
        count_verdicts(&mut count, "6.1", Err(slow.into()));
        count_verdicts(&mut count, "6.1", Err(anyhow::anyhow!("no memory").context(NotStarted)));
        assert_eq!((count.failed, count.skipped), (0, 2 * CHECKED_TESTS.len()));
        count_verdicts(&mut count, "6.1", Err(anyhow::anyhow!("the guest died twice")));
        assert_eq!(count.failed, 1);
    }

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
