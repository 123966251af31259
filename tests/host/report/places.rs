//! Places of the sweep: everything of a position but the variant.

use std::collections::BTreeSet;

use tccc::report::{self, Format};

use crate::lab::results::{Directory, position, run};
use crate::report::load;

/// Two algorithms, each beside both.
const SCENARIO: &str = include_str!("../../fixtures/scenarios/places.toml");

/// Every variable with the variant's value was taken for the variant: each beside itself had no place.
#[test]
fn variable_with_the_value_of_the_variant_stays_part_of_the_place() {
    let directory = Directory::of(SCENARIO);
    for (algorithm, delivered) in [("reno", 10_000), ("cubic", 15_000)] {
        for (rival, repeat) in (0..3).flat_map(|repeat| [("reno", repeat), ("cubic", repeat)]) {
            let mut record = run("0", algorithm, repeat, delivered + delivered / 100 * u64::from(repeat));
            record.id = format!("{algorithm}-{rival}-{repeat}");
            record.at = position([("algorithm", algorithm), ("rival", rival)]);
            let mut beside = record.flows[0].clone();
            (beside.name, beside.compared) = ("beside".into(), false);
            (beside.variant, beside.socket) = (rival.into(), Some(200));
            record.flows.push(beside);
            directory.add(&record);
        }
    }
    let report = load(&directory);
    let standings: Vec<&str> = report.findings.iter().map(|finding| finding.sentence.as_str()).collect();
    assert_eq!(standings, ["cubic is above reno at rival reno (1.50) and rival cubic (1.50)"]);

    let text = report::render(&report, Format::Csv).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let headings = reader.headers().unwrap().clone();
    let column = |name: &str| headings.iter().position(|heading| heading == name).unwrap();
    let of = |row: csv::StringRecord| format!("{} at {}", &row[column("variant")], &row[column("place")]);
    let rows: BTreeSet<String> = reader.records().map(|row| of(row.unwrap())).collect();
    let each = ["cubic at rival cubic", "cubic at rival reno", "reno at rival cubic", "reno at rival reno"];
    assert_eq!(rows, BTreeSet::from(each.map(str::to_owned)));
    // A column "variant" where the scenario has none was a riddle.
    assert!(report::render(&report, Format::Markdown).unwrap().contains("| rival | algorithm |"));
    let page = report::render(&report, Format::Html).unwrap();
    assert!(
        page.contains("<th scope=\"col\">algorithm</th>") && page.contains("<th scope=\"row\">cubic</th>"),
        "{page}"
    );
}
