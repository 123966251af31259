//! The page of results from the literature: source, expected, measured and cause of a difference.

use serde_json::{Value, json};

use super::store::ScenarioSummary;
use super::summary::{cells, latest, number, point, runs, shown, told};
use crate::made::{self, GeneratedTable};

/// The folder of these scenarios.
pub const FOLDER: &str = "known";
pub const TABLE: GeneratedTable =
    GeneratedTable { document: "scenarios/known/README.md", command: "cargo xtask results known" };

/// The metrics with expected numbers, in the order of the report.
pub fn metrics(reports: &[Value]) -> Vec<String> {
    let mut metrics: Vec<String> = Vec::new();
    for cell in judged(latest(reports)) {
        let metric = told(&cell["metric"]);
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    metrics
}

/// A count of all verdicts, and a row per scenario, variant and metric.
///
/// A row lists the values of the sweep, and what is expected and measured there, in the same order.
pub fn table(summaries: &[ScenarioSummary]) -> String {
    let judged: Vec<Value> = summaries.iter().flat_map(|(_, reports)| judged(latest(reports))).collect();
    let within = judged.iter().filter(|cell| cell["verdict"] == "within").count();
    let repeats = summaries.iter().map(|(_, reports)| runs(latest(reports))).max().unwrap_or_default();
    let rows = summaries.iter().flat_map(|(name, reports)| {
        let report = latest(reports);
        series(report).into_iter().map(move |cells| row(name, report, &cells))
    });
    let head = "result | source | of | at | expected | measured | verdict | cause of a difference";
    format!(
        "{} scenarios, {within} of {} values within their range, n = {repeats}.\n\n{}",
        summaries.len(),
        judged.len(),
        made::table(head, rows)
    )
}

/// The expected numbers of a report: cells with an expected value, and cells with an expected ratio to the baseline.
///
/// A ratio takes the place of the cell's value, and `over` names the baseline.
pub fn judged(report: &Value) -> Vec<Value> {
    let both = cells(report).flat_map(|cell| {
        let [value, ratio] = [cell, &cell["ratio_to_baseline"]].map(|of| !of["expected"].is_null());
        let [value, ratio] = [value.then(|| cell.clone()), ratio.then(|| of_ratio(cell, &report["baseline"]))];
        match (value, ratio) {
            (Some(value), Some(ratio)) => vec![judged_alone(value), judged_alone(ratio)],
            (value, ratio) => value.into_iter().chain(ratio).collect(),
        }
    });
    both.collect()
}

/// A cell with its ratio to the baseline in place of its value.
fn of_ratio(cell: &Value, baseline: &Value) -> Value {
    let ratio = &cell["ratio_to_baseline"];
    let mut of_ratio = cell.clone();
    for field in ["expected", "published"] {
        of_ratio[field] = ratio[field].clone();
    }
    of_ratio["measured"] = json!({ "n": cell["measured"]["n"], "mean": ratio["measured"], "ci95": ratio["ci95"] });
    of_ratio["over"] = baseline.clone();
    of_ratio
}

/// A cell whose verdict is that of its own number. The report's verdict of a cell with two expected numbers needs both.
fn judged_alone(mut cell: Value) -> Value {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let expected = &cell["expected"];
    let distance = (number(&cell["measured"]["mean"]) - number(&expected["value"])).abs();
    let is_within = distance <= number(&expected["plus_minus"]);
    cell["verdict"] = json!(if is_within { "within" } else { "outside" });
    cell
}

/// The expected numbers of a report by metric, variant and baseline, in the order of the first of each.
fn series(report: &Value) -> Vec<Vec<Value>> {
    let mut all: Vec<Vec<Value>> = Vec::new();
    for cell in judged(report) {
        let is_same = |other: &Value| ["metric", "variant", "over"].iter().all(|field| other[field] == cell[field]);
        match all.iter_mut().find(|series| series.first().is_some_and(is_same)) {
            Some(series) => series.push(cell),
            None => all.push(vec![cell]),
        }
    }
    all
}

fn row(name: &str, report: &Value, cells: &[Value]) -> String {
    let list = |text: fn(&Value) -> String| cells.iter().map(text).collect::<Vec<_>>().join("; ");
    let within = cells.iter().filter(|cell| cell["verdict"] == "within").count();
    let verdict = match within {
        all if all == cells.len() => "within".to_owned(),
        some => format!("**{} of {} outside**", cells.len() - some, cells.len()),
    };
    let [title, paper, place, variant, metric] = [
        &report["title"],
        &report["source"]["paper"],
        &report["source"]["where"],
        &cells[0]["variant"],
        &cells[0]["metric"],
    ]
    .map(told);
    let (_, unit) = scale(&cells[0]);
    let over = cells[0]["over"].as_str().map_or(String::new(), |baseline| format!(" over {baseline}"));
    format!(
        "[{title}]({name}.toml) | {paper}, {place} | {variant}{over}, `{metric}`{unit} | {} | {} | {} | {verdict} | {}",
        list(point),
        list(expected),
        list(|cell| shown(&cell["measured"], scale(cell).0)),
        causes(cells)
    )
}

/// What the cell's numbers are divided by, and the unit that they then have.
pub fn scale(cell: &Value) -> (f64, &'static str) {
    match told(&cell["metric"]) {
        _ if !cell["over"].is_null() => (1.0, ""),
        metric if metric.ends_with("_bps") => (1e6, " [Mbit/s]"),
        metric if metric.ends_with("_us") => (1e3, " [ms]"),
        _ => (1.0, ""),
    }
}

/// `2.478 ± 0.3`, and the source's own number if the expectation is another.
pub fn expected(cell: &Value) -> String {
    let scaled = |value: &Value| value.as_f64().map(|value| number(value / scale(cell).0));
    let [value, margin] = ["value", "plus_minus"].map(|part| scaled(&cell["expected"][part]).unwrap_or_default());
    let published = scaled(&cell["published"]).map_or(String::new(), |published| format!(" (source: {published})"));
    format!("{value} ± {margin}{published}")
}

/// The causes of differences that the scenario names for these cells, each once.
fn causes(cells: &[Value]) -> String {
    let mut causes: Vec<String> = Vec::new();
    for notice in cells.iter().filter_map(|cell| cell["notices"].as_array()).flatten() {
        let cause = told(&notice["cause"]);
        if !causes.contains(&cause) {
            causes.push(cause);
        }
    }
    causes.join("; ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn row_has_expected_beside_measured_with_interval_and_cause() {
        let cell = |n: u32, mean: f64, verdict: &str| {
            json!({
                "at": { "n": n }, "variant": "reno", "metric": "goodput_bps", "verdict": verdict,
                "published": 3e6, "expected": { "value": 2.5e6, "plus_minus": 1e5 },
                "measured": { "n": 5, "mean": mean, "ci95": [mean - 2e4, mean + 2e4] },
                "notices": [{ "cause": "Linux differs", "advice": "a" }],
            })
        };
        let plain =
            json!({ "at": { "n": 1 }, "variant": "reno", "metric": "goodput_bps", "measured": { "mean": 1.0 } });
        let report = json!({
            "title": "t", "source": { "paper": "P", "where": "section 1" }, "host": { "engine": "virtual" },
            "cells": [cell(1, 2.52e6, "within"), cell(2, 2.7e6, "outside"), plain],
        });
        let summaries = [("a".to_owned(), vec![report])];
        let table = table(&summaries);
        assert!(table.starts_with("1 scenarios, 1 of 2 values within their range, n = 5.\n"), "{table}");
        let row = "| [t](a.toml) | P, section 1 | reno, `goodput_bps` [Mbit/s] | n 1; n 2 | \
                   2.5 ± 0.1 (source: 3); 2.5 ± 0.1 (source: 3) | 2.520 ± 0.020; 2.700 ± 0.020 | **1 of 2 outside** | \
                   Linux differs |\n";
        assert!(table.ends_with(row), "{table}");
        assert_eq!(metrics(&summaries[0].1), ["goodput_bps"]);
    }

    #[test]
    fn expected_ratio_has_a_row_with_the_baseline_and_its_own_verdict() {
        let ratio = json!({ "measured": 0.99, "ci95": [0.98, 1.0], "published": 1.2,
            "expected": { "value": 1.5, "plus_minus": 0.5 } });
        let mut cell = json!({
            "at": { "queue": "1" }, "variant": "b", "metric": "goodput_bps", "verdict": "outside",
            "ratio_to_baseline": ratio, "measured": { "n": 5, "mean": 2e6, "ci95": [2e6, 2e6] }, "notices": [],
        });
        let ratio_alone = json!({ "baseline": "a", "cells": [cell.clone()] });
        cell["expected"] = json!({ "value": 2e6, "plus_minus": 1e5 });
        let both = json!({ "baseline": "a", "cells": [cell] });
        let row = "b over a, `goodput_bps` | queue 1 | 1.5 ± 0.5 (source: 1.2) | 0.990 ± 0.010 | **1 of 1 outside** |";
        let text = |report: &Value| table(&[("x".to_owned(), vec![report.clone()])]);
        assert!(text(&ratio_alone).contains(row), "{}", text(&ratio_alone));
        assert!(text(&both).contains(row), "{}", text(&both));
        assert!(
            text(&both).contains("b, `goodput_bps` [Mbit/s] | queue 1 | 2 ± 0.1 | 2 ± 0 | within |"),
            "{}",
            text(&both)
        );
        assert!(text(&both).starts_with("1 scenarios, 1 of 2 values within"), "{}", text(&both));
        assert_eq!(metrics(&[ratio_alone]), ["goodput_bps"]);
    }
}
