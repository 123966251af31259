//! For authors of algorithms: a template to start from, and checks that register nothing.
//!
//! Tests and `cargo xtask` hold the algorithms of `bpf/cc` to the same checks.

pub mod bpftool;
pub mod compile;
pub mod fuzzer;
pub mod header;
pub mod lint;
pub mod name;
pub mod native;
pub mod proof;
mod recipe;
pub mod report;
pub mod ring;
pub mod subject;
pub mod template;
