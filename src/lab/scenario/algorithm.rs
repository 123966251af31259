//! Finds the algorithm of a flow: in the catalogue, in the kernel, or as a source file beside the scenario.

pub mod headers;
pub(crate) mod source;

use std::collections::BTreeMap;

use anyhow::Result;

use crate::scenario::spec::{Cell, FlowSpec};
use crate::scenario::whole::Scenario;
use shared::catalog::{self, Algorithm, Companion, Setting};
use shared::failure::Failure;
use shared::kernel::congestion;
use shared::kernel::probe::has_accurate_ecn;
use shared::model::run::Engine;

/// Why a flow cannot run its algorithm.
pub(crate) enum Unusable {
    Algorithm(Failure),
    Tunables(Failure),
    /// The kernel's list of algorithms cannot be read.
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

/// Finds an algorithm for an engine and checks its tunables. If `id` names a source file, `source` is its text.
///
/// None: the kernel's own algorithm, or a source file beside the scenario. Neither has settings of the catalogue.
pub(crate) fn find(
    engine: Engine,
    id: &str,
    tunables: &BTreeMap<String, String>,
    source: &str,
) -> Result<Option<(&'static Algorithm, Vec<Setting>)>, Unusable> {
    if source::is_source(id) {
        if engine != Engine::Virtual {
            let failure = Failure::usage(format!("\"{id}\" is a source file, which only virtual time compiles"));
            let hint = "use `--engine virtual`; or compile it, `tccc load` its object, and give the loaded name";
            return Err(Unusable::Algorithm(failure.hint(hint)));
        }
        return source::check_tunables(id, source, tunables).map(|()| None).map_err(Unusable::Tunables);
    }
    if let Ok(algorithm) = catalog::find(id) {
        let settings = algorithm.settings_of(tunables).map_err(Unusable::Tunables)?;
        return Ok(Some((algorithm, settings)));
    }
    let kernel = match engine {
        Engine::Virtual => congestion::OF_LINUX.map(str::to_owned).to_vec(),
        Engine::Kernel | Engine::Ns2 => congestion::available().map_err(Unusable::Unknown)?,
    };
    let kernel: Vec<&str> = kernel.iter().map(String::as_str).collect();
    if !kernel.contains(&id) {
        return Err(Unusable::Algorithm(object_file(engine, id).unwrap_or_else(|| catalog::unknown(id, &kernel))));
    }
    match tunables.keys().next() {
        None => Ok(None),
        Some(name) => {
            let what = format!("\"{id}\" is the kernel's own algorithm and has no tunable {name}");
            Err(Unusable::Tunables(Failure::usage(what).hint("`tccc list` shows the algorithms with tunables")))
        }
    }
}

/// Checks every algorithm and its tunables for an engine, and changes nothing.
///
/// # Errors
/// The first unknown algorithm, unknown tunable, or tunable out of range, with its place in the scenario.
pub fn check<'a>(scenario: &Scenario, engine: Engine, cells: impl IntoIterator<Item = &'a Cell>) -> Result<()> {
    for (cell, flow) in tcp_flows(cells) {
        let text = scenario.text_of(&flow.algorithm);
        let (field, failure) = match find(engine, &flow.algorithm, &flow.tunables, text) {
            Ok(found) => match found.filter(|_| engine == Engine::Kernel).map(on_this_kernel) {
                Some(Err(unmet)) => ("algorithm", unmet),
                _ => continue,
            },
            Err(Unusable::Algorithm(failure)) => ("algorithm", failure),
            Err(Unusable::Tunables(failure)) => ("tunables", failure),
            Err(Unusable::Unknown(error)) => return Err(error),
        };
        return Err(scenario.mistake_in_flow(cell, flow, field, failure).into());
    }
    Ok(())
}

fn on_this_kernel((algorithm, _): (&Algorithm, Vec<Setting>)) -> Result<(), Failure> {
    let cannot = |why: Failure| Failure { what: format!("\"{}\" cannot run: {}", algorithm.id, why.what), ..why };
    algorithm.check_kernel(has_accurate_ecn).map_err(cannot)?;
    if algorithm.companion.as_ref().is_some_and(Companion::is_at_egress) {
        let why = "its companion is attached to the devices of a host, and an experiment has devices of its own";
        let hint = "`--engine virtual --kernel 7.3` runs it";
        return Err(cannot(Failure::usage(why).hint(hint)));
    }
    Ok(())
}

/// The first flow whose algorithm is neither in the catalogue nor in the engine's kernel.
///
/// None: there is no such flow, or the kernel's list cannot be read.
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

/// The refusal of an object file as a flow's algorithm.
fn object_file(engine: Engine, file: &str) -> Option<Failure> {
    let id = file.strip_suffix(".bpf.o")?;
    let failure = Failure::usage(format!("\"{file}\" is an object file, and a flow names an algorithm"));
    Some(match engine {
        Engine::Virtual => failure.hint(format!("virtual time compiles C: give \"{id}.bpf.c\" beside the scenario")),
        _ => failure.hint(format!("`tccc load {file}`, and give the loaded name")),
    })
}

/// Whether this host's kernel has an algorithm of this name at the moment.
pub(crate) fn kernel_has(name: &str) -> Result<bool> {
    Ok(congestion::available()?.iter().any(|one| one == name))
}
