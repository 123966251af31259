//! Pauses and resumes the steps of a running trial, or takes the next step at once.

use anyhow::{Context, Result, bail, ensure};

use super::judge::RuleJudgement;
use super::{current, end, progress, shown, step};
use crate::policy::ending::TrialEnding;
use crate::policy::record::{GenerationRecord, PolicyRecord, RuleProgress, RuleState, TrialRecord};
use crate::policy::rule::Portion;
use crate::state::{Locked, Requester, Store};
use shared::failure::Failure;
use shared::kernel::clock;
use shared::kernel::probe::Features;

/// # Errors
/// Nothing is on trial; the trial has no steps; the record cannot be written.
pub fn set_paused(paused: bool) -> Result<()> {
    let (_lock, trial, generation) = running()?;
    if generation.policy.rules.iter().all(|rule| rule.steps().is_empty()) {
        bail!(Failure::failed("the trial has no steps that could be paused").hint("`tccc status` shows it"));
    }
    ensure!(current::note(&trial, |noted| noted.paused = paused)?, nothing());
    Ok(())
}

/// Takes the next step of a rule, or of every rule. Returns the new shares, `None` for a rule past its last step.
///
/// Side effects: those of a new generation; the trial ends after the last step of every rule.
///
/// # Errors
/// Nothing is on trial; the rule is not; the kernel refuses the generation.
pub fn promote(rule: Option<&str>) -> Result<Vec<(String, Option<Portion>)>> {
    let (lock, trial, generation) = running()?;
    let mut rules = trial.rules.clone();
    let wanted = rules.iter_mut().filter(|it| rule.is_none_or(|rule| rule == it.rule) && it.state != RuleState::Passed);
    let seen = shown::latest_look(&trial);
    let promoted = wanted.map(|progress| advance_one(progress, &generation, &seen)).collect::<Result<Vec<_>>>()?;
    if promoted.is_empty() {
        let what =
            rule.map_or("no rule waits for another step".to_owned(), |rule| format!("no rule \"{rule}\" is on trial"));
        return Err(Failure::failed(what).hint("`tccc status` shows the rules on trial").into());
    }
    let has_passed = rules.iter().all(|progress| progress.state == RuleState::Passed);
    let is_step = promoted.iter().any(|(_, portion)| portion.is_some());
    ensure!(step::change_progress(&lock, &trial, rules, is_step)?, nothing());
    drop(lock);
    if has_passed && trial.deadline_ns.is_none() {
        let ending = TrialEnding::kept("a person promoted it").by(Requester::command());
        end::keep_where(|now| now.began_ns == trial.began_ns, ending, &Features::probe()?)?;
    }
    Ok(promoted)
}

fn advance_one(
    progress: &mut RuleProgress,
    generation: &GenerationRecord,
    seen: &[RuleJudgement],
) -> Result<(String, Option<Portion>)> {
    let rule = generation.policy.rule(&progress.rule);
    let rule = rule.with_context(|| format!("find the rule \"{}\"", progress.rule))?;
    progress.state = RuleState::Judged;
    let judgement = seen.iter().find(|judgement| judgement.rule == rule.name);
    let rises = progress::advance(progress, rule, judgement, clock::boottime_ns()?);
    let step = rule.steps().get(progress.step).filter(|_| rises);
    Ok((progress.rule.clone(), step.map(|step| step.portion)))
}

/// Locks the running trial. Also returns its generation.
fn running() -> Result<(Locked, TrialRecord, GenerationRecord)> {
    end::sweep()?;
    let lock = current::lock()?;
    let trial = current::within_reach()?.ok_or_else(nothing)?;
    let record = PolicyRecord::read(&Store::of_host())?;
    let generation = record.generation(trial.generation).cloned().context("find the generation on trial")?;
    Ok((lock, trial, generation))
}

fn nothing() -> Failure {
    Failure::failed("nothing is on trial").hint("`tccc status` shows what is loaded")
}
