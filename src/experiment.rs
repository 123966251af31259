//! Scenario to plan to runs to result directory.

pub mod algorithms;
pub mod block;
pub mod busy;
pub mod calibrate;
pub mod conditions;
pub mod cost;
pub mod follow;
pub mod measure;
pub mod net;
pub mod ns2;
pub mod part;
pub mod plan;
pub mod pool;
pub mod results;
pub mod runner;
pub mod scenario;
pub mod schedule;
pub mod traffic;
pub mod virtual_time;
