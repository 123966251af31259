//! What a link does to packets, as plain data: rates, delays, queues, losses, and what changes by time.
//!
//! Pure, and known to whoever builds links: the emulator, netem, and virtual time.

pub mod acks;
mod cellular;
pub mod change;
pub mod draws;
mod link;
pub mod loss;
pub mod named;
mod range;
pub mod rate_trace;
pub mod reorder;
pub mod route;
pub mod steps;
pub mod trace_file;

pub use self::link::{Direction, LinkConfig, OutOfRange, QueueLimit};
pub use self::range::{MTU_RANGE, RATE_RANGE};
