//! The policy, the running trial and the latest trial, for `tccc status`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde::Serialize;

use crate::cli::verbs::older::{self, Older};
use host::policy::change::{self, AppliedPolicy};
use host::policy::record::{TrialRecord, TrialSubject};
use host::state::{Requester, Store};
use host::trial::journal::TrialEnd;
use host::trial::judge::LimitState;
use host::trial::view::{self, RuleView, TrialView};
use host::trial::{self, journal};
use shared::kernel::clock;
use shared::sanitize::count;
use shared::units::format_duration;

#[derive(Serialize)]
pub struct PolicyStatus {
    policy: Option<PolicyLine>,
    trial: Option<TrialStatus>,
    last_trial: Option<TrialEnd>,
}

#[derive(Serialize)]
struct PolicyLine {
    generation: Option<u32>,
    since: Option<String>,
    file: Option<PathBuf>,
    /// Who applied it.
    by: Option<Requester>,
    rules: usize,
    /// The generation that decides about new connections. Another one than `generation` if its trial is over.
    deciding: Option<u32>,
    /// Open connections of each rule that decides, which have another algorithm because they are older.
    older: Older,
    drift: Vec<String>,
}

#[derive(Serialize)]
struct TrialStatus {
    #[serde(flatten)]
    subject: TrialSubject,
    title: String,
    /// Seconds until it ends by itself; `None` if only a person or a limit ends it.
    ends_within_s: Option<f64>,
    /// Seconds until the previous policy applies again if the guard dies now.
    lease_s: f64,
    guard_pid: u32,
    /// For a person.
    #[serde(skip)]
    guard: String,
    guard_lives: bool,
    paused: bool,
    /// Why it is over, if nobody ended it.
    over: Option<String>,
    #[serde(skip)]
    over_phrase: Option<String>,
    /// The guard's last look.
    view: Option<TrialView>,
}

impl PolicyStatus {
    /// # Errors
    /// The lease of the trial cannot be read.
    pub fn gather(trial: Option<&TrialRecord>, store: &Store) -> Result<Self> {
        let trial = trial.map(|trial| trial_line(trial, store)).transpose()?;
        Ok(PolicyStatus { policy: policy_line(), trial, last_trial: journal::last() })
    }
}

fn policy_line() -> Option<PolicyLine> {
    let standing = change::standing().unwrap_or_else(|error| {
        let drift = vec![format!("{error:#}: `tccc policy remove` removes what is left")];
        AppliedPolicy { drift, ..AppliedPolicy::default() }
    });
    let AppliedPolicy { generation, drift, .. } = standing;
    let deciding = generation.as_ref().and_then(|_| change::deciding().ok()?);
    (generation.is_some() || !drift.is_empty()).then(|| PolicyLine {
        rules: generation.as_ref().map_or(0, |it| it.policy.rules.len()),
        generation: generation.as_ref().map(|it| it.number),
        since: generation.as_ref().map(|it| it.since.clone()),
        by: generation.as_ref().and_then(|it| it.by.clone()),
        file: generation.and_then(|it| it.file),
        deciding: deciding.as_ref().map(|it| it.number),
        older: deciding.as_ref().and_then(older::of),
        drift,
    })
}

/// `None` if only a person or a limit ends the trial.
pub fn ends_within_s(trial: &TrialRecord) -> Option<f64> {
    let now_ns = clock::boottime_ns().ok()?;
    trial.deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(now_ns) as f64 / 1e9)
}

fn trial_line(trial: &TrialRecord, store: &Store) -> Result<TrialStatus> {
    let lease = trial::lease_of(trial)?.unwrap_or(0);
    let over = trial::why_over(trial)?;
    Ok(TrialStatus {
        subject: trial.subject.clone(),
        title: trial.subject.phrase(),
        ends_within_s: ends_within_s(trial),
        lease_s: lease.saturating_sub(clock::boottime_ns()?) as f64 / 1e9,
        guard_pid: trial.guard.pid,
        guard: trial.guard.identity(),
        guard_lives: trial.guard.lives(),
        paused: trial.paused,
        over: over.map(|why| why.to_string()),
        over_phrase: over.map(|why| why.phrase(trial)),
        view: view::read(store),
    })
}

