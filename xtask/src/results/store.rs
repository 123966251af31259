//! The summaries in the tree, one JSON file per scenario: the parts of a report that documents show.

use std::path::PathBuf;

use anyhow::{Context, Result};
use fs_err as fs;
use serde_json::{Map, Value, json};

use super::summary;
use crate::process;

const SCHEMA: u64 = 1;
/// Fields of a report in a summary.
const OF_REPORT: [&str; 10] =
    ["title", "claim", "source", "profile", "host", "seed", "baseline", "digest", "reruns", "selection"];
/// Fields of a cell in a summary.
const OF_CELL: [&str; 6] = ["at", "variant", "metric", "unit", "published", "verdict"];
/// Fields of the host's description in a summary.
const OF_HOST: [&str; 4] = ["engine", "kernel", "link", "tools"];
/// Significant digits of numbers.
const DIGITS: usize = 10;

/// A scenario's name and reports.
pub type ScenarioSummary = (String, Vec<Value>);

fn folder(paper: &str) -> PathBuf {
    process::workspace().join("scenarios").join(paper).join("results")
}

/// Writes the summary of a scenario with the metrics that its document shows. Reports of engines that are not among
/// `reports` stay as they are in the tree.
pub fn write(paper: &str, name: &str, reports: &[Value], metrics: &[String]) -> Result<()> {
    let folder = folder(paper);
    fs::create_dir_all(&folder)?;
    let there = read(paper)?.into_iter().find(|(other, _)| other == name).map_or_else(Vec::new, |(_, reports)| reports);
    let reports: Vec<String> = merged(reports, there).iter().map(|report| condensed(report, metrics)).collect();
    let text = format!("{{\n\"schema\": {SCHEMA},\n\"reports\": [\n{}\n]\n}}\n", reports.join(",\n"));
    Ok(fs::write(folder.join(format!("{name}.json")), text)?)
}

/// New reports, with the simulator's runs of the reports that they replace, and the reports of other engines. Shape: the
/// real kernel, virtual time, the simulator.
fn merged(new: &[Value], there: Vec<Value>) -> Vec<Value> {
    let engine = |report: &Value| report["host"]["engine"].as_str().unwrap_or_default().to_owned();
    let mut all = new.to_vec();
    for old in there {
        match all.iter_mut().find(|report| engine(report) == engine(&old)) {
            Some(report) => keep_simulator(report, &old),
            None => all.push(old),
        }
    }
    let order = summary::ENGINES.map(|(_, engine)| engine);
    all.sort_by_key(|report| order.iter().position(|one| *one == engine(report)).unwrap_or(order.len()));
    all
}

/// Takes the simulator's runs over from an older report if the new one has none.
fn keep_simulator(report: &mut Value, old: &Value) {
    if report["reruns"].as_array().is_some_and(|reruns| !reruns.is_empty()) || old["reruns"].is_null() {
        return;
    }
    report["reruns"] = old["reruns"].clone();
    let olds: Vec<&Value> = summary::cells(old).filter(|cell| !cell["rerun"].is_null()).collect();
    let cells = report["cells"].as_array_mut().into_iter().flatten();
    for cell in cells {
        let same = |old: &&&Value| old["metric"] == cell["metric"] && summary::is_same_point(old, cell);
        if let Some(old) = olds.iter().find(same) {
            cell["rerun"] = old["rerun"].clone();
        }
    }
}

/// The summaries of a paper sorted by name.
pub fn read(paper: &str) -> Result<Vec<ScenarioSummary>> {
    let read = |name: String| -> Result<ScenarioSummary> {
        let text = fs::read_to_string(folder(paper).join(format!("{name}.json")))?;
        let document: Value =
            serde_json::from_str(&text).with_context(|| format!("read {paper}/results/{name}.json"))?;
        Ok((name, document["reports"].as_array().cloned().unwrap_or_default()))
    };
    process::names_in(&folder(paper), ".json").into_iter().map(read).collect()
}

