//! The algorithms of an experiment: those of the catalogue registered for its time, the kernel's own looked up.

pub mod source;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::catalog::{self, Algorithm, NAME_LENGTH_MAX, Setting};
use crate::experiment::scenario::{Cell, FlowSpec, Scenario};
use crate::experiment::virtual_time;
use crate::failure::Failure;
use crate::kernel::congestion;
use crate::kernel::probe::Features;
use crate::loader::{self, Registered, Request};
use crate::model::run::Engine;

/// An algorithm with its tunables, as a flow asks for it.
type Asked = (String, BTreeMap<String, String>);

/// Every algorithm of an experiment, ready to be chosen; ours are unregistered when this is dropped.
#[derive(Debug)]
pub struct Algorithms {
    names: BTreeMap<Asked, String>,
    registered: Vec<Registered>,
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
        let found = find(Engine::Kernel, id, tunables, "").map_err(Unusable::into_failure)?;
        let Found::Ours(algorithm, settings) = found else { return Ok(id.clone()) };
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

/// Where an algorithm of a flow comes from.
enum Found {
    /// The catalogue, with the tunables that are set.
    Ours(&'static Algorithm, Vec<Setting>),
    /// The kernel itself, or a file beside the scenario.
    Elsewhere,
}

/// Why a flow cannot have what it asks for.
enum Unusable {
    Algorithm(Failure),
    Tunables(Failure),
    /// The kernel does not say which algorithms it has.
    Unknown(anyhow::Error),
}

impl Unusable {
    fn into_failure(self) -> anyhow::Error {
        match self {
            Unusable::Algorithm(failure) | Unusable::Tunables(failure) => failure.into(),
            Unusable::Unknown(error) => error,
        }
    }
}

/// Finds an algorithm for an engine and reads its tunables; `source` is the text of the file that `id` may name.
fn find(engine: Engine, id: &str, tunables: &BTreeMap<String, String>, source: &str) -> Result<Found, Unusable> {
    if source::is_source(id) {
        if engine != Engine::Virtual {
            return Err(Unusable::Algorithm(only_in_virtual_time(id)));
        }
        let checked = source::check_tunables(id, source, tunables);
        return checked.map(|()| Found::Elsewhere).map_err(Unusable::Tunables);
    }
    match catalog::find(id) {
        Ok(algorithm) => {
            let settings = algorithm.settings_of(tunables).map_err(Unusable::Tunables)?;
            Ok(Found::Ours(algorithm, settings))
        }
        Err(_) if engine_has(engine, id).map_err(Unusable::Unknown)? => {
            no_tunables(id, tunables).map(|()| Found::Elsewhere).map_err(Unusable::Tunables)
        }
        Err(unknown) => Err(Unusable::Algorithm(object_file(engine, id).unwrap_or(unknown))),
    }
}

/// Checks that every algorithm exists for an engine and takes its tunables, without touching anything.
///
/// Errors: an algorithm neither in the catalogue nor in the kernel; a tunable that the algorithm does not have or that
/// is out of range; each with its place in the scenario.
pub fn check<'a>(scenario: &Scenario, engine: Engine, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    for (cell, flow) in tcp_flows(cells) {
        let text = scenario.text_of(&flow.algorithm);
        let (field, failure) = match find(engine, &flow.algorithm, &flow.tunables, text) {
            Ok(_) => continue,
            Err(Unusable::Algorithm(failure)) => ("algorithm", failure),
            Err(Unusable::Tunables(failure)) => ("tunables", failure),
            Err(Unusable::Unknown(error)) => return Err(error),
        };
        return Err(scenario.mistake_in_flow(cell, flow, field, failure).into());
    }
    Ok(())
}

/// The first flow whose algorithm is neither in the catalogue nor in the engine's kernel, and why it is refused.
///
/// None: there is none, or the kernel does not say which it has.
pub fn first_unknown(cells: &[Cell], engine: Engine) -> Option<(&Cell, &FlowSpec, Failure)> {
    tcp_flows(cells).find_map(|(cell, flow)| match find(engine, &flow.algorithm, &BTreeMap::new(), "") {
        Err(Unusable::Algorithm(failure)) => Some((cell, flow, failure)),
        _ => None,
    })
}

fn tcp_flows<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> impl Iterator<Item = (&'a Cell, &'a FlowSpec)> {
    let flows = cells.into_iter().flat_map(|cell| cell.flows.iter().map(move |flow| (cell, flow)));
    flows.filter(|(_, flow)| flow.is_tcp())
}

fn only_in_virtual_time(file: &str) -> Failure {
    Failure::usage(format!("\"{file}\" is a source file, which virtual time alone compiles"))
        .hint("`--engine virtual`; or compile it, `tccc load` its object, and give the name under which it is loaded")
}

/// Why a flow cannot name a compiled algorithm, where it does.
fn object_file(engine: Engine, file: &str) -> Option<Failure> {
    let id = file.strip_suffix(".bpf.o")?;
    let failure = Failure::usage(format!("\"{file}\" is an object file, and a flow names an algorithm"));
    Some(match engine {
        Engine::Virtual => failure.hint(format!("virtual time compiles C: give \"{id}.bpf.c\" beside the scenario")),
        _ => failure.hint(format!("`tccc load {file}`, and give the name under which it is loaded")),
    })
}

/// The kernel's own algorithms are chosen as they are.
fn no_tunables(id: &str, tunables: &BTreeMap<String, String>) -> Result<(), Failure> {
    let Some(name) = tunables.keys().next() else { return Ok(()) };
    let what = format!("\"{id}\" is the kernel's own algorithm and has no tunable {name}");
    Err(Failure::usage(what).hint("`tccc list` shows those with tunables"))
}

/// A name that tells our process apart, for where the algorithm's own id is in use.
fn own_name(id: &str, number: usize) -> String {
    let suffix = format!("_{:x}_{number}", std::process::id());
    format!("{}{suffix}", &id[..id.len().min(NAME_LENGTH_MAX - suffix.len())])
}

/// Whether the kernel that an engine runs has an algorithm of its own of this name.
fn engine_has(engine: Engine, name: &str) -> Result<bool> {
    match engine {
        Engine::Virtual => Ok(virtual_time::ALGORITHMS.contains(&name)),
        Engine::Kernel | Engine::Ns2 => kernel_has(name),
    }
}

fn kernel_has(name: &str) -> Result<bool> {
    Ok(congestion::available()?.iter().any(|one| one == name))
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
