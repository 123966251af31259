//! Loading into the running kernel: what works, what is refused, and that nothing is left behind.
//!
//! Each test has its own BPF file system and `/run`, in a mount namespace of its own.

mod common;
#[path = "policy_lab/fault.rs"]
#[allow(dead_code, reason = "for other tests")]
mod fault;
#[path = "kernel_load/sandbox.rs"]
mod sandbox;

#[path = "kernel_load/capabilities.rs"]
mod capabilities;
#[path = "kernel_load/companion.rs"]
mod companion;
#[path = "kernel_load/confirm.rs"]
mod confirm;
#[path = "kernel_load/disturbed.rs"]
mod disturbed;
#[path = "kernel_load/exhausted.rs"]
mod exhausted;
#[path = "kernel_load/killed.rs"]
mod killed;
#[path = "kernel_load/locks.rs"]
mod locks;
#[path = "kernel_load/refused.rs"]
mod refused;
#[path = "kernel_load/registered.rs"]
mod registered;
#[path = "kernel_load/tables.rs"]
mod tables;
