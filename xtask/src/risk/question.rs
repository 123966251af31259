//! A scenario of `scenarios/safety` as a template: the `[variant]` of its baseline is copied for every algorithm.

use fs_err as fs;

use anyhow::{Context, Result};

use super::table::MeasuredFigure;
use crate::process;

const FOLDER: &str = "scenarios/safety";

pub struct SafetyQuestion {
    pub id: String,
    pub baseline: String,
    /// The first of the scenario's metrics.
    pub metric: String,
    /// The scenario names its algorithms, because only those with a companion are concerned.
    pub is_for_companions: bool,
    text: String,
}

/// The questions, sorted by name.
pub fn all() -> Result<Vec<SafetyQuestion>> {
    let folder = process::workspace().join(FOLDER);
    let read = |id: String| {
        let text = fs::read_to_string(folder.join(format!("{id}.toml")))?;
        let lack = format!("{FOLDER}/{id}.toml lacks a baseline, its variant, or metrics");
        SafetyQuestion::read(id, text).context(lack)
    };
    process::names_in(&folder, ".toml").into_iter().map(read).collect()
}

impl SafetyQuestion {
    fn read(id: String, text: String) -> Option<SafetyQuestion> {
        let baseline = quoted(&text, "baseline = \"")?.to_owned();
        let metric = quoted(&text, "metrics = [\"")?.to_owned();
        text.find(&variant(&baseline))?;
        let is_for_companions = text.matches("\n[variant.").count() > 1;
        Some(SafetyQuestion { id, baseline, metric, is_for_companions, text })
    }

    /// The scenario with a variant for each algorithm; unchanged if it names its algorithms.
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

    /// How many times worse a figure is than the baseline's.
    pub fn harm(&self, figure: &MeasuredFigure) -> f64 {
        if self.metric == "goodput_bps" { 1.0 / figure.ratio } else { figure.ratio }
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
        let question = SafetyQuestion::read("one".into(), TEXT.into()).unwrap();
        assert_eq!((question.baseline.as_str(), question.metric.as_str()), ("reno", "goodput_bps"));
        let over = question.over(&["dtcp".into(), "reno".into()]);
        let block = |id: &str| format!("\n[variant.{id}]\nflows = [\"other\"]\n");
        assert_eq!(over, TEXT.replace(&block("reno"), &(block("reno") + &block("dtcp"))));
    }

    #[test]
    fn file_with_variants_of_its_own_is_taken_as_it_is() {
        let text = TEXT.replace("[report]", "[variant.mine]\nalgorithm = \"mine\"\n\n[report]");
        let question = SafetyQuestion::read("one".into(), text.clone()).unwrap();
        assert!(question.is_for_companions);
        assert_eq!(question.over(&["dtcp".into()]), text);
        assert!(SafetyQuestion::read("one".into(), "title = \"t\"\n".into()).is_none());
    }
}
