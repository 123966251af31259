//! Benchmarks: `cargo xtask bench`.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod callbacks;
mod crowd;
mod gathered;
mod guard;
mod link;
mod load;
mod namespaces;
mod page;
mod pairs;
mod policy;
mod record;
mod report;
mod serve;
mod sockets;
mod start;
mod trace;
mod usage;
mod virtual_time;
