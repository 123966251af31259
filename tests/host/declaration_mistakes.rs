//! Messages about wrong declarations, which name file, line, field and allowed values, and the meaning of valid ones.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use crate::common::needs;
use crate::compile::in_tree;
use crate::mistakes;
use tccc::declaration::Declaration;
use tccc::declaration::file::read;
use tccc::failure::{Failure, FailureKind};

/// A user without privileges.
const NOBODY: u32 = 65_534;

/// Reads a folder with these files.
fn declared(files: &[(&str, &str)]) -> Result<Declaration, Failure> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let in_folder = format!("{}/", folder.path().display());
    read(folder.path()).map_err(|failure| Failure { what: failure.what.replace(&in_folder, ""), ..failure })
}

/// The message about one file, and its hint.
fn said(text: &str) -> String {
    let failure = declared(&[("tccc.toml", text)]).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Usage, "{failure}");
    format!("{failure}\n  hint: {}", failure.hint.as_deref().unwrap_or_default())
}

#[test]
fn mistakes_name_line_field_and_allowed_values() {
    let snapshot = include_str!("snapshots/host__declaration_mistakes__wrong_declarations.snap");
    let cases = mistakes::cases(snapshot, 17).into_iter().map(|case| {
        let text: Vec<&str> = case.lines().take_while(|line| !line.contains(".toml:")).collect();
        format!("{0}\n{1}\n", text.join("\n"), said(&text.join("\n")))
    });
    insta::assert_snapshot!("wrong_declarations", cases.collect::<Vec<_>>().join("\n"));
}

#[test]
fn all_mistakes_of_all_files_are_reported_at_once() {
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
    let declaration = read(&in_tree("scenarios/policy/declared")).unwrap();
    assert_eq!(declaration.policy.unwrap().policy.rules.len(), 1);
    assert!(declaration.algorithms.contains_key("dtcp"));
}

/// A declaration with a file of each kind, which only root or this user may write.
fn of_every_kind() -> tempfile::TempDir {
    let list = "version = 1\n[[rule]]\nname = \"a\"\nto_file = \"list.txt\"\nuse = \"cubic\"\n";
    let site = "version = 1\npolicy = \"policies/p.policy\"\n[algorithm.mine]\nuse = \"mine.o\"\n";
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    fs::create_dir(folder.join("policies")).unwrap();
    let files =
        [("site.toml", site), ("policies/p.policy", list), ("policies/list.txt", "10.0.0.0/8\n"), ("mine.o", "")];
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
    place
}

fn refusal(folder: &Path) -> String {
    let Failure { what, hint, .. } = read(folder).unwrap_err();
    format!("{what}; {}", hint.unwrap_or_default())
}

/// `tccc apply` runs as root: users who can write its input decide what runs in the kernel.
#[test]
fn world_writable_files_are_refused() {
    let sound = refusal(of_every_kind().path());
    assert!(!sound.contains("cannot trust") && sound.contains("algorithm.mine"), "{sound}"); // `mine.o` is no object
    for name in ["", "site.toml", "policies", "policies/p.policy", "policies/list.txt", "mine.o"] {
        let place = of_every_kind();
        let path = place.path().join(name).canonicalize().unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let shown = path.display();
        let expected = format!("cannot trust {shown}: every user can write to it; check its content, then `chmod go-w");
        let said = refusal(place.path());
        assert!(said.starts_with(&expected) && said.ends_with(&format!("{shown}`")), "{name}: {said}");
    }
}

#[test]
fn files_of_another_owner_or_group_are_refused() {
    needs!(root);
    let place = of_every_kind();
    chown(place.path().join("policies/p.policy"), Some(NOBODY), None).unwrap();
    let said = refusal(place.path());
    assert!(said.contains("its owner is user 65534, not root; check its content, then `chown root: "), "{said}");
    let place = of_every_kind();
    fs::set_permissions(place.path().join("site.toml"), fs::Permissions::from_mode(0o664)).unwrap();
    assert!(!refusal(place.path()).contains("cannot trust"), "root's group may write");
    chown(place.path().join("site.toml"), None, Some(NOBODY)).unwrap();
    assert!(refusal(place.path()).contains("group 65534 can write to it"));
}

/// Another user could replace such a link.
#[test]
fn links_in_a_folder_of_another_owner_are_refused() {
    needs!(root);
    let (place, elsewhere) = (of_every_kind(), tempfile::tempdir().unwrap());
    fs::rename(place.path().join("site.toml"), elsewhere.path().join("real.toml")).unwrap();
    symlink(elsewhere.path().join("real.toml"), place.path().join("site.toml")).unwrap();
    assert!(!refusal(place.path()).contains("cannot trust"));
    chown(elsewhere.path(), Some(NOBODY), None).unwrap();
    assert!(refusal(place.path()).contains("its owner is user 65534"));
}
