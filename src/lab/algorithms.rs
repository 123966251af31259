//! The algorithms of an experiment: those of the catalogue registered for its time, the kernel's own looked up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::catalog::NAME_LENGTH_MAX;
use crate::kernel::probe::Features;
use crate::loader::{self, Registration, Request};
use crate::model::run::Engine;
use crate::scenario::algorithm::{Unusable, find, kernel_has};
use crate::scenario::{AlgorithmRequest, FlowSpec};

/// Every algorithm of an experiment, ready to be chosen; ours are unregistered when this is dropped.
#[derive(Debug)]
pub struct Algorithms {
    names: BTreeMap<AlgorithmRequest, String>,
    registered: Vec<Registration>,
    cgroup: PathBuf,
}

impl Algorithms {
    /// Makes every algorithm that the flows ask for available; companion programs run in the cgroup of the experiment.
    ///
    /// Errors: an algorithm neither in the catalogue nor in the kernel; a tunable out of range; the kernel refuses one.
    /// Side effects: registered algorithms, for as long as the returned value lives.
    pub fn prepare<'a>(flows: impl Iterator<Item = &'a FlowSpec>, cgroup: &Path) -> Result<Algorithms> {
        let mut algorithms = Algorithms { names: BTreeMap::new(), registered: Vec::new(), cgroup: cgroup.to_owned() };
        for flow in flows.filter(|flow| flow.is_tcp()) {
            let asked = flow.asked();
            if !algorithms.names.contains_key(&asked) {
                let name = algorithms.make_available(&asked)?;
                algorithms.names.insert(asked, name);
            }
        }
        Ok(algorithms)
    }

    /// The kernel's name for what a flow asks; the flow was among those prepared.
    pub fn name_of<'a>(&'a self, flow: &'a FlowSpec) -> &'a str {
        let asked = flow.asked();
        self.names.get(&asked).map_or(flow.algorithm.as_str(), String::as_str)
    }

    /// Digest of each of our objects, by the name under which it ran.
    pub fn digests(&self) -> BTreeMap<String, String> {
        self.registered.iter().map(|one| (one.name().to_owned(), one.record().digest.clone())).collect()
    }

    fn make_available(&mut self, (id, tunables): &AlgorithmRequest) -> Result<String> {
        let found = find(Engine::Kernel, id, tunables, "").map_err(Unusable::into_failure)?;
        let Some((algorithm, settings)) = found else { return Ok(id.clone()) };
        let features = Features::probe()?;
        let own = own_name(id, self.registered.len());
        let name = if kernel_has(id)? { &own } else { id };
        let cgroup = algorithm.companion.is_some().then_some(self.cgroup.as_path());
        let request = |name| Request { algorithm, name, settings: &settings, file: None, cgroup };
        let registered = match loader::register(&request(name), &features) {
            Err(_) if *name != own && kernel_has(name)? => loader::register(&request(&own), &features)?, // a race
            other => other?,
        };
        let name = registered.name().to_owned();
        self.registered.push(registered);
        Ok(name)
    }
}

/// A name that tells our process apart, for where the algorithm's own id is in use.
fn own_name(id: &str, number: usize) -> String {
    let suffix = format!("_{:x}_{number}", std::process::id());
    format!("{}{suffix}", &id[..id.len().min(NAME_LENGTH_MAX - suffix.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_name_fits_the_kernel_and_differs() {
        let name = own_name("reno", 3);
        assert!(name.len() <= NAME_LENGTH_MAX && name.starts_with("reno_") && name.ends_with("_3"), "{name}");
    }
}
