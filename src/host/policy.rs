//! Chooses the algorithm of each connection by rules from a file. One program at the root of the cgroups decides.
//!
//! [`file`] reads the rules, [`table`] compiles them into the kernel program's tables, and [`generation`] attaches them.
//! [`decide`] makes the same decision in Rust, for `tccc explain` and the tests.

pub mod change;
pub mod counts;
pub mod decide;
pub mod ending;
pub mod file;
pub mod generation;
pub mod hash;
pub mod label;
pub mod lease;
pub mod limit;
pub mod migrate;
pub mod needs;
pub mod pins;
pub mod program;
pub mod record;
pub mod resolve;
pub mod rule;
pub mod table;
