//! What a file may reach: pure modules nothing outside themselves, one file stdout, and none an algorithm by its name.

use super::Fault;
use super::tree::{SourceFile, Tree};

/// Names that pure modules must not contain.
const REACHING_OUT: &str =
    "std::fs std::net::Tcp std::process std::env Instant::now SystemTime::now rand_pcg std::thread";
const PURE: [&str; 7] = ["units", "failure", "plain", "nearest", "event", "arrival", "model"];

const STDOUT: &str = "println! print! stdout() dbg!";
/// Its writer never fails a verb that changes something.
const WRITES_STDOUT: &str = "src/cli/output/stdout.rs";
const STDERR: &str = "eprintln! eprint! stderr()";
const MAY_USE_STDERR: [&str; 2] = ["src/cli", "src/lab/virtual_time"];

/// Pure modules use no input, output, clock or randomness.
pub fn pure_modules_reach_nothing(file: &SourceFile) -> Vec<Fault> {
    let module = file.path.strip_prefix("src/shared/").and_then(|path| path.split(['/', '.']).next());
    let Some(module) = module.filter(|module| PURE.contains(module)) else { return Vec::new() };
    words_in(file, REACHING_OUT, &format!("`{module}` is pure: plain data in, plain data out"))
}

/// Only one file writes to stdout, because printing must not end a change half-way; only `cli` and the guest of
/// `virtual_time` write to stderr.
pub fn one_file_writes_to_stdout(file: &SourceFile) -> Vec<Fault> {
    let mut findings = Vec::new();
    if !file.is_product_rust() {
        return findings;
    }
    if file.path != WRITES_STDOUT {
        findings.extend(words_in(file, STDOUT, "print with `cli::output::results()`"));
    }
    if !MAY_USE_STDERR.iter().any(|folder| file.path.starts_with(folder)) {
        findings.extend(words_in(file, STDERR, "return it: only `cli` and `virtual_time` write to stderr"));
    }
    findings
}

fn words_in(file: &SourceFile, words: &str, why: &str) -> Vec<Fault> {
    let is_whole = |code: &str, word: &str| {
        code.match_indices(word).any(|(at, _)| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
    };
    let hits = file.scanned().product_code().filter_map(|(line, code)| {
        words.split(' ').find(|word| is_whole(code, word)).map(|word| Fault::hard(line, format!("`{word}`: {why}")))
    });
    hits.collect()
}

/// The catalogue finds algorithms by their files, so product code must not name one.
pub fn no_rust_file_names_an_algorithm(tree: &Tree) -> Vec<(String, Fault)> {
    let names: Vec<&str> = tree.files.iter().filter_map(SourceFile::algorithm).collect();
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_product_rust()) {
        let scanned = file.scanned();
        for (line, literal) in scanned.literals.iter().filter(|(line, _)| !scanned.is_test[line - 1]) {
            if names.contains(&literal.as_str()) {
                let finding = Fault::hard(*line, format!("names the algorithm \"{literal}\": ask the catalogue"));
                findings.push((file.path.clone(), finding));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    #[test]
    fn bad_sample_of_each_rule_is_refused() {
        let good = "fn a(now: u64) {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        check(pure_modules_reach_nothing, "src/shared/model/flow.rs", "let a = Instant::now();\n", good);
        check(one_file_writes_to_stdout, "src/host/loader.rs", "println!(\"a\");\n", "// println!\n");
        check(one_file_writes_to_stdout, "src/host/loader.rs", "eprintln!(\"a\");\n", "let a = \"eprintln!\";\n");
        check(one_file_writes_to_stdout, "src/lab/virtual_time/a.rs", "print!(\"a\");\n", "eprintln!(\"a\");\n");
        check(
            one_file_writes_to_stdout,
            "src/cli/verbs/load.rs",
            "let out = io::stdout();\n",
            "let out = results();\n",
        );
        assert_eq!(one_file_writes_to_stdout(&SourceFile::new(WRITES_STDOUT, "io::stdout();")), []);
        let files =
            |text: &str| vec![SourceFile::new("bpf/cc/dtcp.bpf.c", ""), SourceFile::new("src/host/loader.rs", text)];
        let found = |text: &str| no_rust_file_names_an_algorithm(&Tree { files: files(text) }).len();
        assert_eq!(["let a = \"dtcp\";\n", "let a = \"`tccc load dtcp`\"; // dtcp\n"].map(found), [1, 0]);
    }
}
