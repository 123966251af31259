//! Which connections get which algorithm: rules from a file, decided by one program at the root of the cgroups.

pub mod hash;
mod places;
pub mod program;
pub mod rule;
pub mod table;
