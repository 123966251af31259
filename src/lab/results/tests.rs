//! Result directories that are continued, mixed or broken.

use super::*;
use crate::plan::Choices;
use crate::plan::tests::{TEXT, planned};
use crate::scenario::Profile;

fn plan(seed: u64) -> Plan {
    planned(&Choices { seed: Some(seed), ..Choices::default() }).unwrap()
}

fn record(id: &str, status: RunStatus) -> RunRecord {
    let plan = plan(7);
    RunRecord { id: id.into(), status, ..plan.record(&plan.runs[0], String::new()) }
}

fn listing(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path.join("runs")).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn resuming_keeps_finished_runs_and_removes_unfinished_ones() {
    let place = tempfile::tempdir().unwrap();
    let results = OpenResultDir::open(place.path(), &plan(7), TEXT).unwrap();
    let none = StateLayouts::new();
    results.begin("one").unwrap().finish(&record("one", RunStatus::Done), &[], &none).unwrap();
    results.begin("two").unwrap().finish(&record("two-failed1", RunStatus::Failed), &[], &none).unwrap();
    drop(results.begin("given up").unwrap());
    assert_eq!(listing(place.path()), ["one", "two-failed1"]);
    std::mem::forget(results.begin("three").unwrap()); // as a killed process leaves it
    drop(results);
    let results = OpenResultDir::open(place.path(), &plan(7), TEXT).unwrap();
    assert_eq!(listing(place.path()), ["one", "two-failed1"]);
    let two = PlannedRun { id: "two".into(), ..plan(7).runs[0].clone() };
    assert_eq!(results.id_of(&two, RunStatus::Failed), "two-failed2");
    assert_eq!(Finished::read(place.path()).unwrap().ids, BTreeSet::from(["one".to_owned()]));
    results.begin("two").unwrap().finish(&record("two", RunStatus::Done), &[], &none).unwrap();
    assert_eq!(Finished::read(place.path()).unwrap().ids.len(), 2);
}

#[test]
fn another_plan_in_the_directory_is_refused_with_the_difference() {
    let place = tempfile::tempdir().unwrap();
    drop(OpenResultDir::open(place.path(), &plan(7), TEXT).unwrap());
    let mut mtu = plan(7);
    mtu.cells[0].mtu = 576;
    let mut perturbed = plan(7);
    perturbed.cells.push(perturbed.cells[0].clone());
    perturbed.cells.last_mut().unwrap().at.insert(PERTURBED.into(), "1% more delay".into());
    let why = "a file that the scenario names was changed, or another version of tccc planned it";
    for (plan, text, difference) in [
        (plan(8), TEXT, "its seed is 7, not 8".to_owned()),
        (perturbed, TEXT, "it was run without `--perturb`, not with `--perturb 1%`".to_owned()),
        (plan(7), "title = \"u\"", "the text of the scenario differs".to_owned()),
        (Plan { profile: Profile::Paper, ..plan(7) }, TEXT, "its profile is native, not paper".to_owned()),
        (Plan { scenario: "u".into(), ..plan(7) }, TEXT, "its scenario is called \"t\", not \"u\"".to_owned()),
        (mtu, TEXT, format!("its flows or links at algorithm=reno, loss=0 differ: {why}")),
        (Plan { runs: Vec::new(), ..plan(7) }, TEXT, "its runs were planned by another version of tccc".to_owned()),
    ] {
        let refusal = OpenResultDir::open(place.path(), &plan, text).unwrap_err().to_string();
        assert!(refusal.ends_with(&format!("holds another experiment: {difference}")), "{refusal}");
    }
}

#[test]
fn directory_that_cannot_be_created_is_refused_with_the_next_step() {
    let error = OpenResultDir::open(Path::new("/proc/results"), &plan(7), TEXT).unwrap_err();
    let failure = error.downcast_ref::<Failure>().unwrap();
    assert!(failure.what.starts_with("cannot create the result directory \"/proc/results\": "), "{error}");
    assert_eq!(failure.hint.as_deref(), Some(ANOTHER_PLACE));
}

#[test]
fn more_repeats_extend_the_plan_and_fewer_leave_it() {
    let place = tempfile::tempdir().unwrap();
    let of = |runs| planned(&Choices { runs: Some(runs), ..Choices::default() }).unwrap();
    for (asked, held) in [(3, 3), (5, 5), (2, 5)] {
        drop(OpenResultDir::open(place.path(), &of(asked), TEXT).unwrap());
        let plan: Plan = serde_json::from_slice(&fs::read(place.path().join("plan.json")).unwrap()).unwrap();
        assert_eq!(plan, of(held));
    }
}

#[test]
fn directory_of_something_else_is_refused_and_left_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("notes.txt");
    fs::write(&file, "mine").unwrap();
    let refusal = |path: &Path| OpenResultDir::open(path, &plan(7), TEXT).unwrap_err().to_string();
    assert!(refusal(place.path()).ends_with("it contains \"notes.txt\", which does not belong to an experiment"));
    assert!(refusal(&file).ends_with("it is not a directory"));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1);
}

#[test]
fn two_processes_do_not_share_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let _held = OpenResultDir::open(place.path(), &plan(7), TEXT).unwrap();
    let second = OpenResultDir::open(place.path(), &plan(7), TEXT).unwrap_err();
    let second = second.downcast_ref::<Failure>().unwrap();
    assert_eq!(second.kind, shared::failure::FailureKind::Again);
    assert!(second.what.starts_with("another `tccc run` is using"), "{second}");
}
