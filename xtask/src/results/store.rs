//! The summaries in the tree, one JSON file per scenario: the parts of a report that documents show.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
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

pub fn write(paper: &str, name: &str, reports: &[Value]) -> Result<()> {
    let folder = folder(paper);
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let metrics = summary::metrics(reports);
    let reports: Vec<String> = reports.iter().map(|report| condensed(report, &metrics)).collect();
    let text = format!("{{\n\"schema\": {SCHEMA},\n\"reports\": [\n{}\n]\n}}\n", reports.join(",\n"));
    let file = folder.join(format!("{name}.json"));
    fs::write(&file, text).with_context(|| format!("write {}", file.display()))
}

/// The summaries of a paper sorted by name.
pub fn read(paper: &str) -> Result<Vec<ScenarioSummary>> {
    let Ok(entries) = fs::read_dir(folder(paper)) else { return Ok(Vec::new()) };
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let read = |file: &PathBuf| -> Result<ScenarioSummary> {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let document: Value = serde_json::from_str(&text).with_context(|| format!("read {}", file.display()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, document["reports"].as_array().cloned().unwrap_or_default()))
    };
    files.iter().map(read).collect()
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
    let measured = |cell: &Value| picked(&cell["measured"], &["n", "mean", "ci95"]);
    if !cell["measured"].is_null() {
        kept["measured"] = measured(cell);
    }
    if !cell["rerun"]["measured"].is_null() {
        kept["rerun"] = json!({ "measured": measured(&cell["rerun"]) });
    }
    if !cell["ratio_to_baseline"].is_null() {
        kept["ratio_to_baseline"] = picked(&cell["ratio_to_baseline"], &["published", "measured", "ci95", "pairs"]);
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
}
