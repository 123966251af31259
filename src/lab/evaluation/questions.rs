//! The questions that the program carries: `scenarios/evaluate`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::judge::Word;
use crate::scenario::Scenario;

/// Name and text of every scenario, sorted by name.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/questions.rs"));
const NOT_MEASURED: &str = include_str!("not-measured.toml");
const VARIANT: &str = "[variant.";
/// The algorithm of a flow that runs the evaluated one.
const EVALUATED: &str = "$variant";

/// A scenario that answers a part of a criterion.
#[derive(Debug, Clone)]
pub struct Question {
    /// File stem: `e04-shallow-buffers`.
    pub name: &'static str,
    pub text: &'static str,
    pub scenario: Scenario,
}

/// A criterion that has no experiment.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NotMeasured {
    pub name: String,
    pub word: Word,
    pub why: String,
}

/// Which flows a scenario compares, and which algorithm each has.
#[derive(Deserialize)]
struct Flows {
    variant: BTreeMap<String, Compared>,
    flow: Vec<FlowAlgorithm>,
}

#[derive(Default, Deserialize)]
struct Compared {
    #[serde(default)]
    flows: Vec<String>,
}

#[derive(Deserialize)]
struct FlowAlgorithm {
    name: String,
    #[serde(default)]
    algorithm: String,
}

#[derive(Deserialize)]
struct NotMeasuredFile {
    criterion: Vec<NotMeasured>,
}

/// All questions, sorted by name.
///
/// # Errors
/// None: a test reads every file.
pub fn questions() -> Result<Vec<Question>> {
    let read = |(name, text): &(&'static str, &'static str)| {
        let scenario = Scenario::parse(&format!("{name}.toml"), text).with_context(|| format!("read {name}.toml"))?;
        Ok(Question { name, text, scenario })
    };
    FILES.iter().map(read).collect()
}

/// The criteria that no question answers.
///
/// # Errors
/// None: a test reads the file.
pub fn not_measured() -> Result<Vec<NotMeasured>> {
    Ok(toml::from_str::<NotMeasuredFile>(NOT_MEASURED).context("read not-measured.toml")?.criterion)
}

impl Question {
    /// Such as `RFC 9743, 5.1.3: high loss`.
    pub fn criterion(&self) -> &str {
        self.scenario.criterion.as_deref().unwrap_or_default()
    }

    /// The section of the criterion: `5.1.3`.
    pub fn section(&self) -> &str {
        section(self.criterion())
    }

    /// The compared flows that do not run the evaluated algorithm, such as `neighbour`.
    pub fn others(&self) -> Vec<String> {
        let read = toml::from_str::<Flows>(self.text).ok();
        let Some(Flows { variant, flow }) = read else { return Vec::new() };
        let compared = variant.into_values().next().unwrap_or_default().flows;
        let is_other = |name: &String| flow.iter().any(|flow| flow.name == *name && flow.algorithm != EVALUATED);
        compared.into_iter().filter(is_other).collect()
    }

    /// The scenario with one variant for each of these algorithms. The first is the baseline of its report.
    ///
    /// # Errors
    /// None for a file of the tree.
    pub fn over(&self, algorithms: &[&str]) -> Result<String> {
        let baseline = self.scenario.report.baseline.as_deref().context("find the baseline of a question")?;
        let (mut written, mut is_written) = (Vec::new(), false);
        let begin = format!("{VARIANT}{baseline}]\n");
        let body = self.text.split("\n\n").find_map(|block| block.strip_prefix(&begin)).context("find its variant")?;
        for block in self.text.split("\n\n") {
            match block.starts_with(VARIANT) {
                true if is_written => (),
                true => {
                    is_written = true;
                    written.extend(algorithms.iter().map(|name| format!("{VARIANT}{}]\n{body}", key(name))));
                }
                false => written.push(block.to_owned()),
            }
        }
        let [first, ..] = algorithms else { bail!("an evaluation has a baseline") };
        Ok(written.join("\n\n").replace(&format!("\nbaseline = \"{baseline}\""), &format!("\nbaseline = \"{first}\"")))
    }
}

/// The section of a criterion such as `RFC 9743, 5.1.3: high loss`; empty without one.
pub(super) fn section(criterion: &str) -> &str {
    let before = criterion.split(':').next().unwrap_or_default();
    before.rsplit(", ").next().unwrap_or_default()
}

/// The name of a variant as a key of TOML.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare { name.to_owned() } else { format!("\"{name}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::model::run::Engine;

    #[test]
    fn every_question_takes_any_algorithms_as_variants() {
        let (questions, folder) = (questions().unwrap(), tempfile::tempdir().unwrap());
        let file = folder.path().join("x.toml");
        std::fs::write(folder.path().join("mine.bpf.c"), "").unwrap();
        assert!(questions.len() >= 50, "{} questions", questions.len());
        for question in &questions {
            let name = question.name;
            assert!(
                !question.section().is_empty() && question.criterion().contains(": "),
                "{name}: {:?}",
                question.criterion()
            );
            assert!(!question.scenario.margins.is_empty() || !question.scenario.checks.is_empty(), "{name}: no margin");
            assert_eq!(question.over(&["cubic", "reno"]).unwrap().matches(VARIANT).count(), 2, "{name}");
            let text = question.over(&["reno", "dctcp", "mine.bpf.c"]).unwrap();
            std::fs::write(&file, text).unwrap();
            let scenario = Scenario::load(&file, Engine::Virtual).unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(scenario.values_of("variant"), ["reno", "dctcp", "mine.bpf.c"], "{name}");
            assert_eq!(scenario.report.baseline.as_deref(), Some("reno"), "{name}");
            let cells = |scenario: &Scenario, count: usize| scenario.cells.len() / count;
            assert_eq!(cells(&scenario, 3), cells(&question.scenario, 2), "{name}");
        }
    }

    #[test]
    fn figures_of_a_neighbour_are_told_from_those_of_the_algorithm() {
        let of = |name: &str| {
            questions().unwrap().iter().find(|question| question.name == name).map(|question| question.others())
        };
        assert_eq!(of("e10-beside-reno"), Some(vec!["neighbour".to_owned()]));
        assert_eq!(of("e06-newcomer"), Some(Vec::new()));
    }

    #[test]
    fn criteria_without_an_experiment_say_why() {
        for one in not_measured().unwrap() {
            assert!(matches!(one.word, Word::NotMeasured | Word::DoesNotApply), "{one:?}");
            assert!(one.why.len() > 20 && !section(&one.name).is_empty(), "{one:?}");
        }
    }
}
