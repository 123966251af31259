//! The network ring: root and a link, one test at a time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../lab/mod.rs"]
mod lab;

mod emulators;
mod experiments;
mod link;
mod link_models;
mod link_runs;
mod mininet;
mod virtual_links;
