//! Which connections get which algorithm: rules from a file, decided by one program at the root of the cgroups.
//!
//! [`file`] reads the rules, [`table`] turns them into what the kernel program looks up, [`generation`] makes them decide,
//! [`decide`] is the same decision in Rust, for `tccc explain` and for the tests.

pub mod change;
pub mod counts;
pub mod decide;
pub mod file;
pub mod generation;
pub mod hash;
pub mod label;
pub mod limit;
pub mod pins;
mod places;
pub mod program;
pub mod record;
pub mod resolve;
pub mod rule;
pub mod sweep;
pub mod table;
