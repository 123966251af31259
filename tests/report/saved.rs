//! Sources that say only a ratio, or only what is saved.

use tccc::model::metrics::Metric;
use tccc::report::{self, Verdict};

use crate::directory::{Directory, SCENARIO, run};

/// What the fixture publishes and expects, without the scenario's own numbers.
fn scenario(numbers: &str) -> String {
    let own = SCENARIO.find("[[published]]").or(SCENARIO.find("[[expected]]")).unwrap_or(SCENARIO.len());
    format!("{}{numbers}", &SCENARIO[..own])
}

fn cell(numbers: &str) -> report::Cell {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::new(place.path(), &scenario(numbers));
    for repeat in 0..3 {
        directory.add(&run("1%", "SACK", repeat, 6000));
        directory.add(&run("1%", "Other", repeat, 4500));
    }
    let report = report::load(&directory.path).unwrap();
    let name = Metric::find("delivered_pkts").unwrap().name;
    let is_it = |cell: &&report::Cell| cell.metric == name && cell.variant == "Other" && cell.at["loss"] == "1%";
    report.cells.iter().find(is_it).unwrap().clone()
}

#[test]
fn what_is_saved_stands_below_the_measured_baseline() {
    let numbers = "[[published]]\nmetric=\"delivered_pkts\"\nof=\"saved\"\nplace=\"table 9\"\nover=\"loss\"\n\
                   values={Other=[nan,nan,2000]}\n\
                   [[expected]]\nmetric=\"delivered_pkts\"\nof=\"saved\"\nover=\"loss\"\nvalues={Other=[nan,nan,1400]}\n\
                   plus_minus={Other=[nan,nan,200]}\nbasis=\"b\"\n";
    let cell = cell(numbers);
    assert_eq!(cell.published, Some(4000.0), "6000 of the baseline less 2000");
    assert_eq!(cell.expected.map(|expected| expected.value), Some(4600.0));
    assert_eq!(cell.verdict, Verdict::Within, "{}", cell.verdict_reason);
}

#[test]
fn published_ratio_needs_no_value_of_the_baseline() {
    let numbers = "[[published]]\nmetric=\"delivered_pkts\"\nof=\"ratio\"\nplace=\"section 9\"\nover=\"loss\"\n\
                   values={Other=[nan,nan,1.5]}\n";
    let cell = cell(numbers);
    assert_eq!((cell.published, cell.ratio_to_baseline.unwrap().published), (None, Some(1.5)));
    assert_eq!((cell.verdict, cell.verdict_reason.as_str()), (Verdict::Outside, "ratio 0.750, published 1.50 ± 10 %"));
}
