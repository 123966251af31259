//! The algorithms of an experiment: those of the catalogue registered for its time, the kernel's own looked up.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::catalog;
use crate::experiment::scenario::FlowSpec;
use crate::failure::Failure;
use crate::kernel::probe::Features;
use crate::loader::{self, Registered, Request};

/// Longest name of an algorithm, characters: the kernel's TCP_CA_NAME_MAX without the closing zero.
const NAME_MAX: usize = 15;

/// An algorithm with its tunables, as a flow asks for it.
type Asked = (String, BTreeMap<String, String>);

/// Every algorithm of an experiment, ready to be chosen; ours are unregistered when this is dropped.
#[derive(Debug)]
pub struct Algorithms {
    names: BTreeMap<Asked, String>,
    registered: Vec<Registered>,
}

impl Algorithms {
    /// Makes every algorithm that the flows ask for available.
    ///
    /// Errors: an algorithm neither in the catalogue nor in the kernel; a tunable out of range; the kernel refuses one.
    /// Side effects: registered algorithms, for as long as the returned value lives.
    pub fn prepare<'a>(flows: impl Iterator<Item = &'a FlowSpec>) -> Result<Algorithms> {
        let mut algorithms = Algorithms { names: BTreeMap::new(), registered: Vec::new() };
        for flow in flows {
            let asked = (flow.algorithm.clone(), flow.tunables.clone());
            if !algorithms.names.contains_key(&asked) {
                let name = algorithms.make_available(&asked)?;
                algorithms.names.insert(asked, name);
            }
        }
        Ok(algorithms)
    }

    /// The kernel's name for what a flow asks; the flow was among those prepared.
    pub fn name_of<'a>(&'a self, flow: &'a FlowSpec) -> &'a str {
        let asked = (flow.algorithm.clone(), flow.tunables.clone());
        self.names.get(&asked).map_or(flow.algorithm.as_str(), String::as_str)
    }

    /// Digest of each of our objects, by the name under which it ran.
    pub fn digests(&self) -> BTreeMap<String, String> {
        self.registered.iter().map(|one| (one.name().to_owned(), one.record().digest.clone())).collect()
    }

    fn make_available(&mut self, (id, tunables): &Asked) -> Result<String> {
        let algorithm = match catalog::find(id) {
            Ok(algorithm) => algorithm,
            Err(unknown) => {
                if !kernel_has(id)? {
                    return Err(unknown.into());
                }
                if let Some(name) = tunables.keys().next() {
                    let what = format!("\"{id}\" is the kernel's own algorithm and has no tunable {name}");
                    return Err(Failure::usage(what).hint("`tccc list` shows those with tunables").into());
                }
                return Ok(id.clone());
            }
        };
        let settings: Vec<String> = tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let settings = algorithm.settings(&settings)?;
        let features = Features::probe()?;
        let name = free_name(id, self.registered.len())?;
        let request = Request { algorithm, name: &name, settings: &settings, file: None };
        self.registered.push(loader::register(&request, &features)?);
        Ok(name)
    }
}

/// Checks that every algorithm exists, without touching anything.
///
/// Errors: an algorithm neither in the catalogue nor in the kernel; a tunable out of range.
pub fn check<'a>(flows: impl Iterator<Item = &'a FlowSpec>) -> Result<()> {
    for flow in flows {
        match catalog::find(&flow.algorithm) {
            Ok(algorithm) => {
                let settings: Vec<String> =
                    flow.tunables.iter().map(|(name, value)| format!("{name}={value}")).collect();
                algorithm.settings(&settings)?;
            }
            Err(unknown) if !kernel_has(&flow.algorithm)? => return Err(unknown.into()),
            Err(_) => {}
        }
    }
    Ok(())
}

/// The algorithm's own id where nobody uses it, else one that tells our process apart.
fn free_name(id: &str, number: usize) -> Result<String> {
    if !kernel_has(id)? {
        return Ok(id.to_owned());
    }
    let suffix = format!("_{:x}_{number}", std::process::id());
    Ok(format!("{}{suffix}", &id[..id.len().min(NAME_MAX - suffix.len())]))
}

fn kernel_has(name: &str) -> Result<bool> {
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.context("read the kernel's congestion-control algorithms")?;
    Ok(available.split_whitespace().any(|one| one == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_name_fits_the_kernel_and_differs() {
        let name = free_name("reno", 3).unwrap();
        assert!(name.len() <= NAME_MAX && name.starts_with("reno_") && name.ends_with("_3"), "{name}");
        assert_eq!(free_name("nobody_has_this", 0).unwrap(), "nobody_has_this");
    }
}
