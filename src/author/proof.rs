//! Runs Frama-C's EVA over one algorithm and reads its answer.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use sha2::{Digest as _, Sha256};

use super::subject::Subject;
use shared::failure::Failure;

/// Functions of shim.c that are not callbacks. An algorithm need not use them.
const STAND_INS: [&str; 4] = ["tcp_slow_start", "tcp_cong_avoid_ai", "bpf_ktime_get_ns", "sock_of"];
/// Statuses that count as proved. A dead property belongs to code that is never reached.
const CERTAIN: [&str; 3] = ["Valid", "Considered valid", "Dead"];
/// EVA's precision, unless the source says `/* proved at precision N: reason */`.
const PRECISION: &str = "3";
/// Frama-C's own files: their properties say nothing about an algorithm.
const FRAMA_C_OWN: &str = "FRAMAC_SHARE";

#[derive(Debug, Default)]
pub struct Proof {
    /// Everything that was not proved, in words.
    pub findings: Vec<String>,
    /// Operations that may go wrong for some input.
    pub alarms: usize,
    /// Asserts of `bpf/host/prove.c` that hold.
    pub proved: usize,
    pub asserts: usize,
    /// Statements of the algorithm that some input reaches.
    pub reached: usize,
    pub statements: usize,
    pub time: Duration,
}

/// # Errors
/// `frama-c` is not installed (unmet).
pub fn prove(subject: &Subject) -> Result<Proof> {
    let folder = tempfile::tempdir_in(subject.bench.path()).context("make a folder for the proof")?;
    subject.write_tunables(folder.path())?;
    let table = folder.path().join("properties");
    let source = std::fs::read_to_string(&subject.source).context("read the algorithm")?;
    let start = Instant::now();
    let output = frama_c(subject, precision(&source), folder.path(), &table).output().map_err(|error| {
        Failure::unmet(format!("`frama-c` does not start: {error}")).hint("install the package frama-c-base")
    })?;
    let log = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let mut proof = Proof { time: start.elapsed(), ..Proof::default() };
    let properties = std::fs::read_to_string(&table).unwrap_or_default();
    if !output.status.success() || !log.contains("ANALYSIS SUMMARY") || properties.is_empty() {
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        proof.findings.push(format!("frama-c gave no answer:\n{tail}"));
        return Ok(proof);
    }
    proof.read_properties(&properties, |text| users_fault(&source, text).map(|fault| format!("{}{fault}", subject.id)));
    proof.read_warnings(&log);
    proof.read_coverage(&log, &excuses(subject)?);
    Ok(proof)
}

/// Digest of all that an answer depends on: the C that Frama-C reads, the ranges of the tunables, the precision, Frama-C itself,
/// and this file.
///
/// # Errors
/// `frama-c` or `gcc` is not installed (unmet), or refuses the file.
pub fn digest(subject: &Subject) -> Result<String> {
    let folder = tempfile::tempdir_in(subject.bench.path()).context("make a folder for the proof")?;
    subject.write_tunables(folder.path())?;
    let source = std::fs::read_to_string(&subject.source).context("read the algorithm")?;
    let version = said(Command::new("frama-c").arg("-version"))?;
    let mut list = Command::new("gcc");
    list.arg("-MM").args(preprocessor(subject, folder.path())).arg(subject.bench.host("prove.c")).arg(&subject.source);
    let listed = said(&mut list)?;
    let mut files: Vec<&Path> = listed.split_whitespace().map(Path::new).filter(|file| is_c(file)).collect();
    files.sort_by_key(|file| (file.file_name(), *file)); // not by folder, which each build chooses
    files.dedup();
    let mut digest = Sha256::new();
    digest.update(format!("{}\n{}\n", version.trim(), precision(&source)));
    digest.update(include_str!("proof.rs")); // the options, and the rules that judge the answer
    for file in files {
        let text = std::fs::read(file).with_context(|| format!("read \"{}\"", file.display()))?;
        digest.update(format!("{}\n", text.len()));
        digest.update(text);
    }
    Ok(hex::encode(digest.finalize()))
}

fn is_c(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "c" || ending == "h")
}

