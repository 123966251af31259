//! What an algorithm did in each question, as values of runs.
//!
//! An evaluation compares such figures. They come from its own runs, or from `scenarios/evaluate/figures`, which this
//! program carries: virtual time gives the same values on every machine, so only what changed is measured again.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::questions::Question;
use crate::report::{CheckVerdict, Report, ReportCheck};
use crate::scenario::Scenario;
use crate::virtual_time::recipe::Recipe;
use shared::catalog::source::{code_digest, laboratory_digest};
use shared::model::run::At;

/// The form of a file of figures.
pub const FIGURES_SCHEMA: u32 = 1;
/// Name of a file of figures and its text.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/figures.rs"));
/// A digest is cut to this many digits.
const DIGITS: usize = 16;

/// All figures of one algorithm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AlgorithmFigures {
    /// [`FIGURES_SCHEMA`].
    pub schema: u32,
    pub algorithm: String,
    /// `uname -r` of the guest.
    pub kernel: String,
    /// Runs of each cell.
    pub runs: u32,
    pub questions: BTreeMap<String, QuestionFigures>,
}

/// The figures of one algorithm in one question.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionFigures {
    /// [`origin`] of the values.
    pub origin: String,
    pub cells: Vec<CellFigures>,
    /// Properties of traces that do not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<BrokenProperty>,
}

/// One metric at one point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellFigures {
    pub metric: String,
    /// Sweep variable to value, without the variant.
    pub at: At,
    /// Shape: by the number of the run; `None` for a run without a value. Rounded to six digits.
    pub values: Vec<Option<f64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BrokenProperty {
    pub name: String,
    /// Sweep variable to value, without the variant.
    pub at: At,
}

/// A digest of what decides the values of an algorithm in a question: its code, the path and load, the seed, the guest's
/// kernel and the C of the laboratory. Texts for the reader do not count, and neither does the code of the metrics.
///
/// None: a file of the user's own, whose figures nobody ships.
///
/// # Errors
/// None for a question of the tree.
pub fn origin(question: &Question, algorithm: &str, seed: u64) -> Result<Option<String>> {
    let code = match code_digest(algorithm) {
        Some(code) => code,
        None if algorithm.contains('.') => return Ok(None),
        None => "of the kernel".to_owned(),
    };
    let Scenario { kernel, profile, .. } = question.scenario;
    let kernel = kernel.unwrap_or(profile.kernel());
    let recipe = Recipe::find(kernel.series()).context("find the recipe of a guest")?.digest();
    let text = question.over(&[algorithm])?;
    let is_read_by_people = |block: &str| block.starts_with("[[margin]]") || block.starts_with("[[figure]]");
    let blocks = text.split("\n\n").filter(|block| !is_read_by_people(block));
    let is_comment =
        |line: &str| ["#", "title = ", "claim = ", "why = ", "criterion = "].iter().any(|it| line.starts_with(it));
    let lines = blocks.flat_map(str::lines).filter(|line| !is_comment(line));
    let parts = [code, seed.to_string(), recipe, laboratory_digest().to_owned()];
    let all = parts.iter().map(String::as_str).chain(lines);
    let digest = all.fold(Sha256::new(), |digest, part| digest.chain_update(part).chain_update([0]));
    Ok(Some(hex::encode(digest.finalize())[..DIGITS].to_owned()))
}

