//! The host ring: an algorithm's native build, driven by a simulated kernel, and what has to hold whatever happens.
//!
//! `bpf/host/shim.c` gives the socket and the kernel functions that algorithms call; this gives the order of the calls.

pub mod checked;
pub mod connection;
pub mod kernel;
pub mod native;
pub mod operations;
pub mod path;
pub mod property;
pub mod sender;
