//! Rules over Rust files.

use super::Fault;
use super::tree::SourceFile;

/// The only file of the tests that may sleep.
const WAITING_PLACE: &str = "tests/common/mod.rs";
/// Programs that `cargo xtask setup` installs or every Debian has.
const KNOWN_PROGRAMS: &str = "cargo make bpftool setpriv frama-c perf clang iperf3 nmap ns prometheus promtool ip ss \
    git node patch apt-get gcc ld strip tar dpkg-query clang-format cc sh sleep cat flock unshare systemd-analyze env \
    /proc/self/exe /usr/bin/python3 \
    bash kill munged mungekey python3 shellcheck slurmctld slurmd \
    haproxy nginx ssh ssh-keygen systemctl systemd-socket-activate wrk";
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "helpers", "common", "misc"];

pub fn file_says_what_it_is_for(file: &SourceFile) -> Vec<Fault> {
    let message = || "the file does not begin with `//!` and what it is for".to_owned();
    Fault::unless(file.text.starts_with("//! "), 1, message)
}

/// Commented-out code is deleted; git keeps it.
pub fn no_code_in_comments(file: &SourceFile) -> Vec<Fault> {
    let is_code = |line: &str| {
        let Some(comment) = line.trim_start().strip_prefix("// ") else { return false };
        comment.starts_with("#[") || comment.ends_with(");") || comment.ends_with("?;") || comment.ends_with(" {")
    };
    let scanned = file.scanned();
    let lines = file.lines().filter(|(line, text)| is_code(text) && !scanned.comments[line - 1].is_empty());
    lines.map(|(line, _)| Fault::hard(line, "code in a comment")).collect()
}

/// Tests wait for conditions, not for time. A measurement that needs time says so on the line or above it.
pub fn tests_do_not_sleep(file: &SourceFile) -> Vec<Fault> {
    if file.path == WAITING_PLACE {
        return Vec::new();
    }
    let scanned = file.scanned();
    let is_test_file = file.path.starts_with("tests/");
    let lines = scanned.code.iter().zip(&scanned.is_test).enumerate();
    let sleeping = lines.filter(|(_, (code, is_test))| (is_test_file || **is_test) && code.contains("sleep("));
    let message = "a test that sleeps: `poll_until` waits for a condition; a comment says why time itself must pass";
    sleeping.filter(|(index, _)| !has_comment(file, *index)).map(|(index, _)| Fault::hard(index + 1, message)).collect()
}

/// Whether the line or the one above it has a comment.
fn has_comment(file: &SourceFile, index: usize) -> bool {
    let comments = &file.scanned().comments[index.saturating_sub(1)..=index];
    comments.iter().any(|comment| !comment.trim_matches(['/', '!', ' ']).is_empty())
}

/// Programs started by name are installed by `cargo xtask setup`.
pub fn started_programs_are_installed(file: &SourceFile) -> Vec<Fault> {
    let scanned = file.scanned();
    let started = scanned.literals.iter().filter(|(line, _)| scanned.code[line - 1].contains("Command::new(\""));
    let unknown = started.filter(|(line, literal)| {
        let text = file.text.lines().nth(line - 1).unwrap_or_default();
        text.contains(&format!("Command::new(\"{literal}\")"))
            && !KNOWN_PROGRAMS.split_whitespace().any(|known| known == literal)
    });
    let message = |name: &str| format!("starts \"{name}\", which `cargo xtask setup` does not install");
    unknown.map(|(line, literal)| Fault::hard(*line, message(literal))).collect()
}

/// A module's name says what it holds.
pub fn modules_name_a_thing(file: &SourceFile) -> Vec<Fault> {
    let stem = file.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
    let folders = file.path.split('/').any(|folder| EMPTY_NAMES.contains(&folder));
    let is_empty = file.is_product_rust() && (folders || EMPTY_NAMES.contains(&stem));
    Fault::unless(!is_empty, 0, || format!("{EMPTY_NAMES:?} say nothing: name the thing"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::sample::check;

    #[test]
    fn bad_sample_of_each_rule_is_refused() {
        check(file_says_what_it_is_for, "src/a.rs", "use std::fs;\n", "//! Reads.\n");
        check(no_code_in_comments, "src/a.rs", "    // call(1);\n", "    // calls it; then waits\n");
        check(no_code_in_comments, "src/a.rs", "// #[ignore]\n", "let a = \"\n// call(1);\n\";\n");
        let bad = "#[cfg(test)]\nmod tests {\n    fn a() { thread::sleep(b); }\n}\n";
        check(tests_do_not_sleep, "src/a.rs", bad, "fn a() { thread::sleep(b); }\n");
        check(tests_do_not_sleep, "tests/a.rs", "thread::sleep(b);\n", "poll_until(b);\n");
        check(tests_do_not_sleep, "tests/a.rs", "\nsleep(b);\n", "sleep(b); // the rate is measured over this time\n");
        let [bad, good] = ["tshark", "iperf3"].map(|name| format!("Command::new(\"{name}\");\n"));
        check(started_programs_are_installed, "tests/a.rs", &bad, &good);
        let found = |path| modules_name_a_thing(&SourceFile::new(path, "")).len();
        let paths = ["src/util.rs", "src/helpers/a.rs", "src/shared/units.rs", "tests/common/mod.rs"];
        assert_eq!(paths.map(found), [1, 1, 0, 0]);
    }
}
