//! Trials: a change that undoes itself unless somebody keeps it, or a guard shows that it does no harm.
//!
//! A trial is a generation of the policy that decides on a lease. The guard, a process of its own, renews the lease, measures
//! both arms of each rule, and ends the trial. When the guard dies, the lease ends, and the generation before decides again:
//! in the kernel, without anybody's help. What is left then is cleared by the next command, through [`sweep`].

pub mod arms;
pub mod end;
pub mod guard;
pub mod incident;
pub mod journal;
pub mod judge;
pub mod overlay;
pub mod progress;
pub mod steer;
pub mod upgrade;
pub mod view;

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::failure::Failure;
use crate::fault;
use crate::kernel::clock;
use crate::kernel::process::{self, Process};
use crate::policy::change::{self, Applied};
use crate::policy::generation::{NewTrial, Role};
use crate::policy::record::{PolicyRecord, RuleProgress, RuleState, TrialRecord, TrialSubject};
use crate::policy::rule::Policy;
use crate::state::Store;

/// How long the kernel lets a trial decide after the guard's latest sign of life.
pub const LEASE: Duration = Duration::from_secs(15);

/// What is to be tried, and for how long.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is on trial.
    pub subject: TrialSubject,
    /// The rules, those that the trial adds included.
    pub policy: Policy,
    /// When it ends unless a person keeps it; none: its rules say.
    pub patience: Option<Duration>,
    /// Move open connections too.
    pub live: bool,
    /// Algorithms that were loaded for it before, and go if it fails.
    pub loaded: Vec<String>,
}

/// The process that guards a trial: ended with this value unless it is released.
#[derive(Debug)]
struct GuardProcess {
    child: Option<Child>,
    process: Process,
}

impl GuardProcess {
    /// `command` is this program with the words that make it call [`guard::run`]; the number of the trial is added.
    fn start(command: &mut Command, began_ns: u64) -> Result<Self> {
        let child = process::spawn_detached(command.arg(began_ns.to_string())).context("start the trial's guard")?;
        let process = Process::of(child.id()).context("see the trial's guard in /proc")?;
        Ok(GuardProcess { child: Some(child), process })
    }
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Begins a trial. `guard` is this program with the words that make it call [`guard::run`].
///
/// Errors: another trial goes on; those of [`change::apply`].
/// Side effects: those of [`change::apply`], and a process that lives as long as the trial.
pub fn begin(plan: &Plan, file: Option<&Path>, guard: &mut Command) -> Result<Applied> {
    sweep()?;
    let began_ns = clock::boottime_ns()?;
    let deadline_ns = plan.patience.map(|patience| began_ns + patience.as_nanos() as u64);
    let lease = plan.patience.map_or(LEASE, |patience| patience.min(LEASE));
    let mut process = GuardProcess::start(guard, began_ns)?;
    fault::point("trial.guard");
    let trial = TrialRecord {
        subject: plan.subject.clone(),
        generation: 0,
        previous: None,
        began_ns,
        deadline_ns,
        lease_ns: lease.as_nanos() as u64,
        guard: process.process,
        live: plan.live,
        loaded: plan.loaded.clone(),
        paused: false,
        rules: progress_of(&plan.policy, began_ns),
    };
    let until_ns = clock::boottime_ns()? + trial.lease_ns;
    let applied = change::apply(&plan.policy, file, Role::Begins(NewTrial { trial, until_ns }), plan.live)?;
    fault::point("trial.begun");
    if !process.process.lives() {
        end::revert("the guard ended before the trial had begun")?;
        return Err(Failure::failed("the trial's guard ended at once: everything is as before")
            .hint("the kernel's log says why: `dmesg | grep tccc`")
            .into());
    }
    process.child = None; // dropping a child neither ends it nor waits for it
    Ok(applied)
}

fn progress_of(policy: &Policy, began_ns: u64) -> Vec<RuleProgress> {
    let tried = policy.rules.iter().filter(|rule| rule.trial.is_some());
    let progress = tried.map(|rule| RuleProgress {
        rule: rule.name.clone(),
        step: 0,
        since_ns: began_ns,
        state: RuleState::Judged,
    });
    progress.collect()
}

/// The trial that goes on, if any.
///
/// Errors: the record is damaged.
pub fn current() -> Result<Option<TrialRecord>> {
    let record = PolicyRecord::read(&Store::of_host())?;
    Ok(record.trial.or(record.next_trial))
}

/// Clears what a trial left whose guard is dead or was stopped past its lease: connections are decided as before already.
///
/// Errors: not permitted; the record is damaged.
pub fn sweep() -> Result<()> {
    let Some(trial) = current()? else { return Ok(()) };
    if let Some(why) = why_over(&trial)? {
        end::revert(&why)?;
    }
    Ok(())
}

/// Why a trial is over although nobody ended it.
///
/// None: it goes on.
/// Errors: the lease cannot be read.
pub fn why_over(trial: &TrialRecord) -> Result<Option<String>> {
    let until_ns = guard::lease_of(trial)?;
    let is_over = until_ns.is_some_and(|until_ns| clock::boottime_ns().is_ok_and(|now_ns| now_ns >= until_ns));
    Ok(match (is_over, trial.guard.lives()) {
        (true, true) => Some("its guard was stopped, and the lease was over".to_owned()),
        (true, false) => Some("its guard died, and the lease was over".to_owned()),
        (false, _) => None,
    })
}
