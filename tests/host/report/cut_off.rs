//! Runs that ended before what a metric waits for: what is said of their ratio.

use tccc::model::run::Completion;
use tccc::report::{self, About, Format, Verdict};

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::{cell, load};

const EXPECTED: &str = "[[expected]]\nmetric = \"fct_mean_s\"\nof = \"ratio\"\nover = \"loss\"\n\
                        values = { Other = [1, 1, 1] }\nplus_minus = { Other = [0.1, 0.1, 0.1] }\nbasis = \"b\"\n";

/// The other takes 6 s of the baseline's 10: to its end, cut off, and with the baseline cut off too.
fn reported() -> report::Report {
    let own = SCENARIO.split("[[published]]").next().unwrap();
    let own = own.replace("\"delivered_pkts\", \"goodput_bps\", \"srtt_p50_us\"", "\"fct_mean_s\"");
    let directory = Directory::of(&format!("{own}{EXPECTED}"));
    for (loss, [baseline_done, other_done]) in [("0", [true, true]), ("0.1%", [true, false]), ("1%", [false, false])] {
        for (variant, took_s, done) in [("SACK", 10.0, baseline_done), ("Other", 6.0, other_done)] {
            for repeat in 0..3 {
                let mut record = run(loss, variant, repeat, 5000);
                record.flows[0].completions = vec![Completion { start_s: 0.0, took_s, done }];
                directory.add(&record);
            }
        }
    }
    load(&directory)
}

/// A transfer that never ended was said to take less time than the baseline's, because its runs were the shorter ones.
#[test]
fn ratio_of_cut_off_runs_is_a_bound_in_tables_and_sentences() {
    let report = reported();
    let standing = report.findings.iter().find(|finding| finding.about == About::Baseline).unwrap();
    let said = "Other is below SACK at loss 0 (0.600); cannot be told above or below SACK at loss 0.1% (≥ 0.600) and \
                loss 1%: runs ended before";
    assert_eq!(standing.sentence, said);
    let text = report::render(&report, Format::Markdown).unwrap();
    let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{text}"));
    assert!(row("| 0 | Other |").contains("| 1.00 ± 0.10 | 0.600 | 0.600 to 0.600 | outside |"), "{text}");
    assert!(row("| 0.1% | Other |").contains("| 1.00 ± 0.10 | ≥ 0.600 | 0.600 to 0.600 | not comparable |"), "{text}");
    assert!(row("| 1% | Other |").contains("| 1.00 ± 0.10 | - | - | not comparable |"), "{text}");
}

#[test]
fn ratio_of_cut_off_runs_below_what_is_expected_is_not_judged() {
    let report = reported();
    let judged = |loss: &str| {
        let other = cell(&report, "fct_mean_s", loss, "Other");
        let ratio = other.ratio_to_baseline.as_ref().unwrap();
        (other.verdict, ratio.cut_off, ratio.baseline_cut_off)
    };
    assert_eq!(judged("0"), (Verdict::Outside, 0, 0));
    assert_eq!(judged("0.1%"), (Verdict::NotComparable, 3, 0));
    assert_eq!(judged("1%"), (Verdict::NotComparable, 3, 3));
    let json: serde_json::Value = serde_json::from_str(&report::render(&report, Format::Json).unwrap()).unwrap();
    let cut_off = |index: usize| &json["cells"][index]["ratio_to_baseline"]["cut_off"];
    assert_eq!((cut_off(1), cut_off(3)), (&serde_json::Value::Null, &3.into()), "left out where it is 0");
}
