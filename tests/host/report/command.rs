//! `tccc report` as a user types it: where it writes, and how it ends.

use std::fs;

use crate::common::{Said, check, tccc};
use crate::lab::results::Directory;

#[track_caller]
pub fn report(code: i32, arguments: &[&str]) -> Said {
    check(code, tccc().arg("report").args(arguments))
}

#[test]
fn command_writes_to_stdout_or_to_a_file_by_its_ending() {
    let directory = Directory::complete();
    let path = directory.path.to_str().unwrap();
    assert_eq!(report(0, &[path]).stdout_has("measured").stderr(), "");
    let file = directory.place().join("x.html");
    let written = report(0, &[path, "--out", file.to_str().unwrap()]);
    assert_eq!(written.stderr_has("report written to").stdout(), "");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
}

#[test]
fn command_check_ends_with_3_and_still_prints() {
    let directory = Directory::complete();
    let output = report(3, &[directory.path.to_str().unwrap(), "--check", "-o", "csv"]);
    assert!(output.stdout().starts_with("scenario,metric"));
    assert!(output.stderr_has("\n  hint: ").stderr().starts_with("tccc: error: 1 of "), "{output:?}");
}