/// Prints the policy, then the running trial or else the latest one.
pub fn write(out: &mut impl Write, selection: &PolicyStatus) -> io::Result<()> {
    if let Some(policy) = &selection.policy {
        if let Some(number) = policy.generation {
            let file = policy.file.as_ref().map_or(String::new(), |file| format!(" from {}", file.display()));
            let by = policy.by.as_ref().map_or(String::new(), |by| format!(", applied by {}", by.phrase()));
            let over = match policy.deciding {
                Some(deciding) if deciding == number => String::new(),
                Some(deciding) => format!(", no longer in effect: generation {deciding} decides"),
                None => ", no longer in effect".to_owned(),
            };
            writeln!(out, "policy generation {number}{file}{by}: {}{over}", count(policy.rules, "rule"))?;
        }
        older::write(out, &policy.older)?;
        policy.drift.iter().try_for_each(|what| writeln!(out, "policy: {what}"))?;
    }
    match (&selection.trial, &selection.last_trial) {
        (Some(trial), _) => write_trial(out, trial),
        (None, Some(end)) => {
            let TrialEnd { subject, at, ending, .. } = end;
            let (although, reason) = (ending.although(), ending.reason());
            writeln!(out, "latest trial: {}, {} at {at}{although}: {reason}", subject.phrase(), ending.result)?;
            ending.limits.iter().try_for_each(|limit| writeln!(out, "  {}", limit.phrase()))?;
            let incident = ending.incident.as_ref().filter(|folder| folder.exists());
            incident.map_or(Ok(()), |folder| match (folder.display(), cfg!(feature = "lab")) {
                (folder, true) => writeln!(out, "  `tccc report {folder}` shows the evidence"),
                (folder, false) => writeln!(out, "  the evidence is in {folder}"),
            })
        }
        (None, None) => Ok(()),
    }
}

fn write_trial(out: &mut impl Write, trial: &TrialStatus) -> io::Result<()> {
    let (title, name) = (&trial.title, trial.subject.name());
    if let Some(over) = &trial.over_phrase {
        return writeln!(out, "{over}");
    }
    match trial.ends_within_s.map(|left_s| format_duration(Duration::from_secs(left_s.ceil() as u64))) {
        Some(left) => writeln!(out, "{title} is on trial: undone in {left} unless `tccc confirm {name}` follows")?,
        None => writeln!(out, "{title} is on trial{}", if trial.paused { ", paused" } else { "" })?,
    }
    if trial.guard_lives {
        writeln!(out, "  its guard is {}", trial.guard)?;
    } else {
        writeln!(out, "  its guard is dead: connections are decided as before in {:.0} s", trial.lease_s)?;
    }
    let Some(view) = &trial.view else { return Ok(()) };
    for rule in &view.rules {
        write_rule(out, rule, view.now_ns)?;
    }
    Ok(())
}

fn write_rule(out: &mut impl Write, rule: &RuleView, now_ns: u64) -> io::Result<()> {
    let arms = rule.judgement.arms.iter();
    let arms = arms.map(|arm| format!("{} {} % ({} connections)", arm.arm, arm.share * 100.0, arm.connections));
    let arms: Vec<String> = arms.collect();
    let step = rule.step.map_or(String::new(), |[step, steps]| format!(", step {step} of {steps}"));
    writeln!(out, "  rule \"{}\"{step}: {}", rule.judgement.rule, arms.join(", "))?;
    for limit in &rule.judgement.limits {
        let shown = match (limit.ratio, limit.interval, limit.value) {
            (Some(ratio), Some([low, high]), _) => format!("{ratio:.2} ({low:.2} to {high:.2})"),
            (Some(ratio), None, _) => format!("{ratio:.2}"),
            (None, _, Some(value)) => format!("{value:.4}"),
            (None, _, None) => "-".to_owned(),
        };
        let state = match limit.state {
            LimitState::Crossed => "crossed",
            LimitState::Safe => "shown to hold",
            LimitState::Undecided => "undecided",
            LimitState::NotComparable => "not comparable",
        };
        let why = limit.why_not.as_ref().map_or(String::new(), |why| format!(": {why}"));
        writeln!(out, "    {} for {}: {shown}, {state}{why}", limit.limit, limit.arm)?;
    }
    let due = rule.due_ns.and_then(|due_ns| view::left(due_ns, now_ns));
    due.map_or(Ok(()), |due| writeln!(out, "    in {due}: {}", rule.then))
}