/// The parts of a report that documents show, with one cell or finding a line, to keep diffs small.
fn condensed(report: &Value, metrics: &[String]) -> String {
    let shown = |one: &&Value| metrics.iter().any(|metric| one["metric"] == metric.as_str());
    let lines = |name: &str, line: fn(&Value) -> Value| -> String {
        let all = report[name].as_array().into_iter().flatten().filter(shown);
        all.map(|one| rounded(line(one)).to_string()).collect::<Vec<_>>().join(",\n")
    };
    let mut head = picked(report, &OF_REPORT);
    head["host"] = picked(&report["host"], &OF_HOST);
    let head: Vec<String> = head.as_object().into_iter().flatten().map(|(name, value)| line(name, value)).collect();
    format!(
        "{{\n{},\n\"findings\": [\n{}\n],\n\"cells\": [\n{}\n]\n}}",
        head.join(",\n"),
        lines("findings", |finding| picked(finding, &["metric", "sentence"])),
        lines("cells", cell)
    )
}

fn line(name: &str, value: &Value) -> String {
    format!("{}: {}", json!(name), rounded(value.clone()))
}

fn cell(cell: &Value) -> Value {
    let mut kept = picked(cell, &OF_CELL);
    if !cell["expected"].is_null() {
        kept["expected"] = cell["expected"].clone();
    }
    if [&cell["expected"], &cell["ratio_to_baseline"]["expected"]].iter().any(|expected| !expected.is_null()) {
        kept["notices"] = cell["notices"].clone();
    }
    let measured = |cell: &Value| picked(&cell["measured"], &["n", "mean", "ci95"]);
    if !cell["measured"].is_null() {
        kept["measured"] = measured(cell);
    }
    if !cell["rerun"]["measured"].is_null() {
        kept["rerun"] = json!({ "measured": measured(&cell["rerun"]) });
    }
    if !cell["ratio_to_baseline"].is_null() {
        kept["ratio_to_baseline"] =
            picked(&cell["ratio_to_baseline"], &["published", "expected", "measured", "ci95", "pairs"]);
    }
    kept
}

/// The non-null fields of an object.
fn picked(object: &Value, fields: &[&str]) -> Value {
    let there = fields.iter().filter(|field| !object[**field].is_null());
    Value::Object(there.map(|field| ((*field).to_owned(), object[*field].clone())).collect::<Map<_, _>>())
}

/// Rounds all fractions in a value.
fn rounded(value: Value) -> Value {
    match value {
        Value::Array(all) => all.into_iter().map(rounded).collect(),
        Value::Object(all) => all.into_iter().map(|(name, value)| (name, rounded(value))).collect(),
        Value::Number(number) if number.is_f64() => json!(number.as_f64().map(short)),
        other => other,
    }
}

fn short(number: f64) -> f64 {
    format!("{number:.*e}", DIGITS - 1).parse().unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_keeps_what_documents_show() {
        let report = json!({
            "title": "t", "host": { "engine": "virtual", "cpu": "x" }, "seed": 1, "calibration": [1],
            "findings": [{ "metric": "a", "sentence": "s", "kind": 1 }, { "metric": "b", "sentence": "other" }],
            "cells": [{ "metric": "a", "variant": "v", "measured": { "n": 3, "mean": 1.0 / 3.0, "values": [1] } }],
        });
        let kept: Value = serde_json::from_str(&condensed(&report, &["a".to_owned()])).unwrap();
        let expected = json!({
            "title": "t", "host": { "engine": "virtual" }, "seed": 1,
            "findings": [{ "metric": "a", "sentence": "s" }],
            "cells": [{ "metric": "a", "variant": "v", "measured": { "n": 3, "mean": 0.3333333333 } }],
        });
        assert_eq!(kept, expected);
    }

    #[test]
    fn new_results_of_one_engine_leave_those_of_the_others() {
        let cell = |mean: u32, rerun: bool| {
            let rerun = if rerun { json!({ "measured": { "mean": 7 } }) } else { Value::Null };
            json!({ "at": { "loss": "0" }, "variant": "v", "metric": "m", "measured": { "mean": mean }, "rerun": rerun })
        };
        let report = |engine: &str, mean, reruns: &[&str]| {
            let cells = [cell(mean, !reruns.is_empty())];
            json!({ "host": { "engine": engine }, "reruns": reruns, "cells": cells })
        };
        let there = vec![report("kernel", 1, &["ns-2"]), report("virtual", 2, &["ns-2"]), report("ns2", 7, &[])];
        let all = merged(&[report("virtual", 3, &[])], there.clone());
        assert_eq!(all, [there[0].clone(), report("virtual", 3, &["ns-2"]), there[2].clone()]);
        assert_eq!(merged(&there, Vec::new()), there);
    }
}
