//! What happens next in a trial: it goes on, a share rises, or it ends. Pure: the guard looks, this decides.

use crate::policy::record::{RuleProgress, RuleState, TrialRecord};
use crate::policy::rule::{OnFail, Policy, Rule, RuleTrial, Undecided};
use crate::units::format_duration;

use super::judge::{LimitJudgement, LimitState, RuleJudgement};

/// Why a trial with a time limit of its own ends when that is over.
pub const TOO_LATE: &str = "nobody confirmed it in time";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextMove {
    Wait,
    /// Everything is as before; a limit was crossed where `is_incident`.
    Revert {
        why: String,
        is_incident: bool,
    },
    /// The rules' progress changes; with another share where `is_step`.
    Change {
        rules: Vec<RuleProgress>,
        /// A share rises: another generation has to decide.
        is_step: bool,
        /// A limit was crossed, and the rule says `freeze`.
        is_incident: bool,
        why: String,
    },
    Conclude {
        why: String,
    },
}

/// Decides by the latest look.
///
/// A crossed limit counts in every state: while a person has paused the steps, while a step waits until the guard can tell,
/// and at the moment of the last promotion. While a person has paused the steps, the time of a step does nothing.
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
        let Some(rule) = policy.rules.iter().find(|rule| rule.name == progress.rule) else { continue };
        let judgement = judgements.iter().find(|judgement| judgement.rule == rule.name);
        if trial.paused && rule.trial.as_ref().is_some_and(|trial| !trial.steps.is_empty()) {
            continue;
        }
        match due(rule, progress, judgement, now_ns) {
            Due::Later => {}
            Due::Revert(why) => return NextMove::Revert { why, is_incident: false },
            Due::Pass(why) => {
                is_step |= advance(progress, rule, now_ns);
                reasons.push(why);
            }
        }
    }
    // A trial with a time limit of its own is kept by a person alone.
    let is_passed = !rules.is_empty() && rules.iter().all(|progress| progress.state == RuleState::Passed);
    let why = reasons.join("; ");
    match (reasons.is_empty(), is_passed && trial.deadline_ns.is_none()) {
        (_, true) => NextMove::Conclude { why: if why.is_empty() { "every rule has passed".to_owned() } else { why } },
        (true, false) => NextMove::Wait,
        (false, false) => NextMove::Change { rules, is_step, is_incident: false, why },
    }
}

/// What follows from limits that are crossed, by rules that are not frozen already: one rule that reverts is enough.
fn crossed(trial: &TrialRecord, policy: &Policy, judgements: &[RuleJudgement]) -> Option<NextMove> {
    let mut rules = trial.rules.clone();
    let mut frozen = None;
    for judgement in judgements {
        let Some(limit) = judgement.limits.iter().find(|limit| limit.state == LimitState::Crossed) else { continue };
        let Some(progress) = rules.iter_mut().find(|it| it.rule == judgement.rule) else { continue };
        if progress.state == RuleState::Frozen {
            continue;
        }
        let rule = policy.rules.iter().find(|rule| rule.name == judgement.rule)?;
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
        (Some(ratio), _) => format!("{ratio:.2} times that of the connections that keep theirs"),
        (None, Some(value)) => format!("{value:.3}"),
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
    let Some(trial) = &rule.trial else { return Due::Later };
    let Some(duration) = trial.steps.get(progress.step).map(|step| step.duration).or(trial.deadline) else {
        return Due::Later;
    };
    if now_ns.saturating_sub(progress.since_ns) < duration.as_nanos() as u64 {
        return Due::Later;
    }
    let after = format!("rule \"{}\" after {}", rule.name, format_duration(duration));
    match (standing(trial, judgement), trial.undecided) {
        (Standing::Safe, _) => Due::Pass(format!("{after}: every limit is shown to hold")),
        (Standing::Undecided, Undecided::Proceed) => {
            Due::Pass(format!("{after}: nothing shows harm, and the rule says proceed"))
        }
        (Standing::Undecided | Standing::Broken, Undecided::Revert) => {
            Due::Revert(format!("{after}: it is not shown that every limit holds, and the rule says revert"))
        }
        // What a broken instrument does not show is no reason to go on.
        (Standing::Undecided, Undecided::Hold) | (Standing::Broken, _) => Due::Later,
    }
}

enum Standing {
    Safe,
    Undecided,
    Broken,
}

fn standing(trial: &RuleTrial, judgement: Option<&RuleJudgement>) -> Standing {
    match judgement {
        _ if trial.limits.is_empty() => Standing::Safe, // there is nothing that could be crossed
        Some(judgement) if judgement.is_broken => Standing::Broken,
        Some(judgement) if judgement.limits.iter().all(|limit| is_met(limit.state)) => Standing::Safe,
        _ => Standing::Undecided,
    }
}

/// At a step of 100 % a relative limit was shown to hold in the steps before.
fn is_met(state: LimitState) -> bool {
    matches!(state, LimitState::Safe | LimitState::NotComparable)
}

/// The next step of a rule, or its end; true when the share changes.
pub fn advance(progress: &mut RuleProgress, rule: &Rule, now_ns: u64) -> bool {
    let steps = rule.trial.as_ref().map_or(0, |trial| trial.steps.len());
    progress.since_ns = now_ns;
    if progress.step + 1 < steps {
        progress.step += 1;
        return true;
    }
    progress.state = RuleState::Passed;
    false
}

/// The policy with each rule's share as its progress says.
pub fn at_progress(policy: &Policy, rules: &[RuleProgress]) -> Policy {
    use crate::policy::rule::{Arm, Portion, Treatment};
    let mut policy = policy.clone();
    for rule in &mut policy.rules {
        let progress = rules.iter().find(|progress| progress.rule == rule.name);
        let step = progress.and_then(|progress| rule.trial.as_ref()?.steps.get(progress.step));
        let (Some(step), Some(first)) = (step, rule.split.arms.first().cloned()) else { continue };
        let rest = Portion(Portion::ALL.0 - step.portion.0);
        rule.split.arms = vec![Arm { portion: step.portion, ..first }];
        if rest.0 > 0 {
            rule.split.arms.push(Arm { treatment: Treatment::Keep, portion: rest });
        }
    }
    policy
}

#[cfg(test)]
mod tests;
