//! Which connections get which algorithm: rules from a file, decided by one program at the root of the cgroups.

pub mod file;
pub mod limit;
mod nearest;
pub mod rule;
