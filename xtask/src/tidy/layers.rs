//! The layering of the architecture: which module may use which, and which may print.

use super::Fault;
use super::tree::{SourceFile, Tree};

/// Lines `MODULE: MODULES` with the modules that a module may use besides its submodules and [`EVERYBODY`]; `-` is none.
///
/// The longest matching prefix of a path decides. A new edge is a decision: add it in the same commit.
const LAYERS: &str = include_str!("layers.txt");
/// Layer 0: quantities and failures.
const EVERYBODY: [&str; 9] =
    ["units", "failure", "plain", "nearest", "bounded", "btf", "fault", "interrupt", "scratch"];
/// May use everything, except the parts in the table.
const TOP: [&str; 3] = ["cli", "main", "lib"];

/// Names that pure modules must not contain.
const REACHING_OUT: &str =
    "std::fs std::net::Tcp std::process std::env Instant::now SystemTime::now rand_pcg std::thread";
const PURE: [&str; 7] = ["units", "failure", "plain", "nearest", "trace::event", "trace::arrival", "model"];

const STDOUT: &str = "println! print! stdout() dbg!";
/// Its writer never fails a verb that changes something.
const WRITES_STDOUT: &str = "src/cli/output/stdout.rs";
const STDERR: &str = "eprintln! eprint! stderr()";
const MAY_USE_STDERR: [&str; 2] = ["cli", "virtual_time"];

/// Paths that begin with `crate::` or `super::` keep to the table.
pub fn modules_use_what_the_table_allows(file: &SourceFile) -> Vec<Fault> {
    let Some(module) = module_of(file) else { return Vec::new() };
    let Some((layer, allowed)) = layer_of(&module) else {
        if TOP.contains(&first_name(&module)) {
            return Vec::new();
        }
        return vec![Fault::hard(0, format!("module `{module}` is not in the layering table"))];
    };
    let mut findings = Vec::new();
    for (line, path) in used_paths(file, &module) {
        let used = layer_of(&path).map_or(first_name(&path), |(name, _)| name);
        let is_own = used == layer || used.strip_prefix(layer).is_some_and(|rest| rest.starts_with("::"));
        if !(is_own || EVERYBODY.contains(&used) || allowed.split(' ').any(|one| one == used)) {
            findings.push(Fault::hard(line, format!("`{layer}` uses `{path}`: it may use {allowed}")));
        }
    }
    findings
}

/// `trace::event` for `src/trace/event.rs`, and `loader` for `src/host/loader.rs`; `None` outside `src`.
fn module_of(file: &SourceFile) -> Option<String> {
    let path = file.path.strip_prefix("src/")?.strip_suffix(".rs")?;
    Some(exported(&path.replace('/', "::")).to_owned())
}

/// The path of a part of `host` as the root of the crate exports it.
fn exported(path: &str) -> &str {
    path.strip_prefix("host::").unwrap_or(path)
}

fn first_name(path: &str) -> &str {
    path.split("::").next().unwrap_or(path)
}

fn layer_of(path: &str) -> Option<(&'static str, &'static str)> {
    let begins = |name: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let layers = LAYERS.lines().filter_map(|line| line.split_once(": "));
    layers.filter(|(name, _)| begins(name)).max_by_key(|(name, _)| name.len())
}

/// Every path into this crate outside tests, with its line.
fn used_paths(file: &SourceFile, module: &str) -> Vec<(usize, String)> {
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut code = String::from("\n");
    let scanned = file.scanned();
    for (line, is_test) in scanned.code.iter().zip(&scanned.is_test) {
        code.push_str(if *is_test { "" } else { line });
        code.push('\n');
    }
    let own = if parent.is_empty() { String::new() } else { format!("{parent}::") };
    let mut paths = Vec::new();
    // Indented `super` belongs to a module inside the file.
    let code = code.replace("(in crate::", "("); // a visibility uses nothing
    for (begin, prefix) in [("crate::", ""), ("\nuse super::", &own)] {
        for (at, _) in code.match_indices(begin) {
            let line = code[..=at].matches('\n').count();
            paths.extend(
                expand(&code[at + begin.len()..])
                    .iter()
                    .map(|path| (line, exported(&format!("{prefix}{path}")).to_owned())),
            );
        }
    }
    paths
}

