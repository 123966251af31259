//! The trials and incidents of this host as JSON, for the page of `tccc serve`.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::output::SCHEMA;
use host::policy::ending::LimitAtEnd;
use host::policy::record::{PolicyRecord, TrialRecord};
use host::policy::rule::{Arm, GuardLimit, RolloutStep, Rule};
use host::serve::{TrialHistory, Trials};
use host::state::Store;
use host::trial::incident::{self, DOCUMENT, Incident};
use host::trial::judge::{ArmSeen, RuleJudgement};
use host::trial::view::{self, TrialView};
use host::trial::{self, journal};
use shared::kernel::clock;

/// Number of incidents in the list, latest first.
const INCIDENTS_MAX: usize = 50;
const DOCUMENT_BYTES_MAX: u64 = 8 << 20;

/// Reads the trials of this host again for each document. Only the lease needs privileges.
pub struct HostTrials {
    store: Store,
}

impl HostTrials {
    pub fn new() -> Self {
        HostTrials { store: Store::of_host() }
    }

    fn trial(&self, history: TrialHistory<'_>) -> Result<Option<Value>> {
        let record = PolicyRecord::read(&self.store)?;
        let Some(trial) = record.trial.as_ref().or(record.next_trial.as_ref()) else { return Ok(None) };
        let now_ns = clock::boottime_ns()?;
        let generation = record.generation(trial.generation);
        let policy = generation.map(|generation| generation.policy.clone()).unwrap_or_default();
        let view = view::read(&self.store);
        let view = view.as_ref();
        let lease_ns = trial::lease_of(trial).ok().flatten().or(view.map(|view| view.lease_until_ns));
        let rules = policy.rules.iter().filter_map(|rule| rule_value(rule, trial, view, now_ns));
        let looks = view.filter(|view| matches!(history, TrialHistory::Since(seen) if seen != view.now_ns.to_string()));
        Ok(Some(json!({
            "title": trial.subject.phrase(),
            // The trial's name in commands.
            "name": trial.subject.name(),
            "generation": trial.generation,
            "running_s": seconds(now_ns.saturating_sub(trial.began_ns)),
            // Null if only a person or its rules end it.
            "ends_in_s": trial.deadline_ns.map(|at_ns| seconds(at_ns.saturating_sub(now_ns))),
            "paused": trial.paused,
            "guard_pid": trial.guard.pid,
            "guard_lives": trial.guard.lives(),
            // Until the previous policy applies again if the guard dies now; null if unknown.
            "lease_s": lease_ns.map(|until_ns| seconds(until_ns.saturating_sub(now_ns))),
            // Why it is over, if nobody ended it.
            "over": trial::why_over(trial).ok().flatten().map(|why| why.to_string()),
            "on_fail": view::on_fail(&policy),
            // Identifies the guard's latest look.
            "seen": view.map(|view| view.now_ns.to_string()),
            "seen_s_ago": view.map(|view| seconds(now_ns.saturating_sub(view.now_ns))),
            "rules": rules.collect::<Vec<Value>>(),
            // Earlier looks, oldest first; null unless the page asks for them and lacks some.
            "history": looks.map(|view| &view.history),
        })))
    }
}

impl Trials for HostTrials {
    fn now(&self, history: TrialHistory<'_>) -> Vec<u8> {
        let (trial, problem) = match self.trial(history) {
            Ok(trial) => (trial, None),
            Err(why) => (None, Some(format!("{why:#}"))),
        };
        let line = |folder: &Path| {
            let Incident { at, title, why, .. } = read_bounded(folder)?;
            Some(json!({ "name": name_of(folder)?, "at": at, "title": title, "why": why }))
        };
        let incidents = incident::folders().into_iter().take(INCIDENTS_MAX).filter_map(|folder| line(&folder));
        let last = journal::last().map(|end| {
            let mut value = serde_json::to_value(&end).unwrap_or_default();
            value["title"] = end.subject.phrase().into();
            value["verdict"] = end.ending.verdict().into();
            value["shown"] = end.ending.limits.iter().map(LimitAtEnd::phrase).collect();
            value["reason"] = end.ending.reason().into();
            let incident = end.ending.incident.as_deref().filter(|folder| folder.join(DOCUMENT).is_file());
            value["incident_name"] = incident.and_then(name_of).into();
            value
        });
        let incidents: Vec<Value> = incidents.collect();
        let document =
            json!({ "schema": SCHEMA, "trial": trial, "last": last, "incidents": incidents, "problem": problem });
        document.to_string().into_bytes()
    }

