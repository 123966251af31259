//! libFuzzer over one algorithm: how it is built, where it begins, and what it found.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::subject::Subject;
use crate::failure::Failure;

const FLAGS: [&str; 8] = [
    "-g",
    "-O1",
    "-DTCCC_HOST",
    "-Wall",
    "-Wextra",
    "-Wno-unused-parameter",
    "-fsanitize=fuzzer,undefined,address",
    "-fno-sanitize-recover=all",
];
/// Longer inputs than this hold more operations than the target takes.
const INPUT_BYTES_MAX: usize = 2048;

pub struct Fuzzed {
    pub runs: u64,
    /// Edges of the program that some input of the corpus takes.
    pub edges: u64,
    /// The first input that breaks something.
    pub crash: Option<Crash>,
}

/// An input that breaks something.
pub struct Crash {
    /// The file that holds it.
    pub input: PathBuf,
    /// The program that takes it as argument.
    pub program: PathBuf,
    /// What the sanitizer or the check said.
    pub why: String,
}

/// Builds the target of one algorithm below a folder and lets it look for so many seconds.
///
/// Errors: clang or its fuzzer is missing (unmet); the compiler refuses the file; the fuzzer ends without a word on what
/// it did.
pub fn fuzz(subject: &Subject, folder: &Path, seconds: u32) -> Result<Fuzzed> {
    let folder = folder.join(&subject.id);
    let corpus = folder.join("corpus");
    std::fs::create_dir_all(&corpus).context("make a folder for the fuzzer's inputs")?;
    for (index, seed) in seeds().into_iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{index}")), seed).context("write the fuzzer's first inputs")?;
    }
    let program = build(subject, &folder)?;
    let mut command = Command::new(&program);
    command.arg(format!("-max_total_time={seconds}")).arg(format!("-max_len={INPUT_BYTES_MAX}"));
    command.arg(format!("-artifact_prefix={}/", folder.display()));
    command.args(["-print_final_stats=1", "-detect_leaks=0", "-timeout=10"]).arg(&corpus);
    let output = command.output().context("start the fuzzer")?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let edges = last_number(&log, " cov:").unwrap_or(0);
    let crash = (!output.status.success()).then(|| Crash::read(&log, program));
    match last_number(&log, "stat::number_of_executed_units:") {
        Some(runs) => Ok(Fuzzed { runs, edges, crash }),
        None => bail!("the fuzzer of \"{}\" does not say what it did:\n{log}", subject.id),
    }
}

fn build(subject: &Subject, folder: &Path) -> Result<PathBuf> {
    subject.write_tunables(folder)?;
    let program = folder.join("target");
    let mut clang = Command::new("clang");
    clang.args(FLAGS).arg("-o").arg(&program);
    clang.args(subject.bench.include_flags());
    clang.arg("-I").arg(folder).arg(subject.bench.host("fuzz.c")).arg(&subject.source);
    let unmet = |what: String| Failure::unmet(what).hint("install the packages clang and libclang-rt-dev");
    let output = clang.output().map_err(|error| unmet(format!("`clang` does not start: {error}")))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        return Ok(program);
    }
    match said.lines().find(|line| line.contains("libclang_rt")) {
        Some(line) => Err(unmet(format!("clang has no fuzzer here: {}", line.trim())).into()),
        None => bail!("clang refuses the fuzz target: {}", said.trim()),
    }
}

impl Crash {
    fn read(log: &str, program: PathBuf) -> Crash {
        let says =
            |line: &&str| line.contains("runtime error:") || line.contains("does not hold:") || line.contains("ERROR:");
        let why = log.lines().find(says).unwrap_or("no reason given").to_owned();
        let input = log.lines().find_map(|line| line.split("Test unit written to ").nth(1)).unwrap_or_default();
        Crash { input: input.into(), program, why }
    }

    /// Whether the saved input fails again on its own.
    pub fn is_repeatable(&self) -> bool {
        Command::new(&self.program).arg(&self.input).output().is_ok_and(|output| !output.status.success())
    }
}

fn last_number(log: &str, word: &str) -> Option<u64> {
    let (_, after) = log.rsplit_once(word)?;
    after.split_whitespace().next()?.parse().ok()
}

/// Operations of bpf/host/fuzz.c.
#[derive(Clone, Copy)]
enum Operation {
    Ack,
    Lose,
    Mark,
    Timeout,
    Leave,
    Undo,
    Idle,
}

/// The first inputs: connections as they are, in the words of bpf/host/fuzz.c.
fn seeds() -> Vec<Vec<u8>> {
    use Operation::{Ack, Idle, Leave, Lose, Mark, Timeout, Undo};
    let round = [Ack; 8];
    let lives: [&[Operation]; 6] = [
        &[Lose, Ack, Ack, Leave],
        &[Mark, Ack, Leave],
        &[Timeout, Ack, Ack, Leave],
        &[Lose, Ack, Undo, Leave],
        &[Timeout, Undo, Leave],
        &[Idle],
    ];
    lives.iter().map(|life| connection([&round[..], life, &round, life, &round].concat())).collect()
}

/// A window of 10 without threshold and clamp, then the operations, 20 ms apart.
fn connection(operations: Vec<Operation>) -> Vec<u8> {
    const TUNABLES_AS_THEY_ARE: u8 = 0;
    let mut bytes = vec![TUNABLES_AS_THEY_ARE];
    for number in [0x7fff_fffe, 9, 0x7fff_fffe, 1440] {
        push_number(&mut bytes, number);
    }
    for operation in operations {
        push_number(&mut bytes, 20_000);
        bytes.push(operation as u8);
        if let Operation::Ack = operation {
            push_number(&mut bytes, 10);
            push_number(&mut bytes, 40_001);
            bytes.extend([0, 0]);
        }
    }
    bytes
}

/// The length in bits, then the bytes, the highest first.
fn push_number(bytes: &mut Vec<u8>, number: u64) {
    let bits = 64 - number.leading_zeros();
    bytes.push(bits as u8);
    bytes.extend(&number.to_be_bytes()[8 - bits.div_ceil(8) as usize..]);
}
