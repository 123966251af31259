//! tccc: published TCP congestion control as eBPF in the real kernel.
//!
//! Two products in one program. The compiler holds this map: a crate may use only those in its last column.
//!
//! | crate | what it is | uses |
//! | --- | --- | --- |
//! | `programs`, in `bpf` | compiles the BPF programs while the others are built | - |
//! | [`shared`] | quantities, failures, this host's kernel, the algorithms, the event, flows, metrics and statistics | programs |
//! | [`host`] | **for operators**: loads algorithms, gives them to connections, takes them back, shows sockets | shared |
//! | `tabular` | typed columns as Parquet | shared |
//! | [`lab`] | **for researchers**: scenarios, emulated links, virtual time, reports | shared, host, tabular |
//! | [`author`] | for authors of algorithms: template, rules, simulated kernel, fuzzer, proof | shared, host |
//! | [`cli`], here | `verbs`: one file per verb; `output`: shared output | all |
//!
//! To add a field to a link in four steps (`duplicate` is an example: search for it):
//!
//! 1. Its value. [`lab::path`]: add it to `Direction` in `path/link.rs`, with its range, and list it in `beyond_plain`.
//!    [`lab::scenario`]: declare it with its text and default in `reference/path.rs`, which reads it, and give it to the
//!    `Direction` in `document/link.rs`. [`cli`]: add an option to `verbs/link.rs` and `verbs/link/directions.rs`.
//!    `cargo xtask bless` writes `scenarios/REFERENCE.md`.
//! 2. Its place in the request: `bpf/link/request.h`, from which the build makes the struct in Rust, and `path/request.rs`. If
//!    it is random, add a stream of random numbers there and to `path/draws.rs`.
//! 3. Its effect: `bpf/link/shaper.h`, which the emulator and virtual time share, with a counter if it counts packets.
//!    `emulate/netem/options.rs` adds it for the kernel's netem, or `emulate/netem.rs` refuses it.
//! 4. Tests: a link in `emulate/tunlink/lane/decisions/links.rs`, the field in `path/request/random.rs`,
//!    `tests/fixtures/scenarios/link-everything.toml`, `tests/host/mistakes`, and `tests/network/link_models.rs`.

pub mod cli;

#[cfg(feature = "author")]
pub use author;
pub use host::{declaration, gate, loader, policy, serve, state, toml_reader, trace, trial, view, waits};
#[cfg(feature = "lab")]
pub use lab::{self, emulate, ns2, path, report, scenario, virtual_time};
pub use shared::{
    btf, catalog, failure, fault, interrupt, kernel, model, read_limited, sanitize, scratch, suggest, units,
};
pub use {host, shared};
