//! Trials as a user runs them: how they end, what the kernel does without their guard, and what the guard sees.
//!
//! A policy decides for the whole host. Rules of these tests are for network namespaces of their own, except those of a
//! default on trial, which is the host's.

mod common;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "kernel_load/sandbox.rs"]
mod sandbox;

#[path = "kernel_trial/lab.rs"]
mod lab;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "view/pty.rs"]
mod pty;

#[path = "kernel_trial/link.rs"]
mod link;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "serve_lab/systemd.rs"]
mod systemd;

#[path = "kernel_trial/ended.rs"]
mod ended;
#[path = "kernel_trial/guarded.rs"]
mod guarded;
#[path = "kernel_trial/killed.rs"]
mod killed;
#[path = "kernel_trial/lease.rs"]
mod lease;
#[path = "kernel_trial/refused.rs"]
mod refused;
#[path = "kernel_trial/stand_by.rs"]
mod stand_by;
#[path = "kernel_trial/steps.rs"]
mod steps;
#[path = "kernel_trial/sums.rs"]
mod sums;
#[path = "kernel_trial/upgraded.rs"]
mod upgraded;
