//! `tccc run --dry-run` and what is refused before a run: nothing is measured.

use std::fs;
use std::path::Path;

use crate::common::experiment::{OVERLOADED, place, run_command};
use crate::common::{check, stderr, stdout, tccc};

#[test]
fn dry_run_prints_the_plan_and_changes_nothing() {
    let (place, scenario, out) = place();
    let text = stdout(&check(0, run_command(&scenario, &out).arg("--dry-run")));
    assert!(text.contains("to do: 6 runs on 1 path, about ") && text.contains("nothing was changed"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("  seed ")).count(), 6);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// It ran, and left the metric's table empty.
#[test]
fn metric_that_can_have_no_value_is_warned_of() {
    let (_place, scenario, out) = place();
    fs::write(&scenario, OVERLOADED.replace("utilisation_ratio", "jain_index")).unwrap();
    let said = stderr(&check(0, run_command(&scenario, &out).arg("--dry-run")));
    assert!(said.starts_with("tccc: warning: "), "{said}");
    assert!(said.contains("tiny.toml:33: report.metrics = \"jain_index\": it can have no value"), "{said}");
}

#[test]
fn shards_of_a_plan_are_all_of_it() {
    let (_place, scenario, out) = place();
    let ids = |arguments: &[&str]| -> Vec<String> {
        let text = stdout(&check(0, run_command(&scenario, &out).arg("--dry-run").args(arguments)));
        text.lines().filter(|line| line.contains("  seed ")).map(str::to_owned).collect()
    };
    let (first, second) = (ids(&["--shard", "1/2"]), ids(&["--shard", "2/2"]));
    assert_eq!((first.len(), second.len()), (3, 3));
    assert_eq!([first, second].concat(), ids(&[]), "each repeat is a seed, and stays together");
}

#[test]
fn folder_stands_for_its_scenarios() {
    let (place, scenario, out) = place();
    fs::copy(&scenario, place.path().join("second.toml")).unwrap();
    fs::write(place.path().join("notes.md"), "no scenario").unwrap();
    check(0, run_command(place.path(), &out).arg("--dry-run"))
        .stdout_has("second: Tiny")
        .stdout_has("tiny: Tiny")
        .stdout_has("2 scenarios: ");
}

#[test]
fn every_scenario_that_comes_along_reads_and_plans() {
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let is_scenario = |file: &Path| file.extension().is_some_and(|ending| ending == "toml");
    let folders = fs::read_dir(scenarios).unwrap().flatten().map(|entry| entry.path());
    let folders = folders.filter(|folder| folder.is_dir() && !folder.ends_with("policy"));
    let has_scenarios = |folder: &Path| fs::read_dir(folder).unwrap().flatten().any(|file| is_scenario(&file.path()));
    let mut count = 0;
    for folder in folders.filter(|folder| has_scenarios(folder)) {
        check(0, tccc().arg("run").arg(&folder).arg("--dry-run"));
        count += 1;
    }
    assert!(count >= 2, "{count}");
}
