//! The gate to this host: every change of a registered name, a default or the policy passes here.

use std::path::Path;

use anyhow::Result;

use crate::policy::change::{self, Applied};
use crate::policy::generation::{Base, GenerationRole, NewGeneration};
use crate::policy::rule::Policy;

/// Puts rules into effect for good, instead of the current policy. With `live`, also for open connections.
///
/// Errors: a rule names an algorithm or a namespace that does not exist; a trial is running; the kernel refuses. The
/// current policy then stays.
/// Side effects: pins, a record, a program on the root of the cgroups, and the algorithms that the rules name.
pub fn apply_policy(policy: &Policy, file: Option<&Path>, live: bool) -> Result<Applied> {
    change::apply(NewGeneration { policy, file, role: GenerationRole::Permanent, base: Base::Any }, live)
}
