//! Figures and known differences of a scenario, on the page.

use tccc::report;

use crate::lab::results::{Directory, SCENARIO};
use crate::report::{as_json, as_page, as_text, before, load};

const LOSSES: [&str; 3] = ["0", "0.1%", "1%"];
const SHOWN: &str = include_str!("../../fixtures/scenarios/figures.toml");

fn shown() -> report::Report {
    let directory = Directory::of(&format!("{SCENARIO}{SHOWN}"));
    directory.add_each(&LOSSES, 5, &[("SACK", 6000)], 1);
    directory.add_each(&LOSSES, 5, &[("Other", 9000)], 2);
    load(&directory)
}

#[test]
fn page_draws_the_figures_the_scenario_asks_for_and_says_how_variants_stand() {
    let report = shown();
    let page = as_page(&report);
    assert_eq!(page.matches("<svg ").count(), 3);
    for title in ["Packets by error rate (as Figure 3)", "Gain", "Sequence"] {
        assert!(page.contains(&format!("<figcaption><b>{title}.</b>")), "{title}");
    }
    assert!(page.matches("<rect class=\"bar ").count() == 6, "two variants at three losses");
    assert!(page.contains("Other, loss 1%\ndelivered\nmeasured 9 004 pkts (9 00"), "a pointer shows the value");
    assert!(page.contains("expected 1.40 to 1.60") && page.contains("published 8 671 pkts"));
    assert!(page.contains("Representative runs: Other: loss-1pct-Other-2 (the median of 5 runs)."));
    assert!(!page.contains("SACK: loss-1pct-SACK"), "the sequence is of one variant");
    let held = "delivered, Other over SACK: the published ratio holds within 10 % at loss 0.1% and loss 1% and \
                not elsewhere; at loss 0:";
    assert!(page.contains("Do the published numbers hold on Linux?") && page.contains(held), "{:?}", report.findings);
    assert!(page.contains("<li>Other is above SACK at loss 0 (1.50), loss 0.1% (1.50) and loss 1% (1.50).</li>"));
    assert!(page.contains("<a href=\"#r0-delivered_pkts\">delivered, Other at loss 0</a>: ratio 1.50, expected 1.00"));
    assert!(page.contains("id=\"r0-delivered_pkts\"") && page.contains("<nav "));
    assert!(page.contains("title=\"ratio 1.50, expected 1.50 ± 0.10\""), "a pointer shows the reason of a verdict");
}

#[test]
fn known_difference_stands_beside_its_cells_or_the_whole_report() {
    let report = shown();
    let has = |notices: &[tccc::model::notice::Notice], cause: &str| notices.iter().any(|one| one.cause == cause);
    let of_vegas = |cell: &&report::ReportCell| has(&cell.notices, "the source's Vegas counts no header bytes");
    let cells = report.cells.iter().filter(of_vegas);
    let places: Vec<(&str, &str)> = cells.map(|cell| (cell.variant.as_str(), cell.at["loss"].as_str())).collect();
    assert_eq!(places, [("Vegas", "0.1%"), ("Vegas", "1%")]);
    assert!(has(&report.notices, "the source rounds"));
    let text = as_text(&report);
    assert!(text.contains("the source rounds; nothing to do") && text.contains("compare it with care"), "{text}");
}

#[test]
fn five_runs_are_resampled_and_say_so() {
    let report = shown();
    let cell = report.cells.iter().find(|cell| cell.variant == "Other" && cell.at["loss"] == "0").unwrap();
    let measured = cell.measured.as_ref().unwrap();
    let ([low, high], [median_low, median_high]) = (measured.ci95.unwrap(), measured.median_ci95.unwrap());
    assert!((9000.0..9004.0).contains(&low) && (9004.1..=9008.0).contains(&high), "{low} to {high}");
    assert!(median_low <= 9004.0 && 9004.0 <= median_high);
    assert_eq!(as_json(&report)["cells"][0]["measured"]["ci95_kind"], "bootstrap");
    let text = as_text(&report);
    assert!(text.contains("seeded bootstrap, expanded percentiles"), "{text}");
}

/// Six charts of one point each, with axes of their own, once hid how a ratio fell over the sweep.
#[test]
fn metric_of_one_variant_is_one_line_however_wide_its_range() {
    let directory = Directory::of(before(SCENARIO, "[[published]]"));
    for (index, (loss, pkts)) in LOSSES.into_iter().zip([90_000, 9000, 900]).enumerate() {
        directory.add_each(&[loss], 1, &[("SACK", pkts)], index as u64);
    }
    let page = as_page(&load(&directory));
    let delivered = page.split("<figcaption><b>delivered:</b>").nth(1).unwrap().split("</figure>").next().unwrap();
    assert_eq!((delivered.matches("<svg ").count(), delivered.matches("<polyline").count()), (1, 1), "{delivered}");
}

/// Without `[[figure]]`, a metric is drawn over the variable with the most numbers.
#[test]
fn metric_without_a_figure_of_its_own_is_drawn_over_the_sweep() {
    let directory = Directory::of(SCENARIO);
    directory.add_each(&LOSSES, 1, &[("SACK", 6000), ("Other", 9000)], 0);
    let page = as_page(&load(&directory));
    let goodput = page.split("<figcaption><b>goodput:</b>").nth(1).unwrap().split("</figure>").next().unwrap();
    assert_eq!(goodput.matches("<polyline").count(), 2);
    assert!(goodput.contains(">loss</text>") && goodput.contains(">0.1%</text>"), "{goodput}");
}
