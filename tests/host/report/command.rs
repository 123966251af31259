//! The command `tccc report`: where it writes, and its exit codes.

use std::fs;

use crate::common::{CommandOutput, check, tccc};
use crate::lab::results::{Directory, SCENARIO};
use crate::report::before;

#[track_caller]
pub fn report(code: i32, arguments: &[&str]) -> CommandOutput {
    check(code, tccc().arg("report").args(arguments))
}

#[test]
fn command_writes_to_stdout_or_to_a_file_and_check_ends_with_3() {
    let directory = Directory::complete();
    let path = directory.path.to_str().unwrap();
    assert_eq!(report(0, &[path]).stdout_has("measured").stderr(), "");
    let file = directory.place().join("x.html");
    let written = report(0, &[path, "--out", file.to_str().unwrap()]);
    assert_eq!(written.stderr_has("x.html (html)\n").stdout(), "");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    let checked = report(3, &[path, "--check", "-o", "csv"]);
    assert!(checked.stdout().starts_with("scenario,metric"), "it still prints");
    assert!(checked.stderr_has("\n  hint: ").stderr().starts_with("tccc: error: 1 of "), "{checked:?}");
}

/// A scenario without a target once passed silently.
#[test]
fn check_without_a_target_passes_and_says_that_nothing_was_checked() {
    let directory = Directory::of(before(SCENARIO, "[[published]]"));
    directory.add_each(&["1%"], 1, &[("SACK", 6000), ("Other", 9000)], 0);
    let path = directory.path.to_str().unwrap();
    report(0, &[path, "--check"]).stderr_has("tccc: note: nothing was checked: no scenario has [[published]]");
    assert_eq!(report(0, &[path]).stderr(), "");
}

/// `--out x.pdf` once wrote text.
#[test]
fn extension_of_no_format_is_refused_before_anything_is_read() {
    report(2, &["/none", "--out", "x.pdf"])
        .stderr_has("no format has the extension \".pdf\": expected one of .html, .htm, .md, .csv, .json")
        .stderr_has("hint: `-o FORMAT`");
    let directory = Directory::complete();
    let file = directory.place().join("x.1");
    report(0, &[directory.path.to_str().unwrap(), "-o", "csv", "--out", file.to_str().unwrap()]).stderr_has("(csv)");
}

#[test]
fn report_that_cannot_be_written_is_refused_with_the_reason() {
    let directory = Directory::complete();
    report(1, &[directory.path.to_str().unwrap(), "--out", "/proc/version"])
        .stderr_has("cannot write the report \"/proc/version\": ")
        .stderr_has("hint: name a file in a directory that exists and can be written");
}
