//! Scenario to plan to runs to result directory.

pub mod calibrate;
pub mod conditions;
pub mod net;
pub mod plan;
pub mod results;
pub mod scenario;
pub mod traffic;
