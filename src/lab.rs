//! Plans experiments and runs them on this host's kernel.

mod algorithms;
pub mod busy;
mod calibrate;
mod conditions;
pub mod cost;
pub mod event_line;
mod follow;
pub mod layout;
pub(crate) mod machine;
pub(crate) mod measure;
pub mod part;
pub(crate) mod perturb;
pub mod plan;
pub(crate) mod pool;
mod record;
pub(crate) mod results;
pub(crate) mod room;
pub mod runner;
mod schedule;
pub mod traffic;
pub mod work;
