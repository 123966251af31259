//! What a person changes in a trial that goes on: pause, resume, and the next step at once.

use anyhow::{Context, Result};

use super::{end, guard, progress};
use crate::failure::Failure;
use crate::kernel::clock;
use crate::policy::record::{GenerationRecord, PolicyRecord, RuleState, TrialRecord};
use crate::policy::rule::Portion;
use crate::state::Store;

/// Stops the steps, or lets them go on.
///
/// Errors: nothing is on trial; it has no steps; the record cannot be written.
pub fn set_paused(paused: bool) -> Result<()> {
    let (_, generation) = going_on()?;
    let has_steps =
        generation.policy.rules.iter().any(|rule| rule.trial.as_ref().is_some_and(|it| !it.steps.is_empty()));
    if !has_steps {
        return Err(Failure::failed("the trial has no steps that could be paused")
            .hint("`tccc status` shows it")
            .into());
    }
    let store = Store::of_host();
    let locked = store.lock()?;
    let mut record = PolicyRecord::read(&store)?;
    record.trial.as_mut().context("find the trial that goes on")?.paused = paused;
    record.write(&locked)
}

/// Goes to the next step of a rule, or of every rule; returns the new shares, none for a rule that has passed.
///
/// Errors: nothing is on trial; no such rule is; the kernel refuses the generation.
/// Side effects: those of another generation; the end of the trial where every rule has passed.
pub fn promote(rule: Option<&str>) -> Result<Vec<(String, Option<Portion>)>> {
    let (trial, generation) = going_on()?;
    let now_ns = clock::boottime_ns()?;
    let mut rules = trial.rules.clone();
    let mut promoted = Vec::new();
    let mut is_step = false;
    let wanted = rules.iter_mut().filter(|it| rule.is_none_or(|rule| rule == it.rule) && it.state != RuleState::Passed);
    for progress in wanted {
        let of_policy = generation.policy.rules.iter().find(|rule| rule.name == progress.rule);
        let of_policy = of_policy.with_context(|| format!("find the rule \"{}\"", progress.rule))?;
        progress.state = RuleState::Judged;
        let rises = progress::advance(progress, of_policy, now_ns);
        let step = of_policy.trial.as_ref().and_then(|trial| trial.steps.get(progress.step));
        promoted.push((progress.rule.clone(), step.map(|step| step.portion).filter(|_| rises)));
        is_step |= rises;
    }
    if promoted.is_empty() {
        let what =
            rule.map_or("no rule waits for another step".to_owned(), |rule| format!("no rule \"{rule}\" is on trial"));
        return Err(Failure::failed(what).hint("`tccc status` shows the rules on trial").into());
    }
    let has_passed = rules.iter().all(|progress| progress.state == RuleState::Passed);
    guard::change_progress(&trial, &generation, rules, is_step)?;
    if has_passed && trial.deadline_ns.is_none() {
        end::keep(None, "a person promoted it")?;
    }
    Ok(promoted)
}

/// The trial that goes on, with its generation.
fn going_on() -> Result<(TrialRecord, GenerationRecord)> {
    super::sweep()?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let trial = record.trial.clone().or_else(|| record.next_trial.clone());
    let nothing = || Failure::failed("nothing is on trial").hint("`tccc status` shows what is loaded");
    let trial = trial.ok_or_else(nothing)?;
    let generation = record.generation(trial.generation).cloned().context("find the generation on trial")?;
    Ok((trial, generation))
}
