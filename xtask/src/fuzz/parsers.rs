//! Runs libFuzzer over every parser of untrusted input: `tests/parsers`, built with counters at every edge.

#[path = "../../../tests/parsers/src/names.rs"]
mod names;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fs_err::{self as fs, File};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::Arguments;
use crate::made::{self, GeneratedTable};
use crate::process::{self, command};

use names::NAMES;

const TABLE: GeneratedTable =
    GeneratedTable { document: "tests/campaigns.md", command: "cargo xtask fuzz --parsers --bless" };
/// JSON of [`FuzzTotals`], summed over all runs so far.
const TOTALS: &str = "tests/parsers/totals.json";
/// The parser in C: the program of bpf/option, built natively.
const OPTION: &str = "option";
/// Longest input, bytes: room for the objects and recordings of the tree.
const INPUT_BYTES_MAX: u32 = 64 << 10;
/// Memory of one target, MiB.
const MEMORY_MB: u32 = 1024;
const INPUT_SECONDS: u32 = 10;
/// Counters at every edge, and traces of comparisons: the passes of `cargo fuzz`, on the stable compiler.
const COVERAGE: [&str; 4] = ["level=4", "inline-8bit-counters", "pc-table", "trace-compares"];
const BUILD_C: &str = "-g -O1 -DTCCC_HOST -Wno-unused-parameter -fsanitize=fuzzer,undefined,address \
                       -fno-sanitize-recover=all -Ibpf/include -Itests/parsers/native tests/parsers/native/option.c";

type NamedParser = (&'static str, &'static str);

/// Cost of all runs of one parser, and the best coverage of any.
#[derive(Default, Serialize, Deserialize)]
struct FuzzTotal {
    /// CPU time.
    seconds: u64,
    inputs: u64,
    edges: u64,
    corpus: usize,
}

type FuzzTotals = BTreeMap<String, FuzzTotal>;

