//! What the policy needs of registered names. A change of a name keeps the policy from changing meanwhile.

use std::time::Duration;

use anyhow::Result;

use super::generation;
use super::pins::PolicyPins;
use super::record::{GenerationRecord, PolicyRecord, TrialRecord};
use crate::state::{LockSubject, SharedLock, Store};
use shared::failure::Failure;

#[derive(Debug)]
pub struct PolicyNeeds {
    /// The generation that decides, and the one that decides again after the trial.
    generations: Vec<GenerationRecord>,
    /// A trial whose lease may be over.
    pub trial: Option<TrialRecord>,
    _steady: Option<SharedLock>,
}

impl PolicyNeeds {
    /// The policy may change at any moment.
    ///
    /// # Errors
    /// The record is damaged.
    pub fn now() -> Result<Self> {
        Ok(Self::of(PolicyRecord::read(&Store::of_host())?, None))
    }

    /// The policy stays as it is until the value is dropped.
    ///
    /// # Errors
    /// Another command keeps changing the policy; the record is damaged.
    pub(crate) fn steady() -> Result<Self> {
        Self::steady_within(LockSubject::Policy.patience())
    }

    pub(crate) fn steady_within(patience: Duration) -> Result<Self> {
        let store = Store::of_host();
        let lock = store.share_within(&LockSubject::Policy, patience)?;
        Ok(Self::of(PolicyRecord::read(&store)?, Some(lock)))
    }

    fn of(record: PolicyRecord, steady: Option<SharedLock>) -> Self {
        let pins = PolicyPins::of_host();
        let active = pins.as_ref().and_then(|pins| generation::active(pins, &record));
        let is_hidden = || {
            pins.as_ref().is_some_and(|pins| !pins.may_be_seen())
                || generation::decides_elsewhere(pins.as_ref(), &record).is_some()
        };
        // Without the right to see which one decides, each recorded generation may.
        let any = active.is_none() && is_hidden();
        let may_decide = |number: u32| any || active == Some(number);
        let trial =
            [&record.next_trial, &record.trial].into_iter().flatten().find(|trial| may_decide(trial.generation));
        let trial = trial.cloned();
        let waits = |number: u32| trial.as_ref().is_some_and(|trial| trial.previous == Some(number));
        let is_needed = |it: &GenerationRecord| may_decide(it.number) || waits(it.number);
        PolicyNeeds { generations: record.generations.into_iter().filter(is_needed).collect(), trial, _steady: steady }
    }

    /// The first rule that gives the name to connections, now or after the trial.
    pub fn rule_giving(&self, name: &str) -> Option<&str> {
        self.rule_where(name, |_| true)
    }

    fn rule_where(&self, name: &str, is_meant: impl Fn(&GenerationRecord) -> bool) -> Option<&str> {
        let mut rules = self.generations.iter().filter(|it| is_meant(it)).flat_map(|it| &it.policy.rules);
        let gives = rules.find(|rule| rule.split.arms.iter().any(|arm| arm.treatment.algorithm() == Some(name)));
        gives.map(|rule| rule.name.as_str())
    }

    /// The trial for which the name was loaded. It ends when the name is unloaded.
    pub fn trial_of(&self, name: &str) -> Option<&TrialRecord> {
        self.trial.as_ref().filter(|trial| trial.loaded.iter().any(|other| other == name))
    }

    /// # Errors
    /// A rule gives the name to connections, now or after the trial. A trial for which the name was loaded may.
    pub fn refuse_loss(&self, name: &str) -> Result<(), Failure> {
        let own = self.trial_of(name).map(|trial| trial.generation);
        let Some(rule) = self.rule_where(name, |it| Some(it.number) != own) else { return Ok(()) };
        let what = format!("cannot unload \"{name}\": rule \"{rule}\" of the policy gives it to connections");
        Err(Failure::failed(what).hint("`tccc policy remove`, or apply a policy without that rule, then unload it"))
    }

    /// # Errors
    /// A trial is running. It would compare other code than before.
    pub fn refuse_new_code(&self) -> Result<(), Failure> {
        generation::refuse_during_trial(self.trial.as_ref())
    }
}
