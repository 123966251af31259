//! Other code under a name that is loaded: without a moment in which the name is not there, and back.

mod companion;
mod defaults;
mod killed;
mod refused;
mod swap;

use crate::lab::sandbox::instance;

/// Open connections by the generation of their code, for the code of a name and the one before.
#[track_caller]
fn by_generation(name: &str) -> Vec<(u64, u64)> {
    let counts = instance(name)["sockets_by_generation"].clone();
    let counts = counts.as_object().unwrap_or_else(|| panic!("{name} has two generations"));
    counts.iter().map(|(generation, count)| (generation.parse().unwrap(), count.as_u64().unwrap())).collect()
}
