//! Checks the rules of style that rustc, clippy and rustfmt do not know. Each rule is a function over one file.
//!
//! A rule returns its findings and prints nothing. Soft findings warn, hard ones fail.

mod banned;
mod form;
mod size;
pub mod tree;
mod words;

use anyhow::{Result, bail};

use crate::process::{self, command};
use tree::SourceFile;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line from 1; 0 for the whole file.
    line: usize,
    /// What is wrong, and what would be right.
    message: String,
    /// A warning instead of an error.
    is_soft: bool,
}

impl Fault {
    fn hard(line: usize, message: impl Into<String>) -> Self {
        Fault { line, message: message.into(), is_soft: false }
    }

    /// One hard finding unless the condition holds.
    fn unless(holds: bool, line: usize, message: impl FnOnce() -> String) -> Vec<Fault> {
        if holds { Vec::new() } else { vec![Fault::hard(line, message())] }
    }
}

type Rule = fn(&SourceFile) -> Vec<Fault>;

const RULES: [(&str, Rule); 18] = [
    ("banned words", banned::words_are_allowed),
    ("tests do not sleep", banned::tests_do_not_sleep),
    ("no Rust file names an algorithm", banned::no_algorithm_is_named),
    ("file says what it is for", form::file_says_what_it_is_for),
    ("no code in comments", form::no_code_in_comments),
    ("started programs are installed", form::started_programs_are_installed),
    ("modules name a thing", form::modules_name_a_thing),
    ("C file begins with its licence", form::licence_comes_first),
    ("licence", form::licence_is_there),
    ("algorithm has its headings", form::header_has_headings),
    ("algorithm includes one header", form::only_the_one_header_is_included),
    ("scenario has title and source", form::scenario_has_title_and_source),
    ("lines end cleanly", form::lines_end_cleanly),
    ("top level", form::top_level_is_known),
    ("file size", size::file_is_not_too_long),
    ("C function size", size::c_functions_are_small),
    ("short sentences", words::sentences_are_short),
    ("short README", words::readme_is_short),
];

