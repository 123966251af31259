//! What `tccc load --confirm` loaded: kept by a person, or undone when its time is over.

use std::time::Duration;

use anyhow::Result;

use crate::loader;
use crate::loader::confirm::{end_wait, is_overdue};
use crate::policy::needs::PolicyNeeds;
use crate::state::{LockSubject, Record, Store, Unconfirmed, is_held};
use shared::kernel::clock;
use shared::kernel::probe::Features;

/// Keeps a registration on trial, or all of them without a name. Returns their records, sorted by name.
///
/// Side effects: ends the processes that would have undone them.
///
/// # Errors
/// Nothing of that name waits to be confirmed; its time is over; not permitted.
pub fn confirm(name: Option<&str>) -> Result<Vec<Record>> {
    loader::confirm::confirm(name)
}

/// Waits until the time is over and undoes the registration, unless it was confirmed or unloaded before. Returns what
/// happened.
///
/// # Errors
/// Not permitted; a signal ends the wait for a lock; the kernel keeps the name registered.
pub fn expire(name: &str, until_ns: u64, features: &Features) -> Result<Option<String>> {
    clock::wait_until_boottime(until_ns)?;
    end(name, |it| it.until_ns == until_ns, Duration::MAX, features)
}

/// Undoes an unconfirmed change after its time if the process that should undo it is dead. Returns what happened.
///
/// Skips names that another process is changing.
///
/// # Errors
/// Not permitted; the kernel keeps a name registered.
pub fn clear_overdue(features: &Features) -> Result<Vec<String>> {
    let is_late = |record: &Record| record.unconfirmed.as_ref().is_some_and(is_overdue);
    let mut cleared = Vec::new();
    for Record { name, .. } in Store::of_host().records().into_iter().filter(is_late) {
        match end(&name, is_overdue, Duration::ZERO, features) {
            Err(error) if is_held(&error) => {}
            ended => cleared.extend(ended?),
        }
    }
    Ok(cleared)
}

fn end(
    name: &str,
    is_meant: impl Fn(&Unconfirmed) -> bool,
    patience: Duration,
    features: &Features,
) -> Result<Option<String>> {
    // With a damaged record nobody knows what the policy needs. What nobody confirmed then goes.
    let policy = match PolicyNeeds::steady_within(patience) {
        Err(error) if is_held(&error) => return Err(error),
        steady => steady.ok(),
    };
    let locked = Store::of_host().lock_within(LockSubject::Name(name.to_owned()), patience)?;
    let rule = policy.as_ref().and_then(|policy| policy.rule_giving(name));
    end_wait(&locked, name, is_meant, rule, features)
}
