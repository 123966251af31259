//! What a person changes in a trial that goes on: pause, resume, and the next step at once.

use anyhow::{Context, Result, bail, ensure};

use super::turn::Turn;
use super::{advance, end, progress, standing};
use crate::failure::Failure;
use crate::kernel::clock;
use crate::policy::record::{GenerationRecord, PolicyRecord, RuleProgress, RuleState, TrialRecord};
use crate::policy::rule::Portion;
use crate::state::Store;

/// Stops the steps, or lets them go on.
///
/// Errors: nothing is on trial; it has no steps; the record cannot be written.
pub fn set_paused(paused: bool) -> Result<()> {
    let (turn, trial, generation) = going_on()?;
    let has_steps =
        generation.policy.rules.iter().any(|rule| rule.trial.as_ref().is_some_and(|it| !it.steps.is_empty()));
    if !has_steps {
        bail!(Failure::failed("the trial has no steps that could be paused").hint("`tccc status` shows it"));
    }
    if advance::set_paused(&turn, &trial, paused)? { Ok(()) } else { Err(nothing().into()) }
}

/// Goes to the next step of a rule, or of every rule; returns the new shares, none for a rule that has passed.
///
/// Errors: nothing is on trial; no such rule is; the kernel refuses the generation.
/// Side effects: those of another generation; the end of the trial where every rule has passed.
pub fn promote(rule: Option<&str>) -> Result<Vec<(String, Option<Portion>)>> {
    let (turn, trial, generation) = going_on()?;
    let mut rules = trial.rules.clone();
    let wanted = rules.iter_mut().filter(|it| rule.is_none_or(|rule| rule == it.rule) && it.state != RuleState::Passed);
    let promoted = wanted.map(|progress| advance_one(progress, &generation)).collect::<Result<Vec<_>>>()?;
    if promoted.is_empty() {
        let what =
            rule.map_or("no rule waits for another step".to_owned(), |rule| format!("no rule \"{rule}\" is on trial"));
        return Err(Failure::failed(what).hint("`tccc status` shows the rules on trial").into());
    }
    let has_passed = rules.iter().all(|progress| progress.state == RuleState::Passed);
    let is_step = promoted.iter().any(|(_, portion)| portion.is_some());
    ensure!(advance::change_progress(&turn, &trial, rules, is_step)?, nothing());
    drop(turn);
    if has_passed && trial.deadline_ns.is_none() {
        end::keep_where(|now| now.began_ns == trial.began_ns, "a person promoted it")?;
    }
    Ok(promoted)
}

/// The next step of a rule, with its share; none where the rule has passed.
fn advance_one(progress: &mut RuleProgress, generation: &GenerationRecord) -> Result<(String, Option<Portion>)> {
    let rule = generation.policy.rules.iter().find(|rule| rule.name == progress.rule);
    let rule = rule.with_context(|| format!("find the rule \"{}\"", progress.rule))?;
    progress.state = RuleState::Judged;
    let rises = progress::advance(progress, rule, clock::boottime_ns()?);
    let step = rule.trial.as_ref().and_then(|trial| trial.steps.get(progress.step));
    Ok((progress.rule.clone(), step.map(|step| step.portion).filter(|_| rises)))
}

/// The right to change the trial that goes on, with its generation.
fn going_on() -> Result<(Turn, TrialRecord, GenerationRecord)> {
    end::sweep()?;
    let turn = Turn::take()?;
    let trial = standing::current()?.ok_or_else(nothing)?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let generation = record.generation(trial.generation).cloned().context("find the generation on trial")?;
    Ok((turn, trial, generation))
}

fn nothing() -> Failure {
    Failure::failed("nothing is on trial").hint("`tccc status` shows what is loaded")
}
