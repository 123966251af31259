//! Messages and exit codes of commands that are refused before they change anything.

use std::fs;

use tccc::catalog;

use crate::common::experiment::TINY;
use crate::common::{stderr, tccc};
use crate::lab::results::Directory;
use crate::mistakes;

/// Files that the commands name.
fn files() -> [(&'static str, Vec<u8>); 8] {
    let object = &catalog::find("dtcp").unwrap().object;
    let licence = object.windows(4).position(|window| window == b"GPL\0").unwrap();
    [
        ("tiny.toml", TINY.into()),
        ("misspelt.toml", TINY.replace("\"dtcp\"", "\"dtcpp\"").into()),
        ("text", "hello".into()),
        ("text.bpf.o", "hello".into()),
        ("text.bpf.c", "hello".into()),
        ("latin.bpf.c", b"\xff\xfe".into()),
        ("bsd.bpf.o", [&object[..licence], b"BSD", &object[licence + 3..]].concat()),
        ("full/file", "kept".into()),
    ]
}

/// The snapshot has one command for each message. Commands with the same arguments share their parsers.
#[test]
fn each_refusal_says_what_is_wrong_and_changes_nothing() {
    let directory = Directory::complete();
    let place = directory.place();
    for folder in ["empty", "full"] {
        fs::create_dir(place.join(folder)).unwrap();
    }
    for (name, bytes) in files() {
        fs::write(place.join(name), bytes).unwrap();
    }
    let entries = || fs::read_dir(place).unwrap().count();
    let before = entries();
    let snapshot = include_str!("snapshots/host__refusals__refused_commands.snap");
    let commands = || mistakes::recorded(snapshot).lines().filter_map(|line| line.strip_prefix("$ tccc "));
    assert_eq!(commands().count(), 63, "commands of the snapshot");
    let cases = commands().map(|line| {
        let arguments = line.split(' ').map(|word| word.trim_matches('"'));
        let output = tccc().args(arguments).current_dir(place).output().unwrap();
        assert!(output.stdout.is_empty(), "{line} printed a result");
        format!("$ tccc {line}\n{}exit code {}\n", stderr(&output), output.status.code().unwrap())
    });
    insta::assert_snapshot!("refused_commands", cases.collect::<Vec<_>>().join("\n"));
    assert_eq!(entries(), before);
    for (name, bytes) in files() {
        assert_eq!(fs::read(place.join(name)).unwrap(), bytes, "{name}");
    }
}
