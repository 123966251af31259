//! Points of the sweep: positions without the variant.

use std::collections::BTreeSet;

use tccc::report::ReportFormat;

use crate::lab::results::{Directory, position, run};
use crate::report::{as_csv, as_page, load, render, second_flow};

/// Two algorithms, each beside both.
const SCENARIO: &str = include_str!("../../fixtures/scenarios/places.toml");

/// A variable with the variant's value was once taken for the variant, so an algorithm beside itself had no point.
#[test]
fn variable_with_the_value_of_the_variant_stays_part_of_the_place() {
    let directory = Directory::of(SCENARIO);
    for (algorithm, delivered) in [("reno", 10_000), ("cubic", 15_000)] {
        for (rival, repeat) in (0..3).flat_map(|repeat| [("reno", repeat), ("cubic", repeat)]) {
            let mut record = run("0", algorithm, repeat, delivered + delivered / 100 * u64::from(repeat));
            record.id = format!("{algorithm}-{rival}-{repeat}");
            record.at = position([("algorithm", algorithm), ("rival", rival)]);
            second_flow(&mut record, "beside", rival).compared = false;
            directory.add(&record);
        }
    }
    let report = load(&directory);
    let standings: Vec<&str> = report.findings.iter().map(|finding| finding.sentence.as_str()).collect();
    assert_eq!(standings, ["cubic is above reno at rival reno (1.50) and rival cubic (1.50)"]);

    let rows: BTreeSet<String> =
        as_csv(&report).1.iter().map(|row| format!("{} at {}", row["variant"], row["place"])).collect();
    let each = ["cubic at rival cubic", "cubic at rival reno", "reno at rival cubic", "reno at rival reno"];
    assert_eq!(rows, BTreeSet::from(each.map(str::to_owned)));
    // The column is not called "variant", because the scenario has no such variable.
    assert!(render(&report, ReportFormat::Markdown).contains("| rival | algorithm |"));
    let page = as_page(&report);
    for heading in ["<th scope=\"col\">algorithm</th>", "<th scope=\"row\">cubic</th>"] {
        assert!(page.contains(heading), "{page}");
    }
}
