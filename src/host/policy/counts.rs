//! Reads the kernel's counts of what a generation did with connections.

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use serde::Serialize;
use zerocopy::FromBytes as _;

use super::pins::PolicyPins;
use super::program::types::policy_counts;
use super::rule::{ARMS_MAX, Policy};

/// Connections of one arm by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ArmCounts {
    /// The arm says `keep`.
    pub kept: u64,
    /// Got the arm's algorithm.
    pub set: u64,
    /// A program chose the algorithm.
    pub chosen: u64,
    /// A route names the algorithm, and the rule respects routes.
    pub routed: u64,
    /// The kernel refused: a route locks the algorithm.
    pub locked: u64,
    /// The kernel refused: the arm's algorithm was not registered.
    pub missing: u64,
    /// The kernel refused for another reason.
    pub failed: u64,
    /// Among `set`: a route had named another algorithm.
    pub over_route: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PolicyCounts {
    /// Shape: rule by rule, arm by arm, as in the policy.
    pub arms: Vec<Vec<ArmCounts>>,
    pub unmatched: u64,
    /// cgroups that did not fit into the kernel's table. No rule by cgroup matches connections in them.
    pub missed_cgroups: u64,
}

impl ArmCounts {
    pub fn total(&self) -> u64 {
        self.kept + self.set + self.chosen + self.routed + self.refused()
    }

    pub fn refused(&self) -> u64 {
        self.locked + self.missing + self.failed
    }
}

/// # Errors
/// The generation is not pinned; not permitted.
pub fn read(pins: &PolicyPins, number: u32, policy: &Policy) -> Result<PolicyCounts> {
    let counts = MapHandle::from_pinned_path(pins.part(number, "counts")).context("open the policy's counts")?;
    let at = |place: usize| -> Result<ArmCounts> {
        let of_cpus = counts.lookup_percpu(&(place as u32).to_ne_bytes(), MapFlags::ANY).context("read the counts")?;
        let mut sums = policy_counts::default();
        for of_cpu in of_cpus.iter().flatten().filter_map(|bytes| policy_counts::read_from_bytes(bytes).ok()) {
            sums.outcomes.iter_mut().zip(of_cpu.outcomes).for_each(|(sum, count)| *sum += count);
            sums.over_route += of_cpu.over_route;
        }
        let policy_counts { outcomes: [kept, set, chosen, routed, locked, missing, failed], over_route } = sums;
        Ok(ArmCounts { kept, set, chosen, routed, locked, missing, failed, over_route })
    };
    let mut places = 0..;
    let mut of_rule = |arms: usize| places.by_ref().take(arms).map(at).collect::<Result<Vec<_>>>();
    let arms = policy.rules.iter().map(|rule| of_rule(rule.split.arms.len())).collect::<Result<_>>()?;
    let unmatched = at(ARMS_MAX)?.kept;
    let missed = MapHandle::from_pinned_path(pins.part(number, "missed")).context("open the count of cgroups")?;
    let missed = missed.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).context("read the count of cgroups")?;
    let missed_cgroups = missed.and_then(|value| value.try_into().ok()).map_or(0, u64::from_ne_bytes);
    Ok(PolicyCounts { arms, unmatched, missed_cgroups })
}
