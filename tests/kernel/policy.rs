//! The policy on the real kernel, applied as a user applies it: which connection gets what, and that nothing is left.
//!
//! Each test has its own BPF file system, `/run` and network namespace; the policy itself is at the root of the cgroups.

mod agree;
mod broken;
mod choice;
mod ecn;
mod explain;
mod killed;
mod live;
mod matching;
mod refused;
mod service;
mod split;
mod swap;
