//! Computes a report from the runs of a result directory: cells, verdicts, findings, the choice of a parameter.

pub mod bound;
pub mod cell;
pub mod check;
pub mod compare;
pub mod finding;
pub mod fleet;
pub mod flows;
mod index;
pub mod input;
pub mod interval;
pub mod links;
mod notices;
pub mod number;
pub mod numbers;
pub mod per_run;
pub mod perturbed;
pub mod report;
pub mod rerun;
pub mod selection;
pub mod swept;
mod verdict;
pub mod windows;
