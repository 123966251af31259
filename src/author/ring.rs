//! The host ring: an algorithm's native build, driven by a simulated kernel, and the properties of every algorithm.
//!
//! `bpf/host/shim.c` provides the socket and the kernel functions that algorithms call. This module provides the order
//! of the calls.

pub mod connection;
pub mod kernel;
pub mod native;
pub mod operations;
pub mod path;
pub mod property;
pub mod rate;
pub mod sender;
