//! What is known of the policy on this host: its generations with their rules, and the trial that goes on.
//!
//! The record is written before each change, so that whatever is in the kernel is listed in it. Which generation decides
//! is not written down: the cgroup's link tells.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::rule::Policy;
use crate::failure::Failure;
use crate::kernel::process::Process;
use crate::state::{Locked, Store};

pub const RECORD_SCHEMA: u32 = 1;
/// Most arms that labels distinguish; the oldest that no generation has are forgotten.
const SLOTS_MAX: usize = 4096;

/// Everything of the policy that is not in the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRecord {
    pub schema: u32,
    /// Shape: ascending numbers; the last may be one whose application was interrupted.
    pub generations: Vec<GenerationRecord>,
    /// Which arm each number in labels stands for: the first is number 1.
    pub slots: Vec<ArmSlot>,
    pub trial: Option<TrialRecord>,
    /// The trial of a generation that is about to decide.
    pub next_trial: Option<TrialRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerationRecord {
    /// One more than the generation before.
    pub number: u32,
    /// The kernel's number of its program; 0 until it is loaded.
    pub program_id: u32,
    /// When it was applied, RFC 3339.
    pub since: String,
    /// The file it is from; none for a policy that a trial of a default or an upgrade alone made.
    pub file: Option<PathBuf>,
    /// Its rules, those that a trial adds included.
    pub policy: Policy,
    /// The cgroup whose connections it decides, with all below it.
    pub cgroup: PathBuf,
}

