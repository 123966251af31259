//! Builds and runs libFuzzer over one algorithm.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::subject::Subject;
use shared::failure::Failure;

const FLAGS: &str = "-g -O1 -DTCCC_HOST -Wall -Wextra -Wno-unused-parameter -fsanitize=fuzzer,undefined,address \
                     -fno-sanitize-recover=all";
/// The target ignores the rest of a longer input.
const INPUT_BYTES_MAX: usize = 2048;

pub struct Fuzzed {
    pub runs: u64,
    /// Edges of the program that the corpus covers.
    pub edges: u64,
    pub crash: Option<Crash>,
}

/// The first input that fails.
pub struct Crash {
    pub input: PathBuf,
    /// The program that takes `input` as its argument.
    pub program: PathBuf,
    /// The message of the sanitizer or the check.
    pub why: String,
}

/// Builds the fuzz target of one algorithm below `folder` and runs it for some seconds.
///
/// # Errors
/// Clang or its fuzzer is missing (unmet); the compiler rejects the file; the fuzzer ends without statistics.
pub fn fuzz(subject: &Subject, folder: &Path, seconds: u32) -> Result<Fuzzed> {
    let folder = folder.join(&subject.id);
    let corpus = folder.join("corpus");
    std::fs::create_dir_all(&corpus).context("make a folder for the fuzzer's inputs")?;
    for (index, seed) in seeds().enumerate() {
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
        None => bail!("the fuzzer of \"{}\" gave no summary:\n{log}", subject.id),
    }
}

fn build(subject: &Subject, folder: &Path) -> Result<PathBuf> {
    subject.write_tunables(folder)?;
    let program = folder.join("target");
    let mut clang = Command::new("clang");
    clang.args(FLAGS.split(' ')).arg("-o").arg(&program);
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

/// The operations of bpf/host/fuzz.c, in its order.
const OPERATIONS: [&str; 7] = ["ack", "lose", "mark", "timeout", "leave", "undo", "idle"];
const LIVES: [&str; 6] = [
    "lose ack ack leave",
    "mark ack leave",
    "timeout ack ack leave",
    "lose ack undo leave",
    "timeout undo leave",
    "idle",
];

/// The first inputs: realistic connections, encoded for bpf/host/fuzz.c.
fn seeds() -> impl Iterator<Item = Vec<u8>> {
    let round = "ack ".repeat(8);
    LIVES.into_iter().map(move |life| connection(&format!("{round}{life} {round}{life} {round}")))
}

/// Starts with a window of 10 packets, no threshold and no clamp; the operations are 20 ms apart.
fn connection(operations: &str) -> Vec<u8> {
    const DEFAULT_TUNABLES: u8 = 0;
    let mut bytes = vec![DEFAULT_TUNABLES];
    for number in [0x7fff_fffe, 9, 0x7fff_fffe, 1440] {
        push_number(&mut bytes, number);
    }
    for operation in operations.split_whitespace() {
        push_number(&mut bytes, 20_000);
        bytes.push(OPERATIONS.iter().position(|known| *known == operation).expect("an operation of fuzz.c") as u8);
        if operation == "ack" {
            push_number(&mut bytes, 10);
            push_number(&mut bytes, 40_001);
            bytes.extend([0, 0, 0]); // nothing reported, no flags, the rate of this ACK
        }
    }
    bytes
}

/// Writes the length in bits, then the bytes, big-endian.
fn push_number(bytes: &mut Vec<u8>, number: u64) {
    let bits = 64 - number.leading_zeros();
    bytes.push(bits as u8);
    bytes.extend(&number.to_be_bytes()[8 - bits.div_ceil(8) as usize..]);
}
