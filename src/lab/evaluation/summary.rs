//! An evaluation as data: each criterion with its word, its worst cell and all its cells.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judge::{self, Beside, JudgedCell, Word};
use super::questions::{NotMeasured, Question, section};
use crate::report::{CheckVerdict, Report, ReportCheck};
use crate::scenario::VARIANT;

/// The form of the JSON document.
pub const EVALUATION_SCHEMA: u32 = 1;

#[derive(Debug, Clone, Serialize)]
pub struct Evaluation {
    /// [`EVALUATION_SCHEMA`].
    pub schema: u32,
    /// As it was named: an id, or a file.
    pub candidate: String,
    /// Digest of its object.
    pub digest: Option<String>,
    pub baselines: Vec<String>,
    /// Sections of the criteria; empty for all.
    pub only: Vec<String>,
    /// Runs of each cell.
    pub runs: u32,
    /// Runs of the worst cell of each criterion, on fresh seeds.
    pub runs_again: u32,
    /// Seeds of the first measurement and of the repetition.
    pub seeds: [u64; 2],
    /// `uname -r` of the guest, and the tools with their digests.
    pub kernel: String,
    pub tools: BTreeMap<String, String>,
    /// Sorted by section.
    pub criteria: Vec<JudgedCriterion>,
}

#[derive(Debug, Clone, Serialize)]
pub struct JudgedCriterion {
    /// Such as `RFC 9743, 5.1.3: high loss`.
    pub name: String,
    pub word: Word,
    /// Reason of the word, as one sentence.
    pub why: String,
    /// The worst cell of the first measurement, measured again on fresh seeds. It decides.
    pub worst: Option<JudgedCell>,
    /// Cells that are worse in the first measurement, by Holm's procedure over the criterion.
    pub worse_cells: usize,
    pub cells: Vec<JudgedCell>,
    pub properties: Vec<JudgedProperty>,
    pub questions: Vec<String>,
}

/// A property of a trace at one point of the sweep, for the candidate.
#[derive(Debug, Clone, Serialize)]
pub struct JudgedProperty {
    pub question: String,
    pub check: ReportCheck,
    /// Baselines for which it does not hold either.
    pub fails_for: Vec<String>,
}

/// What was measured for one question.
pub struct Measured<'q> {
    pub question: &'q Question,
    /// `None` without a finished run.
    pub report: Option<Report>,
    /// The worst cell on fresh seeds, if it was measured again.
    pub again: Option<Report>,
}

impl JudgedProperty {
    /// Whether the candidate breaks what a baseline keeps.
    pub fn is_broken(&self, baselines: usize) -> bool {
        self.check.verdict == CheckVerdict::DoesNotHold && self.fails_for.len() < baselines
    }
}

impl Measured<'_> {
    fn cells(&self, report: Option<&Report>, candidate: &str, baselines: &[String]) -> Vec<JudgedCell> {
        let cells = |report| judge::cells(report, &self.question.scenario.margins, candidate, baselines);
        report.map(cells).unwrap_or_default()
    }

    fn properties(&self, candidate: &str, baselines: &[String]) -> Vec<JudgedProperty> {
        let variant = |check: &ReportCheck| check.at.get(VARIANT).cloned().unwrap_or_default();
        let is_same = |one: &ReportCheck, other: &ReportCheck| {
            let others = |check: &ReportCheck| {
                check.at.iter().filter(|(name, _)| *name != VARIANT).map(|(_, value)| value.clone()).collect::<Vec<_>>()
            };
            one.name == other.name && others(one) == others(other)
        };
        let all = || self.report.iter().flat_map(|report| &report.checks);
        let own = all().filter(|check| variant(check) == candidate);
        let property = |check: &ReportCheck| {
            let others = all().filter(|other| is_same(check, other));
            let failed = others.filter(|other| other.verdict == CheckVerdict::DoesNotHold).map(variant);
            JudgedProperty {
                question: self.question.name.to_owned(),
                check: check.clone(),
                fails_for: failed.filter(|name| baselines.contains(name)).collect(),
            }
        };
        own.map(property).collect()
    }
}

