//! A scenario of `scenarios/safety` as a template: its baseline's `[variant]` stands for every algorithm's.

use std::fs;

use anyhow::{Context, Result};

use super::table::Figure;
use crate::process;

const FOLDER: &str = "scenarios/safety";

/// One scenario of the folder.
pub struct Question {
    pub id: String,
    /// What the report compares with.
    pub baseline: String,
    /// The first of its metrics: the figure.
    pub metric: String,
    /// It names the algorithms itself, because it is about those with a companion alone.
    pub is_for_companions: bool,
    text: String,
}

/// The questions, by name.
///
/// Errors: a file cannot be read, or lacks baseline, metric or the baseline's variant.
pub fn all() -> Result<Vec<Question>> {
    let folder = process::workspace().join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| format!("list {FOLDER}"))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids: Vec<String> = names.filter_map(|name| Some(name.strip_suffix(".toml")?.to_owned())).collect();
    ids.sort();
    ids.into_iter()
        .map(|id| {
            let text = fs::read_to_string(folder.join(format!("{id}.toml"))).with_context(|| format!("read {id}"))?;
            Question::read(id.clone(), text)
                .with_context(|| format!("{FOLDER}/{id}.toml lacks a baseline, its variant, or metrics"))
        })
        .collect()
}

impl Question {
    fn read(id: String, text: String) -> Option<Question> {
        let baseline = quoted(&text, "baseline = \"")?.to_owned();
        let metric = quoted(&text, "metrics = [\"")?.to_owned();
        text.find(&variant(&baseline))?;
        let is_for_companions = text.matches("\n[variant.").count() > 1;
        Some(Question { id, baseline, metric, is_for_companions, text })
    }

    /// The scenario with a variant for each algorithm; as it is where it names them itself.
    pub fn over(&self, ids: &[String]) -> String {
        let begin = variant(&self.baseline);
        let Some((before, rest)) = self.text.split_once(&begin).filter(|_| !self.is_for_companions) else {
            return self.text.clone();
        };
        let (body, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
        let others = ids.iter().filter(|id| **id != self.baseline);
        let all: Vec<String> = std::iter::once(&self.baseline).chain(others).map(|id| variant(id) + body).collect();
        format!("{before}{}\n\n{after}", all.join("\n"))
    }

    /// Whether a larger ratio is the worse one.
    pub fn is_worse_when_larger(&self) -> bool {
        self.metric != "goodput_bps"
    }

    /// By how much a figure is worse than the baseline's.
    pub fn harm(&self, figure: &Figure) -> f64 {
        if self.is_worse_when_larger() { figure.ratio } else { 1.0 / figure.ratio }
    }
}

fn variant(id: &str) -> String {
    format!("\n[variant.{id}]\n")
}

fn quoted<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    text.split_once(&format!("\n{begin}"))?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\n\n[variant.reno]\nflows = [\"other\"]\n\n[[flow]]\nname = \"other\"\n\n[report]\n\
                        baseline = \"reno\"\nmetrics = [\"goodput_bps\", \"lost_pkts\"]\n";

    #[test]
    fn baselines_variant_stands_for_every_algorithms() {
        let question = Question::read("one".into(), TEXT.into()).unwrap();
        assert_eq!((question.baseline.as_str(), question.metric.as_str()), ("reno", "goodput_bps"));
        let over = question.over(&["dtcp".into(), "reno".into()]);
        let block = |id: &str| format!("\n[variant.{id}]\nflows = [\"other\"]\n");
        assert_eq!(over, TEXT.replace(&block("reno"), &(block("reno") + &block("dtcp"))));
    }

    #[test]
    fn file_with_variants_of_its_own_is_taken_as_it_is() {
        let text = TEXT.replace("[report]", "[variant.mine]\nalgorithm = \"mine\"\n\n[report]");
        let question = Question::read("one".into(), text.clone()).unwrap();
        assert!(question.is_for_companions);
        assert_eq!(question.over(&["dtcp".into()]), text);
        assert!(Question::read("one".into(), "title = \"t\"\n".into()).is_none());
    }
}
