//! The modules of an experiment: the laboratory, and every algorithm of a flow that the guest's kernel lacks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::kernel_states;
use super::modules::{AlgorithmSource, Module, ModuleBuilder, source_of};
use crate::event_line::StateLayouts;
use crate::scenario::algorithm::source;
use crate::scenario::{AlgorithmRequest, Cell, FlowSpec, Scenario};
use shared::catalog::{self, NAME_LENGTH_MAX};
use shared::failure::Failure;

pub struct Modules {
    /// Links, traffic and tracer.
    pub laboratory: Module,
    /// The kernel's own algorithms need no module.
    algorithms: BTreeMap<AlgorithmRequest, Configured>,
}

/// A module with its parameters, as the kernel reads them.
pub struct Configured {
    pub module: Module,
    pub parameters: String,
}

impl Modules {
    /// Compiles the modules that the cells need, or takes them from the cache.
    ///
    /// # Errors
    /// A tunable is refused; the compiler is missing or refuses a file.
    pub fn prepare<'a>(
        builder: &ModuleBuilder<'_>,
        scenario: &Scenario,
        cells: impl Iterator<Item = &'a Cell>,
    ) -> Result<Modules> {
        let all = scenario.cells.iter().flat_map(|cell| &cell.flows).filter(|flow| flow.is_tcp());
        let names = names(&all.map(FlowSpec::asked).collect());
        let mut modules = Modules { laboratory: builder.laboratory()?, algorithms: BTreeMap::new() };
        for flow in cells.flat_map(|cell| &cell.flows).filter(|flow| flow.is_tcp()) {
            let asked = flow.asked();
            if modules.algorithms.contains_key(&asked) {
                continue;
            }
            let Some((source, tunables)) = described(scenario, flow)? else { continue };
            let name = &names[&asked];
            let module = builder.algorithm(name, source)?;
            modules.algorithms.insert(asked, Configured { module, parameters: format!("name={name}{tunables}") });
        }
        Ok(modules)
    }

    /// None: the flow runs the kernel's own algorithm, or sends datagrams.
    pub fn of(&self, flow: &FlowSpec) -> Option<&Configured> {
        self.algorithms.get(&flow.asked()).filter(|_| flow.is_tcp())
    }

    /// Name of a flow's algorithm in the guest's kernel.
    pub fn name_of<'a>(&'a self, flow: &'a FlowSpec) -> &'a str {
        self.of(flow).map_or(&flow.algorithm, |configured| &configured.module.name)
    }

    /// Layouts of the private states of the catalogue's algorithms and of the guest's kernel, by the names in the
    /// guest.
    pub fn layouts(&self) -> StateLayouts {
        let carried = self.algorithms.iter().filter(|((id, _), _)| !source::is_source(id));
        let layouts = carried.filter_map(|((id, _), configured)| {
            Some((configured.module.name.clone(), catalog::find(id).ok()?.layout.clone()))
        });
        let of_kernel = kernel_states::STATES
            .iter()
            .filter_map(|(name, _)| Some(((*name).to_owned(), kernel_states::layout(name)?)));
        of_kernel.chain(layouts).collect()
    }

    /// Digest of each of our algorithms, by its name in the guest's kernel.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let modules = self.algorithms.values().map(|configured| &configured.module);
        modules.map(|module| (module.name.clone(), module.digest.clone())).collect()
    }
}

/// The id of a catalogue algorithm or source file. An algorithm without tunables registers under it.
pub fn id_of(algorithm: &str) -> &str {
    source::id_of(algorithm).unwrap_or(algorithm)
}

/// A different name in the guest's kernel for every request, because the kernel loads a module only once under a name.
///
/// The names are the same in every part of an experiment, and after a resume.
fn names(all: &BTreeSet<AlgorithmRequest>) -> BTreeMap<AlgorithmRequest, String> {
    let mut used: BTreeMap<&str, u32> = BTreeMap::new();
    let named = all.iter().map(|asked| {
        let id = id_of(&asked.0);
        let number = used.entry(id).or_default();
        let ending = if *number == 0 { String::new() } else { format!("_{number}") };
        *number += 1;
        (asked.clone(), format!("{}{ending}", &id[..id.len().min(NAME_LENGTH_MAX - ending.len())]))
    });
    named.collect()
}

/// The source of an algorithm of the catalogue or of the user, and its tunables as module parameters.
fn described<'a>(scenario: &'a Scenario, flow: &'a FlowSpec) -> Result<Option<(AlgorithmSource<'a>, String)>, Failure> {
    let file = flow.algorithm.as_str();
    if source::is_source(file) {
        let tunables = flow.tunables.iter().map(|(name, value)| format!(" {name}={value}"));
        return Ok(Some((AlgorithmSource { file, text: scenario.text_of(file) }, tunables.collect())));
    }
    let Some(source) = source_of(file) else { return Ok(None) };
    let settings = catalog::find(file)?.settings_of(&flow.tunables)?;
    let tunables = settings.iter().map(|setting| format!(" {}={}", setting.name, setting.value));
    Ok(Some((source, tunables.collect())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_tunables_has_a_name_that_fits_the_kernel() {
        let asked = |algorithm: &str, value: Option<u32>| -> AlgorithmRequest {
            let tunables = value.map(|value| ("beta".to_owned(), value.to_string()));
            (algorithm.to_owned(), tunables.into_iter().collect())
        };
        let long = |value: u32| asked("below/fifteen_letters.bpf.c", Some(value));
        let all = [asked("dtcp", Some(2)), asked("dtcp", None), asked("dtcp.bpf.c", None), long(7), long(8)];
        let names = names(&BTreeSet::from(all));
        let told: Vec<&str> = names.values().map(String::as_str).collect();
        assert_eq!(told, ["fifteen_letters", "fifteen_lette_1", "dtcp", "dtcp_1", "dtcp_2"]);
    }
}