/// Groups what was measured by criterion, sorted by section, and adds what has no experiment.
pub fn criteria(
    measured: &[Measured<'_>],
    candidate: &str,
    baselines: &[String],
    others: Vec<NotMeasured>,
) -> Vec<JudgedCriterion> {
    let mut groups: BTreeMap<(Vec<u32>, &str), Vec<&Measured<'_>>> = BTreeMap::new();
    for one in measured {
        groups.entry((order(one.question.criterion()), one.question.criterion())).or_default().push(one);
    }
    let mut criteria: Vec<JudgedCriterion> =
        groups.into_iter().map(|((_, name), group)| criterion(name, &group, candidate, baselines)).collect();
    criteria.extend(others.into_iter().map(|NotMeasured { name, word, why }| JudgedCriterion {
        name,
        word,
        why,
        worst: None,
        worse_cells: 0,
        cells: Vec::new(),
        properties: Vec::new(),
        questions: Vec::new(),
    }));
    criteria.sort_by_key(|criterion| order(&criterion.name));
    criteria
}

/// `5.1.3` as numbers. What is not from RFC 9743 follows.
fn order(criterion: &str) -> Vec<u32> {
    let numbers = section(criterion).split('.').map(|part| part.parse().unwrap_or(u32::MAX));
    let document = u32::from(!criterion.starts_with("RFC 9743"));
    std::iter::once(document).chain(numbers).collect()
}

fn criterion(name: &str, group: &[&Measured<'_>], candidate: &str, baselines: &[String]) -> JudgedCriterion {
    let cells: Vec<JudgedCell> =
        group.iter().flat_map(|one| one.cells(one.report.as_ref(), candidate, baselines)).collect();
    let properties: Vec<JudgedProperty> = group.iter().flat_map(|one| one.properties(candidate, baselines)).collect();
    let worst = judge::worst(&cells).cloned();
    let again = |worst: &JudgedCell| {
        let all = group.iter().flat_map(|one| one.cells(one.again.as_ref(), candidate, baselines));
        all.into_iter()
            .find(|cell| cell.question == worst.question && cell.metric == worst.metric && cell.at == worst.at)
    };
    let decisive = worst.as_ref().map(|worst| again(worst).unwrap_or_else(|| worst.clone()));
    let broken = properties.iter().find(|property| property.is_broken(baselines.len()));
    let (word, why) = match (broken, &decisive) {
        (Some(property), _) => (Word::Worse, format!("{}: {}", property.check.title(), property.check.reason)),
        (None, Some(cell)) => (cell.word, sentence(cell)),
        (None, None) if properties.is_empty() => {
            (Word::NotMeasured, "no run has what the question asks for".to_owned())
        }
        (None, None) => (Word::NoWorse, "every property holds".to_owned()),
    };
    JudgedCriterion {
        name: name.to_owned(),
        word,
        why,
        worse_cells: judge::worse_among(&cells).len(),
        worst: decisive,
        cells,
        properties,
        questions: group.iter().map(|one| one.question.name.to_owned()).collect(),
    }
}

/// The deciding comparison.
fn sentence(cell: &JudgedCell) -> String {
    let ratio = |beside: &Beside| match (beside.ratio, beside.ci95) {
        (Some(ratio), Some([low, high])) => {
            format!("{ratio:.2} ({low:.2} to {high:.2}) times that of {}", beside.baseline)
        }
        (Some(ratio), None) => format!("{ratio:.2} times that of {}", beside.baseline),
        _ => format!("no ratio to {}, which has none", beside.baseline),
    };
    let is_most = cell.margin.at_most.is_some();
    let limit = format!("allowed is {} {}", if is_most { "at most" } else { "at least" }, cell.allowed);
    let ratio = cell.mildest().map_or("no baseline was measured".to_owned(), ratio);
    format!("{} is {ratio}; {limit}", cell.metric)
}
