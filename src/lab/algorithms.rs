//! Prepares the algorithms of an experiment: registers those of the catalogue, and looks up the kernel's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::event_line::StateLayouts;
use crate::scenario::algorithm::{Unusable, find, kernel_has};
use crate::scenario::{AlgorithmRequest, FlowSpec};
use host::gate;
use host::loader::{self, Registration, Request, survey};
use shared::catalog::NAME_LENGTH_MAX;
use shared::kernel::probe::Features;
use shared::kernel::struct_ops;
use shared::model::run::Engine;

/// Keeps every algorithm of an experiment in the kernel until it is dropped.
#[derive(Debug)]
pub struct PreparedAlgorithms {
    /// Maps a request to the kernel's name.
    names: BTreeMap<AlgorithmRequest, String>,
    registered: Vec<Registration>,
    /// The kernel's names of those that need ECN, and the same algorithm at the receiver.
    want_ecn: BTreeSet<String>,
    /// Layouts of the private states, for the lines of events.
    layouts: StateLayouts,
    cgroup: PathBuf,
}

impl PreparedAlgorithms {
    /// Registers the algorithms of the flows; companion programs run in the cgroup of the experiment.
    ///
    /// Side effects: registered algorithms that live as long as the returned value.
    ///
    /// # Errors
    /// An algorithm is neither in the catalogue nor in the kernel; a tunable is out of range; the kernel refuses an
    /// algorithm.
    pub fn prepare<'a>(flows: impl Iterator<Item = &'a FlowSpec>, cgroup: &Path) -> Result<PreparedAlgorithms> {
        let mut algorithms = Self {
            names: BTreeMap::new(),
            registered: Vec::new(),
            want_ecn: BTreeSet::new(),
            layouts: StateLayouts::new(),
            cgroup: cgroup.to_owned(),
        };
        for flow in flows.filter(|flow| flow.is_tcp()) {
            let asked = flow.asked();
            if !algorithms.names.contains_key(&asked) {
                let name = algorithms.make_available(&asked)?;
                algorithms.learn_layout(&name);
                algorithms.names.insert(asked, name);
            }
        }
        let tables = struct_ops::tables(&Features::probe()?).unwrap_or_default();
        let wants_ecn = |name: &&String| struct_ops::wants_ecn(&tables, name);
        algorithms.want_ecn = algorithms.names.values().filter(wants_ecn).cloned().collect();
        Ok(algorithms)
    }

    /// Whether the receiver of a prepared flow uses the flow's algorithm too.
    pub fn is_of_both_ends(&self, flow: &FlowSpec) -> bool {
        self.want_ecn.contains(self.name_of(flow))
    }

    /// The kernel's name of a prepared flow's algorithm.
    pub fn name_of<'a>(&'a self, flow: &'a FlowSpec) -> &'a str {
        let asked = flow.asked();
        self.names.get(&asked).map_or(flow.algorithm.as_str(), String::as_str)
    }

    /// Maps the kernel's name of each registered algorithm to the digest of its object.
    pub fn digests(&self) -> BTreeMap<String, String> {
        self.registered.iter().map(|one| (one.name().to_owned(), one.record().digest.clone())).collect()
    }

    pub fn layouts(&self) -> &StateLayouts {
        &self.layouts
    }

    fn learn_layout(&mut self, name: &str) {
        let own = self.registered.iter().find(|one| one.name() == name).map(|one| one.record().layout.clone());
        let layout = own.or_else(|| survey::layout_in_kernel(name));
        self.layouts.extend(layout.map(|layout| (name.to_owned(), layout)));
    }

    fn make_available(&mut self, (id, tunables): &AlgorithmRequest) -> Result<String> {
        let found = find(Engine::Kernel, id, tunables, "").map_err(Unusable::into_failure)?;
        let Some((algorithm, settings)) = found else { return Ok(id.clone()) };
        let features = Features::probe()?;
        gate::clear_overdue(&features)?;
        let own = own_name(id, self.registered.len());
        let name = if kernel_has(id)? { &own } else { id };
        let cgroup = algorithm.companion_of_both_ends().map(|_| self.cgroup.as_path());
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

/// A name unique to this process, for an algorithm whose id is in use.
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
