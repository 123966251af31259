//! Decides from the guard's latest look whether a trial continues, a share rises, or the trial ends.

use std::collections::BTreeMap;

use crate::policy::record::{RuleProgress, RuleState, TrialRecord};
use crate::policy::rule::{Arm, OnFail, Policy, Rule, Undecided};
use shared::units::{format_duration, nanos};

use super::judge::{LimitJudgement, LimitState, RuleJudgement};

pub const TOO_LATE: &str = "nobody confirmed it in time";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextMove {
    Wait,
    /// `is_incident`: a limit was crossed.
    Revert {
        why: String,
        is_incident: bool,
    },
    /// Changes the rules' progress. `is_step`: a share rises, so a new generation has to decide. `is_incident`: a limit
    /// was crossed, and its rule says `freeze`.
    Change {
        rules: Vec<RuleProgress>,
        is_step: bool,
        is_incident: bool,
        why: String,
    },
    Conclude {
        why: String,
    },
}

/// Chooses what the guard does after its latest look.
///
/// A crossed limit counts in every state: while a person pauses the steps, while a step waits for more data, and at the
/// last promotion. While a person pauses the steps, their times have no effect.
pub fn next(trial: &TrialRecord, policy: &Policy, judgements: &[RuleJudgement], now_ns: u64) -> NextMove {
    if let Some(crossed) = crossed(trial, policy, judgements) {
        return crossed;
    }
    if trial.deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns) {
        return NextMove::Revert { why: TOO_LATE.to_owned(), is_incident: false };
    }
    let mut rules = trial.rules.clone();
    let mut reasons = Vec::new();
    let mut is_step = false;
    for progress in rules.iter_mut().filter(|progress| progress.state == RuleState::Judged) {
        let Some(rule) = policy.rule(&progress.rule) else { continue };
        let judgement = judgements.iter().find(|judgement| judgement.rule == rule.name);
        if trial.paused && !rule.steps().is_empty() {
            continue;
        }
        match due(rule, progress, judgement, now_ns) {
            Due::Later => {}
            Due::Revert(why) => return NextMove::Revert { why, is_incident: false },
            Due::Pass(why) => {
                is_step |= advance(progress, rule, judgement, now_ns);
                reasons.push(why);
            }
        }
    }
    // Only a person keeps a trial with a deadline.
    let is_passed = !rules.is_empty() && rules.iter().all(|progress| progress.state == RuleState::Passed);
    let why = reasons.join("; ");
    match (reasons.is_empty(), is_passed && trial.deadline_ns.is_none()) {
        (_, true) => NextMove::Conclude { why: if why.is_empty() { "every rule has passed".to_owned() } else { why } },
        (true, false) => NextMove::Wait,
        (false, false) => NextMove::Change { rules, is_step, is_incident: false, why },
    }
}

/// What follows from the crossed limits of rules that are not frozen yet. One rule that reverts is enough.
fn crossed(trial: &TrialRecord, policy: &Policy, judgements: &[RuleJudgement]) -> Option<NextMove> {
    let mut rules = trial.rules.clone();
    let mut frozen = None;
    for judgement in judgements {
        let Some(limit) = judgement.limits.iter().find(|limit| limit.state == LimitState::Crossed) else { continue };
        let Some(progress) = rules.iter_mut().find(|it| it.rule == judgement.rule) else { continue };
        if progress.state == RuleState::Frozen {
            continue;
        }
        let rule = policy.rule(&judgement.rule)?;
        let why = phrase(judgement, limit);
        if rule.trial.as_ref().is_none_or(|trial| trial.on_fail == OnFail::Revert) {
            return Some(NextMove::Revert { why, is_incident: true });
        }
        progress.state = RuleState::Frozen;
        frozen.get_or_insert(why);
    }
    frozen.map(|why| NextMove::Change { rules, is_step: false, is_incident: true, why })
}

