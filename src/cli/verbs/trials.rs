//! What `tccc serve` tells a page of the trials on this host.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::output::SCHEMA;
use crate::kernel::clock;
use crate::policy::record::{PolicyRecord, RuleState, TrialEnd, TrialRecord};
use crate::policy::rule::{Arm, GuardLimit, OnFail, RolloutStep, Rule, Undecided};
use crate::serve::{TrialHistory, Trials};
use crate::state::Store;
use crate::trial::incident::{self, DOCUMENT};
use crate::trial::judge::{ArmSeen, RuleJudgement};
use crate::trial::view::{self, LookPoint, TrialView};
use crate::trial::{self, journal};

/// Incidents that are listed, latest first.
const INCIDENTS_MAX: usize = 50;
const DOCUMENT_BYTES_MAX: u64 = 8 << 20;

/// The trials of this host, read anew for each document; nothing of it needs a privilege but the lease.
pub struct HostTrials {
    store: Store,
}

#[derive(Serialize)]
struct Document {
    schema: u32,
    trial: Option<TrialLine>,
    /// How the latest trial ended.
    last: Option<EndLine>,
    incidents: Vec<IncidentLine>,
    /// Why nothing is known of the policy.
    problem: Option<String>,
}

#[derive(Serialize)]
struct TrialLine {
    title: String,
    /// The word for it in commands.
    name: String,
    generation: u32,
    running_s: f64,
    /// Until it is undone unless somebody confirms it; none: only its rules or a person end it.
    ends_in_s: Option<f64>,
    paused: bool,
    guard_pid: u32,
    guard_lives: bool,
    /// Until connections are decided as before if the guard dies now; none: not known.
    lease_s: Option<f64>,
    /// Why it is over although nobody has ended it.
    over: Option<String>,
    /// `revert` or `freeze`, when a limit is crossed.
    on_fail: &'static str,
    /// Name of the guard's latest look, and how long ago that was.
    seen: Option<String>,
    seen_s_ago: Option<f64>,
    rules: Vec<RuleLine>,
    /// Earlier looks, oldest first; none where they were not asked for, or nothing was added.
    history: Option<Vec<LookPoint>>,
}

#[derive(Serialize)]
struct RuleLine {
    #[serde(flatten)]
    judgement: Value,
    state: RuleState,
    steps: Vec<StepLine>,
    /// Index of the step that goes on.
    step: usize,
    due_in_s: Option<f64>,
    then: String,
    undecided: Option<Undecided>,
    on_fail: Option<OnFail>,
}

#[derive(Serialize)]
struct StepLine {
    share: f64,
    for_s: f64,
}

#[derive(Serialize)]
struct EndLine {
    title: String,
    #[serde(flatten)]
    end: TrialEnd,
    /// Name of its incident, where that is still there.
    incident_name: Option<String>,
}

#[derive(Serialize)]
struct IncidentLine {
    name: String,
    at: String,
    title: String,
    why: String,
}

impl HostTrials {
    pub fn new() -> Self {
        HostTrials { store: Store::of_host() }
    }

    fn trial(&self, history: TrialHistory<'_>) -> Result<Option<TrialLine>> {
        let record = PolicyRecord::read(&self.store)?;
        let Some(trial) = record.trial.as_ref().or(record.next_trial.as_ref()) else { return Ok(None) };
        let now_ns = clock::boottime_ns()?;
        let generation = record.generation(trial.generation);
        let policy = generation.map(|generation| generation.policy.clone()).unwrap_or_default();
        let view = view::read(&self.store);
        let lease_ns = trial::lease_of(trial).ok().flatten().or(view.as_ref().map(|view| view.lease_until_ns));
        let rules = policy.rules.iter().filter_map(|rule| rule_line(rule, trial, (view.as_ref(), now_ns)));
        Ok(Some(TrialLine {
            title: trial.subject.phrase(),
            name: trial.subject.name().to_owned(),
            generation: trial.generation,
            running_s: seconds(now_ns.saturating_sub(trial.began_ns)),
            ends_in_s: trial.deadline_ns.map(|at_ns| seconds(at_ns.saturating_sub(now_ns))),
            paused: trial.paused,
            guard_pid: trial.guard.pid,
            guard_lives: trial.guard.lives(),
            lease_s: lease_ns.map(|until_ns| seconds(until_ns.saturating_sub(now_ns))),
            over: trial::why_over(trial).ok().flatten(),
            on_fail: view::on_fail(&policy),
            seen: view.as_ref().map(|view| view.now_ns.to_string()),
            seen_s_ago: view.as_ref().map(|view| seconds(now_ns.saturating_sub(view.now_ns))),
            rules: rules.collect(),
            history: view.and_then(|view| wanted_history(view, history)),
        }))
    }
}

