//! An evaluation as data: each criterion with its word, its worst cell and all its cells.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures::QuestionFigures;
use super::judge::{self, Beside, Figures, JudgedCell, Word};
use super::questions::{NotMeasured, Question, section};
use crate::report::{CheckVerdict, ReportCheck};

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
    /// Its tunables that differ from the defaults, such as `hystart=2`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    pub baselines: Vec<String>,
    /// Sections of the criteria; empty for all.
    pub only: Vec<String>,
    /// Runs of each cell.
    pub runs: u32,
    /// Runs of the worst cell of each criterion, on fresh seeds.
    pub runs_again: u32,
    /// Baselines whose figures of the first measurement this program carries, at least for one question.
    pub shipped: Vec<String>,
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
    /// The worst cell of the first measurement, by fresh seeds if it was measured again. It decides.
    pub worst: Option<JudgedCell>,
    /// Whether it was measured again.
    pub is_repeated: bool,
    /// The worst cell on a real kernel, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witness: Option<Witness>,
    /// Cells that are worse in the first measurement, by Holm's procedure over the criterion.
    pub worse_cells: usize,
    pub cells: Vec<JudgedCell>,
    pub properties: Vec<JudgedProperty>,
    pub questions: Vec<String>,
}

/// The worst cell of a criterion on a real kernel.
#[derive(Debug, Clone, Serialize)]
pub struct Witness {
    pub cell: Option<JudgedCell>,
    /// Why that kernel cannot run it; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A property of a trace at one point of the sweep, for the candidate.
#[derive(Debug, Clone, Serialize)]
pub struct JudgedProperty {
    pub question: String,
    pub check: ReportCheck,
    /// Baselines for which it does not hold either.
    pub fails_for: Vec<String>,
    /// Baselines that were measured and do not break it.
    pub kept_by: Vec<String>,
}

/// What was measured for one question.
pub struct Measured<'q> {
    pub question: &'q Question,
    pub first: OfAlgorithms,
    /// The worst cell on fresh seeds, if it was measured again.
    pub again: Option<OfAlgorithms>,
    /// The candidate's checks.
    pub checks: Vec<ReportCheck>,
}

/// The figures of one question.
#[derive(Debug, Clone, Default)]
pub struct OfAlgorithms {
    /// `None` without a finished run.
    pub own: Option<QuestionFigures>,
    /// Shape: in the order of the baselines.
    pub others: Vec<(String, Option<QuestionFigures>)>,
}

impl Evaluation {
    /// The candidate, which has no number, then the baselines with theirs.
    pub fn algorithms(&self) -> Vec<(Option<usize>, String)> {
        let baselines = self.baselines.iter().enumerate().map(|(index, name)| (Some(index), name.clone()));
        std::iter::once((None, self.candidate.clone())).chain(baselines).collect()
    }

    /// Its name and settings: `bpf_cubic with hystart=2`.
    pub fn subject(&self) -> String {
        if self.settings.is_empty() {
            return self.candidate.clone();
        }
        format!("{} with {}", self.candidate, self.settings.join(", "))
    }
}

impl JudgedProperty {
    /// Whether the candidate breaks what a baseline keeps.
    pub fn is_broken(&self) -> bool {
        self.check.verdict == CheckVerdict::DoesNotHold && !self.kept_by.is_empty()
    }
}

impl Measured<'_> {
    fn cells(&self, figures: &OfAlgorithms) -> Vec<JudgedCell> {
        let Some(own) = &figures.own else { return Vec::new() };
        let of = self.question.others().join(" and ");
        let figures = Figures { question: self.question.name, of: &of, own, others: &figures.others };
        judge::cells(figures, &self.question.scenario.margins)
    }

    fn properties(&self) -> Vec<JudgedProperty> {
        let property = |check: &ReportCheck| {
            let mut check = check.clone();
            check.at.remove(&check.series);
            if check.has_nothing_to_judge() {
                check.verdict = CheckVerdict::NotJudged;
            }
            let is_broken = |figures: &QuestionFigures| {
                figures.broken.iter().any(|broken| broken.name == check.name && broken.at == check.at)
            };
            let others = self.first.others.iter();
            let measured = others.filter_map(|(name, figures)| Some((name.clone(), figures.as_ref()?)));
            let measured = measured.filter(|(_, figures)| !figures.is_empty());
            let (fails_for, kept_by): (Vec<_>, Vec<_>) = measured.partition(|(_, figures)| is_broken(figures));
            let names = |all: Vec<(String, &QuestionFigures)>| all.into_iter().map(|(name, _)| name).collect();
            let (fails_for, kept_by) = (names(fails_for), names(kept_by));
            JudgedProperty { question: self.question.name.to_owned(), fails_for, kept_by, check }
        };
        self.checks.iter().map(property).collect()
    }
}

