//! Upgrades and rollbacks: new code under a loaded name, which stays registered at every moment.

mod companion;
mod defaults;
mod refused;
mod swap;

use std::sync::atomic::AtomicBool;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use tccc::kernel::{cgroup, struct_ops};

use super::*;
use crate::lab::pair::attached;
use crate::lab::policy::object::compile;
use crate::lab::policy::pair::{address, join, listen_at};
use crate::lab::policy::{Endpoints, named_netns, remove};
use crate::lab::sandbox::drift;

/// Generations of a name, each with the number of open connections that use its code.
#[track_caller]
fn by_generation(name: &str) -> Vec<(u64, u64)> {
    let counts = instance(name)["sockets_by_generation"].clone();
    let counts = counts.as_object().unwrap_or_else(|| panic!("{name} has two generations"));
    counts.iter().map(|(generation, count)| (generation.parse().unwrap(), count.as_u64().unwrap())).collect()
}
