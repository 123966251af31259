//! Flows, metrics, statistics, notices: pure, no clock, no I/O.

pub mod run;
