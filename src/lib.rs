//! tccc: published TCP congestion control as eBPF in the real kernel.
//!
//! Code map, in reading order; a module may use only modules of a lower layer (`cargo xtask tidy` holds it to that):
//!
//! | layer | module | what it is | may use |
//! | --- | --- | --- | --- |
//! | 0 | [`units`], [`failure`], [`plain`], [`nearest`], [`bounded`], [`btf`], [`fault`], [`scratch`] | quantities with their unit; failures with hint and exit code; text, files and type information of others; the word that was meant; where tests let a process die; folders that go with their process | std |
//! | 1 | [`written`] | TOML files that people write, read with lines and every mistake at once | units |
//! | 1 | [`path`] | what a link does to packets: rates, delays, queues, losses, changes by time | units |
//! | 1 | [`trace::event`], [`catalog`] | the event all consumers share; the algorithms this binary carries | units |
//! | 1 | [`trace::arrival`] | what a source hands over: events, and facts that name what is in them | trace::event, catalog |
//! | 1 | [`kernel`] | what this host can do, its sysctls, namespaces, cgroups, sockets | units |
//! | 2 | [`model`] | flows, live state, metrics, statistics, notices: pure | units, trace::{event, arrival}, catalog |
//! | 2 | [`loader`], [`state`] | register algorithms; what tccc has done to this host | catalog, kernel |
//! | 2 | [`policy`] | which connections get which algorithm | catalog, kernel, state, loader |
//! | 2 | [`trace`] | live stream, snapshot, recording, replay | trace::{event, arrival}, catalog, kernel |
//! | 3 | [`scenario`] | scenario files: what is measured on which path, read with every mistake named | path, written, catalog, kernel, model |
//! | 3 | [`emulate`] | networks of namespaces or Mininet's hosts, links of netem or of our own | path, kernel, model |
//! | 4 | [`lab`] | scenario to plan to runs to result directory, on this host's kernel | scenario, emulate, loader, trace and below |
//! | 5 | [`ns2`], [`virtual_time`] | the same plan run by a simulator, or by a kernel whose clock stands still while it computes | lab and below |
//! | 3 | [`trial`] | changes that undo themselves, their guard, upgrades | policy, loader, state, model, trace |
//! | 4 | [`declaration`] | what `/etc/tccc` declares, compared with the host and applied | trial and all below it |
//! | 3 | [`author`] | what authors of algorithms use: a template, compiling, rules, the simulated kernel, fuzzer, proof | catalog, kernel, loader |
//! | 3 | [`report`] | result directory to tables and plots | units, model, scenario |
//! | 3 | [`view`], [`serve`] | the terminal dashboard; the web dashboard and `/metrics` | units, model, trace |
//! | 4 | [`cli`] | `verbs`: one file per verb; `output`: what several of them print | all |

pub mod bounded;
pub mod btf;
pub mod failure;
pub mod fault;
pub mod nearest;
pub mod path;
pub mod plain;
pub mod scratch;
pub mod units;
pub mod written;

pub mod catalog;
pub mod kernel;
pub mod trace;

pub mod loader;
pub mod model;
pub mod policy;
pub mod state;

pub mod author;
pub mod declaration;
pub mod emulate;
pub mod lab;
pub mod ns2;
pub mod report;
pub mod scenario;
pub mod serve;
pub mod trial;
pub mod view;
pub mod virtual_time;

pub mod cli;
