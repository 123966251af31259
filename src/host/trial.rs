//! Trials: changes that undo themselves unless a person keeps them, or a guard shows that they do no harm.
//!
//! A trial is a generation of the policy that decides on a lease. The guard is a process of its own. It renews the
//! lease, measures both arms of each rule, and ends the trial. If the guard dies, the lease expires, and the kernel
//! lets the previous generation decide again. The next command clears the rest with [`sweep`].
//!
//! Each step of a trial locks the policy or a name.
//! [`LockSubject::Trial`](crate::state::LockSubject::Trial) is locked for the whole change, so that only one
//! process at a time begins, changes or ends a trial.

pub mod arms;
pub(crate) mod begin;
pub(crate) mod control;
mod current;
pub(crate) mod default;
pub(crate) mod end;
pub mod guard;
pub mod incident;
pub mod journal;
pub mod judge;
pub mod progress;
pub mod rules;
mod shown;
mod step;
pub(crate) mod swap;
pub(crate) mod upgrade;
pub mod view;
pub mod windows;

pub use crate::policy::lease::of_trial as lease_of;
pub use begin::{ShareTrial, TrialPlan};
pub use current::{Over, current, lapsed, why_over};
