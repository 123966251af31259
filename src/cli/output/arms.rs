//! Names of the rules and arms of this host's policy, for verbs that show connections.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;

use anyhow::Result;

use host::policy::label::LabelReader;
use host::policy::pins::PolicyPins;
use host::policy::record::{self, PolicyRecord};
use host::policy::rule::{Arm, Rule};
use host::state::Store;
use host::trace::arms::{FindLabels, LabelMap, Labelled, ReadArms};
use shared::arrival::RuleArm;
use shared::kernel::bpf;

/// Reads the arm of each connection; `None` while there is no policy.
pub fn read_arms() -> ReadArms {
    let mut labels: Option<LabelReader> = None;
    let mut names = ArmNames::of_host();
    Box::new(move || {
        if !labels.as_ref().is_some_and(LabelReader::is_current) {
            labels = None; // closes the labels of a removed policy before it looks for others
            labels = LabelReader::open()?;
        }
        let Some(labels) = &labels else { return Ok(None) };
        // The record names a number before any label uses it, so the names are read last.
        let sockets = labels.read()?;
        Ok(Some(Labelled { sockets, names: names.latest()?.to_vec() }))
    })
}

/// Finds the labels for programs in the kernel. Arms have no names if the record cannot be read.
pub fn find_labels() -> FindLabels {
    let mut names = ArmNames::of_host();
    Box::new(move || {
        let map = bpf::open_pin(&PolicyPins::of_host()?.labels()).ok()?;
        let id = bpf::map_id(&map).ok()?;
        let all = names.latest().map(<[RuleArm]>::to_vec).unwrap_or_default();
        Some(LabelMap { id, map, names: all, current: names.current.clone() })
    })
}

/// The arm behind each label number, read again whenever the record changes.
struct ArmNames {
    store: Store,
    /// Inode, size and time of the record that was read.
    seen: Option<[u64; 4]>,
    names: Vec<RuleArm>,
    /// Arms of the current generation, and of one that waits behind a trial.
    current: BTreeSet<RuleArm>,
}

impl ArmNames {
    fn of_host() -> Self {
        ArmNames { store: Store::of_host(), seen: None, names: Vec::new(), current: BTreeSet::new() }
    }

    /// Index 0 has label number 1.
    ///
    /// # Errors
    /// The record is damaged.
    fn latest(&mut self) -> Result<&[RuleArm]> {
        let stamp = |file: std::fs::Metadata| [file.ino(), file.size(), file.mtime() as u64, file.mtime_nsec() as u64];
        let seen = std::fs::metadata(record::path(&self.store)).ok().map(stamp);
        if seen.is_none() || seen != self.seen {
            let record = PolicyRecord::read(&self.store)?;
            let rules = record.generations.iter().flat_map(|generation| &generation.policy.rules);
            let arm = |rule: &Rule, arm: &Arm| RuleArm { rule: rule.name.clone(), arm: arm.treatment.to_string() };
            self.current = rules.flat_map(|rule| rule.split.arms.iter().map(move |one| arm(rule, one))).collect();
            self.names = record.slots.into_iter().map(|slot| RuleArm { rule: slot.rule, arm: slot.arm }).collect();
            self.seen = seen;
        }
        Ok(&self.names)
    }
}
