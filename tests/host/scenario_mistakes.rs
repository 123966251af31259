//! Messages about wrong scenarios: each names file, line and field, the allowed values, and the next step.

use std::fs;

use crate::common::{check, tccc};
use crate::mistakes;

const GOOD: &str = include_str!("mistakes/scenario.toml");
const WRONG: &str = include_str!("snapshots/host__scenario_mistakes__wrong_scenarios.snap");

/// Plans a file with these bytes in its own folder; returns stderr.
#[track_caller]
fn dry_run(code: i32, bytes: impl AsRef<[u8]>) -> String {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("x.toml"), bytes).unwrap();
    let said = check(code, tccc().args(["run", "x.toml", "--dry-run"]).current_dir(place.path())).stderr();
    said.replace(place.path().to_str().unwrap(), "PLACE")
}

/// The message once had no next step.
#[test]
fn file_that_is_no_text_is_a_wrong_scenario() {
    let expected = "tccc: error: x.toml:2: expected a TOML file, which is text in UTF-8\n  \
                    hint: `tccc run --explain` lists every field\n";
    assert_eq!(dry_run(2, b"title = \"t\"\n\x7fELF\xff"), expected);
}

#[test]
fn every_mistake_is_reported_with_place_allowed_values_and_next_step() {
    dry_run(0, GOOD);
    let cases = mistakes::each(GOOD, WRONG, 167).map(|(change, text)| format!("{change}{}", dry_run(2, text)));
    insta::assert_snapshot!("wrong_scenarios", cases.collect::<Vec<_>>().join("\n"));
}