/// Expands `a::{b, c::d};` to `a::b` and `a::c::d`.
fn expand(text: &str) -> Vec<String> {
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let rest = &text[name.len()..];
    if name.is_empty() {
        return if text.starts_with('{') {
            group(text).iter().flat_map(|part| expand(part)).collect()
        } else {
            Vec::new()
        };
    }
    let tails = rest.strip_prefix("::").map(expand).unwrap_or_default();
    if tails.is_empty() {
        return vec![name];
    }
    tails.iter().map(|tail| if tail == "self" { name.clone() } else { format!("{name}::{tail}") }).collect()
}

/// The parts of the leading group of braces.
fn group(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut parts = vec![String::new()];
    for character in text.chars() {
        match character {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                parts.push(String::new());
                continue;
            }
            _ => (),
        }
        if depth > 1 || !matches!(character, '{') {
            parts.last_mut().expect("there is a part").push(character);
        }
    }
    parts.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// Pure modules use no input, output, clock or randomness.
pub fn pure_modules_reach_nothing(file: &SourceFile) -> Vec<Fault> {
    let Some(module) = module_of(file) else { return Vec::new() };
    let layer = layer_of(&module).map_or("", |(name, _)| name);
    if !PURE.contains(&layer) {
        return Vec::new();
    }
    words_in(file, REACHING_OUT, &format!("`{layer}` is pure: plain data in, plain data out"))
}

/// Only one file writes to stdout, because printing must not end a change half-way; only `cli` and the guest of
/// `virtual_time` write to stderr.
pub fn one_file_writes_to_stdout(file: &SourceFile) -> Vec<Fault> {
    let Some(module) = module_of(file) else { return Vec::new() };
    let top = first_name(&module);
    let mut findings = Vec::new();
    if file.path != WRITES_STDOUT {
        findings.extend(words_in(file, STDOUT, "print with `cli::output::results()`"));
    }
    if !MAY_USE_STDERR.contains(&top) {
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
        let rule = modules_use_what_the_table_allows;
        check(rule, "src/model/flow.rs", "use crate::loader::Loader;\n", "use crate::trace::event::Event;\n");
        check(rule, "src/model.rs", "fn a() { crate::trace::live::b() }\n", "use crate::units::{self, Bytes};\n");
        check(rule, "src/host/loader.rs", "use crate::host::policy::Policy;\n", "use crate::state::Store;\n");
        check(rule, "src/trace/event.rs", "use super::live::Live;\n", "use super::event::Event;\n");
        check(rule, "src/report.rs", "use crate::{lab, scenario};\n", "use crate::scenario::A;\n");
        check(rule, "src/cli/output/plain.rs", "use crate::cli::verbs::run;\n", "use super::columns::Row;\n");
        assert_eq!(rule(&SourceFile::new("src/mystery.rs", "")).len(), 1, "a module outside the table");
        let good = "fn a(now: u64) {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        check(pure_modules_reach_nothing, "src/model/flow.rs", "let a = Instant::now();\n", good);
        check(one_file_writes_to_stdout, "src/host/loader.rs", "println!(\"a\");\n", "// println!\n");
        check(one_file_writes_to_stdout, "src/host/loader.rs", "eprintln!(\"a\");\n", "let a = \"eprintln!\";\n");
        check(one_file_writes_to_stdout, "src/virtual_time/a.rs", "print!(\"a\");\n", "eprintln!(\"a\");\n");
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

    #[test]
    fn groups_of_uses_are_expanded() {
        assert_eq!(expand("a::{self, b::{c, d}, e};"), ["a", "a::b::c", "a::b::d", "a::e"]);
        assert_eq!(expand("a::b(1)"), ["a::b"]);
    }
}
