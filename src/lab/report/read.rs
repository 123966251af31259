//! Reads result directories, and joins those that are parts of one experiment.

pub mod blocks;
pub mod directory;
pub mod join;
mod scenarios;
