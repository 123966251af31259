//! The page that compares the kernels of virtual time: every result that both have.

use std::collections::BTreeMap;

use serde_json::Value;

use super::known::{self, expected, judged, scale};
use super::summary::{cells, point, shown, told};
use crate::made::{self, GeneratedTable};

pub const TABLE: GeneratedTable =
    GeneratedTable { document: "scenarios/kernels.md", command: "cargo xtask results --run older --run newer" };

/// The reports of a scenario on the older and the newer kernel.
pub struct OnBoth {
    pub paper: String,
    pub name: String,
    pub reports: [Value; 2],
}

/// A row for each folder, and a row for each value that differs: its verdict does, or among the known results its means do.
pub fn table(all: &[OnBoth]) -> String {
    let (mut rows, mut folders) = (Vec::new(), BTreeMap::<&str, [usize; 3]>::new());
    let mut kernels = [String::new(), String::new()];
    for OnBoth { paper, name, reports } in all {
        let [older, newer] = reports;
        kernels = [older, newer].map(|report| told(&report["host"]["kernel"]));
        let counts = folders.entry(paper).or_default();
        counts[0] += 1;
        for (old, new) in pairs(paper, older, newer) {
            counts[1] += 1;
            let is_judged_otherwise = old["verdict"] != new["verdict"];
            if is_judged_otherwise || are_apart(&old["measured"], &new["measured"]) {
                counts[2] += 1;
                let is_shown = is_judged_otherwise || paper == known::FOLDER;
                rows.extend(is_shown.then(|| row(paper, name, &old, &new)));
            }
        }
    }
    let counted = folders
        .iter()
        .map(|(paper, [scenarios, values, differ])| format!("[{paper}]({paper}) | {scenarios} | {values} | {differ}"));
    let counted = made::table("folder | scenarios: | values: | differ:", counted);
    let [older, newer] = kernels;
    let head = format!("result | of | at | expected | {older} | {newer} | verdicts");
    format!("{counted}\n\n{}", made::table(&head, rows))
}

/// The same cells of both reports: those with an expectation among the known results, else all.
fn pairs(paper: &str, older: &Value, newer: &Value) -> Vec<(Value, Value)> {
    let values = |report: &Value| match paper {
        known::FOLDER => judged(report),
        _ => cells(report).cloned().collect(),
    };
    let fields = ["metric", "variant", "over", "at"];
    let news = values(newer);
    let pair = |old: Value| {
        let new = news.iter().find(|new| fields.iter().all(|field| old[field] == new[field]))?;
        Some((old, new.clone()))
    };
    values(older).into_iter().filter_map(pair).collect()
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

fn row(paper: &str, name: &str, older: &Value, newer: &Value) -> String {
    let (scale, unit) = scale(older);
    let over = older["over"].as_str().map_or(String::new(), |baseline| format!(" over {baseline}"));
    let [variant, metric] = [&older["variant"], &older["metric"]].map(told);
    let verdicts = [older, newer].map(|cell| told(&cell["verdict"]));
    let verdicts =
        if verdicts[0] == verdicts[1] { verdicts[0].clone() } else { format!("**{}**", verdicts.join(", ")) };
    let [older_mean, newer_mean] = [older, newer].map(|cell| shown(&cell["measured"], scale));
    format!(
        "[{name}]({paper}/{name}.toml) | {variant}{over}, `{metric}`{unit} | {} | {} | {older_mean} | {newer_mean} | {verdicts}",
        point(older),
        if older["expected"].is_null() { "-".to_owned() } else { expected(older) }
    )
}
