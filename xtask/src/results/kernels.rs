//! The page that compares the kernels of virtual time: the results from the literature on the newer one beside the default.

use anyhow::Result;
use serde_json::Value;

use super::known::{expected, judged, scale};
use super::store::ScenarioSummary;
use super::summary::{latest, point, shown, told};
use crate::made::{self, GeneratedTable};

pub const TABLE: GeneratedTable =
    GeneratedTable { document: "scenarios/kernels.md", command: "cargo xtask results known --run newer" };

/// A count, and a row for each value that differs: its verdict does, or its means do.
///
/// `newer`: the report of a scenario on the newer kernel.
pub fn table(summaries: &[ScenarioSummary], newer: impl Fn(&str) -> Result<Option<Value>>) -> Result<Option<String>> {
    let (mut scenarios, mut values, mut rows, mut least) = (0, 0, Vec::new(), u64::MAX);
    let mut kernels = [String::new(), String::new()];
    for (name, reports) in summaries {
        let Some(report) = newer(name)? else { continue };
        let older = latest(reports);
        scenarios += 1;
        kernels = [older, &report].map(|report| told(&report["host"]["kernel"]));
        for cell in judged(&report) {
            let is_same =
                |other: &Value| ["metric", "variant", "over", "at"].iter().all(|field| other[field] == cell[field]);
            let Some(other) = judged(older).into_iter().find(is_same) else { continue };
            values += 1;
            least = least.min(cell["measured"]["n"].as_u64().unwrap_or_default());
            if cell["verdict"] != other["verdict"] || are_apart(&cell["measured"], &other["measured"]) {
                rows.push(row(name, &other, &cell));
            }
        }
    }
    if scenarios == 0 {
        return Ok(None);
    }
    let [older, newer] = kernels;
    let head = format!("result | of | at | expected | {older} | {newer} | verdicts");
    Ok(Some(format!(
        "{scenarios} scenarios, {values} values, n = {least} and more; {} values differ.\n\n{}",
        rows.len(),
        made::table(&head, rows)
    )))
}

/// Smaller differences are left out: intervals of runs without chance have no width.
const SHARE: f64 = 0.01;

/// Whether two means differ by more than their intervals and by more than [`SHARE`].
fn are_apart(one: &Value, other: &Value) -> bool {
    let [mean, other_mean] = [one, other].map(|measured| measured["mean"].as_f64().unwrap_or(f64::NAN));
    if (mean - other_mean).abs() <= SHARE * other_mean.abs() {
        return false;
    }
    let ends = |measured: &Value| [0, 1].map(|end: usize| measured["ci95"][end].as_f64().unwrap_or(f64::NAN));
    let ([low, high], [other_low, other_high]) = (ends(one), ends(other));
    low > other_high || high < other_low
}

fn row(name: &str, older: &Value, newer: &Value) -> String {
    let (scale, unit) = scale(older);
    let over = older["over"].as_str().map_or(String::new(), |baseline| format!(" over {baseline}"));
    let [variant, metric] = [&older["variant"], &older["metric"]].map(told);
    let verdicts = [older, newer].map(|cell| told(&cell["verdict"]));
    let verdicts =
        if verdicts[0] == verdicts[1] { verdicts[0].clone() } else { format!("**{}**", verdicts.join(", ")) };
    let [older_mean, newer_mean] = [older, newer].map(|cell| shown(&cell["measured"], scale));
    format!(
        "[{name}](known/{name}.toml) | {variant}{over}, `{metric}`{unit} | {} | {} | {older_mean} | {newer_mean} | {verdicts}",
        point(older),
        expected(older)
    )
}
