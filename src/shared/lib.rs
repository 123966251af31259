//! What the host's half and the laboratory of tccc share.
//!
//! Quantities with units; failures with hint and exit code; untrusted text, files and type information; this host as the
//! kernel shows it; the algorithms in this program; the event that all consumers share; flows, metrics and statistics.

pub mod arrival;
pub mod btf;
pub mod c_text;
pub mod catalog;
pub mod event;
pub mod failure;
pub mod fault;
pub mod interrupt;
pub mod kernel;
pub mod model;
pub mod poll;
pub mod read_limited;
pub mod sanitize;
pub mod scratch;
pub mod suggest;
pub mod units;
