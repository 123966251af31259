//! The choice of a parameter in every format.

use std::fs;

use tccc::report::{self, ReportFormat};

use crate::lab::results::{Directory, position, run};
use crate::report::{as_json, as_page, as_text, before, load, render, second_flow};

/// Three values of a tunable, chosen by utilisation and losses.
const SCENARIO: &str = include_str!("../../fixtures/scenarios/selection.toml");

/// Value, packets delivered and packets lost in the first repeat. The other repeats add [`SCATTER`].
const RUNS: [(&str, u64, u64); 3] = [("512", 20_000, 100), ("717", 24_000, 200), ("819", 25_000, 1_000)];
const SCATTER: [u64; 3] = [0, 600, 300];

fn directory() -> Directory {
    let directory = Directory::of(SCENARIO);
    for (keep, delivered, lost) in RUNS {
        for (repeat, scatter) in SCATTER.into_iter().enumerate() {
            let mut record = run("0", "other", repeat as u32, delivered + scatter);
            record.id = format!("keep-{keep}-{repeat}");
            record.at = position([("algorithm", "other"), ("keep", keep)]);
            record.flows[0].lost_pkts = lost + scatter / 10;
            directory.add(&record);
        }
    }
    directory
}

#[test]
fn choice_of_a_parameter_is_as_in_the_snapshot() {
    let report = load(&directory());
    let text = as_text(&report);
    let (_, chosen) = text.split_once("\nChoice of").unwrap();
    insta::with_settings!({ snapshot_path => "../snapshots" }, {
        insta::assert_snapshot!(chosen.split_once("\ncwnd [pkts]").unwrap().0);
    });
    let undefined = |notice: &tccc::model::notice::Notice| notice.cause.contains("jain_index has no value in 3 cells");
    assert!(report.notices.iter().any(undefined), "one flow has no fairness: {:?}", report.notices);
    assert_eq!(report::check(&[report]), None);
}

#[test]
fn choice_stands_in_every_document_with_its_sentence() {
    let report = load(&directory());
    let markdown = render(&report, ReportFormat::Markdown);
    assert!(markdown.contains("### Choice of keep: cumulative performance"), "{markdown}");
    assert!(markdown.contains("\nchosen: keep = 717 with 1.71"), "{markdown}");
    let page = as_page(&report);
    assert!(page.contains("<caption><span><b>Choice of keep") && page.contains("<b>chosen: keep = 717"));
    let selection = &as_json(&report)["selection"];
    assert_eq!((&selection["winner"], &selection["parameter"]), (&"717".into(), &"keep".into()));
    assert_eq!(selection["criteria"][1]["goal"], "min");
    assert_eq!(selection["values"][1]["measured"][0]["n"], 3);
    assert_eq!(selection["values"][2]["normalised"], serde_json::json!([1.0, 0.0]));
    let wins: f64 = selection["values"].as_array().unwrap().iter().map(|one| one["wins"].as_f64().unwrap()).sum();
    assert!((wins - 1.0).abs() < 1e-9, "{wins}");
}

#[test]
fn choice_with_a_missing_cell_names_it_and_fails_the_check() {
    let directory = directory();
    for repeat in 0..3 {
        fs::remove_dir_all(directory.folder(&format!("keep-717-{repeat}"))).unwrap();
    }
    let report = load(&directory);
    let text = as_text(&report);
    assert!(text.contains("nothing is chosen for keep: not measured: utilisation_ratio at keep 717"), "{text}");
    let failure = report::check(&[report]).unwrap();
    assert!(failure.what.starts_with("a parameter cannot be chosen: not measured: utilisation_ratio"), "{failure}");
}

#[test]
fn run_that_ends_before_it_converges_is_marked_wherever_its_time_stands() {
    let (head, rest) = SCENARIO.split_once("[[flow]]").unwrap();
    let flow = before(rest, "[report]");
    let second = flow.replace("data", "second");
    let report =
        "[report]\nmetrics = [\"convergence_s\"]\n[selection]\nparameter = \"keep\"\nmin = [\"convergence_s\"]\n";
    let directory = Directory::of(&format!("{head}[[flow]]{flow}[[flow]]{second}{report}"));
    // The second flow gets as much as the first, or half of it: two thirds of its fair share.
    for (keep, delivered) in [("512", 20_000), ("717", 20_000), ("819", 10_000)] {
        let mut record = run("0", "other", 0, 20_000);
        record.id = format!("keep-{keep}");
        record.at = position([("algorithm", "other"), ("keep", keep)]);
        second_flow(&mut record, "second", "other").delivered_pkts = delivered;
        directory.add(&record);
    }
    let report = load(&directory);
    let waited: Vec<(f64, usize)> =
        report.cells.iter().map(|cell| cell.measured.as_ref().unwrap()).map(|m| (m.mean, m.cut_off)).collect();
    // The last event of the directory's flows comes 99 s after the first.
    assert_eq!(waited.iter().map(|one| one.1).collect::<Vec<_>>(), [0, 0, 1]);
    assert!((waited[2].0 - 99.0).abs() < 1e-9 && waited[0].0 + waited[1].0 < 0.2, "{waited:?}");
    let text = as_text(&report);
    assert_eq!(text.matches("≥ 99.0").count(), 2, "in the metric's table and in that of the choice: {text}");
    assert!(text.contains("1 of 1 run ended too early"), "{text}");
}
