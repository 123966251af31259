//! What the guard has shown about each limit when a trial ends.

use super::judge::{self, LimitJudgement, LimitState, RuleJudgement};
use super::view;
use crate::policy::ending::{LimitAtEnd, Shown};
use crate::policy::record::{PolicyRecord, RuleProgress, TrialRecord};
use crate::policy::rule::{Policy, Rule, Treatment};
use crate::state::Store;

const NO_LOOK: &str = "the guard has not looked since the latest step began";
const NEITHER: &str = "the data show neither harm nor its absence";

/// Shape: each limit of each rule on trial, for each arm that got an algorithm.
pub(super) fn limits(trial: &TrialRecord, policy: &Policy, judgements: &[RuleJudgement]) -> Vec<LimitAtEnd> {
    let of_rule = |rule: &Rule| -> Vec<LimitAtEnd> {
        let progress = trial.rules.iter().find(|progress| progress.rule == rule.name);
        let judgement = judgements.iter().find(|judgement| judgement.rule == rule.name);
        let seen = judgement.map_or_else(|| unseen(rule), |judgement| judgement.limits.clone());
        seen.iter().map(|limit| at_end(rule, limit, progress)).collect()
    };
    policy.on_trial().flat_map(of_rule).collect()
}

/// Like [`limits`], by the guard's latest look, which it wrote to a file.
pub(super) fn by_latest_look(trial: &TrialRecord) -> Vec<LimitAtEnd> {
    let store = Store::of_host();
    let record = PolicyRecord::read(&store).unwrap_or_default();
    let Some(generation) = record.generation(trial.generation) else { return Vec::new() };
    limits(trial, &generation.policy, &latest_look(trial))
}

/// Empty if the guard has not looked since the latest step began.
pub(super) fn latest_look(trial: &TrialRecord) -> Vec<RuleJudgement> {
    let view = view::read(&Store::of_host()).filter(|view| view.generation == trial.generation);
    view.into_iter().flat_map(|view| view.rules).map(|rule| rule.judgement).collect()
}

fn unseen(rule: &Rule) -> Vec<LimitJudgement> {
    let limits = rule.trial.iter().flat_map(|trial| &trial.limits);
    let treated = || rule.split.arms.iter().filter(|arm| arm.treatment != Treatment::Keep);
    let of_limit = |limit| treated().map(move |arm| judge::blank(limit, arm));
    limits.flat_map(of_limit).map(|it| LimitJudgement { why_not: Some(NO_LOOK.to_owned()), ..it }).collect()
}

fn at_end(rule: &Rule, limit: &LimitJudgement, progress: Option<&RuleProgress>) -> LimitAtEnd {
    let shown = match limit.state {
        LimitState::Crossed => Shown::Crossed,
        _ if progress.is_some_and(|progress| limit.is_shown(progress)) => Shown::Held,
        LimitState::NotComparable => Shown::NoControl,
        LimitState::Safe | LimitState::Undecided => Shown::NeverDecided,
    };
    let why = limit.why_not.clone().or_else(|| Some(NEITHER.to_owned()));
    let why = why.filter(|_| matches!(shown, Shown::NeverDecided | Shown::NoControl));
    LimitAtEnd { rule: rule.name.clone(), limit: limit.limit.clone(), arm: limit.arm.clone(), shown, why }
}
