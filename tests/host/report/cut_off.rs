//! Ratios of runs that ended before the event that a metric waits for.

use tccc::model::run::Completion;
use tccc::report::{self, About, ReportFormat};

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::{as_json, before, load, render};

const EXPECTED: &str = "[[expected]]\nmetric = \"fct_mean_s\"\nof = \"ratio\"\nover = \"loss\"\n\
                        values = { Other = [1, 1, 1] }\nplus_minus = { Other = [0.1, 0.1, 0.1] }\nbasis = \"b\"\n";

/// `Other` takes 6 s of the baseline's 10: completed at loss 0, cut off at 0.1%, both cut off at 1%.
fn reported() -> report::Report {
    let own = before(SCENARIO, "[[published]]")
        .replace("\"delivered_pkts\", \"goodput_bps\", \"srtt_p50_us\"", "\"fct_mean_s\"");
    let directory = Directory::of(&format!("{own}{EXPECTED}"));
    for (loss, [baseline_done, other_done]) in [("0", [true, true]), ("0.1%", [true, false]), ("1%", [false, false])] {
        for (variant, took_s, done) in [("SACK", 10.0, baseline_done), ("Other", 6.0, other_done)] {
            for repeat in 0..3 {
                let mut record = run(loss, variant, repeat, 5000);
                record.flows[0].completions = vec![Completion { start_s: 0.0, took_s, done, size_bytes: None }];
                directory.add(&record);
            }
        }
    }
    load(&directory)
}

/// A transfer that never ended once seemed to take less time than the baseline's, because its runs were shorter.
#[test]
fn ratio_of_cut_off_runs_is_a_bound_in_tables_and_sentences() {
    let report = reported();
    let standing = report.findings.iter().find(|finding| finding.about == About::Baseline).unwrap();
    let said = "Other is below SACK at loss 0 (0.600); may be above or below SACK at loss 0.1% (≥ 0.600) and loss 1%: \
                runs ended too early";
    assert_eq!(standing.sentence, said);
    let text = render(&report, ReportFormat::Markdown);
    let row = |begin: &str| text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{text}"));
    assert!(row("| 0 | Other |").contains("| 1.00 ± 0.10 | 0.600 | 0.600 to 0.600 | outside |"), "{text}");
    assert!(row("| 0.1% | Other |").contains("| 1.00 ± 0.10 | ≥ 0.600 | 0.600 to 0.600 | not comparable |"), "{text}");
    assert!(row("| 1% | Other |").contains("| 1.00 ± 0.10 | - | - | not comparable |"), "{text}");
    let json = as_json(&report);
    let cut_off = |index: usize| &json["cells"][index]["ratio_to_baseline"]["cut_off"];
    assert_eq!((cut_off(1), cut_off(3)), (&serde_json::Value::Null, &3.into()), "left out if it is 0");
}
