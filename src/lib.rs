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
//! To add a field to a link (`duplicate` is an example: search for it, also in `bpf/guest`):
//!
//! 1. [`lab::path`]: add it to `Direction` in `path/link.rs`, with its range. List it in `Direction::beyond_plain`, which
//!    makes [`lab::ns2`] refuse it. If it is random, add a stream of random numbers to `path/draws.rs`.
//! 2. [`lab::scenario`]: declare its text, kind and default in `reference/path.rs`, and read it in `document/link.rs`.
//!    `cargo xtask bless` then writes `scenarios/REFERENCE.md`.
//! 3. [`lab::emulate`]: decide about a packet in `tunlink/shaper.rs`, and carry the decision out in `tunlink/lane.rs`. Add it
//!    to `netem/options.rs`, or refuse it in `netem.rs`.
//! 4. [`lab::virtual_time`]: pass it through `link.rs` and `link/layout.rs` to the same structure in `bpf/guest/layout.h`, and
//!    implement it in `bpf/guest/shaper.h`. `link/twin.rs` compares both links; draw the field in `twin/random.rs`.
//! 5. [`shared::model`] and [`lab`]: add a counter if it counts packets; adapt `lab/calibrate.rs` if it changes how many arrive.
//! 6. [`cli`]: add options to `tccc link`, in `verbs/link.rs` and `verbs/link/directions.rs`.
//! 7. Tests: `tests/fixtures/scenarios/link-everything.toml`, `tests/host/mistakes`, and `tests/network/link_models.rs`.

pub mod cli;

pub use host::{declaration, gate, loader, policy, serve, state, trace, trial, view, written};
pub use lab::{emulate, ns2, path, report, scenario, virtual_time};
pub use shared::{bounded, btf, catalog, failure, fault, interrupt, kernel, model, nearest, plain, scratch, units};
pub use {author, host, lab, shared};