/// Groups what was measured by criterion, sorted by section, and adds what has no experiment.
pub fn criteria(measured: &[Measured<'_>], others: Vec<NotMeasured>) -> Vec<JudgedCriterion> {
    let mut groups: BTreeMap<(Vec<u32>, &str), Vec<&Measured<'_>>> = BTreeMap::new();
    for one in measured {
        groups.entry((order(one.question.criterion()), one.question.criterion())).or_default().push(one);
    }
    let mut criteria: Vec<JudgedCriterion> =
        groups.into_iter().map(|((_, name), group)| criterion(name, &group)).collect();
    criteria.extend(others.into_iter().map(|NotMeasured { name, word, why }| JudgedCriterion {
        name,
        word,
        why,
        worst: None,
        is_repeated: false,
        witness: None,
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

fn criterion(name: &str, group: &[&Measured<'_>]) -> JudgedCriterion {
    let cells: Vec<JudgedCell> = group.iter().flat_map(|one| one.cells(&one.first)).collect();
    let properties: Vec<JudgedProperty> = group.iter().flat_map(|one| one.properties()).collect();
    let worst = judge::worst(&cells).cloned();
    let again = |worst: &JudgedCell| {
        let all = group.iter().flat_map(|one| one.again.iter().flat_map(|again| one.cells(again)));
        all.into_iter()
            .find(|cell| cell.question == worst.question && cell.metric == worst.metric && cell.at == worst.at)
            .filter(|cell| cell.word != Word::NotMeasured)
    };
    let repeated = worst.as_ref().and_then(again);
    let is_repeated = repeated.is_some();
    let decisive = repeated.or(worst);
    let broken = properties.iter().find(|property| property.is_broken());
    let (word, why) = match (broken, &decisive) {
        (Some(property), _) => (Word::Worse, format!("{}: {}", property.check.title(), property.check.reason)),
        (None, Some(cell)) => (cell.word, sentence(cell)),
        (None, None) if properties.iter().any(|property| property.check.verdict == CheckVerdict::Holds) => {
            (Word::NoWorse, "no property is broken that a baseline keeps".to_owned())
        }
        (None, None) => (Word::NotMeasured, "no run has what the question asks for".to_owned()),
    };
    JudgedCriterion {
        name: name.to_owned(),
        word,
        why,
        worse_cells: judge::worse_among(&cells).len(),
        worst: decisive,
        is_repeated,
        witness: None,
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
    let of = if cell.of.is_empty() { String::new() } else { format!(" of {}", cell.of) };
    format!("{}{of} is {ratio}; {limit}", cell.metric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::figures::{BrokenProperty, CellFigures};
    use crate::evaluation::questions;
    use crate::report::FirstBreak;
    use shared::model::run::At;

    const MARK: &str = "e18-step-mark";

    fn broken_check(time_s: Option<f64>) -> ReportCheck {
        let [run, flow] = ["r000", "data"].map(str::to_owned);
        ReportCheck {
            name: "A mark lowers the window".to_owned(),
            asks: String::new(),
            why: String::new(),
            at: At::from([("mark".to_owned(), "16pkts".to_owned()), ("variant".to_owned(), "mine".to_owned())]),
            series: "variant".to_owned(),
            verdict: CheckVerdict::DoesNotHold,
            runs: 3,
            broken_runs: 3,
            moments: 0,
            first: Some(FirstBreak { run, flow, time_s, value: None }),
            reason: "the window stays".to_owned(),
            advice: String::new(),
        }
    }

    fn figures(is_broken: bool) -> QuestionFigures {
        let [metric, name] = ["queue_mean_us", "A mark lowers the window"].map(str::to_owned);
        let at = At::from([("mark".to_owned(), "16pkts".to_owned())]);
        let broken = if is_broken { vec![BrokenProperty { name, at: at.clone() }] } else { Vec::new() };
        QuestionFigures {
            cells: vec![CellFigures { metric, at, values: vec![Some(1.0); 3] }],
            broken,
            ..QuestionFigures::default()
        }
    }

    /// The word of the criterion, with these figures of the baseline.
    fn word(check: ReportCheck, baseline: Option<QuestionFigures>) -> Word {
        let all = questions().unwrap();
        let question = all.iter().find(|question| question.name == MARK).unwrap();
        let first = OfAlgorithms { own: Some(figures(true)), others: vec![("reno".to_owned(), baseline)] };
        criteria(&[Measured { question, first, again: None, checks: vec![check] }], Vec::new())[0].word
    }

    #[test]
    fn property_counts_where_a_measured_baseline_keeps_it_and_something_was_judged() {
        let broken = || broken_check(Some(1.0));
        assert_eq!(word(broken(), Some(figures(false))), Word::Worse);
        assert_eq!(word(broken(), Some(figures(true))), Word::NoWorse, "the baseline breaks it too");
        assert_eq!(word(broken(), None), Word::NotMeasured, "nobody knows whether the baseline keeps it");
        assert_eq!(word(broken_check(None), Some(figures(false))), Word::NoWorse, "no mark came");
    }
}
