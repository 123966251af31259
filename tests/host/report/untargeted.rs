//! Reports without targets, and numbers shared by several variants.

use tccc::report::{self, ReportFormat};

use crate::lab::results::{Directory, SCENARIO, run};
use crate::report::{before, load, render, second_flow};

/// The page once counted "27 not comparable", and every table had a column of verdicts.
#[test]
fn report_without_anything_published_or_expected_has_no_verdicts() {
    let directory = Directory::of(before(SCENARIO, "[[published]]"));
    directory.add_each(&["1%"], 1, &[("SACK", 6000), ("Other", 9000)], 0);
    let report = load(&directory);
    for format in [ReportFormat::Text, ReportFormat::Markdown, ReportFormat::Html] {
        let text = render(&report, format);
        let body = text.split("<body>").last().unwrap();
        let said = body.to_lowercase();
        assert!(said.contains("measured") && !said.contains("verdict") && !said.contains("comparable"), "{body}");
    }
    let both = report::render_all(&[report.clone(), report], ReportFormat::Text).unwrap();
    assert!(both.contains("All reports") && !both.contains("within"), "{both}");
}

#[test]
fn report_of_several_variants_without_a_baseline_says_how_to_get_ratios() {
    let without = before(SCENARIO, "[[published]]").replace("baseline = \"SACK\"\n", "");
    let ratios = |variants: &[(&str, u64)]| {
        let directory = Directory::of(&without);
        directory.add_each(&["1%"], 1, variants, 0);
        let text = render(&load(&directory), ReportFormat::Text);
        text.lines().find(|line| line.starts_with("No ratios: ")).map(str::to_owned)
    };
    let said = ratios(&[("SACK", 6000), ("Other", 9000)]).unwrap();
    assert!(said.ends_with("the scenario names no baseline; `report = { baseline = \"SACK\" }` adds them"), "{said}");
    assert_eq!(ratios(&[("SACK", 6000)]), None);
}

/// Two flows on one path.
const FLOWS: &str = "[[flow]]\nname = \"one\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"reno\"\n\
                     [[flow]]\nname = \"two\"\nfrom = \"s\"\nto = \"r\"\nalgorithm = \"cubic\"\n\
                     [report]\nbaseline = \"reno\"\nmetrics = [\"utilisation_ratio\", \"delivered_pkts\"]\n";

/// Every flow on the path once had a row with the same utilisation.
#[test]
fn metric_of_the_path_is_shown_once_where_variants_are_flows_of_one_run() {
    let directory = Directory::of(&format!("{}{FLOWS}", before(SCENARIO, "[[flow]]")));
    for repeat in 0..3 {
        let mut record = run("1%", "reno", repeat, 6000);
        record.at.remove("variant");
        record.flows[0].name = "one".into();
        second_flow(&mut record, "two", "cubic").delivered_pkts = 9000 + u64::from(repeat);
        directory.add(&record);
    }
    let report = load(&directory);
    let text = render(&report, ReportFormat::Markdown);
    let rows = |beginning: &str| text.lines().filter(|line| line.starts_with(beginning)).count();
    assert_eq!((rows("| reno, cubic |"), rows("| reno |"), rows("| cubic |")), (1, 1, 1), "{text}");
    let standings: Vec<&str> = report.findings.iter().map(|finding| finding.metric.as_str()).collect();
    assert_eq!(standings, ["delivered_pkts"]);
    assert_eq!(report.cells.iter().filter(|cell| cell.metric == "utilisation_ratio").count(), 2, "files have both");
}
