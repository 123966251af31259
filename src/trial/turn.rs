//! One process at a time begins, changes or ends a trial.
//!
//! Each of these takes several steps, and the locks of the policy and of names are held for one step at a time.

use anyhow::Result;

use crate::state::{LockSubject, Locked, Store};

/// The right to begin, change or end a trial, until it is dropped or the process dies.
#[derive(Debug)]
pub struct Turn {
    _lock: Locked,
}

impl Turn {
    /// Waits until no other process has it.
    ///
    /// Errors: not permitted; another process has it for too long.
    pub fn take() -> Result<Turn> {
        Ok(Turn { _lock: Store::of_host().lock(LockSubject::Trial)? })
    }
}
