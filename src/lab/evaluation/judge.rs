//! Words for the cells of a question: is the candidate worse than the baselines by more than a margin?
//!
//! Each run has its pair, the run of a baseline with the same seed. The margin gives what is allowed in each pair, and
//! Student's interval of the difference to it decides. That is the same as asking whether Fieller's interval of the ratio
//! lies beyond the margin. A cell is worse only if it is worse than every baseline.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::figures::{CellFigures, QuestionFigures};
use crate::report::{Measurement, interval, point_name};
use crate::scenario::reference::MarginSpec;
use shared::model::metrics::Metric;
use shared::model::run::At;
use shared::model::stats;

/// One-sided level of every word, as of a 95 % interval.
const LEVEL: f64 = 0.025;
/// Fewer pairs give no interval.
const FEWEST_PAIRS: usize = 3;

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase")]
pub enum Word {
    Worse,
    #[serde(alias = "cannot tell")]
    #[strum(serialize = "cannot tell")]
    CannotTell,
    #[serde(alias = "not measured")]
    #[strum(serialize = "not measured")]
    NotMeasured,
    #[serde(alias = "no worse")]
    #[strum(serialize = "no worse")]
    NoWorse,
    Better,
    #[serde(alias = "does not apply")]
    #[strum(serialize = "does not apply")]
    DoesNotApply,
}

/// The candidate beside one baseline in one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Beside {
    pub baseline: String,
    pub measured: Option<Measurement>,
    /// Candidate over baseline, with Fieller's interval.
    pub ratio: Option<f64>,
    pub ci95: Option<[f64; 2]>,
    pub word: Word,
    /// Of the hypothesis that it is no worse.
    pub p: Option<f64>,
    /// The harm as a multiple of what is allowed.
    #[serde(skip)]
    pub harm: f64,
}

/// One judged metric of the candidate at one point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JudgedCell {
    pub question: String,
    pub metric: String,
    /// The flows whose metric it is, if they are not the candidate's.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    pub unit: String,
    /// Sweep variable to value, without the variant.
    pub at: At,
    #[serde(skip)]
    pub margin: MarginSpec,
    /// Ratio to the baseline that is allowed.
    pub allowed: f64,
    pub measured: Option<Measurement>,
    /// Shape: in the order of the baselines.
    pub beside: Vec<Beside>,
    pub word: Word,
    /// Whether it is worse even if twice as much were allowed.
    #[serde(skip)]
    pub is_worse_twice: bool,
}

impl JudgedCell {
    /// The question and the point of its sweep.
    pub fn name(&self) -> String {
        let point = point_name(&self.at);
        if point.is_empty() { self.question.clone() } else { format!("{}, {point}", self.question) }
    }

    fn measured_beside(&self) -> impl Iterator<Item = &Beside> {
        self.beside.iter().filter(|beside| beside.word != Word::NotMeasured)
    }

    /// The baseline that makes least of the difference: with it the cell is the least bad.
    pub fn mildest(&self) -> Option<&Beside> {
        self.measured_beside().min_by(|one, other| one.harm.total_cmp(&other.harm))
    }

    /// The largest p of the measured baselines: a cell is worse only if it is worse than all.
    fn p(&self) -> f64 {
        self.measured_beside().map(|beside| beside.p.unwrap_or(1.0)).fold(0.0, f64::max)
    }

    /// How bad it is, for the choice of the worst: by its word, then by its harm.
    fn badness(&self) -> (Word, f64) {
        (self.word, -self.mildest().map_or(f64::NEG_INFINITY, |beside| beside.harm))
    }
}

/// The figures of one question: the candidate's, and those of each baseline that has any.
#[derive(Debug, Clone, Copy)]
pub struct Figures<'a> {
    pub question: &'a str,
    /// Names of the compared flows, if they are not the candidate's.
    pub of: &'a str,
    pub own: &'a QuestionFigures,
    pub others: &'a [(String, Option<QuestionFigures>)],
}

