//! Writes the guard's latest look to a file, for `tccc status`, the page and `/metrics`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::current;
use super::judge::RuleJudgement;
use crate::policy::record::{self, PolicyRecord, RuleProgress, RuleState, TrialRecord, TrialSubject};
use crate::policy::rule::{OnFail, Policy, Rule, Undecided};
use crate::state::Store;
use shared::units::{format_duration, nanos};

pub const SCHEMA: u32 = 1;
/// At this number of points, every second one is dropped.
const POINTS_MAX: usize = 720;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialView {
    pub schema: u32,
    pub subject: TrialSubject,
    pub title: String,
    pub generation: u32,
    /// Start of the trial, CLOCK_BOOTTIME, nanoseconds.
    pub began_ns: u64,
    /// Time of this view, CLOCK_BOOTTIME, nanoseconds.
    pub now_ns: u64,
    /// Time of this view, RFC 3339.
    pub at: String,
    /// The trial ends then unless a person decides earlier. CLOCK_BOOTTIME, nanoseconds.
    pub deadline_ns: Option<u64>,
    /// End of the lease, CLOCK_BOOTTIME, nanoseconds.
    pub lease_until_ns: u64,
    /// A person stopped the steps.
    pub paused: bool,
    pub rules: Vec<RuleView>,
    /// The looks so far, oldest first.
    pub history: Vec<LookPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    #[serde(flatten)]
    pub judgement: RuleJudgement,
    pub state: RuleState,
    /// Current step, from 1, and number of steps.
    pub step: Option<[usize; 2]>,
    /// End of the step or deadline, CLOCK_BOOTTIME, nanoseconds.
    pub due_ns: Option<u64>,
    /// What happens at `due_ns`, by the latest judgement.
    pub then: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookPoint {
    /// Seconds since the trial began.
    pub at_s: f64,
    /// Shape: limit by limit, in the order of the rules.
    pub limits: Vec<LimitPoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LimitPoint {
    /// Treated over control, or the value for an absolute limit.
    pub ratio: Option<f64>,
    pub interval: Option<[f64; 2]>,
    /// E-value for being worse than the limit.
    pub e_worse: Option<f64>,
    /// The metric of the treated and of the control arm.
    pub arms: [Option<f64>; 2],
}

/// The looks so far, in bounded memory.
#[derive(Debug, Default)]
pub struct LookHistory {
    points: Vec<LookPoint>,
    /// One in `every` looks is kept.
    every: usize,
    seen: usize,
}

impl LookHistory {
    pub fn add(&mut self, at_s: f64, judgements: &[RuleJudgement]) {
        self.every = self.every.max(1);
        self.seen += 1;
        if !self.seen.is_multiple_of(self.every) {
            return;
        }
        let limits = judgements.iter().flat_map(|judgement| {
            judgement.limits.iter().map(|limit| LimitPoint {
                ratio: limit.ratio.or(limit.value),
                interval: limit.interval,
                e_worse: limit.evidence.map(|[worse, _]| worse),
                arms: [limit.arm.as_str(), "keep"].map(|name| {
                    let arm = judgement.arms.iter().find(|arm| arm.arm == name)?;
                    arm.values.get(&limit.metric).copied()
                }),
            })
        });
        self.points.push(LookPoint { at_s, limits: limits.collect() });
        if self.points.len() >= POINTS_MAX {
            self.points = std::mem::take(&mut self.points).into_iter().step_by(2).collect();
            self.every *= 2;
        }
    }

    /// Oldest first.
    pub fn points(&self) -> Vec<LookPoint> {
        self.points.clone()
    }
}

/// What happens to a rule at the end of its step or at its deadline, by the latest judgement.
pub fn then(rule: &Rule, progress: &RuleProgress, judgement: Option<&RuleJudgement>) -> String {
    let Some(trial) = &rule.trial else { return String::new() };
    let is_closed = judgement.is_some_and(|judgement| judgement.limits.iter().all(|limit| !limit.state.is_open()));
    let is_met = is_closed || trial.limits.is_empty();
    let success = match trial.steps.get(progress.step + 1) {
        Some(step) => format!("the share rises to {}", step.portion),
        None => "the rule becomes permanent".to_owned(),
    };
    match (progress.state, trial.undecided) {
        (RuleState::Passed, _) => "it has passed".to_owned(),
        (RuleState::Frozen, _) => "it stays as it is until a person decides".to_owned(),
        (_, _) if is_met => success,
        (_, Undecided::Proceed) => format!("{success}, unless a limit is crossed"),
        (_, Undecided::Revert) => "the trial is reverted, unless every limit is shown to hold".to_owned(),
        (_, Undecided::Hold) => format!("it goes on until every limit is shown to hold; then {success}"),
    }
}

/// `freeze` if a rule of the policy says so.
pub fn on_fail(policy: &Policy) -> &'static str {
    let freezes = |rule: &Rule| rule.trial.as_ref().is_some_and(|trial| trial.on_fail == OnFail::Freeze);
    if policy.rules.iter().any(freezes) { "freeze" } else { "revert" }
}

/// The end of a rule's step, or its deadline. `None` if the rule is not judged any more.
pub fn due_ns(rule: &Rule, progress: &RuleProgress) -> Option<u64> {
    let duration = rule.duration_of(progress.step).filter(|_| progress.state == RuleState::Judged)?;
    Some(progress.since_ns + nanos(duration))
}

/// The remaining time as text. `None` when it is over.
pub fn left(until_ns: u64, now_ns: u64) -> Option<String> {
    let seconds = until_ns.checked_sub(now_ns)?.div_ceil(1_000_000_000);
    Some(format_duration(std::time::Duration::from_secs(seconds)))
}

fn path(store: &Store) -> PathBuf {
    record::folder(store).join("trial.json")
}

pub(super) fn write(store: &Store, view: &TrialView) -> Result<()> {
    let path = path(store);
    let fresh = path.with_extension("new");
    let text = serde_json::to_vec(view).context("write what the guard saw")?;
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .with_context(|| format!("write {}", path.display()))
}

/// The view of the running trial. `None` before the guard's first look.
pub fn read(store: &Store) -> Option<TrialView> {
    let view: TrialView = serde_json::from_slice(&fs::read(path(store)).ok()?).ok()?;
    let record = PolicyRecord::read(store).ok()?;
    let trial = record.trial.or(record.next_trial)?;
    (view.schema == SCHEMA && view.began_ns == trial.began_ns).then_some(view)
}

/// Whether files of a guard are left.
pub fn is_there(store: &Store) -> bool {
    files(store).any(|file| file.exists())
}

/// Removes a guard's files unless something is on trial. The lock prevents a trial from beginning meanwhile.
pub fn tidy() {
    let Ok(_lock) = current::lock() else { return };
    let store = Store::of_host();
    let record = PolicyRecord::read(&store).unwrap_or_default();
    if record.trial.is_some() || record.next_trial.is_some() {
        return;
    }
    files(&store).for_each(|file| drop(fs::remove_file(file)));
    let _ = fs::remove_dir(record::folder(&store)); // stays while it holds the record of a policy
    let _ = fs::remove_dir(store.folder());
}

fn files(store: &Store) -> impl Iterator<Item = PathBuf> {
    let folder = record::folder(store);
    ["trial.json", "trial.new"].into_iter().chain(super::incident::TRANSIENT).map(move |name| folder.join(name))
}

pub fn rules(trial: &TrialRecord, policy: &Policy, judgements: &[RuleJudgement]) -> Vec<RuleView> {
    let views = judgements.iter().filter_map(|judgement| {
        let rule = policy.rule(&judgement.rule)?;
        let progress = trial.rules.iter().find(|progress| progress.rule == rule.name)?;
        let steps = rule.steps().len();
        Some(RuleView {
            judgement: judgement.clone(),
            state: progress.state,
            step: (steps > 0).then_some([progress.step + 1, steps]),
            due_ns: due_ns(rule, progress),
            then: then(rule, progress, Some(judgement)),
        })
    });
    views.collect()
}
