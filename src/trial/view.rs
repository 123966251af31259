//! What the guard saw last, for whoever shows it: `tccc status`, the page, `/metrics`.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::judge::{LimitState, RuleJudgement};
use super::turn::Turn;
use crate::policy::record::{self, PolicyRecord, RuleProgress, RuleState, TrialRecord, TrialSubject};
use crate::policy::rule::{OnFail, Policy, Rule, Undecided};
use crate::state::Store;
use crate::units::format_duration;

pub const SCHEMA: u32 = 1;
/// Points of the curves that are kept; when there are as many, every second one is dropped.
const POINTS_MAX: usize = 720;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialView {
    pub schema: u32,
    pub subject: TrialSubject,
    pub title: String,
    pub generation: u32,
    /// When it began, CLOCK_BOOTTIME, nanoseconds.
    pub began_ns: u64,
    /// When this was written, CLOCK_BOOTTIME, nanoseconds.
    pub now_ns: u64,
    /// When this was written, RFC 3339.
    pub at: String,
    /// When it ends unless a person decides before, CLOCK_BOOTTIME, nanoseconds.
    pub deadline_ns: Option<u64>,
    /// Until when the kernel lets it decide without a sign of life, CLOCK_BOOTTIME, nanoseconds.
    pub lease_until_ns: u64,
    /// A person stopped the steps.
    pub paused: bool,
    pub rules: Vec<RuleView>,
    /// Earlier looks, oldest first.
    pub history: Vec<LookPoint>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleView {
    /// What the guard thinks of it.
    #[serde(flatten)]
    pub judgement: RuleJudgement,
    pub state: RuleState,
    /// Its step, from 1, and how many there are; none without steps.
    pub step: Option<[usize; 2]>,
    /// When the time of its step, or its deadline, is over, CLOCK_BOOTTIME, nanoseconds.
    pub due_ns: Option<u64>,
    /// What happens then, as things stand now.
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
    /// Treated over control, or the value where the limit is absolute.
    pub ratio: Option<f64>,
    pub interval: Option<[f64; 2]>,
    /// E-value of being worse than the limit.
    pub e_worse: Option<f64>,
    /// The metric of the treated and of the control arm.
    pub arms: [Option<f64>; 2],
}

/// The looks so far, in bounded memory.
#[derive(Debug, Default)]
pub struct LookHistory {
    points: VecDeque<LookPoint>,
    /// Only each so many looks are kept.
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
        self.points.push_back(LookPoint { at_s, limits: limits.collect() });
        if self.points.len() >= POINTS_MAX {
            let mut is_kept = false;
            self.points.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.every *= 2;
        }
    }

    /// Shape: oldest first.
    pub fn points(&self) -> Vec<LookPoint> {
        self.points.iter().cloned().collect()
    }
}

/// What becomes of a rule when its time is over, as things stand.
pub fn then(rule: &Rule, progress: &RuleProgress, judgement: Option<&RuleJudgement>) -> String {
    let Some(trial) = &rule.trial else { return String::new() };
    let limits = judgement.map_or(&[][..], |judgement| &judgement.limits);
    let is_met = limits.iter().all(|limit| matches!(limit.state, LimitState::Safe | LimitState::NotComparable));
    let next = trial.steps.get(progress.step + 1);
    let success = match next {
        Some(step) => format!("the share rises to {}", step.portion),
        None => "the rule holds for good".to_owned(),
    };
    match (progress.state, trial.undecided) {
        (RuleState::Passed, _) => "it has passed".to_owned(),
        (RuleState::Frozen, _) => "it stays as it is until a person decides".to_owned(),
        (RuleState::Judged, _) if is_met => success,
        (RuleState::Judged, Undecided::Proceed) => format!("{success}, for nothing shows harm"),
        (RuleState::Judged, Undecided::Revert) => {
            "everything is as before, unless every limit is shown to hold".to_owned()
        }
        (RuleState::Judged, Undecided::Hold) => {
            format!("it goes on until every limit is shown to hold; then {success}")
        }
    }
}

/// What becomes of a trial when a limit is crossed.
pub fn on_fail(policy: &Policy) -> &'static str {
    let freezes = |rule: &Rule| rule.trial.as_ref().is_some_and(|trial| trial.on_fail == OnFail::Freeze);
    if policy.rules.iter().any(freezes) { "freeze" } else { "revert" }
}

/// When the time of a rule's step, or its deadline, is over.
pub fn due_ns(rule: &Rule, progress: &RuleProgress) -> Option<u64> {
    let trial = rule.trial.as_ref()?;
    let duration = trial.steps.get(progress.step).map(|step| step.duration).or(trial.deadline)?;
    (progress.state == RuleState::Judged).then(|| progress.since_ns + duration.as_nanos() as u64)
}

/// Time that is left, for people; none when it is over.
pub fn left(until_ns: u64, now_ns: u64) -> Option<String> {
    let seconds = until_ns.checked_sub(now_ns)?.div_ceil(1_000_000_000);
    Some(format_duration(std::time::Duration::from_secs(seconds)))
}

fn path(store: &Store) -> PathBuf {
    record::folder(store).join("trial.json")
}

/// Writes what the guard saw.
///
/// Errors: the folder is full or read-only.
pub fn write(store: &Store, view: &TrialView) -> Result<()> {
    let path = path(store);
    let fresh = path.with_extension("new");
    let text = serde_json::to_vec(view).context("write what the guard saw")?;
    fs::write(&fresh, text)
        .and_then(|()| fs::rename(&fresh, &path))
        .with_context(|| format!("write {}", path.display()))
}

/// What the guard of the trial that goes on saw last.
///
/// None: no trial goes on, or its guard has not looked yet.
pub fn read(store: &Store) -> Option<TrialView> {
    let view: TrialView = serde_json::from_slice(&fs::read(path(store)).ok()?).ok()?;
    let record = PolicyRecord::read(store).ok()?;
    let trial = record.trial.or(record.next_trial)?;
    (view.schema == SCHEMA && view.began_ns == trial.began_ns).then_some(view)
}

/// Whether a guard wrote something here that nobody has removed.
pub fn is_there(store: &Store) -> bool {
    files(store).any(|file| file.exists())
}

/// Removes what a guard wrote, unless something is on trial.
///
/// Only a trial that begins could disagree, and it cannot while this holds the turn.
pub fn tidy() {
    let Ok(_turn) = Turn::take() else { return };
    let store = Store::of_host();
    let record = PolicyRecord::read(&store).unwrap_or_default();
    if record.trial.is_some() || record.next_trial.is_some() {
        return;
    }
    files(&store).for_each(|file| drop(fs::remove_file(file)));
    let _ = fs::remove_dir(record::folder(&store)); // one that holds the record of a policy stays
    let _ = fs::remove_dir(store.folder());
}

fn files(store: &Store) -> impl Iterator<Item = PathBuf> {
    let folder = record::folder(store);
    ["trial.json", "trial.new"].into_iter().chain(super::incident::TRANSIENT).map(move |name| folder.join(name))
}

/// A trial's rules with what the guard thinks of them.
pub fn rules(trial: &TrialRecord, policy: &Policy, judgements: &[RuleJudgement]) -> Vec<RuleView> {
    let views = judgements.iter().filter_map(|judgement| {
        let rule = policy.rules.iter().find(|rule| rule.name == judgement.rule)?;
        let progress = trial.rules.iter().find(|progress| progress.rule == rule.name)?;
        let steps = rule.trial.as_ref().map_or(0, |trial| trial.steps.len());
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