/// Every judged metric of the candidate, for each point of the sweep.
pub fn cells(figures: Figures<'_>, margins: &[MarginSpec]) -> Vec<JudgedCell> {
    let of_margin = |margin: &MarginSpec| {
        let own = figures.own.cells.iter().filter(|cell| cell.metric == margin.metric);
        own.map(|own| cell(figures, own, margin)).collect::<Vec<JudgedCell>>()
    };
    margins.iter().flat_map(of_margin).collect()
}

fn cell(figures: Figures<'_>, own: &CellFigures, margin: &MarginSpec) -> JudgedCell {
    let others = figures.others.iter().map(|(baseline, other)| {
        (baseline.as_str(), other.as_ref().and_then(|other| other.find(&margin.metric, &own.at)))
    });
    let beside: Vec<Beside> = others.clone().map(|(baseline, other)| beside(baseline, own, other, margin)).collect();
    let twice = twice(margin);
    let pairs = others.map(|(_, other)| other.map_or_else(Vec::new, |other| own.pairs(other)));
    let words_twice: Vec<Word> = pairs.map(|pairs| of_pairs("", &pairs, &twice).word).collect();
    let word = |words: &[Word]| together(words.iter().copied().filter(|word| *word != Word::NotMeasured));
    JudgedCell {
        question: figures.question.to_owned(),
        metric: margin.metric.clone(),
        of: figures.of.to_owned(),
        unit: Metric::find(&margin.metric).map_or_else(String::new, |metric| metric.unit.to_owned()),
        at: own.at.clone(),
        margin: margin.clone(),
        allowed: margin.at_most.or(margin.at_least).unwrap_or(1.0),
        measured: Measurement::of(own.known(), 0),
        word: word(&beside.iter().map(|one| one.word).collect::<Vec<Word>>()),
        is_worse_twice: word(&words_twice) == Word::Worse,
        beside,
    }
}

/// A margin that allows twice as much.
fn twice(margin: &MarginSpec) -> MarginSpec {
    MarginSpec {
        at_most: margin.at_most.map(|most| 2.0 * most),
        at_least: margin.at_least.map(|least| least / 2.0),
        negligible: margin.negligible.map(|negligible| 2.0 * negligible),
        ..margin.clone()
    }
}

/// Worse than every measured baseline, better than every one, or no worse than one of them.
fn together(words: impl Iterator<Item = Word> + Clone) -> Word {
    let all = |word: Word| words.clone().all(|one| one == word);
    if words.clone().next().is_none() || all(Word::NotMeasured) {
        return Word::NotMeasured;
    }
    if all(Word::Worse) || all(Word::Better) {
        return words.clone().next().unwrap_or(Word::NotMeasured);
    }
    let is_good = |word: Word| matches!(word, Word::NoWorse | Word::Better);
    if words.clone().any(is_good) { Word::NoWorse } else { Word::CannotTell }
}

fn beside(baseline: &str, own: &CellFigures, other: Option<&CellFigures>, margin: &MarginSpec) -> Beside {
    let pairs = other.map_or_else(Vec::new, |other| own.pairs(other));
    let measured = other.and_then(|other| Measurement::of(other.known(), 0));
    Beside { measured, ..of_pairs(baseline, &pairs, margin) }
}