fn phrase(judgement: &RuleJudgement, limit: &LimitJudgement) -> String {
    let measured = match (limit.ratio, limit.value) {
        (Some(ratio), _) => format!("{ratio:.2} times that of the unchanged connections"),
        (None, Some(value)) => format!("{value:.3} in the {}", limit.window()),
        (None, None) => "unknown".to_owned(),
    };
    let LimitJudgement { arm, limit, metric, .. } = limit;
    format!("rule \"{}\": \"{arm}\" crossed the limit {limit}: {metric} is {measured}", judgement.rule)
}

enum Due {
    Later,
    Pass(String),
    Revert(String),
}

fn due(rule: &Rule, progress: &RuleProgress, judgement: Option<&RuleJudgement>, now_ns: u64) -> Due {
    let (Some(trial), Some(duration)) = (&rule.trial, rule.duration_of(progress.step)) else { return Due::Later };
    if now_ns.saturating_sub(progress.since_ns) < nanos(duration) {
        return Due::Later;
    }
    let after = format!("rule \"{}\" after {}", rule.name, format_duration(duration));
    let is_broken = judgement.is_some_and(|judgement| judgement.is_broken);
    let all = |holds: &dyn Fn(&LimitJudgement) -> bool| judgement.is_some_and(|it| it.limits.iter().all(holds));
    match trial.undecided {
        _ if trial.limits.is_empty() => Due::Pass(format!("{after}: it has no limits")),
        _ if !is_broken && all(&|it| it.is_shown(progress)) => {
            Due::Pass(format!("{after}: every limit is shown to hold"))
        }
        // Only a person, or a rule that says proceed, takes a rule to this step before its limits are shown to hold.
        _ if !is_broken && all(&|it| !it.state.is_open()) => {
            Due::Pass(format!("{after}: nothing is left to compare with"))
        }
        Undecided::Revert => {
            Due::Revert(format!("{after}: it is not shown that every limit holds, and the rule says revert"))
        }
        Undecided::Proceed if !is_broken => {
            Due::Pass(format!("{after}: no limit was crossed, and the rule says proceed"))
        }
        // A broken measurement is no reason to proceed.
        Undecided::Proceed | Undecided::Hold => Due::Later,
    }
}

/// Takes the next step of a rule. Without one the rule has passed. Returns true if the share changes.
pub fn advance(progress: &mut RuleProgress, rule: &Rule, judgement: Option<&RuleJudgement>, now_ns: u64) -> bool {
    let limits = judgement.iter().flat_map(|judgement| &judgement.limits);
    progress.shown = limits.filter(|limit| limit.is_shown(progress)).map(LimitJudgement::key).collect();
    progress.since_ns = now_ns;
    if progress.step + 1 < rule.steps().len() {
        progress.step += 1;
        return true;
    }
    progress.state = RuleState::Passed;
    false
}

/// The policy with the share of each rule's current step.
pub fn at_progress(policy: &Policy, rules: &[RuleProgress]) -> Policy {
    at_steps(policy, |rule| Some(rules.iter().find(|progress| progress.rule == rule)?.step))
}

/// The permanent policy after a trial that ended at these steps of its rules.
pub fn concluded(policy: &Policy, steps: &BTreeMap<String, usize>) -> Policy {
    let mut policy = at_steps(policy, |rule| steps.get(rule).copied());
    policy.rules.iter_mut().for_each(|rule| rule.trial = None);
    policy
}

fn at_steps(policy: &Policy, step_of: impl Fn(&str) -> Option<usize>) -> Policy {
    let mut policy = policy.clone();
    for rule in &mut policy.rules {
        let portion = step_of(&rule.name).and_then(|step| rule.steps().get(step)).map(|step| step.portion);
        if let (Some(portion), Some(first)) = (portion, rule.split.arms.first()) {
            rule.split.arms = Arm::with_rest(first.treatment.clone(), portion);
        }
    }
    policy
}

#[cfg(test)]
mod tests;
