//! What an evaluation says of the risk of giving an algorithm to connections that did not choose it.

use shared::catalog::risk::{Finding, Findings, Level, RISK_SCHEMA};

use super::judge::Word;
use super::page::short;
use super::summary::{Evaluation, JudgedCriterion};

/// Decimals of a ratio: finer than any interval.
const DECIMALS: f64 = 1e4;

/// Of every criterion with an experiment. `code` is a digest of what was evaluated.
pub fn findings(evaluation: &Evaluation, code: Option<String>) -> Findings {
    let criteria = evaluation.criteria.iter().filter(|criterion| !criterion.questions.is_empty());
    let criteria = criteria.map(finding).collect();
    Findings { schema: RISK_SCHEMA, code, kernel: evaluation.kernel.clone(), criteria }
}

fn finding(criterion: &JudgedCriterion) -> Finding {
    let is_broken = criterion.properties.iter().any(|property| property.is_broken());
    let worst = criterion.worst.as_ref().filter(|_| !is_broken);
    let mildest = worst.and_then(|worst| worst.mildest());
    let level = match criterion.word {
        Word::Worse if is_broken || worst.is_some_and(|worst| worst.is_worse_twice) => Level::High,
        Word::Worse => Level::Medium,
        Word::CannotTell if mildest.is_some_and(|beside| beside.harm > 1.0) => Level::Medium,
        Word::CannotTell | Word::NoWorse | Word::Better | Word::DoesNotApply => Level::Low,
        Word::NotMeasured => Level::NotMeasured,
    };
    Finding {
        criterion: short(&criterion.name).to_owned(),
        verdict: criterion.word.to_string(),
        level,
        why: criterion.why.clone(),
        cell: worst.map_or_else(String::new, |worst| worst.name()),
        ratio: mildest.and_then(|beside| beside.ratio).map(rounded),
        ci95: mildest.and_then(|beside| beside.ci95).map(|ends| ends.map(rounded)),
        harm: mildest.map(|beside| beside.harm).filter(|harm| harm.is_finite()).map(rounded),
        n: worst.and_then(|worst| worst.measured.as_ref()).map_or(0, |measured| measured.n),
    }
}

fn rounded(number: f64) -> f64 {
    (number * DECIMALS).round() / DECIMALS
}