/// Fuzzes each parser for the given seconds, and prints a line for each.
pub fn fuzz(arguments: &Arguments) -> Result<()> {
    let chosen = chosen(&arguments.names)?;
    let needs = |option: bool| chosen.iter().any(|(name, _)| (*name == OPTION) == option);
    let program = needs(false).then(build_rust).transpose()?;
    let native = needs(true).then(build_option).transpose()?;
    println!("parser         inputs   edges  corpus   seconds");
    let (waiting, failures) = (Mutex::new(chosen.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                while let Some(&parser) = { waiting.lock().expect("no holder of the lock panics").next() } {
                    let program = if parser.0 == OPTION { &native } else { &program };
                    let program = program.as_ref().expect("it was built, since it was chosen");
                    match look(parser.0, program, arguments.seconds) {
                        Ok(it) => println!(
                            "{:12} {:8}  {:6}  {:6}  {:8}",
                            parser.0, it.inputs, it.edges, it.corpus, it.seconds
                        ),
                        Err(why) => failures.lock().expect("no holder of the lock panics").push(format!("{why:#}")),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no holder of the lock panics");
    if !failures.is_empty() {
        bail!("found:\n  {}", failures.join("\n  "));
    }
    if arguments.bless { bless() } else { Ok(()) }
}

/// Moves this machine's totals to those in the tree, and writes the table.
fn bless() -> Result<()> {
    let mut totals = totals()?;
    for (name, _) in NAMES {
        let folder = folder(name);
        totals.entry(name.to_owned()).or_default().add(FuzzTotal::read(&folder));
        FuzzTotal::default().write(&folder)?;
    }
    let text = serde_json::to_string_pretty(&totals).context("write the totals")? + "\n";
    fs::write(process::workspace().join(TOTALS), text)?;
    TABLE.settle(&table(&totals), true)
}

fn totals() -> Result<FuzzTotals> {
    let text = fs::read(process::workspace().join(TOTALS))?;
    serde_json::from_slice(&text).with_context(|| format!("read {TOTALS}"))
}

fn chosen(names: &[String]) -> Result<Vec<NamedParser>> {
    if names.is_empty() {
        return Ok(NAMES.to_vec());
    }
    let known = || NAMES.map(|(name, _)| name).join(", ");
    let find = |name: &String| {
        let found = NAMES.into_iter().find(|(known, _)| known == name);
        found.with_context(|| format!("no parser \"{name}\": expected one of {}", known()))
    };
    names.iter().map(find).collect()
}

/// Holds a parser's program, corpus and findings.
fn folder(parser: &str) -> PathBuf {
    process::target().join("tmp/parsers").join(parser)
}

/// Builds one program with all parsers in Rust.
///
/// With `--target` the flags apply to the program and not to build scripts.
fn build_rust() -> Result<PathBuf> {
    let target = process::output("ask for the target", command!("rustc --print host-tuple"))?;
    let target = target.trim();
    let passes = COVERAGE.map(|flag| format!("-Cllvm-args=-sanitizer-coverage-{flag}")).join(" ");
    let folder = process::target().join("parsers");
    let mut build = process::cargo("build");
    build.args(["--package", "parsers", "--features", "libfuzzer", "--profile", "fuzz", "--target", target]);
    build.arg("--target-dir").arg(&folder);
    build.env("RUSTFLAGS", format!("-Cpasses=sancov-module {passes} -Clinker=clang -Clink-arg=-fsanitize=fuzzer"));
    process::run("build the parsers", &mut build)?;
    Ok(folder.join(target).join("fuzz/parsers"))
}

fn build_option() -> Result<PathBuf> {
    let folder = folder(OPTION);
    fs::create_dir_all(&folder)?;
    let program = folder.join("target");
    let options = BUILD_C.split_whitespace();
    process::run("build the program of the option", command!("clang {options...} -o {program}"))?;
    Ok(program)
}

/// Fuzzes one parser, and adds the cost to its total.
fn look(parser: &str, program: &Path, seconds: u32) -> Result<FuzzTotal> {
    let folder = folder(parser);
    let corpus = folder.join("corpus");
    let scratch = scratch()?;
    fs::create_dir_all(&corpus)?;
    let mut command = process::program(program);
    command.env("TCCC_PARSER", parser).env("TCCC_SEEDS", &corpus).env("TCCC_SCRATCH", scratch.path());
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-timeout={INPUT_SECONDS}")).arg(format!("-rss_limit_mb={MEMORY_MB}"));
    command.arg(format!("-artifact_prefix={}/", folder.display()));
    command.args(["-print_final_stats=1", "-detect_leaks=0", "-reload=0", "-print_funcs=0"]).arg(&corpus);
    let (log, took) = said(parser, &mut command, &folder.join("log"))?;
    let mut total = FuzzTotal::read(&folder);
    total.add(FuzzTotal {
        seconds: took.as_secs(),
        inputs: last_number(&log, "stat::number_of_executed_units:").unwrap_or(0),
        edges: last_number(&log, " cov:").unwrap_or(0),
        corpus: process::names_in(&corpus, "").len(),
    });
    total.write(&folder)?;
    Ok(total)
}

/// Runs the target; returns its output, which also stays in `log`, and its CPU time.
///
/// # Errors
/// It found an input; the message shows the command that repeats it.
fn said(parser: &str, command: &mut Command, log: &Path) -> Result<(String, Duration)> {
    let writer = File::create(log)?.into_file();
    let mut target = command.stdout(Stdio::null()).stderr(writer).spawn().context("start the target")?;
    let took = processor_time(&target)?;
    let status = target.wait().context("wait for the target")?;
    let said = fs::read(log)?;
    let said = String::from_utf8_lossy(&said).into_owned();
    if status.success() {
        return Ok((said, took));
    }
    let input = said.lines().find_map(|line| line.split("Test unit written to ").nth(1)).unwrap_or("(no input saved)");
    let tells =
        |line: &&str| ["panicked at", "ERROR:", "does not hold:", "runtime error:"].iter().any(|it| line.contains(it));
    let why = said.lines().find(tells).unwrap_or("no reason given");
    let again = format!("TCCC_PARSER={parser} {} {input}", command.get_program().to_string_lossy());
    bail!("{why}\n    full output: {}\n    again: {again}", log.display())
}

/// Waits until a child has ended, and returns its CPU time. The child stays a zombie.
fn processor_time(child: &Child) -> Result<Duration> {
    let pid = i32::try_from(child.id()).context("number of the target")?;
    waitid(Id::Pid(Pid::from_raw(pid)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).context("wait for the target")?;
    let stat = procfs::process::Process::new(pid).and_then(|process| process.stat()).context("read its time")?;
    Ok(Duration::from_secs((stat.utime + stat.stime) / procfs::ticks_per_second()))
}

fn last_number(log: &str, word: &str) -> Option<u64> {
    let (_, after) = log.rsplit_once(word)?;
    after.split_whitespace().next()?.parse().ok()
}

/// A folder for inputs that are files, in memory where possible.
fn scratch() -> Result<TempDir> {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.context("create a folder for inputs")
}

impl FuzzTotal {
    fn read(folder: &Path) -> FuzzTotal {
        let text = fs::read(folder.join("total.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_string(self).context("write the total")?;
        fs::create_dir_all(folder)?;
        Ok(fs::write(folder.join("total.json"), text)?)
    }

    fn add(&mut self, other: FuzzTotal) {
        self.seconds += other.seconds;
        self.inputs += other.inputs;
        self.edges = self.edges.max(other.edges);
        self.corpus = self.corpus.max(other.corpus);
    }
}

fn table(totals: &FuzzTotals) -> String {
    let row = |(name, what): NamedParser| {
        let FuzzTotal { seconds, inputs, edges, corpus } = &totals[name];
        format!("`{name}` | {what} | {inputs} | {edges} | {corpus} | {:.1}", *seconds as f64 / 60.0)
    };
    made::table("parser | what it reads | inputs: | edges: | corpus: | minutes:", NAMES.into_iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parser_is_named_with_those_there_are() {
        let told = chosen(&["polcy".to_owned()]).unwrap_err().to_string();
        assert!(
            told.starts_with("no parser \"polcy\": expected one of policy, ") && told.ends_with("option"),
            "{told}"
        );
        assert_eq!(chosen(&["http".to_owned()]).unwrap()[0].0, "http");
        assert_eq!(chosen(&[]).unwrap().len(), 14);
    }

    #[test]
    fn table_shows_the_totals_of_the_tree() {
        TABLE.settle(&table(&totals().unwrap()), false).unwrap();
    }

    #[test]
    fn latest_number_after_a_word_is_taken() {
        let log = "#2 INITED cov: 10 ft: 1\n#9 DONE   cov: 123 ft: 4\nstat::number_of_executed_units: 77\n";
        assert_eq!((last_number(log, " cov:"), last_number(log, "units:")), (Some(123), Some(77)));
        assert_eq!(last_number("", " cov:"), None);
    }
}
