//! Result directories as they lie on disk, and which of them are parts of one experiment.

pub mod blocks;
pub mod directory;
pub mod join;
mod scenarios;
