//! Scenario to plan to runs to result directory.

pub mod conditions;
pub mod net;
pub mod plan;
pub mod scenario;
