//! The measured figures: the file that the build embeds, and the table in documents.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use fs_err as fs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::question::SafetyQuestion;
use crate::made;
use crate::process;

const FILE: &str = "scenarios/safety/risk.json";
const SCHEMA: u64 = 1;
/// Decimals of a ratio: finer than any interval.
const DECIMALS: f64 = 1e4;

/// A ratio to the baseline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredFigure {
    pub question: String,
    /// The cell, such as `queue 1bdp`.
    pub at: String,
    pub ratio: f64,
    ci95: Option<[f64; 2]>,
    n: u64,
    engine: String,
}

#[derive(Deserialize)]
pub struct MeasuredRisk {
    pub code: Option<String>,
    /// Sorted by question.
    pub figures: Vec<MeasuredFigure>,
}

#[derive(Deserialize)]
pub struct RiskTable {
    pub algorithms: BTreeMap<String, MeasuredRisk>,
}

impl MeasuredFigure {
    /// Reads a cell of a report; `None` for the baseline's cell or without a ratio.
    pub fn read(question: &SafetyQuestion, engine: &str, cell: &Value) -> Option<(String, MeasuredFigure)> {
        let id = cell["variant"].as_str().filter(|id| *id != question.baseline)?;
        let ratio = &cell["ratio_to_baseline"];
        let at = cell["at"].as_object().into_iter().flatten().filter(|(name, _)| *name != "variant");
        let at: Vec<String> =
            at.map(|(name, value)| format!("{name} {}", value.as_str().unwrap_or_default())).collect();
        let figure = MeasuredFigure {
            question: question.id.clone(),
            at: at.join(", "),
            ratio: rounded(ratio["measured"].as_f64()?),
            ci95: interval(&ratio["ci95"]),
            n: ratio["pairs"].as_u64()?,
            engine: engine.to_owned(),
        };
        Some((id.to_owned(), figure))
    }

    /// `0.27 (0.25 to 0.29, n = 30)`.
    pub fn shown(&self) -> String {
        let interval = self.ci95.map_or(String::new(), |[low, high]| format!("{low:.2} to {high:.2}, "));
        format!("{:.2} ({interval}n = {})", self.ratio, self.n)
    }
}

fn rounded(number: f64) -> f64 {
    (number * DECIMALS).round() / DECIMALS
}

fn interval(value: &Value) -> Option<[f64; 2]> {
    Some([rounded(value[0].as_f64()?), rounded(value[1].as_f64()?)])
}

impl RiskTable {
    pub fn read() -> Result<RiskTable> {
        let text = fs::read_to_string(process::workspace().join(FILE))?;
        serde_json::from_str(&text).with_context(|| format!("read {FILE}"))
    }

    pub fn write(&self) -> Result<()> {
        Ok(fs::write(process::workspace().join(FILE), self.text())?)
    }

    /// One figure a line, to keep diffs small.
    fn text(&self) -> String {
        let entries = self.algorithms.iter().map(|(id, entry)| {
            let figures: Vec<String> =
                entry.figures.iter().map(|figure| format!("        {}", json!(figure))).collect();
            let [id, code] = [json!(id), json!(entry.code)];
            format!(
                "    {id}: {{\n      \"code\": {code},\n      \"figures\": [\n{}\n      ]\n    }}",
                figures.join(",\n")
            )
        });
        let entries: Vec<String> = entries.collect();
        format!("{{\n  \"schema\": {SCHEMA},\n  \"algorithms\": {{\n{}\n  }}\n}}\n", entries.join(",\n"))
    }

    /// One row per algorithm, one column per question with its worst cell.
    pub fn markdown(&self, questions: &[SafetyQuestion]) -> String {
        let heads: String = questions.iter().map(|question| format!(" | {}:", question.id)).collect();
        let row = |(id, entry): (&String, &MeasuredRisk)| {
            let cells: Vec<String> = questions.iter().map(|question| worst(question, entry)).collect();
            format!("`{id}` | {}", cells.join(" | "))
        };
        made::table(&format!("algorithm{heads}"), self.algorithms.iter().map(row))
    }
}

fn worst(question: &SafetyQuestion, entry: &MeasuredRisk) -> String {
    let figures = entry.figures.iter().filter(|figure| figure.question == question.id);
    let worst = figures.max_by(|one, other| question.harm(one).total_cmp(&question.harm(other)));
    worst.map_or(String::new(), MeasuredFigure::shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_table_is_read_back() {
        let figure = MeasuredFigure {
            question: "one".into(),
            at: "queue 1bdp".into(),
            ratio: 0.5,
            ci95: Some([0.4, 0.6]),
            n: 3,
            engine: "virtual".into(),
        };
        let entry = MeasuredRisk {
            code: Some("ab".into()),
            figures: vec![figure.clone(), MeasuredFigure { ci95: None, ..figure }],
        };
        let table = RiskTable { algorithms: BTreeMap::from([("mine".to_owned(), entry)]) };
        let read: RiskTable = serde_json::from_str(&table.text()).unwrap();
        assert_eq!(read.algorithms["mine"].figures, table.algorithms["mine"].figures);
        assert_eq!(read.algorithms["mine"].code.as_deref(), Some("ab"));
    }
}
