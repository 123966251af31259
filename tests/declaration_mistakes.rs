//! Wrong declarations: each message names file, line and field, and says what is allowed. And what right ones mean.

use std::fs;
use std::path::Path;

use tccc::declaration::Declaration;
use tccc::declaration::file::read;
use tccc::failure::{Failure, Kind};

/// Reads a folder with these files.
fn declared(files: &[(&str, &str)]) -> Result<Declaration, Failure> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    read(folder.path())
}

/// The message about one file, and its hint.
fn said(text: &str) -> String {
    let failure = declared(&[("tccc.toml", text)]).unwrap_err();
    assert_eq!(failure.kind, Kind::Usage, "{failure}");
    format!("{failure}; {}", failure.hint.as_deref().unwrap_or_default())
}

#[test]
fn mistakes_name_line_field_and_what_is_allowed() {
    let cases = [
        ("default = \"dtcp\"\n", "tccc.toml:1: version: missing: expected 1"),
        ("version = 2\n", "tccc.toml:1: version = 2: expected 1, the only version there is"),
        ("version = 1\ndefalt = \"x\"\n", "tccc.toml:2: defalt: unknown field: expected one of version, default"),
        ("version = 1\ndefalt = \"x\"\n", "did you mean \"default\"?"),
        ("version = 1\ndefault = 3\n", "tccc.toml:2: default = 3: expected a text in quotes"),
        ("version = 1\ndefault = \"dtcp\"\n", "tccc.toml:2: default: expected the name of a declared algorithm"),
        ("version = 1\ndefault = \"dtcp\"\n", "declare it: [algorithm.dtcp]"),
        ("version = 1\nalgorithm = 3\n", "tccc.toml:2: algorithm = 3: expected a table for each algorithm"),
        (
            "version = 1\n[algorithm.dtpc]\n",
            "tccc.toml:2: algorithm.dtpc: unknown algorithm \"dtpc\"; did you mean \"dtcp\"?",
        ),
        ("version = 1\n[algorithm.dtcp]\ntunable = {}\n", "did you mean \"tunables\"?"),
        (
            "version = 1\n[algorithm.dtcp]\ntunables = { keep = 1 }\n",
            "tccc.toml:3: algorithm.dtcp.tunables.keep: unknown",
        ),
        (
            "version = 1\n[algorithm.dtcp]\ntunables = { keep_avoidance = 5000 }\n",
            "tccc.toml:3: algorithm.dtcp.tunables.keep_avo",
        ),
        (
            "version = 1\n[algorithm.dtcp]\ntunables = { keep_avoidance = 0.5 }\n",
            "expected a whole number, or true or false",
        ),
        ("version = 1\n[algorithm.dtcp]\ncgroup = \"a\"\n", "\"dtcp\" has no companion program"),
        ("version = 1\n[algorithm.dtcp]\nuse = \"mine.bpf.o\"\n", "no such file or directory"),
        ("version = 1\n[algorithm.name_of_sixteen_]\nuse = \"dtcp\"\n", "tccc.toml:2: algorithm.name_of_sixteen_:"),
        ("version = 1\npolicy = \"web.toml\"\n", "cannot be read: no such file or directory"),
        ("version = 1\n[algorithm.dtcp]\nreceiver = 1\n", "expected true or false, without quotes"),
        ("version = \n", "tccc.toml:1: version: missing: expected a value"),
    ];
    for (text, words) in cases {
        let said = said(text);
        assert!(said.contains(words), "{text}\nsays: {said}\nnot:  {words}");
    }
}

#[test]
fn all_mistakes_of_all_files_are_said_at_once() {
    let failure = declared(&[
        ("10.toml", "version = 1\n[algorithm.dtpc]\n"),
        ("20.toml", "version = 1\ndefault = \"reno\"\npolicy = \"p\"\n"),
    ])
    .unwrap_err();
    let said = failure.to_string();
    for words in ["10.toml:2: algorithm.dtpc", "20.toml:2: default", "p: cannot be read"] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn later_files_override_fields_of_earlier_ones() {
    let site =
        "version = 1\ndefault = \"dtcp\"\n[algorithm.dtcp]\ntunables = { keep_avoidance = 800, keep_timeout = 600 }\n";
    let local = "version = 1\ndefault = \"mild\"\n[algorithm.dtcp]\ntunables = { keep_avoidance = 900 }\n[algorithm.mild]\nuse = \"dtcp\"\n";
    let declaration = declared(&[("90-local.toml", local), ("10-site.toml", site), ("README", "no TOML")]).unwrap();
    assert_eq!(declaration.default.as_deref(), Some("mild"));
    assert_eq!(declaration.algorithms["mild"].algorithm.id, "dtcp");
    let settings = &declaration.algorithms["dtcp"].settings;
    let set: Vec<_> = settings.iter().map(|setting| (setting.name.as_str(), setting.value)).collect();
    assert_eq!(set, [("keep_avoidance", 900), ("keep_timeout", 600)]);
    let files: Vec<_> = declaration.files.iter().map(|file| file.file_name().unwrap().to_owned()).collect();
    assert_eq!(files, ["10-site.toml", "90-local.toml"]);
}

#[test]
fn folder_without_files_declares_nothing_and_a_missing_one_is_an_error() {
    assert!(declared(&[]).unwrap().algorithms.is_empty());
    let failure = read(Path::new("/nowhere/tccc")).unwrap_err();
    assert!(
        failure.to_string().contains("cannot read the folder /nowhere/tccc: no such file or directory"),
        "{failure}"
    );
}

#[test]
fn example_of_the_tree_has_no_mistakes() {
    let declaration = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/policy/declared")).unwrap();
    assert_eq!(declaration.policy.unwrap().policy.rules.len(), 1);
    assert!(declaration.algorithms.contains_key("dtcp"));
}
