//! `tccc run --dry-run`: plans and warnings.

use std::fs;

use crate::common::experiment::{OVERLOADED, place, run_command};
use crate::common::{check, stderr, stdout};

#[test]
fn dry_run_prints_the_plan_and_changes_nothing() {
    let (place, scenario, out) = place();
    let text = stdout(&check(0, run_command(&scenario, &out).arg("--dry-run")));
    assert!(text.contains("to do: 6 runs on 1 path, about ") && text.contains("nothing was changed"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("  seed ")).count(), 6);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

/// With netem, the plan listed host delays that no link adds.
#[test]
fn host_delays_are_planned_only_for_links_that_add_them() {
    let (_place, scenario, out) = place();
    fs::write(&scenario, OVERLOADED).unwrap();
    let plan = |link: &str| check(0, run_command(&scenario, &out).args(["--dry-run", "--link", link]));
    assert!(stdout(&plan("tunlink")).contains("host delay in"), "{}", stdout(&plan("tunlink")));
    assert!(!stdout(&plan("netem")).contains("host delay"), "{}", stdout(&plan("netem")));
    assert!(
        stderr(&plan("netem")).contains("netem does not add the random host delays, so flows may meet phase effects")
    );
}

/// Such a run once left the metric's table empty without a warning.
#[test]
fn metric_that_can_have_no_value_gives_a_warning() {
    let (_place, scenario, out) = place();
    fs::write(&scenario, OVERLOADED.replace("utilisation_ratio", "jain_index")).unwrap();
    let said = stderr(&check(0, run_command(&scenario, &out).arg("--dry-run")));
    assert!(said.starts_with("tccc: warning: "), "{said}");
    assert!(said.contains("tiny.toml:33: report.metrics = \"jain_index\": it can have no value"), "{said}");
    assert!(said.contains("it needs two or more compared flows") && said.contains("`copies = 2`"), "{said}");
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
