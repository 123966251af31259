//! What a flow names as its algorithm: one of the catalogue, one of the kernel's own, or a source file beside the scenario.

pub(crate) mod source;

use std::collections::BTreeMap;

use anyhow::Result;

use crate::catalog::{self, Algorithm, Setting};
use crate::failure::Failure;
use crate::kernel::congestion;
use crate::model::run::Engine;
use crate::scenario::spec::{Cell, FlowSpec};
use crate::scenario::whole::Scenario;

/// Where an algorithm of a flow comes from.
pub(crate) enum Found {
    /// The catalogue, with the tunables that are set.
    Ours(&'static Algorithm, Vec<Setting>),
    /// The kernel itself, or a file beside the scenario.
    Elsewhere,
}

/// Why a flow cannot have what it asks for.
pub(crate) enum Unusable {
    Algorithm(Failure),
    Tunables(Failure),
    /// The kernel does not say which algorithms it has.
    Unknown(anyhow::Error),
}

impl Unusable {
    pub(crate) fn into_failure(self) -> anyhow::Error {
        match self {
            Unusable::Algorithm(failure) | Unusable::Tunables(failure) => failure.into(),
            Unusable::Unknown(error) => error,
        }
    }
}

/// Finds an algorithm for an engine and reads its tunables; `source` is the text of the file that `id` may name.
pub(crate) fn find(
    engine: Engine,
    id: &str,
    tunables: &BTreeMap<String, String>,
    source: &str,
) -> Result<Found, Unusable> {
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
        Err(_) => {
            let kernel = names_of_kernel(engine).map_err(Unusable::Unknown)?;
            let kernel: Vec<&str> = kernel.iter().map(String::as_str).collect();
            if kernel.contains(&id) {
                return no_tunables(id, tunables).map(|()| Found::Elsewhere).map_err(Unusable::Tunables);
            }
            let unknown = object_file(engine, id).unwrap_or_else(|| catalog::unknown(id, &kernel));
            Err(Unusable::Algorithm(unknown))
        }
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

/// The algorithms that the kernel of an engine has of its own.
fn names_of_kernel(engine: Engine) -> Result<Vec<String>> {
    match engine {
        Engine::Virtual => Ok(congestion::OF_LINUX.map(str::to_owned).to_vec()),
        Engine::Kernel | Engine::Ns2 => congestion::available(),
    }
}

/// Whether this host's kernel has an algorithm of this name now.
pub(crate) fn kernel_has(name: &str) -> Result<bool> {
    Ok(congestion::available()?.iter().any(|one| one == name))
}