impl Trials for HostTrials {
    fn now(&self, history: TrialHistory<'_>) -> Vec<u8> {
        let (trial, problem) = match self.trial(history) {
            Ok(trial) => (trial, None),
            Err(why) => (None, Some(format!("{why:#}"))),
        };
        let incidents = incident::folders().into_iter().take(INCIDENTS_MAX).filter_map(|folder| line_of(&folder));
        let last = journal::last().map(|end| EndLine {
            title: end.subject.phrase(),
            incident_name: end.incident.as_deref().filter(|folder| folder.join(DOCUMENT).is_file()).and_then(name_of),
            end,
        });
        let document = Document { schema: SCHEMA, trial, last, incidents: incidents.collect(), problem };
        encoded(&document)
    }

    fn incident(&self, name: &str) -> Option<Vec<u8>> {
        // Only a name of the list is taken: nothing that a page says becomes a path.
        let folder = incident::folders().into_iter().find(|folder| name_of(folder).as_deref() == Some(name))?;
        let incident = read_bounded(&folder)?;
        let rules: Vec<Value> = incident.rules.iter().map(with_allowed).collect();
        let mut document = serde_json::to_value(&incident).ok()?;
        document["rules"] = rules.into();
        Some(encoded(&json!({ "schema": SCHEMA, "name": name, "folder": folder, "incident": document })))
    }
}

fn encoded(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("what we hand over has keys of text, and memory takes everything")
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

fn wanted_history(view: TrialView, history: TrialHistory<'_>) -> Option<Vec<LookPoint>> {
    match history {
        TrialHistory::Since(seen) if seen != view.now_ns.to_string() => Some(view.history),
        TrialHistory::Since(_) | TrialHistory::Without => None,
    }
}

/// A rule on trial, as its guard saw it last, or as its file says where the guard has not looked yet.
fn rule_line(rule: &Rule, trial: &TrialRecord, (view, now_ns): (Option<&TrialView>, u64)) -> Option<RuleLine> {
    let progress = trial.rules.iter().find(|progress| progress.rule == rule.name)?;
    let tried = rule.trial.as_ref()?;
    let seen = view.and_then(|view| view.rules.iter().find(|seen| seen.judgement.rule == rule.name));
    let judgement = seen.map_or_else(|| unseen(rule), |seen| seen.judgement.clone());
    let step = |step: &RolloutStep| StepLine { share: step.portion.fraction(), for_s: step.duration.as_secs_f64() };
    Some(RuleLine {
        state: progress.state,
        steps: tried.steps.iter().map(step).collect(),
        step: progress.step,
        due_in_s: view::due_ns(rule, progress).map(|at_ns| seconds(at_ns.saturating_sub(now_ns))),
        then: view::then(rule, progress, seen.map(|_| &judgement)),
        undecided: Some(tried.undecided),
        on_fail: Some(tried.on_fail),
        judgement: with_allowed(&judgement),
    })
}

fn unseen(rule: &Rule) -> RuleJudgement {
    let arm = |arm: &Arm| ArmSeen {
        arm: arm.treatment.to_string(),
        share: arm.portion.fraction(),
        connections: 0,
        values: Default::default(),
    };
    let arms = rule.split.arms.iter().map(arm).collect();
    RuleJudgement { rule: rule.name.clone(), arms, limits: Vec::new(), is_broken: false }
}

/// The judgement, each limit with its value as a number: a page draws it.
fn with_allowed(judgement: &RuleJudgement) -> Value {
    let mut value = serde_json::to_value(judgement).unwrap_or_default();
    for limit in value["limits"].as_array_mut().into_iter().flatten() {
        let read = limit["limit"].as_str().and_then(|text| text.parse::<GuardLimit>().ok());
        limit["allowed"] = read.and_then(|read| serde_json::to_value(read.allowed).ok()).unwrap_or_default();
    }
    value
}

fn name_of(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.to_owned())
}

