//! The operator's half of tccc: what it changes on this host and what it shows of it.
//!
//! [`loader`] registers algorithms, [`policy`] gives them to connections, [`trial`] undoes what is not confirmed, and
//! [`declaration`] makes the host what `/etc/tccc` says. All change it through [`gate`], and [`state`] records each change.
//! [`trace`] follows sockets; [`view`] and [`serve`] show them in a terminal, in a browser and to Prometheus.

pub mod declaration;
pub mod gate;
pub mod loader;
pub mod policy;
pub mod serve;
pub mod state;
pub mod toml_reader;
pub mod trace;
pub mod trial;
pub mod view;
pub mod waits;
