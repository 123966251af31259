//! Sources that publish only a ratio, or only a saving.

use tccc::report::{Report, ReportCell, ReportFormat, Verdict};

use crate::lab::results::{Directory, SCENARIO};
use crate::report::{as_csv, as_json, before, cell, load, render};

/// A report of a scenario with these published and expected numbers.
fn reported(numbers: &str) -> Report {
    let own = before(before(SCENARIO, "[[published]]"), "[[expected]]");
    let directory = Directory::of(&format!("{own}{numbers}"));
    directory.add_each(&["1%"], 3, &[("SACK", 6000), ("Other", 4500)], 0);
    load(&directory)
}

fn other(numbers: &str) -> ReportCell {
    cell(&reported(numbers), "delivered_pkts", "1%", "Other").clone()
}

/// A `[[published]]` table.
fn published(of: &str, place: &str, values: &str) -> String {
    format!(
        "[[published]]\nmetric=\"delivered_pkts\"\nof=\"{of}\"\nplace=\"{place}\"\nover=\"loss\"\nvalues={{{values}}}\n"
    )
}

#[test]
fn saving_is_subtracted_from_the_measured_baseline() {
    let expected = "[[expected]]\nmetric=\"delivered_pkts\"\nof=\"saved\"\nover=\"loss\"\nvalues={Other=[nan,nan,1400]}\n\
                    plus_minus={Other=[nan,nan,200]}\nbasis=\"b\"\n";
    let cell = other(&(published("saved", "table 9", "Other=[nan,nan,2000]") + expected));
    assert_eq!(cell.published, Some(4000.0), "6000 of the baseline less 2000");
    assert_eq!(cell.expected.map(|expected| expected.value), Some(4600.0));
    assert_eq!(cell.verdict, Verdict::Within, "{}", cell.verdict_reason);
}

#[test]
fn published_ratio_needs_no_value_of_the_baseline() {
    let cell = other(&published("ratio", "section 9", "Other=[nan,nan,1.5]"));
    assert_eq!((cell.published, cell.ratio_to_baseline.unwrap().published), (None, Some(1.5)));
    assert_eq!((cell.verdict, cell.verdict_reason.as_str()), (Verdict::Outside, "ratio 0.750, published 1.50 ± 10 %"));
}

/// The value's place was once shown for the ratio too.
#[test]
fn value_and_ratio_of_one_metric_have_each_their_place() {
    let values = published("value", "table 9", "SACK=[nan,nan,6000],Other=[nan,5000,4000]");
    let report = reported(&(values + &published("ratio", "table 10", "Other=[nan,nan,0.7]")));
    let json = as_json(&report);
    let is_other = |cell: &&serde_json::Value| cell["variant"] == "Other" && cell["at"]["loss"] == "1%";
    let cell = json["cells"].as_array().unwrap().iter().find(is_other).unwrap();
    assert_eq!((&cell["published_place"], &cell["published"]), (&"table 9".into(), &4000.0.into()));
    let ratio = &cell["ratio_to_baseline"];
    assert_eq!((&ratio["published_place"], &ratio["published"]), (&"table 10".into(), &0.7.into()));

    let (headings, rows) = as_csv(&report);
    assert_eq!(headings.last().unwrap(), "ratio_published_place");
    for (place, places) in [("loss 1%", ["table 9", "table 10"]), ("loss 0.1%", ["table 9", ""])] {
        let row = rows.iter().find(|row| row["place"] == place && row["variant"] == "Other").unwrap();
        assert_eq!(["published_place", "ratio_published_place"].map(|name| row[name].as_str()), places);
    }

    for (format, both) in [
        (ReportFormat::Text, "published: table 9; table 10\n"),
        (ReportFormat::Markdown, "Published: table 9; table 10.\n"),
        (ReportFormat::Html, "<b>Published:</b> table 9; table 10."),
    ] {
        assert!(render(&report, format).contains(both), "{format:?}");
    }
}
