//! What a generation did with the connections that it decided, counted in the kernel.

use std::ops::AddAssign;

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;

use super::label::LabelOutcome;
use super::pins::PolicyPins;
use super::rule::{ARMS_MAX, Policy};

const OUTCOMES: usize = LabelOutcome::ALL.len();
/// Bytes of `struct policy_counts`.
const COUNTS_BYTES: usize = (OUTCOMES + 1) * 8;

/// Connections of one arm by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ArmCounts {
    /// The arm says keep.
    pub kept: u64,
    /// They got the arm's algorithm.
    pub set: u64,
    /// A program chose their algorithm.
    pub chosen: u64,
    /// A route names their algorithm, and the rule yields to routes.
    pub routed: u64,
    /// A route locks their algorithm: the kernel refused.
    pub locked: u64,
    /// The arm's algorithm was not registered: the kernel refused.
    pub missing: u64,
    /// The kernel refused for another reason.
    pub failed: u64,
    /// Of those set: a route had named another algorithm.
    pub over_route: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PolicyCounts {
    /// Shape: rule by rule, arm by arm, as in the policy.
    pub arms: Vec<Vec<ArmCounts>>,
    /// Connections that no rule matched.
    pub unmatched: u64,
    /// cgroups that found no room: connections in them were decided as if no rule were for them.
    pub missed_cgroups: u64,
}

impl ArmCounts {
    /// All connections that were decided by the arm.
    pub fn total(&self) -> u64 {
        self.kept + self.set + self.chosen + self.routed + self.refused()
    }

    /// Those that the kernel refused to change.
    pub fn refused(&self) -> u64 {
        self.locked + self.missing + self.failed
    }

    fn of(bytes: &[u8]) -> Self {
        let word = |at: usize| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("eight bytes"));
        let of = |outcome: LabelOutcome| word(outcome as usize);
        ArmCounts {
            kept: of(LabelOutcome::Kept),
            set: of(LabelOutcome::Set),
            chosen: of(LabelOutcome::Chosen),
            routed: of(LabelOutcome::Routed),
            locked: of(LabelOutcome::Locked),
            missing: of(LabelOutcome::Missing),
            failed: of(LabelOutcome::Failed),
            over_route: word(OUTCOMES),
        }
    }
}

impl AddAssign for ArmCounts {
    fn add_assign(&mut self, other: Self) {
        self.kept += other.kept;
        self.set += other.set;
        self.chosen += other.chosen;
        self.routed += other.routed;
        self.locked += other.locked;
        self.missing += other.missing;
        self.failed += other.failed;
        self.over_route += other.over_route;
    }
}

/// Reads the counts of a generation.
///
/// Errors: it is not pinned; not permitted.
pub fn read(pins: &PolicyPins, number: u32, policy: &Policy) -> Result<PolicyCounts> {
    let counts = MapHandle::from_pinned_path(pins.part(number, "counts")).context("open the policy's counts")?;
    let at = |place: usize| -> Result<ArmCounts> {
        let values = counts.lookup_percpu(&(place as u32).to_ne_bytes(), MapFlags::ANY).context("read the counts")?;
        let mut sum = ArmCounts::default();
        let whole = values.iter().flatten().filter(|value| value.len() >= COUNTS_BYTES);
        whole.for_each(|value| sum += ArmCounts::of(value));
        Ok(sum)
    };
    let mut places = 0..;
    let mut of_rule = |arms: usize| places.by_ref().take(arms).map(at).collect::<Result<Vec<_>>>();
    Ok(PolicyCounts {
        arms: policy.rules.iter().map(|rule| of_rule(rule.split.arms.len())).collect::<Result<_>>()?,
        unmatched: at(ARMS_MAX)?.kept,
        missed_cgroups: missed_cgroups(pins, number)?,
    })
}

fn missed_cgroups(pins: &PolicyPins, number: u32) -> Result<u64> {
    let missed = MapHandle::from_pinned_path(pins.part(number, "missed")).context("open the count of cgroups")?;
    let value = missed.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).context("read the count of cgroups")?;
    let word = value.and_then(|value| value.try_into().ok());
    Ok(word.map_or(0, u64::from_ne_bytes))
}