    fn incident(&self, name: &str) -> Option<Vec<u8>> {
        // Only listed names are accepted, so that no request becomes a path.
        let folder = incident::folders().into_iter().find(|folder| name_of(folder).as_deref() == Some(name))?;
        let incident = read_bounded(&folder)?;
        let mut value = serde_json::to_value(&incident).ok()?;
        value["rules"] = incident.rules.iter().map(with_allowed).collect();
        let document = json!({ "schema": SCHEMA, "name": name, "folder": folder, "incident": value });
        Some(document.to_string().into_bytes())
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// A rule on trial with the guard's last judgement, or without one before its first look.
fn rule_value(rule: &Rule, trial: &TrialRecord, view: Option<&TrialView>, now_ns: u64) -> Option<Value> {
    let progress = trial.rules.iter().find(|progress| progress.rule == rule.name)?;
    let tried = rule.trial.as_ref()?;
    let seen = view.and_then(|view| view.rules.iter().find(|seen| seen.judgement.rule == rule.name));
    let seen = seen.map(|seen| &seen.judgement);
    let step = |step: &RolloutStep| json!({ "share": step.portion.fraction(), "for_s": step.duration.as_secs_f64() });
    let mut value = seen.map_or_else(|| with_allowed(&unseen(rule)), with_allowed);
    value["state"] = json!(progress.state);
    value["steps"] = tried.steps.iter().map(step).collect();
    value["step"] = progress.step.into();
    value["due_in_s"] = json!(view::due_ns(rule, progress).map(|at_ns| seconds(at_ns.saturating_sub(now_ns))));
    value["then"] = view::then(rule, progress, seen).into();
    value["undecided"] = json!(tried.undecided);
    value["on_fail"] = json!(tried.on_fail);
    Some(value)
}

fn unseen(rule: &Rule) -> RuleJudgement {
    let arm = |arm: &Arm| ArmSeen {
        arm: arm.treatment.to_string(),
        share: arm.portion.fraction(),
        connections: 0,
        units: 0,
        values: Default::default(),
    };
    let arms = rule.split.arms.iter().map(arm).collect();
    RuleJudgement { rule: rule.name.clone(), arms, limits: Vec::new(), is_broken: false }
}

/// The judgement, and for each limit its value as a number that the page can draw.
fn with_allowed(judgement: &RuleJudgement) -> Value {
    let mut value = serde_json::to_value(judgement).unwrap_or_default();
    for limit in value["limits"].as_array_mut().into_iter().flatten() {
        let read = limit["limit"].as_str().and_then(|text| text.parse::<GuardLimit>().ok());
        limit["allowed"] = json!(read.map(|read| read.allowed));
    }
    value
}

fn name_of(folder: &Path) -> Option<String> {
    Some(folder.file_name()?.to_str()?.to_owned())
}

/// `None` if it cannot be read, or is larger than any that tccc writes.
fn read_bounded(folder: &Path) -> Option<Incident> {
    let is_small = fs::metadata(folder.join(DOCUMENT)).is_ok_and(|file| file.len() <= DOCUMENT_BYTES_MAX);
    is_small.then(|| incident::read(folder).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::kernel::process::Process;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trial");

    /// A host with the fixture's trial, guarded by this process.
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

    fn document(trials: &HostTrials, history: TrialHistory<'_>) -> Value {
        serde_json::from_slice(&trials.now(history)).unwrap()
    }

    #[test]
    fn running_trial_is_shown_with_its_steps_limits_and_what_follows() {
        let folder = tempfile::tempdir().unwrap();
        let trial = document(&host(folder.path()), TrialHistory::Without)["trial"].clone();
        assert_eq!((&trial["title"], &trial["guard_lives"]), (&"the policy".into(), &true.into()));
        let rule = &trial["rules"][0];
        assert_eq!((rule["steps"].as_array().unwrap().len(), &rule["step"]), (3, &1.into()));
        assert!(rule["then"].as_str().unwrap().contains("the share rises to 50 %"), "{rule}");
        let allowed: Vec<&Value> = rule["limits"].as_array().unwrap().iter().map(|limit| &limit["allowed"]).collect();
        assert_eq!(allowed, [&json!({"relative": 1.2}), &json!({"relative": 0.9}), &json!({"absolute": 0.01})]);
    }

    #[test]
    fn history_is_sent_to_a_page_that_lacks_the_latest_look() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        let looks = |history| document(&host, history)["trial"]["history"].as_array().map(Vec::len);
        let whole = looks(TrialHistory::Since("0"));
        assert!(whole > Some(100), "{whole:?}");
        let seen = document(&host, TrialHistory::Without)["trial"]["seen"].as_str().unwrap().to_owned();
        assert_eq!((looks(TrialHistory::Since(&seen)), looks(TrialHistory::Without)), (None, None));
    }

    #[test]
    fn trial_before_the_guards_first_look_is_shown_by_its_rules() {
        let folder = tempfile::tempdir().unwrap();
        let host = host(folder.path());
        fs::remove_file(folder.path().join("policy/trial.json")).unwrap();
        let trial = document(&host, TrialHistory::Since("0"))["trial"].clone();
        assert_eq!((&trial["seen"], &trial["rules"][0]["arms"][0]["arm"]), (&Value::Null, &"dtcp".into()));
        fs::write(folder.path().join("policy/record.json"), "{").unwrap();
        let document = document(&host, TrialHistory::Without);
        assert!(document["trial"].is_null() && document["problem"].as_str().unwrap().contains("damaged"), "{document}");
    }
}
