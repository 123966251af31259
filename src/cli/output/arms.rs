//! Rules and arms of this host's policy, for whoever shows connections.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use anyhow::Result;

use crate::kernel::bpf;
use crate::policy::label::LabelReader;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{self, ArmSlot, PolicyRecord};
use crate::policy::rule::{Arm, Rule};
use crate::state::Store;
use crate::trace::arms::{FindLabels, LabelMap, Labelled, ReadArms};
use crate::trace::arrival::RuleArm;

/// Longest name of a rule that an option takes, bytes.
const RULE_NAME_MAX: usize = crate::policy::rule::RULE_NAME_MAX;

/// Reads which arm each connection is in; none while there is no policy.
pub fn read_arms() -> ReadArms {
    let mut labels: Option<LabelReader> = None;
    let mut names = Names::of_host();
    Box::new(move || {
        if !labels.as_ref().is_some_and(LabelReader::is_current) {
            labels = None; // the labels of a policy that is gone are let go before others are looked for
            labels = LabelReader::open()?;
        }
        let Some(labels) = &labels else { return Ok(None) };
        // A number is in the record before a label has it.
        let sockets = labels.read()?;
        Ok(Some(Labelled { sockets, names: names.latest()?.to_vec() }))
    })
}

/// Finds the labels for programs in the kernel. A record that cannot be read leaves the arms without names.
pub fn find_labels() -> FindLabels {
    let mut names = Names::of_host();
    Box::new(move || {
        let map = bpf::open_pin(&PolicyPins::of_host()?.labels()).ok()?;
        let id = bpf::map_id(&map).ok()?;
        let all = names.latest().map(<[RuleArm]>::to_vec).unwrap_or_default();
        Some(LabelMap { id, map, names: all, current: names.current.clone() })
    })
}

/// What the numbers of labels mean, read again when the record has changed.
pub struct Names {
    store: Store,
    path: PathBuf,
    /// Inode, size and time of the record that was read.
    seen: Option<[u64; 4]>,
    names: Vec<RuleArm>,
    /// Arms of the generations that decide or wait behind a trial.
    current: BTreeSet<RuleArm>,
}

impl Names {
    /// Nothing is read yet.
    pub fn of_host() -> Self {
        let store = Store::of_host();
        Names { path: record::path(&store), store, seen: None, names: Vec::new(), current: BTreeSet::new() }
    }

    /// The names as of now: the first is number 1.
    ///
    /// Errors: the record is damaged.
    pub fn latest(&mut self) -> Result<&[RuleArm]> {
        let stamp = |file: std::fs::Metadata| [file.ino(), file.size(), file.mtime() as u64, file.mtime_nsec() as u64];
        let seen = std::fs::metadata(&self.path).ok().map(stamp);
        if seen.is_none() || seen != self.seen {
            let record = PolicyRecord::read(&self.store)?;
            let rules = record.generations.iter().flat_map(|generation| &generation.policy.rules);
            let arm = |rule: &Rule, arm: &Arm| RuleArm { rule: rule.name.clone(), arm: arm.treatment.to_string() };
            self.current = rules.flat_map(|rule| rule.split.arms.iter().map(move |one| arm(rule, one))).collect();
            self.names = record.slots.into_iter().map(named).collect();
            self.seen = seen;
        }
        Ok(&self.names)
    }
}

fn named(slot: ArmSlot) -> RuleArm {
    RuleArm { rule: slot.rule, arm: slot.arm }
}

/// Rules of this list that no generation of this host's policy has.
pub fn unknown_rules(rules: &[String]) -> Vec<&String> {
    let record = PolicyRecord::read(&Store::of_host()).unwrap_or_default();
    let has = |name: &str| record.generations.iter().flat_map(|it| &it.policy.rules).any(|rule| rule.name == name);
    rules.iter().filter(|name| !has(name)).collect()
}

pub fn parse_rule(text: &str) -> Result<String, String> {
    let is_name = (1..=RULE_NAME_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned()).ok_or_else(|| format!("expected the name of a rule, 1 to {RULE_NAME_MAX} bytes"))
}
