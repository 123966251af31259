//! Sockets as they happen: one event struct, live or recorded.

pub mod event;
pub mod filter;
pub mod live;
mod program;
pub mod snapshot;
