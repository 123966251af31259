//! Rules over Rust files: what must be said, and what must not be done.

use super::Finding;
use super::tree::SourceFile;

/// The one place of the tests that waits.
const WAITING_PLACE: &str = "tests/common/mod.rs";
/// Programs that `cargo xtask setup` installs, or that every Debian has.
const KNOWN_PROGRAMS: &str = "cargo make bpftool setpriv frama-c perf clang iperf3 nmap ns prometheus promtool ip ss \
    git node patch apt-get gcc ld strip tar dpkg-query clang-format cc sh sleep cat flock unshare systemd-analyze env \
    /proc/self/exe /usr/bin/python3 \
    bash kill munged mungekey python3 shellcheck slurmctld slurmd";
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "helpers", "common", "misc"];

/// Every file begins with what it is for.
pub fn file_says_what_it_is_for(file: &SourceFile) -> Vec<Finding> {
    let message = || "the file does not begin with `//!` and what it is for".to_owned();
    Finding::unless(file.text.starts_with("//! "), 1, message)
}

/// Code that is commented out is deleted; git keeps it.
pub fn no_code_in_comments(file: &SourceFile) -> Vec<Finding> {
    let is_code = |line: &str| {
        let Some(comment) = line.trim_start().strip_prefix("// ") else { return false };
        comment.starts_with("#[") || comment.ends_with(");") || comment.ends_with("?;") || comment.ends_with(" {")
    };
    let scanned = file.scanned();
    let lines = file.lines().filter(|(line, text)| is_code(text) && !scanned.comments[line - 1].is_empty());
    lines.map(|(line, _)| Finding::hard(line, "code in a comment")).collect()
}

/// Tests wait for conditions, not for time; a measurement that lasts a time says so on the line or above it.
pub fn tests_do_not_sleep(file: &SourceFile) -> Vec<Finding> {
    if file.path == WAITING_PLACE {
        return Vec::new();
    }
    let scanned = file.scanned();
    let is_test_file = file.path.starts_with("tests/");
    let lines = scanned.code.iter().zip(&scanned.is_test).enumerate();
    let sleeping = lines.filter(|(_, (code, is_test))| (is_test_file || **is_test) && code.contains("sleep("));
    let message = "a test that sleeps: `poll_until` waits for a condition; a comment says why time itself must pass";
    sleeping
        .filter(|(index, _)| !has_comment(file, *index))
        .map(|(index, _)| Finding::hard(index + 1, message))
        .collect()
}

/// Whether there is a comment on the line with this index or on the one above it.
fn has_comment(file: &SourceFile, index: usize) -> bool {
    let comments = &file.scanned().comments[index.saturating_sub(1)..=index];
    comments.iter().any(|comment| !comment.trim_matches(['/', '!', ' ']).is_empty())
}

/// A program that is started by name is there after `cargo xtask setup`.
pub fn started_programs_are_installed(file: &SourceFile) -> Vec<Finding> {
    let scanned = file.scanned();
    let started = scanned.literals.iter().filter(|(line, _)| scanned.code[line - 1].contains("Command::new(\""));
    let unknown = started.filter(|(line, literal)| {
        let text = file.text.lines().nth(line - 1).unwrap_or_default();
        text.contains(&format!("Command::new(\"{literal}\")"))
            && !KNOWN_PROGRAMS.split_whitespace().any(|known| known == literal)
    });
    let message = |name: &str| format!("starts \"{name}\", which `cargo xtask setup` does not install");
    unknown.map(|(line, literal)| Finding::hard(*line, message(literal))).collect()
}

/// A module is named after the thing it holds.
pub fn modules_name_a_thing(file: &SourceFile) -> Vec<Finding> {
    let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let folders = file.path.split('/').any(|folder| EMPTY_NAMES.contains(&folder));
    let is_empty = file.is_product_rust() && (folders || EMPTY_NAMES.contains(&stem));
    Finding::unless(!is_empty, 0, || format!("{EMPTY_NAMES:?} say nothing: name the thing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    #[test]
    fn file_without_a_purpose_is_refused() {
        check(file_says_what_it_is_for, "src/a.rs", "use std::fs;\n", "//! Reads.\n");
    }

    #[test]
    fn code_in_a_comment_is_refused() {
        check(no_code_in_comments, "src/a.rs", "    // call(1);\n", "    // calls it; then waits\n");
        check(no_code_in_comments, "src/a.rs", "// #[ignore]\n", "let a = \"\n// call(1);\n\";\n");
    }

    #[test]
    fn sleeping_test_is_refused() {
        let bad = "#[cfg(test)]\nmod tests {\n    fn a() { thread::sleep(b); }\n}\n";
        check(tests_do_not_sleep, "src/a.rs", bad, "fn a() { thread::sleep(b); }\n");
        check(tests_do_not_sleep, "tests/a.rs", "thread::sleep(b);\n", "poll_until(b);\n");
        check(tests_do_not_sleep, "tests/a.rs", "\nsleep(b);\n", "sleep(b); // the rate is measured over this time\n");
    }

    #[test]
    fn program_nobody_installs_is_refused() {
        check(
            started_programs_are_installed,
            "tests/a.rs",
            "Command::new(\"tshark\");\n",
            "Command::new(\"iperf3\");\n",
        );
    }

    #[test]
    fn module_without_a_thing_is_refused() {
        assert_eq!(modules_name_a_thing(&SourceFile::new("src/util.rs", "")).len(), 1);
        assert_eq!(modules_name_a_thing(&SourceFile::new("src/helpers/a.rs", "")).len(), 1);
        assert_eq!(modules_name_a_thing(&SourceFile::new("src/units.rs", "")), []);
        assert_eq!(modules_name_a_thing(&SourceFile::new("tests/common/mod.rs", "")), []);
    }
}
