//! Loading into the running kernel: what works, what is refused, and that nothing is left behind.
//!
//! Each test has its own BPF file system and `/run`, in a mount namespace of its own.

mod capabilities;
mod companion;
mod confirm;
mod disturbed;
mod exhausted;
mod killed;
mod locks;
pub mod refused;
mod registered;
mod tables;
