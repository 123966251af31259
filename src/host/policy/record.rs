//! The record of this host's policy: its generations with their rules, and the running trial.
//!
//! The record is written before each change, so that it lists everything in the kernel. It does not say which
//! generation decides: the cgroup's link shows that.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::ending::TrialEnding;
use super::rule::Policy;
use crate::state::{Locked, Requester, Store};
use shared::failure::Failure;
use shared::kernel::io_error;
use shared::kernel::process::Process;

pub const RECORD_SCHEMA: u32 = 1;
/// The most arms that labels distinguish. The oldest arms that no generation has are forgotten.
const SLOTS_MAX: usize = 4096;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRecord {
    pub schema: u32,
    /// Shape: ascending numbers; applying the last one may have been interrupted.
    pub generations: Vec<GenerationRecord>,
    /// The highest number that a generation had while labels of open connections may have it. 0: there are no labels.
    #[serde(default)]
    pub last_number: u32,
    /// The arms by their number in labels; the first has number 1.
    pub slots: Vec<ArmSlot>,
    pub trial: Option<TrialRecord>,
    /// The trial of a generation that is about to decide.
    pub next_trial: Option<TrialRecord>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GenerationRecord {
    pub number: u32,
    /// The kernel's id of the program. 0 until it is loaded.
    pub program_id: u32,
    /// RFC 3339.
    pub since: String,
    /// `None` if only a trial of a default or an upgrade made the policy.
    pub file: Option<PathBuf>,
    /// Who applied the policy. `None` in records of earlier versions.
    #[serde(default)]
    pub by: Option<Requester>,
    /// The digest of the declared policy with its steps and limits. `None` if a person applied it, and in records of
    /// earlier versions.
    #[serde(default)]
    pub declared: Option<String>,
    /// Includes the rules that a trial adds.
    pub policy: Policy,
    /// The policy decides connections in this cgroup and below.
    pub cgroup: PathBuf,
}

/// Where a policy comes from. A trial that adds a rule does not change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOrigin {
    pub file: Option<PathBuf>,
    pub by: Option<Requester>,
    /// The digest of the declared policy.
    pub declared: Option<String>,
}

impl PolicyOrigin {
    /// Of a policy that a command applies, from a file or without one.
    pub fn command(file: Option<&Path>) -> Self {
        PolicyOrigin { file: file.map(PathBuf::from), by: Some(Requester::command()), declared: None }
    }

    /// `digest`: that of the declared policy.
    pub fn declaration(folder: &Path, file: &Path, digest: String) -> Self {
        let by = Some(Requester::declaration(folder));
        PolicyOrigin { file: Some(file.to_owned()), by, declared: Some(digest) }
    }

    /// Of a generation that another one replaces for the same policy. Without one, of this command.
    pub fn of(generation: Option<&GenerationRecord>) -> Self {
        let known = |it: &GenerationRecord| PolicyOrigin {
            file: it.file.clone(),
            by: it.by.clone(),
            declared: it.declared.clone(),
        };
        generation.map_or_else(|| PolicyOrigin::command(None), known)
    }
}

