//! Trials as a user runs them: how they end, what the kernel does without their guard, and what the guard sees.
//!
//! A policy decides for the whole host. Rules of these tests are for network namespaces of their own, except those of a
//! default on trial, which is the host's.

mod link;

mod ended;
mod guarded;
mod killed;
mod lease;
mod refused;
mod stand_by;
mod steps;
mod sums;
mod upgraded;
