//! Parts of an experiment: without the baseline, or without cells whose path is out of range.

use tccc::model::run::Calibration;
use tccc::report::{self, Verdict};

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::several::change_host;
use crate::report::{as_text, before, cell, load};

/// Packets delivered at each loss: within the expected ratio, and near the published value at 0.1%.
const OTHER: [(&str, u64); 3] = [("0", 24_690), ("0.1%", 21_500), ("1%", 9_000)];
const BASELINE: [(&str, u64); 3] = [("0", 24_700), ("0.1%", 17_400), ("1%", 6_000)];

/// Such a part was once judged by the published values, although only a ratio is expected. It passed the check.
#[test]
fn part_without_the_baseline_is_not_judged_and_fails_the_check() {
    let directory = Directory::of(SCENARIO);
    for (loss, delivered) in OTHER {
        directory.add(&run(loss, "Other", 0, delivered));
    }
    let report = load(&directory);
    for (loss, _) in OTHER {
        let other = cell(&report, "delivered_pkts", loss, "Other");
        let judged = (other.verdict, other.verdict_reason.as_str());
        assert_eq!(judged, (Verdict::NotComparable, "its baseline is not measured here"), "{loss}");
    }
    let failure = report::check(&[report]).unwrap();
    let what = "3 of 3 cells with an expectation have no finished run of their own or of their baseline: \
                delivered_pkts at loss 0, variant Other";
    assert_eq!(failure.what, what);
    for (loss, delivered) in BASELINE {
        directory.add(&run(loss, "SACK", 0, delivered));
    }
    let report = load(&directory);
    assert_eq!(cell(&report, "delivered_pkts", "0.1%", "Other").verdict, Verdict::Within);
    assert_eq!(report::check(&[report]), None);
}

/// Every row of a partial sweep once repeated the same value.
#[test]
fn variable_that_does_not_vary_stands_in_the_header() {
    let directory = Directory::of(before(SCENARIO, "[[published]]"));
    directory.add(&run("0.1%", "SACK", 0, 17_400));
    let line = |text: &str, beginning: &str| text.lines().find(|line| line.starts_with(beginning)).map(str::to_owned);
    let text = as_text(&load(&directory));
    assert_eq!(line(&text, "  every cell").as_deref(), Some("  every cell  loss 0.1%"), "{text}");
    assert_eq!(line(&text, "loss"), None, "{text}");
    directory.add(&run("1%", "SACK", 0, 6_000));
    let text = as_text(&load(&directory));
    assert_eq!(line(&text, "  every cell"), None, "{text}");
    assert!(line(&text, "loss").is_some_and(|heading| heading.contains("variant")), "{text}");
}

/// The notice once called every number doubtful, and did not mention the missing cells.
#[test]
fn path_outside_its_calibration_is_said_to_be_left_out_unless_runs_were_made_on_it() {
    const QUANTITY: &str = "s-r rate at loss = 1%";
    let directory = Directory::of(SCENARIO);
    directory.add(&run("0.1%", "SACK", 0, 17_400));
    let measured = |within: bool| {
        change_host(&directory.path, |host| {
            let one = Calibration { quantity: QUANTITY.into(), within, ..host.calibration[0].clone() };
            host.calibration.push(one);
        });
    };
    let advice = || {
        let notices = load(&directory).notices;
        let of_path = notices.into_iter().find(|notice| notice.cause.contains(QUANTITY));
        of_path.expect("a notice about the path").advice
    };
    let left_out =
        "cells of this path were left out then; `tccc run` on the same directory measures those still missing";
    measured(false);
    assert_eq!(advice(), left_out);
    directory.add(&run("1%", "SACK", 0, 6_000));
    assert!(advice().starts_with("the path is not the one the scenario describes"));
    measured(true);
    assert_eq!(advice(), left_out, "the runs were made while the path was in its range");
}