/// The output of a program that must succeed.
fn said(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| Failure::unmet(format!("`{program}` does not start: {error}")))?;
    ensure!(output.status.success(), "`{program}` fails: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Lower precision ends sooner. It may find alarms that a higher one does not, and never misses one.
fn precision(source: &str) -> &str {
    let chosen = source.split_once("/* proved at precision ").and_then(|(_, rest)| rest.split_once(": "));
    chosen.map_or(PRECISION, |(precision, _)| precision)
}

/// The options of the preprocessor. `folder`: that of the tunables.
fn preprocessor(subject: &Subject, folder: &Path) -> Vec<String> {
    // EVA supports one thread, and memset only from the C library.
    let fixed = [
        "-DTCCC_HOST",
        "-DTCCC_TUNABLE_STORAGE=",
        "-D_Thread_local=",
        "-include",
        "string.h",
        "-D__builtin_memset=memset",
    ];
    let folders = subject.bench.includes().into_iter().chain([folder.to_owned()]);
    fixed.map(String::from).into_iter().chain(folders.map(|folder| format!("-I{}", folder.display()))).collect()
}

fn frama_c(subject: &Subject, precision: &str, folder: &Path, table: &Path) -> Command {
    // A shell reads the options.
    let quoted = preprocessor(subject, folder).into_iter().map(|option| format!("\"{option}\""));
    let mut command = Command::new("frama-c");
    command.arg("-c11").arg(format!("-cpp-extra-args={}", quoted.collect::<Vec<_>>().join(" ")));
    command.arg(subject.bench.host("prove.c")).arg(&subject.source);
    command.args([
        "-eva",
        "-eva-precision",
        precision,
        "-eva-msg-key=-initial-state,-final-states",
        "-metrics-eva-cover",
    ]);
    command.args(["-then", "-report-csv"]).arg(table);
    command
}

impl Proof {
    /// Each row is a property: directory, file, line, function, kind, status, text.
    fn read_properties(&mut self, table: &str, users_fault: impl Fn(&str) -> Option<String>) {
        for row in table.lines().skip(1) {
            let columns: Vec<&str> = row.split('\t').collect();
            let [directory, file, line, function, kind, status, text] = columns[..] else {
                self.findings.push(format!("a property of an unknown form: {row}"));
                continue;
            };
            if directory.starts_with(FRAMA_C_OWN) {
                continue;
            }
            let is_assert = kind == "user assertion";
            let is_proved = if is_assert { status == "Valid" } else { CERTAIN.contains(&status) };
            self.asserts += usize::from(is_assert);
            self.proved += usize::from(is_assert && is_proved);
            if !is_proved {
                self.alarms += usize::from(!is_assert);
                let finding = format!("{file}:{line}: {function}: {kind}: {text}: {}", status.to_lowercase());
                let own = users_fault(text).filter(|_| is_assert);
                self.findings.push(own.map_or_else(|| finding.clone(), |fault| format!("{fault} ({finding})")));
            }
        }
    }

    /// Each warning is a finding: Frama-C had to guess. Alarms are left out because the table has them.
    fn read_warnings(&mut self, log: &str) {
        let mut lines = log.lines();
        while let Some(line) = lines.next() {
            if line.contains("Warning:") && !line.starts_with("[eva:alarm]") {
                self.findings.push(format!("{} {}", line.trim(), lines.next().unwrap_or_default().trim()));
            }
        }
    }

    /// Counts the statements of every function except those of shim.c, whose callbacks an algorithm need not have.
    fn read_coverage(&mut self, log: &str, excuses: &[(String, usize)]) {
        for function in unreached_functions(log).filter(|function| !is_shim(function)) {
            self.findings.push(format!("{function} is never called"));
        }
        for (function, reached, all) in log.lines().filter_map(coverage_line).filter(|(f, ..)| !is_shim(f)) {
            let excused = excuses.iter().find(|(name, _)| name == function).map_or(0, |(_, count)| *count);
            if reached + excused < all {
                let but = if excused > 0 { format!(", {excused} are expected not to be") } else { String::new() };
                self.findings.push(format!("{function}: {reached} of {all} statements are reached{but}"));
            }
            if !function.starts_with("prove_") && function != "main" {
                self.reached += reached;
                self.statements += all;
            }
        }
    }
}

/// What an assert of `prove.c` says about an algorithm's file: the line, the callback that is at fault, and the fault.
///
/// None: another assert.
fn users_fault(source: &str, text: &str) -> Option<String> {
    let (callback, fault) = [
        ("2 ≤ window ≤ ", ("ssthresh", "may return a threshold outside 2..0x7fffffff; `ssthresh_of()` bounds it")),
        ("1 ≤ window", ("undo_cwnd", "may return a window of 0")),
        ("snd_cwnd ≥ 1", ("", "a callback may set a window of 0")),
        ("snd_ssthresh ≥ 2", ("", "a callback may set a threshold below 2; `ssthresh_of()` bounds it")),
    ]
    .into_iter()
    .find_map(|(words, fault)| text.contains(words).then_some(fault))?;
    let function = defined(source, callback).map(|(line, name)| format!("{line}: {name} "));
    Some(format!(".bpf.c:{}{fault}", function.unwrap_or_else(|| " ".to_owned())))
}

/// The function that the ops table has for a callback, and the line of its definition, or else of the table's entry.
fn defined<'s>(source: &'s str, callback: &str) -> Option<(usize, &'s str)> {
    let lines = || (1..).zip(source.lines());
    let entry = format!(".{callback}");
    let value = |line: &'s str| line.trim().strip_prefix(&entry)?.trim_start().strip_prefix('=');
    let (listed, value) = lines().find_map(|(at, line)| Some((at, value(line)?)))?;
    let value = value.trim_start().trim_start_matches("(void *)");
    let name = value.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())?;
    let defines = |line: &str| line.contains(&format!(" {name},")) || line.contains(&format!(" {name}("));
    let definition = lines().find(|(_, line)| defines(line) && !line.starts_with(char::is_whitespace));
    Some((definition.map_or(listed, |(at, _)| at), name))
}

