//! `tccc report` as a user types it: where it writes, and how it ends.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::tccc;
use crate::report::complete;

pub fn report(arguments: &[&str]) -> Output {
    tccc().arg("report").args(arguments).output().unwrap()
}

#[test]
fn command_writes_to_stdout_or_to_a_file_by_its_ending() {
    let (place, directory) = complete();
    let path = directory.path.to_str().unwrap();
    let printed = report(&[path]);
    assert!(printed.status.success() && printed.stderr.is_empty(), "{printed:?}");
    assert!(String::from_utf8(printed.stdout).unwrap().contains("measured mean"[..8].trim()));
    let file = place.path().join("x.html");
    let written = report(&[path, "--out", file.to_str().unwrap()]);
    assert!(written.status.success() && written.stdout.is_empty(), "{written:?}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("<!DOCTYPE html>"));
    assert!(String::from_utf8(written.stderr).unwrap().contains("report written to"));
}

#[test]
fn command_names_why_it_cannot_write() {
    let (place, directory) = complete();
    let path = directory.path.to_str().unwrap();
    let writing_to = |out: &Path| report(&[path, "--out", out.to_str().unwrap()]);
    for (out, why) in [("none/x.html", "there is no such directory"), ("results", "it is a directory")] {
        let output = writing_to(&place.path().join(out));
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(why) && error.contains("hint: ") && !error.contains("os error"), "{error}");
    }
}

#[test]
fn command_check_ends_with_3_and_still_prints() {
    let (_place, directory) = complete();
    let output = report(&[directory.path.to_str().unwrap(), "--check", "-o", "csv"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout.starts_with(b"scenario,metric"));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("tccc: error: 1 of ") && error.contains("\n  hint: "), "{error}");
}

#[test]
fn command_names_what_is_wrong_with_a_directory() {
    let output = report(&["no-such-directory"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error,
        "tccc: error: cannot report \"no-such-directory\": there is no such directory\n  \
         hint: `tccc run SCENARIO --out DIR` writes a result directory\n"
    );
    assert!(!Path::new("no-such-directory").exists());
}
