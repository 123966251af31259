//! The command `tccc report`: where it writes, and its exit codes.

use std::fs;

use crate::common::{Said, check, tccc};
use crate::lab::results::Directory;

#[track_caller]
pub fn report(code: i32, arguments: &[&str]) -> Said {
    check(code, tccc().arg("report").args(arguments))
}

#[test]
fn command_writes_to_stdout_or_to_a_file_and_check_ends_with_3() {
    let directory = Directory::complete();
    let path = directory.path.to_str().unwrap();
    assert_eq!(report(0, &[path]).stdout_has("measured").stderr(), "");
    let file = directory.place().join("x.html");
    let written = report(0, &[path, "--out", file.to_str().unwrap()]);
    assert_eq!(written.stderr_has("report written to").stdout(), "");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    let checked = report(3, &[path, "--check", "-o", "csv"]);
    assert!(checked.stdout().starts_with("scenario,metric"), "it still prints");
    assert!(checked.stderr_has("\n  hint: ").stderr().starts_with("tccc: error: 1 of "), "{checked:?}");
}
