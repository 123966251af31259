//! Trials: a change that undoes itself unless somebody keeps it, or a guard shows that it does no harm.
//!
//! A trial is a generation of the policy that decides on a lease. The guard, a process of its own, renews the lease, measures
//! both arms of each rule, and ends the trial. When the guard dies, the lease ends, and the generation before decides again:
//! in the kernel, without anybody's help. What is left then is cleared by the next command, through [`sweep`].

pub mod advance;
pub mod arms;
mod begin;
pub mod end;
pub mod guard;
pub mod incident;
pub mod journal;
pub mod judge;
pub mod overlay;
pub mod progress;
mod standing;
pub mod steer;
mod swap;
mod turn;
pub mod upgrade;
pub mod view;

pub use begin::{TrialPlan, begin};
pub use end::{clear_over, sweep};
pub use standing::{current, lease_of, why_over};
