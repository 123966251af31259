//! tccc: published TCP congestion control as eBPF in the real kernel.
//!
//! Code map. A module may use only modules of lower layers; `cargo xtask tidy` enforces that. [`loader`], [`policy`] and
//! [`trial`] lie in [`host`].
//!
//! | layer | module | what it is | may use |
//! | --- | --- | --- | --- |
//! | 0 | [`units`], [`failure`], [`plain`], [`nearest`], [`bounded`], [`btf`], [`fault`], [`interrupt`], [`scratch`] | quantities with units; failures with hint and exit code; untrusted text, files and type information; "did you mean"; points at which tests kill the process; signals during a change; temporary folders | std |
//! | 1 | [`written`] | TOML files that users write: reports every mistake with its line | units |
//! | 1 | [`path`] | what a link does to packets: rates, delays, queues, losses, changes over time | units |
//! | 1 | [`trace::event`], [`catalog`] | the event that all consumers share; the algorithms in this binary | units |
//! | 1 | [`trace::arrival`] | what a source delivers: events, and facts such as names | trace::event, catalog |
//! | 1 | [`kernel`] | this host: features, sysctls, namespaces, cgroups, sockets | units |
//! | 2 | [`model`] | flows, live state, metrics, statistics, notices: pure | units, trace::{event, arrival}, catalog |
//! | 1 | `tabular` | a table of typed columns as Parquet | trace::event |
//! | 2 | [`loader`], [`state`] | registers algorithms; records what tccc changed on this host | catalog, kernel |
//! | 2 | [`policy`] | which connections get which algorithm | catalog, kernel, state, loader |
//! | 2 | [`trace`] | live stream, snapshot, recording, replay | trace::{event, arrival}, catalog, kernel |
//! | 3 | [`scenario`] | scenario files: what is measured on which path | path, written, catalog, kernel, model |
//! | 3 | [`emulate`] | networks of namespaces or Mininet hosts, with links of netem or of tccc | path, kernel, model |
//! | 3 | [`trial`] | changes that undo themselves, their guard, upgrades | policy, loader, state, model, trace |
//! | 3 | [`gate`] | the only way to change a name, a default or the policy; locks the policy | trial and all below it |
//! | 3 | [`author`] | for authors of algorithms: template, compiler, rules, simulated kernel, fuzzer, proof | catalog, kernel, loader |
//! | 3 | [`report`] | tables and plots from a result directory | units, tabular, model, scenario |
//! | 3 | [`view`], [`serve`] | the terminal dashboard; the web dashboard and `/metrics` | units, model, trace |
//! | 4 | [`lab`] | from scenario to plan, runs and result directory, on this host's kernel | scenario, emulate, loader, trace and below |
//! | 4 | [`declaration`] | compares the host with `/etc/tccc` and applies the differences | trial and all below it |
//! | 4 | [`cli`] | `verbs`: one file per verb; `output`: shared output | all |
//! | 5 | [`ns2`], [`virtual_time`] | run the same plan in a simulator, or on a kernel in virtual time | lab and below |
//!
//! To add a field to a link (`duplicate` is an example: search for it, also in `bpf/guest`):
//!
//! 1. [`path`]: add it to `Direction` in `path/link.rs`, with its range. List it in `Direction::beyond_plain`, which makes
//!    [`ns2`] refuse it. If it is random, add a stream of random numbers to `path/draws.rs`.
//! 2. [`scenario`]: declare its text, kind and default in `reference/path.rs`, and read it in `document/link.rs`. `cargo xtask
//!    bless` then writes `scenarios/REFERENCE.md`.
//! 3. [`emulate`]: decide about a packet in `tunlink/shaper.rs`, and carry the decision out in `tunlink/lane.rs`. Add it to
//!    `netem/options.rs`, or refuse it in `netem.rs`.
//! 4. [`virtual_time`]: pass it through `link.rs` and `link/layout.rs` to the same structure in `bpf/guest/layout.h`, and
//!    implement it in `bpf/guest/shaper.h`. `link/twin.rs` compares both links; draw the field in `twin/random.rs`.
//! 5. [`model`] and [`lab`]: add a counter if it counts packets; adapt `lab/calibrate.rs` if it changes how many arrive.
//! 6. [`cli`]: add options to `tccc link`, in `verbs/link.rs` and `verbs/link/directions.rs`.
//! 7. Tests: `tests/fixtures/scenarios/link-everything.toml`, `tests/host/mistakes`, and `tests/network/link_models.rs`.

pub mod author;
pub mod bounded;
pub mod btf;
pub mod catalog;
pub mod cli;
pub mod declaration;
pub mod emulate;
pub mod failure;
pub mod fault;
pub mod host;
pub mod interrupt;
pub mod kernel;
pub mod lab;
pub mod model;
pub mod nearest;
pub mod ns2;
pub mod path;
pub mod plain;
pub mod report;
pub mod scenario;
pub mod scratch;
pub mod serve;
pub mod state;
mod tabular;
pub mod trace;
pub mod units;
pub mod view;
pub mod virtual_time;
pub mod written;

pub use host::{gate, loader, policy, trial};
