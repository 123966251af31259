//! Scenario to plan to runs to result directory.

pub mod net;
pub mod plan;
pub mod scenario;