/// `cargo xtask tidy`: checks every rule over every file of the project, and the subjects of commits.
pub fn run() -> Result<()> {
    let files = tree::read()?;
    let of_file = |file: &SourceFile| -> Vec<_> {
        let found = |(name, rule): (&'static str, Rule)| rule(file).into_iter().map(move |fault| (name, fault));
        RULES.into_iter().flat_map(found).map(|(rule, fault)| (rule, file.path.clone(), fault)).collect()
    };
    let mut findings: Vec<_> = files.iter().flat_map(of_file).collect();
    findings.extend(words::long_subjects(&words::commits()));
    for (rule, path, fault) in &findings {
        let level = if fault.is_soft { "warning" } else { "error" };
        eprintln!("tidy: {level}: {path}:{}: {} [{rule}]", fault.line, fault.message);
    }
    let hard = findings.iter().filter(|(_, _, fault)| !fault.is_soft).count();
    let [rules, soft] = [RULES.len() + 1, findings.len() - hard];
    eprintln!("tidy: {} files, {rules} rules, {hard} errors, {soft} warnings", files.len());
    if hard > 0 { bail!("tidy: {hard} errors") } else { Ok(()) }
}

/// The output of git; empty where it fails. A clone may belong to another user; nothing is run from it.
fn git(words: &[&str]) -> String {
    process::output("tidy", command!("git -c safe.directory=* {words...}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the rule finds something in `bad` and nothing in `good`.
    #[track_caller]
    fn check(rule: Rule, path: &str, bad: &str, good: &str) {
        assert_ne!(rule(&SourceFile::new(path, bad)), [], "the bad sample passes");
        assert_eq!(rule(&SourceFile::new(path, good)), [], "the good sample is refused");
    }

    #[test]
    fn bad_sample_of_each_rule_is_refused() {
        let test = |line: &str| format!("#[cfg(test)]\nmod tests {{\n    {line}\n}}\n");
        let banned = banned::words_are_allowed;
        check(banned, "src/shared/model/flow.rs", "let a = Instant::now();\n", &test("use fs_err as fs;"));
        check(banned, "src/host/loader.rs", "println!(\"a\");\n", "// println!\n");
        check(banned, "src/host/loader.rs", "eprintln!(\"a\");\n", &test("eprintln!(\"a\");"));
        check(banned, "src/lab/virtual_time/a.rs", "print!(\"a\");\n", "eprintln!(\"a\");\n");
        check(banned, "src/cli/a.rs", "let out = io::stdout();\n", "let out = results();\n");
        check(banned, "a.md", &["https://crates", "io/x\n"].join("."), "https://kernel.org\n");
        check(banned, "a.md", &["see /ho", "me/me/a\n"].concat(), "see src/home/a and /proc/self\n");
        check(banned, "a.md", concat!("It failed in va", "in.\n"), "It failed in vague terms.\n");
        let open = ["TO", "DO"].concat();
        check(banned, "src/a.rs", &format!("// {open}: later\n"), &format!("// {open}(#12): later\n"));
        check(banned::tests_do_not_sleep, "src/a.rs", &test("thread::sleep(b);"), "thread::sleep(b);\n");
        check(banned::tests_do_not_sleep, "tests/a.rs", "\nsleep(b);\n", "sleep(b); // the rate of this time\n");
        check(form::file_says_what_it_is_for, "src/a.rs", "use fs_err as fs;\n", "//! Reads.\n");
        check(form::no_code_in_comments, "src/a.rs", "    // call(1);\n", "    // calls it; then waits\n");
        let [bad, good] = ["tshark", "iperf3"].map(|name| format!("Command::new(\"{name}\");\n"));
        check(form::started_programs_are_installed, "tests/a.rs", &bad, &good);
        check(form::licence_comes_first, "bpf/a.h", "int a;\n", "/* SPDX-License-Identifier: GPL-2.0-only */\n");
        check(form::header_has_headings, "bpf/cc/a.bpf.c", "// SPDX\n/*\n * Halves. And more\n */\n", &algorithm());
        let good = "#include \"tccc.bpf.h\"\n#include \"cubic.bpf.h\"\n#include \"a_table.bpf.h\"\n";
        check(form::only_the_one_header_is_included, "bpf/cc/a.bpf.c", "#include \"b.bpf.c\"\n", good);
        let good = "title = \"a\"\n[source]\npaper = \"b\"\n";
        check(form::scenario_has_title_and_source, "scenarios/a/b.toml", "title = \"a\"\n", good);
        check(form::scenario_has_title_and_source, "scenarios/smoke/b.toml", "runs = 1\n", "title = \"a\"\n");
        check(form::lines_end_cleanly, "src/a.rs", "a \nb\n", "a\nb\n");
        check(form::lines_end_cleanly, "src/a.rs", "a", "");
        check(size::file_is_not_too_long, "tests/a.py", &"\n".repeat(451), &"\n".repeat(400));
        check(size::file_is_not_too_long, "tests/a.bin", &"a".repeat((1 << 20) + 1), "a");
        let words = |number: usize| "word ".repeat(number) + "end.\n";
        check(words::sentences_are_short, "README.md", &words(25), &words(24));
        check(words::sentences_are_short, "a/README.md", &words(30), &format!("| {} |\n```\n{0}\n```\n", words(30)));
        check(words::readme_is_short, "README.md", &"a ".repeat(1401), &"a | ".repeat(1400));
        let found = |rule: Rule, path| rule(&SourceFile::new(path, "")).len();
        assert_eq!(["src/util.rs", "tests/common/a.rs"].map(|path| found(form::modules_name_a_thing, path)), [1, 0]);
        assert_eq!(["scripts/a.sh", ".ci/run"].map(|path| found(form::top_level_is_known, path)), [1, 0]);
        assert_eq!(["LICENSE", "Cargo.toml", "a.md"].map(|path| found(form::licence_is_there, path)), [1, 1, 0]);
    }

    /// An algorithm with every heading.
    fn algorithm() -> String {
        let sections = form::HEADINGS.map(|heading| format!(" *\n * {heading}\n *   None.\n")).concat();
        format!("// SPDX\n/*\n * Halves after a loss.\n{sections} */\n")
    }

    #[test]
    fn named_algorithm_is_refused_in_product_code() {
        let name = SourceFile::new("bpf/cc/dtcp.bpf.c", "").algorithm().unwrap().to_owned();
        let found = |text: String| banned::no_algorithm_is_named(&SourceFile::new("src/host/loader.rs", &text)).len();
        assert_eq!(found(format!("let a = \"{name}\";\n")), 1);
        assert_eq!(found(format!("let a = \"`tccc load {name}`\"; // {name}\n")), 0);
    }
}