/// The figures that this program carries, by algorithm. A test reads every file.
static SHIPPED: LazyLock<BTreeMap<&str, AlgorithmFigures>> = LazyLock::new(|| {
    let read = |(name, text): &(&'static str, &str)| Some((*name, serde_json::from_str(text).ok()?));
    FILES.iter().filter_map(read).collect()
});

/// The shipped figures of an algorithm in a question, if this program would measure the same. Shape: of this many runs.
///
/// # Errors
/// As [`origin`].
pub fn shipped_in(question: &Question, algorithm: &str, seed: u64, runs: u32) -> Result<Option<QuestionFigures>> {
    let Some(all) = SHIPPED.get(algorithm).filter(|all| all.runs >= runs) else { return Ok(None) };
    let Some(figures) = all.questions.get(question.name) else { return Ok(None) };
    let is_same = origin(question, algorithm, seed)?.is_some_and(|origin| origin == figures.origin);
    let has = |metric: &str| figures.cells.iter().any(|cell| cell.metric == metric);
    let is_whole = question.scenario.margins.iter().all(|margin| has(&margin.metric));
    Ok((is_same && is_whole).then(|| figures.clone().first(runs)))
}

impl QuestionFigures {
    /// The judged metrics of one variant of a report.
    pub fn of(report: &Report, variant: &str, question: &Question, origin: String) -> QuestionFigures {
        let is_judged = |metric: &str| question.scenario.margins.iter().any(|margin| margin.metric == metric);
        let own = report.cells.iter().filter(|cell| cell.variant == variant && is_judged(&cell.metric));
        let cells = own.filter_map(|cell| {
            let measured = cell.measured.as_ref()?;
            let last = measured.repeats.iter().max().map_or(0, |last| *last as usize + 1);
            let mut values = vec![None; last];
            for (repeat, value) in measured.repeats.iter().zip(&measured.values) {
                values[*repeat as usize] = Some(six_digits(*value));
            }
            Some(CellFigures { metric: cell.metric.clone(), at: cell.point(), values })
        });
        let is_broken =
            |check: &&ReportCheck| check.verdict == CheckVerdict::DoesNotHold && !check.has_nothing_to_judge();
        let broken = report.checks.iter().filter(is_broken);
        let broken = broken.filter_map(|check| {
            let mut at = check.at.clone();
            let own = at.remove(&check.series)?;
            (own == variant).then(|| BrokenProperty { name: check.name.clone(), at })
        });
        QuestionFigures { origin, cells: cells.collect(), broken: broken.collect() }
    }

    /// The values of a metric at a point.
    pub fn find(&self, metric: &str, at: &At) -> Option<&CellFigures> {
        self.cells.iter().find(|cell| cell.metric == metric && cell.at == *at)
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.broken.is_empty()
    }

    /// Those of the first runs of each cell.
    pub fn first(mut self, runs: u32) -> QuestionFigures {
        self.cells.iter_mut().for_each(|cell| cell.values.truncate(runs as usize));
        self
    }
}

impl CellFigures {
    /// The values of the runs that have one.
    pub fn known(&self) -> Vec<f64> {
        self.values.iter().flatten().copied().collect()
    }

    /// The values of runs of the same number, and so of the same seed.
    pub fn pairs(&self, other: &CellFigures) -> Vec<(f64, f64)> {
        self.values.iter().zip(&other.values).filter_map(|(own, other)| own.zip(*other)).collect()
    }
}

impl AlgorithmFigures {
    /// As JSON, one cell on a line.
    ///
    /// # Errors
    /// None.
    pub fn written(&self) -> Result<String> {
        let AlgorithmFigures { schema, algorithm, kernel, runs, questions } = self;
        let mut text = format!(
            "{{\n  \"schema\": {schema},\n  \"algorithm\": {},\n  \"kernel\": {},\n  \"runs\": {runs},\n  \"questions\": {{",
            serde_json::to_string(algorithm)?,
            serde_json::to_string(kernel)?
        );
        for (index, (name, QuestionFigures { origin, cells, broken })) in questions.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            text += &format!("{comma}\n    {}: {{\"origin\": \"{origin}\", \"cells\": [", serde_json::to_string(name)?);
            let cells = cells.iter().map(serde_json::to_string).collect::<Result<Vec<String>, _>>()?;
            text += &cells.iter().map(|cell| format!("\n      {cell}")).collect::<Vec<String>>().join(",");
            let broken = if broken.is_empty() {
                String::new()
            } else {
                format!(", \"broken\": {}", serde_json::to_string(broken)?)
            };
            text += &format!("\n    ]{broken}}}");
        }
        Ok(text + "\n  }\n}\n")
    }
}

/// Rounded, so that shipped values are short and equal those of a run.
fn six_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::questions;

    #[test]
    fn origin_changes_with_what_decides_the_values() {
        let all = questions().unwrap();
        let question = all.iter().find(|question| question.name == "e04-high-loss").unwrap();
        let of = |question: &Question, algorithm: &str, seed: u64| origin(question, algorithm, seed).unwrap();
        let base = of(question, "reno", 1);
        assert!(base.is_some());
        assert_eq!(of(question, "mine.bpf.c", 1), None);
        let with = |from: &str, to: &str| {
            assert!(question.text.contains(from), "{from}");
            let text = Box::leak(question.text.replace(from, to).into_boxed_str());
            of(&Question { text, ..question.clone() }, "reno", 1)
        };
        assert_eq!(with("at_most = 2\n", "at_most = 3\n"), base, "a margin");
        assert_eq!(with("title = \"", "title = \"All: "), base, "a title");
        assert_ne!(with("duration = \"", "duration = \"1"), base, "the duration");
        let others = [of(question, "cubic", 1), of(question, "bpf_reno", 1), of(question, "reno", 2)];
        assert!(others.iter().all(|other| *other != base), "{others:?}");
    }

    #[test]
    fn figures_are_read_as_they_are_written() {
        let at = At::from([("queue".to_owned(), "1bdp".to_owned())]);
        let cell = CellFigures { metric: "goodput_bps".to_owned(), at: at.clone(), values: vec![Some(0.25), None] };
        let broken = vec![BrokenProperty { name: "x".to_owned(), at: at.clone() }];
        let question = QuestionFigures { origin: "0".to_owned(), cells: vec![cell.clone(), cell], broken };
        let questions = BTreeMap::from([("e01".to_owned(), question.clone()), ("e02".to_owned(), question)]);
        let figures = AlgorithmFigures {
            schema: FIGURES_SCHEMA,
            algorithm: "reno".to_owned(),
            kernel: "7.3".to_owned(),
            runs: 2,
            questions,
        };
        let text = figures.written().unwrap();
        assert_eq!(serde_json::from_str::<AlgorithmFigures>(&text).unwrap(), figures, "{text}");
        assert_eq!(text.lines().filter(|line| line.contains("goodput_bps")).count(), 4, "{text}");
    }

    #[test]
    fn shipped_figures_can_be_read_and_have_the_names_of_their_files() {
        for (name, text) in FILES {
            let figures: AlgorithmFigures = serde_json::from_str(text).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert_eq!((figures.algorithm.as_str(), figures.schema), (*name, FIGURES_SCHEMA));
        }
        assert_eq!(six_digits(1_234_567.891), 1_234_570.0);
        assert_eq!(six_digits(0.0), 0.0);
    }
}
