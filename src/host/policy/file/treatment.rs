//! Checks between the fields of a rule: what its connections get, and what makes it a trial.

use std::mem::discriminant;

use super::fields::{Arms, RuleFields, TrialTime};
use crate::policy::rule::{Allowed, Arm, GuardLimit, Portion, RuleTrial, Split, Treatment};
use crate::toml_reader::{Found, Result, Table, Value, each};

/// Checks which fields are in a rule. Values may be wrong.
pub(super) fn check_presence(rule: &Table<'_>) -> Found {
    let mut found = Found::default();
    let has_any = |keys: &[&str]| keys.iter().any(|key| rule.has(key)) || rule.misspells(keys);
    match (rule.get("use"), rule.get("split")) {
        (None, None) if !rule.misspells(&["use", "split"]) => {
            let hint = "`use = \"keep\"` leaves its connections as they are";
            found.add(rule.refuse("expected `use` or `split` in this rule").or_hint(hint));
        }
        (Some(_), Some(split)) => found.add(split.refuse("expected either `use` or `split`, not both")),
        _ => {}
    }
    if let Some(by) = rule.get("by").filter(|_| !has_any(&["split", "steps"])) {
        found.add(by.refuse("expected `split` or `steps` in the same rule"));
    }
    if let Some(steps) = rule.get("steps").filter(|_| rule.has("split") && !rule.has("use")) {
        found.add(steps.mistake("expected `use = ALGORITHM` in the same rule, not `split`"));
    }
    if !has_any(&["guard", "steps"]) {
        let own = ["deadline", "undecided", "on_fail"].into_iter().filter_map(|key| rule.get(key));
        own.for_each(|value| found.add(value.refuse("expected `guard` or `steps` in the same rule")));
    }
    if let Some(deadline) = rule.get("deadline").filter(|_| rule.has("steps")) {
        found.add(deadline.refuse("expected no deadline beside `steps`: the times of the steps are the deadline"));
    }
    found
}

/// The arms of `use` or `split`. With steps, the first step gives the share of `use`.
pub(super) fn split(rule: &Table<'_>, fields: &mut RuleFields) -> Result<Split> {
    let arms = match (fields.r#use.take(), fields.split.take()) {
        (None, Some(Arms(arms))) => arms,
        (Some(treatment), None) => match fields.steps.0.first() {
            None => vec![Arm { treatment, portion: Portion::ALL }],
            Some(_) if treatment == Treatment::Keep => {
                let expected = "expected an algorithm, because `steps` raises its share";
                return Err(rule.need("use")?.refuse(expected).into());
            }
            Some(step) => Arm::with_rest(treatment, step.portion),
        },
        _ => return Err(Found::default()), // a mistake of `check_presence`
    };
    Ok(Split { arms, by: fields.by })
}

/// `None` if the rule has neither `guard` nor `steps`.
pub(super) fn trial(rule: &Table<'_>, fields: RuleFields, split: &Split) -> Result<Option<RuleTrial>> {
    let RuleFields { guard, deadline, undecided, on_fail, steps, .. } = fields;
    if !rule.has("guard") && !rule.has("steps") {
        return Ok(None);
    }
    check_limits(rule, &guard.0, split)?;
    let deadline = deadline.map(|TrialTime(time)| time);
    Ok(Some(RuleTrial { limits: guard.0, deadline, undecided, on_fail, steps: steps.0 }))
}

fn check_limits(rule: &Table<'_>, limits: &[GuardLimit], split: &Split) -> Result<()> {
    let Some(guard) = rule.get("guard") else { return Ok(()) };
    if split.arms.iter().all(|arm| arm.treatment == Treatment::Keep) {
        let expected = "expected no guard, because the rule keeps all its connections as they are";
        return Err(guard.refuse(expected).into());
    }
    let is_control = |arm: &Arm| arm.treatment == Treatment::Keep && arm.portion > Portion(0);
    let keeps_some = split.arms.iter().any(is_control);
    let check = |(index, item): (usize, Value<'_>)| {
        let (limit, before) = (&limits[index], &limits[..index]);
        let is_same = |other: &&GuardLimit| {
            other.metric == limit.metric && discriminant(&other.allowed) == discriminant(&limit.allowed)
        };
        if let Some(other) = before.iter().find(is_same) {
            let expected = format!("the guard has \"{other}\" already, a limit of the same kind");
            return Err(item.refuse(expected).into());
        }
        if matches!(limit.allowed, Allowed::Relative(_)) && !keeps_some {
            let expected = "nothing is left unchanged to compare with: use `split` with keep, or `steps`";
            return Err(item.refuse(expected).or_hint("an absolute limit needs no comparison").into());
        }
        Ok(())
    };
    each(guard.items().into_iter().enumerate(), check).map(drop)
}
