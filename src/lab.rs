//! Plans and what carries them out on the kernel of this host: calibrate, register, trace, send, measure, keep.

pub mod algorithms;
pub mod block;
pub mod busy;
pub mod calibrate;
pub mod conditions;
pub mod cost;
pub mod follow;
pub mod layout;
pub mod measure;
pub mod part;
pub mod plan;
pub mod pool;
mod record;
pub mod results;
pub mod runner;
pub mod schedule;
pub mod traffic;
pub mod work;