fn is_shim(function: &str) -> bool {
    function.starts_with("host_") || STAND_INS.contains(&function)
}

/// Parses `  name: 3 stmts out of 4 (75.0%)`. `name_0` is a static function that the shim has too.
fn coverage_line(line: &str) -> Option<(&str, usize, usize)> {
    let (function, numbers) = line.trim().split_once(": ")?;
    let (reached, all) = numbers.split_once(" stmts out of ")?;
    let all = all.split_once(' ')?.0;
    Some((function.strip_suffix("_0").unwrap_or(function), reached.parse().ok()?, all.parse().ok()?))
}

/// Parses `    <file>: name; name;` below `Unreached functions (2) =`.
fn unreached_functions(log: &str) -> impl Iterator<Item = &str> {
    let lines = log.lines().skip_while(|line| !line.contains("Unreached functions")).skip(1);
    let names = lines.take_while(|line| line.starts_with("   ")).filter_map(|line| line.rsplit('>').next());
    names.flat_map(|names| names.split([';', ':'])).map(str::trim).filter(|name| !name.is_empty())
}

/// Functions and numbers of statements that need not be reached, from comments `N unreached in FUNCTION: reason` in the
/// file and the headers.
fn excuses(subject: &Subject) -> Result<Vec<(String, usize)>> {
    let mut found = Vec::new();
    let mut files = vec![subject.source.clone()];
    for folder in subject.bench.includes() {
        let entries = std::fs::read_dir(&folder).with_context(|| format!("read \"{}\"", folder.display()))?;
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()));
    }
    for file in files {
        let text = std::fs::read_to_string(&file).with_context(|| format!("read \"{}\"", file.display()))?;
        found.extend(text.lines().filter_map(excuse));
    }
    Ok(found)
}

fn excuse(line: &str) -> Option<(String, usize)> {
    let (count, rest) = line.split_once(" unreached in ")?;
    let (function, reason) = rest.split_once(": ")?;
    let count = count.rsplit(' ').next()?.parse().ok()?;
    (reason.len() > 10).then(|| (function.to_owned(), count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message named only `prove.c`, which users do not have.
    #[test]
    fn assert_that_fails_names_the_users_function_and_line() {
        let source = "CC_OP(u32, my_ssthresh, struct sock *sk)\n{\n}\n\nstruct tcp_congestion_ops my = {\n\
                      \t.ssthresh = (void *)my_ssthresh,\n\t.undo_cwnd = (void *)tcp_reno_undo_cwnd,\n};\n";
        let fault = |text: &str| users_fault(source, text);
        let threshold = ".bpf.c:1: my_ssthresh may return a threshold outside 2..0x7fffffff; `ssthresh_of()` bounds it";
        assert_eq!(fault("2 \u{2264} window \u{2264} 0x7fffffff").as_deref(), Some(threshold));
        let aligned = source.replace(".ssthresh = ", ".ssthresh\t=\t");
        assert_eq!(users_fault(&aligned, "2 \u{2264} window \u{2264} 0x7fffffff").as_deref(), Some(threshold));
        assert_eq!(
            fault("1 \u{2264} window").as_deref(),
            Some(".bpf.c:7: tcp_reno_undo_cwnd may return a window of 0"),
            "a function of the kernel is shown in the ops table"
        );
        let window = fault("host->tp.snd_cwnd \u{2265} 1");
        assert_eq!(window.as_deref(), Some(".bpf.c: a callback may set a window of 0"));
        assert_eq!(fault("something else"), None);
    }
}
