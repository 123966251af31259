//! The page of all papers: runs, cells as published or expected, and measured beside published ratios.

use serde_json::Value;

use super::store::ScenarioSummary;
use super::summary::{ENGINES, cells, decimals, is_same_point, latest, point, report_of, runs, told, way};
use crate::made::{self, GeneratedTable};

pub const TABLE: GeneratedTable = GeneratedTable { document: "scenarios/RESULTS.md", command: "cargo xtask results" };

pub fn text(papers: &[(&str, Vec<ScenarioSummary>)]) -> String {
    let mut text = overview(papers);
    text += "\n## Ratios beside published ones\n\nA ratio is over the baseline of the scenario, over runs that share a \
             seed, with its 95 % interval.\n";
    for (paper, summaries) in papers {
        for (name, reports) in summaries {
            text += &ratios(&format!("{paper}/{name}"), reports);
        }
    }
    text
}

fn overview(papers: &[(&str, Vec<ScenarioSummary>)]) -> String {
    let rows = papers.iter().flat_map(|(paper, summaries)| summaries.iter().map(move |summary| (paper, summary)));
    let rows = rows.map(|(paper, (name, reports))| {
        let [kernel, virtual_] = ENGINES.map(|(_, engine)| report_of(reports, engine).map_or("-".to_owned(), runs));
        let seed = told(&reports[0]["seed"]);
        let [expected, published] = [as_expected, as_published].map(|holds| share(latest(reports), holds));
        let scenario = format!("{paper}/{name}");
        format!("[{scenario}]({scenario}.toml) | {seed} | {kernel} | {virtual_} | {expected} | {published}")
    });
    let head = "scenario | seed: | runs of each cell: real kernel: | virtual time: | as expected: | as published:";
    made::table(head, rows)
}

/// `6 of 9` judged cells.
fn share(report: &Value, holds: fn(&Value) -> Option<bool>) -> String {
    let judged: Vec<bool> = cells(report).filter_map(holds).collect();
    let holding = judged.iter().filter(|holds| **holds).count();
    if judged.is_empty() { "-".to_owned() } else { format!("{holding} of {}", judged.len()) }
}

/// Whether a cell's verdict is `within`; `None` without a verdict.
fn as_expected(cell: &Value) -> Option<bool> {
    let is = |verdict: &str| cell["verdict"] == verdict;
    (is("within") || is("outside")).then(|| is("within"))
}

/// Whether a cell is as published, whatever the scenario expects; `None` without a published or measured value.
fn as_published(cell: &Value) -> Option<bool> {
    const TOLERANCE: f64 = 0.1;
    let ratio = &cell["ratio_to_baseline"];
    let (published, measured) = match ratio["published"].as_f64() {
        Some(published) => (published, &ratio["measured"]),
        None => (cell["published"].as_f64()?, &cell["measured"]["mean"]),
    };
    Some((measured.as_f64()? - published).abs() <= TOLERANCE * published.abs())
}

/// The published and measured ratios of a scenario; empty without published ones.
fn ratios(scenario: &str, reports: &[Value]) -> String {
    let is_published = |cell: &&Value| cell["ratio_to_baseline"]["published"].is_number();
    let all: Vec<&Value> = cells(latest(reports)).filter(is_published).collect();
    let measured_there = all.iter().any(|cell| cell["ratio_to_baseline"]["measured"].is_number());
    if !measured_there {
        return String::new();
    }
    let first = &reports[0];
    let mut text = format!("\n### {scenario}: {}\n\n", told(&first["title"]));
    reports.iter().for_each(|report| text += &format!("- {}\n", way(report)));
    text += &format!("- ratios over {}\n\n", told(&first["baseline"]));
    let rows = all.into_iter().map(|cell| {
        let same = |other: &&Value| other["metric"] == cell["metric"] && is_same_point(other, cell);
        let [kernel, virtual_] = ENGINES.map(|(_, engine)| {
            let there = report_of(reports, engine).and_then(|report| cells(report).find(same));
            there.map_or("-".to_owned(), |cell| ratio(&cell["ratio_to_baseline"]))
        });
        let [variant, metric] = ["variant", "metric"].map(|name| told(&cell[name]));
        let published = significant(cell["ratio_to_baseline"]["published"].as_f64());
        format!("{} | {variant} | `{metric}` | {published} | {kernel} | {virtual_}", point(cell))
    });
    let [kernel, virtual_] = ENGINES.map(|(heading, _)| heading);
    text + &made::table(&format!("at | variant | metric | published: | {kernel}: | {virtual_}:"), rows)
}

/// `1.21 (1.19 to 1.24)`.
fn ratio(ratio: &Value) -> String {
    let [low, high] = [0, 1].map(|end: usize| significant(ratio["ci95"][end].as_f64()));
    match ratio["measured"].as_f64() {
        Some(mean) if ratio["ci95"].is_array() => format!("{} ({low} to {high})", significant(Some(mean))),
        mean => significant(mean),
    }
}

/// Three significant digits.
fn significant(number: Option<f64>) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.*}", decimals(number, 3)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratio_of_each_engine_is_beside_the_published_one() {
        let cell = |measured: f64| {
            let ratio = json!({ "published": 1.43, "measured": measured, "ci95": [1.1, 1.3], "pairs": 3 });
            json!({ "at": { "loss": "1%" }, "variant": "DTCP", "metric": "m", "verdict": "within", "ratio_to_baseline": ratio })
        };
        let report = |engine: &str, measured: f64| json!({ "host": { "engine": engine }, "cells": [cell(measured)] });
        let reports = vec![report("kernel", 1.2), report("virtual", 1.25)];
        let text = ratios("a/b", &reports);
        assert!(
            text.ends_with("| loss 1% | DTCP | `m` | 1.43 | 1.20 (1.10 to 1.30) | 1.25 (1.10 to 1.30) |\n"),
            "{text}"
        );
        assert_eq!(share(&reports[0], as_expected), "1 of 1");
        assert_eq!(share(&reports[0], as_published), "0 of 1", "1.20 is further from 1.43 than 10 %");
    }

    #[test]
    fn value_is_as_published_only_where_there_is_no_ratio() {
        let cell = json!({ "published": 100.0, "measured": { "mean": 109.0 }, "ratio_to_baseline": null });
        assert_eq!(as_published(&cell), Some(true));
        let unmeasured = json!({ "published": 100.0, "measured": null });
        assert_eq!((as_published(&unmeasured), as_expected(&unmeasured)), (None, None));
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(
            [0.9929, 1.0, 12.345, 1234.5, 0.0].map(|number| significant(Some(number))),
            ["0.993", "1.00", "12.3", "1234", "0.00"]
        );
    }
}