fn line_of(folder: &Path) -> Option<IncidentLine> {
    let incident = read_bounded(folder)?;
    Some(IncidentLine { name: name_of(folder)?, at: incident.at, title: incident.title, why: incident.why })
}

/// None: it cannot be read, or is larger than any that tccc writes.
fn read_bounded(folder: &Path) -> Option<incident::Incident> {
    let file: PathBuf = folder.join(DOCUMENT);
    let is_small = fs::metadata(&file).is_ok_and(|file| file.len() <= DOCUMENT_BYTES_MAX);
    is_small.then(|| incident::read(folder).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::process::Process;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trial");

    /// A host whose guard wrote the fixture, and this process is the guard.
    fn host(folder: &Path) -> HostTrials {
        let policy = folder.join("policy");
        fs::create_dir_all(&policy).unwrap();
        let text = fs::read_to_string(format!("{FIXTURES}/record.json")).unwrap();
        let mut record: PolicyRecord = serde_json::from_str(&text).unwrap();
        record.trial.as_mut().unwrap().guard = Process::this().unwrap();
        fs::write(policy.join("record.json"), serde_json::to_vec(&record).unwrap()).unwrap();
        fs::copy(format!("{FIXTURES}/trial.json"), policy.join("trial.json")).unwrap();
        HostTrials { store: Store::at(folder) }
    }

    fn told(trials: &HostTrials, history: TrialHistory<'_>) -> Value {
        serde_json::from_slice(&trials.now(history)).unwrap()
    }

    #[test]
    fn running_trial_is_told_with_its_steps_limits_and_what_follows() {
        let folder = tempfile::tempdir().unwrap();
        let trial = told(&host(folder.path()), TrialHistory::Without)["trial"].clone();
        assert_eq!((&trial["title"], &trial["guard_lives"]), (&"the policy".into(), &true.into()));
        let rule = &trial["rules"][0];
        assert_eq!((rule["steps"].as_array().unwrap().len(), &rule["step"]), (3, &1.into()));
        assert!(rule["then"].as_str().unwrap().contains("the share rises to 50 %"), "{rule}");
        let allowed: Vec<&Value> = rule["limits"].as_array().unwrap().iter().map(|limit| &limit["allowed"]).collect();
        assert_eq!(allowed, [&json!({"relative": 1.2}), &json!({"relative": 0.9}), &json!({"absolute": 0.01})]);
    }

    #[test]
    fn history_is_told_to_whoever_does_not_know_the_latest_look() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let looks = |history| told(&host, history)["trial"]["history"].as_array().map(Vec::len);
        let whole = looks(TrialHistory::Since("0"));
        assert!(whole > Some(100), "{whole:?}");
        let seen = told(&host, TrialHistory::Without)["trial"]["seen"].as_str().unwrap().to_owned();
        assert_eq!((looks(TrialHistory::Since(&seen)), looks(TrialHistory::Without)), (None, None));
    }

    #[test]
    fn trial_whose_guard_has_not_looked_yet_is_told_by_its_rules() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        fs::remove_file(folder.path().join("policy/trial.json")).unwrap();
        let trial = told(&host, TrialHistory::Since("0"))["trial"].clone();
        assert_eq!((&trial["seen"], &trial["rules"][0]["arms"][0]["arm"]), (&Value::Null, &"dtcp".into()));
        fs::write(folder.path().join("policy/record.json"), "{").unwrap();
        let document = told(&host, TrialHistory::Without);
        assert!(document["trial"].is_null() && document["problem"].as_str().unwrap().contains("damaged"), "{document}");
    }
}