/// An arm, as labels number it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArmSlot {
    pub rule: String,
    /// The algorithm's kernel name, or `keep`.
    pub arm: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    pub subject: TrialSubject,
    pub generation: u32,
    /// The generation that decides again when the trial is over without success; none: no policy.
    pub previous: Option<u32>,
    /// When it began, CLOCK_BOOTTIME, nanoseconds.
    pub began_ns: u64,
    /// When it ends unless a person decides before, CLOCK_BOOTTIME, nanoseconds; none: only a person or a limit ends it.
    pub deadline_ns: Option<u64>,
    /// How long the kernel lets it decide after the guard's latest sign of life, nanoseconds.
    pub lease_ns: u64,
    /// The process that renews the lease.
    pub guard: Process,
    /// Open sockets were moved too, and are moved back if it fails.
    pub live: bool,
    /// Algorithms that were loaded for it, and go if it fails.
    pub loaded: Vec<String>,
    /// A person stopped the steps; the guard judges on.
    pub paused: bool,
    /// It is to be kept: where the command that does so was killed, the guard or the next command goes on with that.
    #[serde(default)]
    pub confirmed: bool,
    /// SHA-256 of its rules, whatever step they have come to.
    #[serde(default)]
    pub policy: Option<String>,
    /// Where each rule with limits or steps is.
    pub rules: Vec<RuleProgress>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TrialSubject {
    #[default]
    Policy,
    /// An algorithm as the host's default.
    Default { name: String },
    /// New code for a loaded algorithm.
    Upgrade {
        /// The name whose code is replaced when the trial succeeds.
        name: String,
        /// The name of the new code while it is on trial.
        trial_name: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleProgress {
    pub rule: String,
    /// Index of the step that goes on; 0 without steps.
    pub step: usize,
    /// When the step began, CLOCK_BOOTTIME, nanoseconds.
    pub since_ns: u64,
    pub state: RuleState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    Judged,
    /// A limit was crossed and the rule says `freeze`: it stays as it is until a person decides.
    Frozen,
    /// Its last step, or its deadline, is passed.
    Passed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEnd {
    pub subject: TrialSubject,
    pub generation: u32,
    pub result: TrialResult,
    /// When, RFC 3339.
    pub at: String,
    pub why: String,
    /// The folder of the incident, where a limit was crossed.
    pub incident: Option<PathBuf>,
    /// SHA-256 of the rules that were on trial.
    #[serde(default)]
    pub policy: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialResult {
    Kept,
    /// Connections are decided as before.
    Reverted,
}

impl TrialRecord {
    /// Until when the kernel lets it decide after a sign of life at `now_ns`: a whole lease, but never past the deadline.
    ///
    /// Units: CLOCK_BOOTTIME, nanoseconds.
    pub fn lease_from(&self, now_ns: u64) -> u64 {
        let until_ns = now_ns.saturating_add(self.lease_ns);
        self.deadline_ns.map_or(until_ns, |deadline_ns| until_ns.min(deadline_ns))
    }
}

impl TrialSubject {
    /// The word for it in commands: the name of an algorithm, or `policy`.
    pub fn name(&self) -> &str {
        match self {
            TrialSubject::Policy => "policy",
            TrialSubject::Default { name } | TrialSubject::Upgrade { name, .. } => name,
        }
    }

    /// A phrase: `the policy`, `"dtcp" as the default`, `the upgrade of "dtcp"`.
    pub fn phrase(&self) -> String {
        match self {
            TrialSubject::Policy => "the policy".to_owned(),
            TrialSubject::Default { name } => format!("\"{name}\" as the default"),
            TrialSubject::Upgrade { name, .. } => format!("the upgrade of \"{name}\""),
        }
    }
}

pub fn path(store: &Store) -> PathBuf {
    folder(store).join("record.json")
}

/// The folder of everything that is known of the policy.
pub fn folder(store: &Store) -> PathBuf {
    store.folder().join("policy")
}

impl PolicyRecord {
    /// Reads the record; an empty one where there is none.
    ///
    /// Errors: there is one that cannot be read: what is in the kernel is known from its pins alone.
    pub fn read(store: &Store) -> Result<Self> {
        let empty = PolicyRecord { schema: RECORD_SCHEMA, ..PolicyRecord::default() };
        let Ok(bytes) = fs::read(path(store)) else { return Ok(empty) };
        let refuse = |why: String| {
            let what = format!("the record {} {why}", path(store).display());
            Failure::failed(what).hint("`tccc policy remove` ends the policy and removes its record")
        };
        let record: PolicyRecord =
            serde_json::from_slice(&bytes).map_err(|error| refuse(format!("is damaged: {error}")))?;
        ensure!(record.schema == RECORD_SCHEMA, refuse("is of another version of tccc".to_owned()));
        Ok(record)
    }

    /// Writes it, or removes it when nothing is left to remember.
    ///
    /// Errors: the folder is full or read-only.
    pub fn write(&self, locked: &Locked) -> Result<()> {
        let path = path(locked.store());
        if self.generations.is_empty() {
            return remove(&path, &folder(locked.store()));
        }
        locked.write_document(&path, self)
    }

    pub fn generation(&self, number: u32) -> Option<&GenerationRecord> {
        self.generations.iter().find(|generation| generation.number == number)
    }

    pub fn next_number(&self) -> u32 {
        self.generations.iter().map(|generation| generation.number).max().unwrap_or(0) + 1
    }

    /// Numbers for the arms of a policy, new ones for those that have none.
    pub fn number_arms(&mut self, policy: &Policy) {
        let wanted: Vec<ArmSlot> = slots_of(policy).collect();
        let missing: Vec<&ArmSlot> = wanted.iter().filter(|slot| !self.slots.contains(slot)).collect();
        for slot in missing {
            if self.slots.len() < SLOTS_MAX {
                self.slots.push(slot.clone());
                continue;
            }
            let in_use: Vec<ArmSlot> = self.generations.iter().flat_map(|it| slots_of(&it.policy)).collect();
            let is_free = |slot: &&mut ArmSlot| !in_use.contains(slot) && !wanted.contains(slot);
            if let Some(oldest) = self.slots.iter_mut().find(is_free) {
                *oldest = slot.clone();
            }
        }
    }

    /// The arm that a label's number stands for.
    pub fn slot(&self, number: u32) -> Option<&ArmSlot> {
        self.slots.get(number.checked_sub(1)? as usize)
    }
}

fn slots_of(policy: &Policy) -> impl Iterator<Item = ArmSlot> {
    policy.rules.iter().flat_map(|rule| {
        rule.split.arms.iter().map(|arm| ArmSlot { rule: rule.name.clone(), arm: arm.treatment.to_string() })
    })
}

fn remove(file: &Path, folder: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(anyhow::Error::from(error).context(format!("remove the record {}", file.display())));
        }
        _ => {}
    }
    let _ = fs::remove_dir(folder); // one that holds a guard's state stays until the guard ends
    Ok(())
}
