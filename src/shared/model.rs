//! Flows, metrics, statistics and notices: pure, without clock or I/O.

pub mod flow;
pub mod guard;
pub mod live;
pub mod metrics;
pub mod notice;
pub mod queue;
pub mod run;
pub mod series;
pub mod stats;
pub mod summary;
