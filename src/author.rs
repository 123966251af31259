//! What authors of algorithms use: a template outside the tree, and checks that register nothing.
//!
//! The same code holds the algorithms of `bpf/cc` to the same demands: tests and `cargo xtask` call it too.

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
