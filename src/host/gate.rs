//! The gate to this host: every change of a registered name, of a default or of the policy passes here.
//!
//! A change of the policy locks the policy. A change of a name shares that lock until it is done, so that the policy
//! cannot change between check and change, and commands on different names do not wait for each other. Programs are verified
//! before the lock is taken. Locks are taken in the order trial, policy, name, default, records.
//!
//! The functions behind the gate are visible only in [`crate::host`].

mod name;
mod unconfirmed;

use anyhow::Result;

use crate::policy::change::{self, Applied};
use crate::policy::generation::{Base, GenerationRole, NewGeneration};
use crate::policy::record::PolicyOrigin;
use crate::policy::rule::Policy;
use crate::trial::end;
use shared::kernel::probe::Features;

pub use self::name::{
    EndedName, declare, give_back_default, hand_over, load, load_receiver, make_default, reload, rollback, unload,
    unload_all, upgrade,
};
pub use self::unconfirmed::{clear_overdue, confirm, expire};
pub use crate::trial::begin::begin as begin_trial;
pub use crate::trial::control::{promote, set_paused};
pub use crate::trial::default::on_trial as try_default;
pub use crate::trial::end::{abort, clear_over, interrupt, keep, remove_policy, removed};
pub use crate::trial::upgrade::on_trial as try_upgrade;

/// Puts rules into effect for good, instead of the current policy. With `live`, also for open connections.
///
/// Side effects: pins, a record, a program on the root of the cgroups, and the algorithms that the rules name.
///
/// # Errors
/// A rule names an algorithm or a namespace that does not exist; a trial is running; the kernel refuses. The current
/// policy then stays.
pub fn apply_policy(policy: &Policy, origin: &PolicyOrigin, live: bool) -> Result<Applied> {
    change::apply(NewGeneration { policy, origin, role: GenerationRole::Permanent, base: Base::Any }, live)
}

/// Removes leftovers of dead processes: a trial whose lease is over, and unconfirmed changes after their time.
///
/// # Errors
/// Not permitted; the record of the policy is damaged.
pub fn sweep(features: &Features) -> Result<()> {
    end::sweep()?;
    clear_overdue(features).map(drop)
}