/// The arm that a number in labels stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArmSlot {
    pub rule: String,
    /// An algorithm's kernel name, or `keep`.
    pub arm: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    pub subject: TrialSubject,
    pub generation: u32,
    /// Decides again if the trial fails. `None` if there was no policy.
    pub previous: Option<u32>,
    /// CLOCK_BOOTTIME, nanoseconds.
    pub began_ns: u64,
    /// The trial ends then unless a person decides earlier. CLOCK_BOOTTIME, nanoseconds. `None` if only a person or a
    /// limit ends the trial.
    pub deadline_ns: Option<u64>,
    /// How long the kernel lets the trial decide after the guard renewed the lease, nanoseconds.
    pub lease_ns: u64,
    /// The process that renews the lease.
    pub guard: Process,
    /// Open sockets were moved too. They are moved back if the trial fails.
    pub live: bool,
    /// Algorithms that were loaded for the trial. They are unloaded if it fails.
    pub loaded: Vec<String>,
    /// A person stopped the steps. The guard still judges.
    pub paused: bool,
    /// A person confirmed the trial. If that command is killed, the guard or the next command finishes its work.
    #[serde(default)]
    pub confirmed: bool,
    /// The trial is about to be reverted. If that process is killed, the guard or the next command finishes its work.
    #[serde(default)]
    pub ending: Option<TrialEnding>,
    /// SHA-256 of the rules when the trial began.
    #[serde(default)]
    pub policy: Option<String>,
    /// Shape: one entry for each rule with limits or steps.
    pub rules: Vec<RuleProgress>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum TrialSubject {
    #[default]
    Policy,
    /// An algorithm as the host's default.
    Default { name: String },
    /// New code for the loaded algorithm `name`. The new code has the name `trial_name` during the trial.
    Upgrade { name: String, trial_name: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleProgress {
    pub rule: String,
    /// Index of the current step. 0 without steps.
    pub step: usize,
    /// Start of the step, CLOCK_BOOTTIME, nanoseconds.
    pub since_ns: u64,
    pub state: RuleState,
    /// Limits that the step before showed to hold, such as `retransmitted<1.2x for dtcp`.
    #[serde(default)]
    pub shown: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleState {
    Judged,
    /// A limit was crossed and the rule says `freeze`. The share stays until a person decides.
    Frozen,
    /// Past the last step or the deadline.
    Passed,
}

impl TrialRecord {
    /// The end of a lease that is renewed at `now_ns`, never past the deadline. CLOCK_BOOTTIME, nanoseconds.
    pub fn lease_from(&self, now_ns: u64) -> u64 {
        let until_ns = now_ns.saturating_add(self.lease_ns);
        self.deadline_ns.map_or(until_ns, |deadline_ns| until_ns.min(deadline_ns))
    }
}

impl TrialSubject {
    /// The word in commands: the name of an algorithm, or `policy`.
    pub fn name(&self) -> &str {
        match self {
            TrialSubject::Policy => "policy",
            TrialSubject::Default { name } | TrialSubject::Upgrade { name, .. } => name,
        }
    }

    /// For example `"dtcp" as the default`.
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

pub fn folder(store: &Store) -> PathBuf {
    store.folder().join("policy")
}

impl PolicyRecord {
    /// Reads the record. Without one, the result is empty.
    ///
    /// # Errors
    /// The record is damaged, or of another version. Only the pins then show what is in the kernel.
    pub fn read(store: &Store) -> Result<Self> {
        let empty = PolicyRecord { schema: RECORD_SCHEMA, ..PolicyRecord::default() };
        let Ok(bytes) = fs::read(path(store)) else { return Ok(empty) };
        let refuse = |why: String| {
            let what = format!("the record {} {why}", path(store).display());
            Failure::failed(what).hint("`tccc policy remove` ends the policy and removes its record")
        };
        let record: PolicyRecord =
            serde_json::from_slice(&bytes).map_err(|error| refuse(format!("is damaged: {error}")))?;
        ensure!(record.schema == RECORD_SCHEMA, refuse("was written by another version of tccc".to_owned()));
        Ok(record)
    }

    /// Removes the record if it has no generation and open connections have no labels.
    pub(crate) fn write(&self, locked: &Locked) -> Result<()> {
        let path = path(locked.store());
        if !self.generations.is_empty() || self.last_number != 0 {
            return locked.write_document(&path, self);
        }
        io_error::remove_file(&path).with_context(|| format!("remove the record {}", path.display()))?;
        let _ = fs::remove_dir(folder(locked.store())); // stays with a guard's state in it until the guard ends
        Ok(())
    }

    pub fn generation(&self, number: u32) -> Option<&GenerationRecord> {
        self.generations.iter().find(|generation| generation.number == number)
    }

    /// A number that no label of an open connection has.
    pub fn take_number(&mut self) -> u32 {
        let highest = self.generations.iter().map(|generation| generation.number).max().unwrap_or(0);
        self.last_number = self.last_number.max(highest).saturating_add(1);
        self.last_number
    }

    /// Numbers the arms of a policy that have no number yet.
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

    /// The arm of a number in labels.
    pub fn slot(&self, number: u32) -> Option<&ArmSlot> {
        self.slots.get(number.checked_sub(1)? as usize)
    }
}

/// Reads the policy's record again only after a change, because a record with many prefixes takes megabytes.
#[derive(Debug, Default)]
pub struct CachedRecord {
    pub record: PolicyRecord,
    /// Device, inode, size and time of the record's file. Each change makes a new file.
    stamp: Option<(u64, u64, u64, i64, i64)>,
}

impl CachedRecord {
    /// # Errors
    /// As [`PolicyRecord::read`].
    pub fn refresh(&mut self, store: &Store) -> Result<()> {
        let stamp = fs::metadata(path(store)).ok();
        let stamp = stamp.map(|it| (it.dev(), it.ino(), it.size(), it.mtime(), it.mtime_nsec()));
        if stamp.is_none() || stamp != self.stamp {
            self.record = PolicyRecord::read(store)?;
            self.stamp = stamp; // of a file that is not newer than what was read
        }
        Ok(())
    }
}

fn slots_of(policy: &Policy) -> impl Iterator<Item = ArmSlot> {
    policy.rules.iter().flat_map(|rule| {
        rule.split.arms.iter().map(|arm| ArmSlot { rule: rule.name.clone(), arm: arm.treatment.to_string() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once the stand-by parsed the whole record every second.
    #[test]
    fn unchanged_record_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let file = path(&store);
        fs::create_dir(file.parent().unwrap()).unwrap();
        let record = PolicyRecord { schema: RECORD_SCHEMA, last_number: 7, ..PolicyRecord::default() };
        let text = serde_json::to_string(&record).unwrap();
        fs::write(&file, &text).unwrap();
        let mut cache = CachedRecord::default();
        cache.refresh(&store).unwrap();
        let written = fs::metadata(&file).unwrap().modified().unwrap();
        fs::write(&file, "x".repeat(text.len())).unwrap();
        fs::File::options().write(true).open(&file).unwrap().set_modified(written).unwrap();
        cache.refresh(&store).unwrap();
        assert_eq!(cache.record, record);
        fs::write(&file, "x").unwrap();
        assert!(cache.refresh(&store).is_err(), "a changed record is read");
        fs::remove_file(&file).unwrap();
        cache.refresh(&store).unwrap();
        assert_eq!(cache.record.last_number, 0);
    }
}
