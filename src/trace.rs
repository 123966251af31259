//! Sockets as they happen: one event struct, live or recorded.

pub mod event;
