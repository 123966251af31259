//! Which connections get which algorithm: rules from a file, decided by one program at the root of the cgroups.

pub mod change;
pub mod counts;
pub mod decide;
pub mod generation;
pub mod hash;
mod iterate;
pub mod label;
pub mod pins;
mod places;
pub mod program;
pub mod record;
pub mod resolve;
pub mod rule;
pub mod sweep;
pub mod table;
