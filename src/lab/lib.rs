//! The laboratory of tccc: from a scenario to results beside a paper's.
//!
//! A [`scenario`] says what is measured on which [`path`]; [`plan`] lists its runs. They run on this host's kernel over links
//! of [`emulate`] ([`runner`]), on Linux' own TCP in virtual time ([`virtual_time`]), or in the papers' simulator ([`ns2`]).
//! [`report`] reads the result directory.

mod algorithms;
pub mod busy;
mod c_types;
mod calibrate;
mod conditions;
pub mod cost;
pub mod emulate;
pub mod evaluation;
pub mod event_line;
mod follow;
pub mod layout;
pub mod load;
pub mod machine;
pub(crate) mod measure;
pub mod ns2;
pub mod part;
pub mod path;
pub(crate) mod perturb;
pub mod plan;
pub(crate) mod pool;
mod record;
pub mod report;
pub mod results;
pub mod room;
pub mod runner;
pub mod scenario;
mod schedule;
pub mod traffic;
pub mod virtual_time;
pub mod work;