/// Everything but the baseline's measurement.
fn of_pairs(baseline: &str, pairs: &[(f64, f64)], margin: &MarginSpec) -> Beside {
    let nothing = Beside {
        baseline: baseline.to_owned(),
        measured: None,
        ratio: None,
        ci95: None,
        word: Word::NotMeasured,
        p: None,
        harm: f64::NEG_INFINITY,
    };
    if pairs.is_empty() {
        return nothing;
    }
    let ratio = stats::paired_ratio(pairs);
    let (excess, gain): (Vec<f64>, Vec<f64>) = pairs.iter().map(|pair| differences(*pair, margin)).unzip();
    let p = p_above_zero(&excess);
    let word = match p {
        None => Word::CannotTell,
        Some(p) if p < LEVEL => Word::Worse,
        _ if is_below_zero(&gain) => Word::Better,
        _ if excess.iter().all(|one| *one <= 0.0) || is_below_zero(&excess) => Word::NoWorse,
        _ => Word::CannotTell,
    };
    Beside {
        ratio: ratio.map(|ratio| ratio.ratio),
        ci95: ratio.and_then(|ratio| ratio.ci95).map(interval::from_zero),
        word,
        p,
        harm: harm(pairs, margin),
        ..nothing
    }
}

/// What the candidate has beyond what is allowed, and beyond the baseline. Positive is bad.
fn differences((own, other): (f64, f64), margin: &MarginSpec) -> (f64, f64) {
    match (margin.at_most, margin.at_least) {
        (Some(most), _) => {
            let allowed = (most * other).max(margin.negligible.unwrap_or(0.0));
            (own - allowed, own - other)
        }
        (_, least) => (least.unwrap_or(1.0) * other - own, other - own),
    }
}

/// The mean as a multiple of what is allowed: 1 is at the margin.
fn harm(pairs: &[(f64, f64)], margin: &MarginSpec) -> f64 {
    let (own, other): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let (Some(own), Some(other)) = (stats::mean(&own), stats::mean(&other)) else { return f64::NEG_INFINITY };
    match (margin.at_most, margin.at_least) {
        (Some(most), _) => own / (most * other).max(margin.negligible.unwrap_or(0.0)).max(f64::MIN_POSITIVE),
        (_, least) => least.unwrap_or(1.0) * other / own.max(f64::MIN_POSITIVE),
    }
}

/// Student's one-sided p of a mean of at most 0.
///
/// None: fewer than [`FEWEST_PAIRS`] values.
fn p_above_zero(values: &[f64]) -> Option<f64> {
    let mean = stats::mean(values).filter(|_| values.len() >= FEWEST_PAIRS)?;
    let n = values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    if variance <= f64::EPSILON * mean * mean {
        return Some(if mean > 0.0 { 0.0 } else { 1.0 });
    }
    let t = StudentsT::new(0.0, 1.0, n - 1.0).ok()?;
    Some(1.0 - t.cdf(mean / (variance / n).sqrt()))
}

fn is_below_zero(values: &[f64]) -> bool {
    let opposite: Vec<f64> = values.iter().map(|value| -value).collect();
    p_above_zero(&opposite).is_some_and(|p| p < LEVEL)
}

/// The cells of a criterion that are worse although they are many, by Holm's procedure.
///
/// Source: S. Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6(2), 1979.
pub fn worse_among(cells: &[JudgedCell]) -> Vec<&JudgedCell> {
    let mut sorted: Vec<&JudgedCell> = cells.iter().filter(|cell| cell.word == Word::Worse).collect();
    sorted.sort_by(|one, other| one.p().total_cmp(&other.p()));
    let all = cells.len();
    let rejected =
        sorted.iter().enumerate().take_while(|(index, cell)| cell.p() < LEVEL / (all - index) as f64).count();
    sorted.truncate(rejected);
    sorted
}

/// The worst cell of a criterion.
pub fn worst(cells: &[JudgedCell]) -> Option<&JudgedCell> {
    let order = |one: &&JudgedCell, other: &&JudgedCell| {
        let ((word, harm), (other_word, other_harm)) = (one.badness(), other.badness());
        word.cmp(&other_word).then(harm.partial_cmp(&other_harm).unwrap_or(Ordering::Equal))
    };
    cells.iter().filter(|cell| cell.word != Word::NotMeasured).min_by(order)
}

#[cfg(test)]
#[path = "judge/tests.rs"]
mod tests;
