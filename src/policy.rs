//! Which connections get which algorithm: rules from a file, decided by one program at the root of the cgroups.

pub mod generation;
pub mod hash;
pub mod pins;
mod places;
pub mod program;
pub mod record;
pub mod resolve;
pub mod rule;
pub mod table;
