//! Begins a trial: starts its guard first, then applies the generation on trial.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::{current, end, view};
use crate::policy::change::{self, Applied};
use crate::policy::generation::{Base, GenerationRole, NewGeneration};
use crate::policy::record::{PolicyOrigin, RuleProgress, RuleState, TrialRecord, TrialSubject};
use crate::policy::rule::{Policy, Portion, Rule, RuleTrial};
use crate::policy::{file, resolve};
use crate::state::Store;
use shared::failure::Failure;
use shared::fault;
use shared::interrupt;
use shared::kernel::clock;
use shared::kernel::process::{Detached, Process};
use shared::poll::{POLL_INTERVAL, poll};
use shared::units::nanos;

/// How long the kernel lets a trial decide after the guard renewed the lease.
const LEASE: Duration = Duration::from_secs(15);
/// A guard that cannot work dies before this.
const FIRST_LOOK_WITHIN: Duration = Duration::from_secs(6);

#[derive(Debug, Clone)]
pub struct TrialPlan {
    pub subject: TrialSubject,
    /// Includes the rules that the trial adds.
    pub policy: Policy,
    pub base: Base,
    /// The trial ends after this time unless a person confirms it. `None` if its rules have times.
    pub patience: Option<Duration>,
    /// Move open connections too.
    pub live: bool,
    /// Algorithms that were loaded for the trial. They are unloaded if it fails or cannot begin.
    pub loaded: Vec<String>,
}

/// An algorithm for a share of the connections.
#[derive(Debug, Clone)]
pub struct ShareTrial {
    pub patience: Duration,
    pub portion: Portion,
    pub limits: RuleTrial,
}

/// Begins a trial. `guard` is the command that calls [`super::guard::run`].
///
/// Side effects: those of [`change::apply`], and a process that lives as long as the trial.
///
/// # Errors
/// Another trial is running; this kernel does not count the metric of a limit; those of [`change::apply`]. The
/// algorithms loaded for the trial are then unloaded.
pub fn begin(plan: &TrialPlan, origin: &PolicyOrigin, guard: &mut Command) -> Result<Applied> {
    let ready = resolve::check_limits(&plan.policy).and_then(|()| end::sweep());
    let ready =
        ready.and_then(|()| Ok(interrupt::check(|| format!("the trial of {} did not begin", plan.subject.phrase()))?));
    ready.inspect_err(|_| drop(end::unload_all(&plan.loaded)))?;
    let lock = current::lock()?;
    let began_ns = clock::boottime_ns()?;
    let begun = start_guard(guard, began_ns).and_then(|guard| {
        fault::point("trial.guard");
        let trial = trial_of(plan, began_ns, guard.process);
        let deadline_ns = trial.deadline_ns;
        let applied = change::apply(
            NewGeneration { policy: &plan.policy, origin, role: GenerationRole::Begins(trial), base: plan.base },
            plan.live,
        )?;
        fault::point("trial.begun");
        await_first_look(&guard.process);
        check_guarded(&guard.process, deadline_ns)?;
        guard.release();
        Ok(applied)
    });
    // After a failure the guard is dead by now.
    begun.inspect_err(|_| drop(end::undo_begin(&lock, began_ns, &plan.loaded)))
}

fn start_guard(command: &mut Command, began_ns: u64) -> Result<Detached> {
    let starter = Process::this().context("see this process in /proc")?.owner_text();
    Detached::start(command.args([&began_ns.to_string(), "--starter", &starter])).context("start the trial's guard")
}

fn trial_of(plan: &TrialPlan, began_ns: u64, guard: Process) -> TrialRecord {
    let state = RuleState::Judged;
    let first =
        |rule: &Rule| RuleProgress { rule: rule.name.clone(), step: 0, since_ns: began_ns, state, shown: Vec::new() };
    TrialRecord {
        subject: plan.subject.clone(),
        began_ns,
        deadline_ns: plan.patience.map(|patience| began_ns + nanos(patience)),
        lease_ns: nanos(LEASE),
        guard,
        live: plan.live,
        loaded: plan.loaded.clone(),
        policy: Some(file::digest(&plan.policy)),
        rules: plan.policy.on_trial().map(first).collect(),
        ..TrialRecord::default()
    }
}

/// Waits until the guard has looked for the first time, or died because the kernel refused its programs.
///
/// A guard that is alive but cannot write its view is accepted.
fn await_first_look(guard: &Process) {
    let has_looked = || !guard.lives() || view::read(&Store::of_host()).is_some();
    poll(FIRST_LOOK_WITHIN, POLL_INTERVAL, has_looked);
}

/// # Errors
/// The guard is dead; the time of the trial is over already.
fn check_guarded(guard: &Process, deadline_ns: Option<u64>) -> Result<()> {
    if !guard.lives() {
        return Err(Failure::failed("the trial's guard ended at once: everything is as before")
            .hint("`tccc doctor` shows what this kernel lacks")
            .into());
    }
    let now_ns = clock::boottime_ns()?;
    if deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns) {
        let what = "the time of the trial was over before it could begin: everything is as before";
        return Err(Failure::failed(what).hint("give it more time").into());
    }
    Ok(())
}
