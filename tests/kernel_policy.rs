//! The policy on the real kernel, applied as a user applies it: which connection gets what, and that nothing is left.
//!
//! Each test has its own BPF file system, `/run` and network namespace; the policy itself is at the root of the cgroups.

mod common;
#[path = "policy_lab/mod.rs"]
mod lab;
#[path = "kernel_load/sandbox.rs"]
#[allow(dead_code, reason = "the tests of loading use the rest")]
mod sandbox;

#[path = "kernel_policy/agree.rs"]
mod agree;
#[path = "kernel_policy/broken.rs"]
mod broken;
#[path = "kernel_policy/choice.rs"]
mod choice;
#[path = "kernel_policy/ecn.rs"]
mod ecn;
#[path = "kernel_policy/explain.rs"]
mod explain;
#[path = "kernel_policy/killed.rs"]
mod killed;
#[path = "kernel_policy/live.rs"]
mod live;
#[path = "kernel_policy/matching.rs"]
mod matching;
#[path = "kernel_policy/refused.rs"]
mod refused;
#[path = "kernel_policy/service.rs"]
mod service;
#[path = "kernel_policy/split.rs"]
mod split;
#[path = "kernel_policy/swap.rs"]
mod swap;
