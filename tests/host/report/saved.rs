//! Sources that say only a ratio, or only what is saved.

use tccc::model::metrics::Metric;
use tccc::report::{self, Format, Report, Verdict};

use crate::lab::results::{Directory, SCENARIO, run};

/// What the fixture publishes and expects, without the scenario's own numbers.
fn scenario(numbers: &str) -> String {
    let own = SCENARIO.find("[[published]]").or(SCENARIO.find("[[expected]]")).unwrap_or(SCENARIO.len());
    format!("{}{numbers}", &SCENARIO[..own])
}

fn reported(numbers: &str) -> Report {
    let directory = Directory::of(&scenario(numbers));
    for repeat in 0..3 {
        directory.add(&run("1%", "SACK", repeat, 6000));
        directory.add(&run("1%", "Other", repeat, 4500));
    }
    report::load(&directory.path).unwrap()
}

fn cell(numbers: &str) -> report::Cell {
    let report = reported(numbers);
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

/// Only the value's place was said, and stood beside the ratio of the other table too.
#[test]
fn value_and_ratio_of_one_metric_have_each_their_place() {
    let published = |of: &str, place: &str, values: &str| {
        format!(
            "[[published]]\nmetric=\"delivered_pkts\"\nof=\"{of}\"\nplace=\"{place}\"\nover=\"loss\"\nvalues={values}\n"
        )
    };
    let values = published("value", "table 9", "{SACK=[nan,nan,6000],Other=[nan,5000,4000]}");
    let report = reported(&(values + &published("ratio", "table 10", "{Other=[nan,nan,0.7]}")));
    let json: serde_json::Value = serde_json::from_str(&report::render(&report, Format::Json).unwrap()).unwrap();
    let is_it = |cell: &&serde_json::Value| cell["variant"] == "Other" && cell["at"]["loss"] == "1%";
    let cell = json["cells"].as_array().unwrap().iter().find(is_it).unwrap();
    assert_eq!((&cell["published_place"], &cell["published"]), (&"table 9".into(), &4000.0.into()));
    let ratio = &cell["ratio_to_baseline"];
    assert_eq!((&ratio["published_place"], &ratio["published"]), (&"table 10".into(), &0.7.into()));

    let text = report::render(&report, Format::Csv).unwrap();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    assert_eq!(reader.headers().unwrap().iter().next_back(), Some("ratio_published_place"));
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let places = |row: &csv::StringRecord| [row[6].to_owned(), row[row.len() - 1].to_owned()];
    let of = |place: &str| rows.iter().find(|row| &row[3] == place && &row[4] == "Other").map(places).unwrap();
    assert_eq!(of("loss 1%"), ["table 9", "table 10"]);
    assert_eq!(of("loss 0.1%"), ["table 9", ""]);

    for (format, both) in [
        (Format::Text, "published: table 9; table 10\n"),
        (Format::Markdown, "Published: table 9; table 10.\n"),
        (Format::Html, "<b>Published:</b> table 9; table 10."),
    ] {
        assert!(report::render(&report, format).unwrap().contains(both), "{format:?}");
    }
}
