//! Records of a host and of a run before any measurement.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::machine;
use super::plan::{Plan, PlannedRun};
use super::pool::processors;
use shared::model::run::{Engine, HostRecord, RESULT_SCHEMA, RunRecord, RunStatus};

/// Adds this program's version to the versions of an engine's tools.
pub(crate) fn versions<const N: usize>(tools: [(&str, String); N]) -> BTreeMap<String, String> {
    let own = ("tccc", env!("CARGO_PKG_VERSION").to_owned());
    tools.into_iter().chain([own]).map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Plan {
    /// The record of this host, for an engine that builds its own links.
    ///
    /// # Errors
    /// The kernel's release cannot be read.
    pub(crate) fn host_record<const N: usize>(&self, tools: [(&str, String); N]) -> Result<HostRecord> {
        let kernel = nix::sys::utsname::uname().context("read the kernel's release")?;
        Ok(HostRecord {
            schema: RESULT_SCHEMA,
            engine: self.engine,
            machines: if self.is_of_this_host() { vec![machine::machine()] } else { Vec::new() },
            kernel: kernel.release().to_string_lossy().into_owned(),
            cpus: processors(),
            link: self.engine.name().to_owned(),
            network: self.engine.name().to_owned(),
            offloads: "off".to_owned(),
            profile: self.profile.name().to_owned(),
            sysctls: BTreeMap::new(),
            tools: versions(tools),
            algorithms: BTreeMap::new(),
            calibration: Vec::new(),
        })
    }

    /// The record of a finished run without measurements.
    pub(crate) fn record(&self, run: &PlannedRun, started: String) -> RunRecord {
        let cell = &self.cells[run.cell];
        RunRecord {
            schema: RESULT_SCHEMA,
            id: run.id.clone(),
            at: cell.at.clone(),
            repeat: run.repeat,
            seed: run.seed,
            engine: self.engine,
            status: RunStatus::Done,
            why: None,
            late_attempts: 0,
            started,
            duration_s: cell.duration.as_secs_f64(),
            flows: Vec::new(),
            links: Vec::new(),
            jobs: 1,
            events_dropped: 0,
            others_share: None,
            host: self.is_of_this_host().then(machine::id).flatten(),
        }
    }

    /// Whether records name this host; runs in virtual time are the same on every host.
    fn is_of_this_host(&self) -> bool {
        self.engine != Engine::Virtual
    }
}
