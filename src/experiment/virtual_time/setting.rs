//! One run as a guest's job, and the guest's words as a run's results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::modules::{Module, Source, Workshop, source_of};
use crate::catalog;
use crate::experiment::scenario::FlowSpec;
use crate::model::run::{FlowRecord, LinkRecord};
use crate::trace::event::Event;

/// An algorithm with its tunables, as a flow asks for it.
type Asked = (String, BTreeMap<String, String>);

/// The modules of an experiment, compiled.
pub struct Modules {
    /// Links, traffic and tracer.
    pub laboratory: Module,
    /// Of our algorithms; the kernel's own need none.
    algorithms: BTreeMap<Asked, Module>,
}

impl Modules {
    /// Compiles what the flows ask for, or takes it from the cache.
    ///
    /// Errors: the compiler is missing or refuses a file.
    pub fn prepare<'a>(workshop: &Workshop<'_>, flows: impl Iterator<Item = &'a FlowSpec>) -> Result<Modules> {
        let mut modules = Modules { laboratory: workshop.laboratory()?, algorithms: BTreeMap::new() };
        for flow in flows.filter(|flow| flow.is_tcp()) {
            let asked: Asked = (flow.algorithm.clone(), flow.tunables.clone());
            let Some(source) = source_of(&flow.algorithm).filter(|_| !modules.algorithms.contains_key(&asked)) else {
                continue;
            };
            // The kernel loads a module once under each name.
            let others = modules.algorithms.keys().filter(|(id, _)| *id == flow.algorithm).count();
            let name = if others == 0 { flow.algorithm.clone() } else { format!("{}_{others}", flow.algorithm) };
            let module = workshop.algorithm(&name, source)?;
            modules.algorithms.insert(asked, module);
        }
        Ok(modules)
    }

    /// Digest of each of our files, by the id of the algorithm.
    pub fn digests(&self) -> BTreeMap<String, String> {
        self.algorithms.iter().map(|((id, _), module)| (id.clone(), module.digest.clone())).collect()
    }
}

/// What a run measured.
#[derive(Default)]
pub struct Measured {
    pub flows: Vec<FlowRecord>,
    pub links: Vec<LinkRecord>,
    pub events: Vec<Event>,
    pub events_dropped: u64,
}

pub struct Setting {}
use crate::experiment::plan::{Plan, PlannedRun};
use crate::experiment::scenario::{Cell, Scenario};
pub fn check(_: &Scenario, _: &Cell) -> Result<()> { Ok(()) }
impl Setting {
    pub fn new(_: &Plan, _: &PlannedRun, _: &Modules) -> Result<Self> { Ok(Setting{}) }
    pub fn write(&self, _: &Path) -> Result<()> { Ok(()) }
    pub fn read(&self, _: &Path) -> Result<Measured> { Ok(Measured::default()) }
    pub fn memory_mb(&self) -> u32 { 512 }
}
