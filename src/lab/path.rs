//! The properties of links as plain data: rates, delays, queues, losses, and changes over time.
//!
//! Pure. The emulator, netem and virtual time build links from this data.

mod cellular;
pub mod change;
pub mod discipline;
mod draws;
pub mod hold;
pub mod jitter;
mod link;
pub mod loss;
pub(crate) mod named;
pub mod policer;
mod range;
pub mod rate_trace;
pub mod remark;
pub mod reorder;
pub(crate) mod request;
pub(crate) mod route;
pub(crate) mod times;
pub(crate) mod trace_file;

pub use self::link::QueueLimit;
pub use self::link::{Direction, LinkConfig};
pub(crate) use self::range::{DELAY_MAX, MTU_RANGE, RATE_RANGE};
