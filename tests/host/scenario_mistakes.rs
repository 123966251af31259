//! Wrong scenarios: each message names file, line and field, what is allowed there, and the next step.

use std::fs;

use crate::common::{check, tccc};
use crate::mistakes;

const GOOD: &str = include_str!("mistakes/scenario.toml");

/// `tccc run --dry-run` of a file with these bytes, from its own folder; what is said on stderr.
#[track_caller]
fn dry_run(code: i32, bytes: impl AsRef<[u8]>) -> String {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("x.toml"), bytes).unwrap();
    let said = check(code, tccc().args(["run", "x.toml", "--dry-run"]).current_dir(place.path())).stderr();
    said.replace(place.path().to_str().unwrap(), "PLACE")
}

/// It failed like a file that cannot be read, without a next step.
#[test]
fn file_that_is_no_text_is_a_wrong_scenario() {
    let expected = "tccc: error: x.toml:2: expected a TOML file, which is text in UTF-8\n  \
                    hint: `tccc run --explain` lists every field\n";
    assert_eq!(dry_run(2, b"title = \"t\"\n\x7fELF\xff"), expected);
}

#[test]
fn every_mistake_is_told_with_its_place_what_is_allowed_and_the_next_step() {
    dry_run(0, GOOD);
    let changes = mistakes::each(GOOD, include_str!("mistakes/scenario.diff"));
    let transcript = changes.map(|(change, text)| format!("{change}\n{}", dry_run(2, text)));
    insta::assert_snapshot!(transcript.collect::<Vec<_>>().join("\n"));
}
