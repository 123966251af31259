//! Follows sockets: one event struct, live or recorded.

pub mod arms;
pub mod cost;
pub mod filter;
pub mod gather;
pub mod limited;
pub mod live;
mod program;
pub mod record;
pub mod replay;
pub mod rules;
pub mod snapshot;
pub mod source;
mod tick;
pub mod totals;
pub mod watch;
pub mod whole;

pub use shared::{arrival, event};
