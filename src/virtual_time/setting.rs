//! One run as a guest's job, and the guest's words as a run's results.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::algorithms::{Configured, Modules};
use super::flow::{self, GuestFlow};
use super::job::{EVENTS, FLOWS, Job, JobRequest, LINKS, Load, RUN};
use super::link::{self, Outlet};
use super::modules::Module;
use crate::emulate::layout::Layout;
use crate::failure::Failure;
use crate::lab::cost;
use crate::lab::measure::{Time, flow_record};
use crate::lab::plan::{Plan, PlannedRun};
use crate::model::run::{Engine, FlowRecord, LinkRecord};
use crate::path::QueueLimit;
use crate::scenario::Cell;
use crate::trace::event::Event;

#[derive(Default)]
pub struct Measured {
    pub flows: Vec<FlowRecord>,
    pub links: Vec<LinkRecord>,
    pub events: Vec<Event>,
    pub events_dropped: u64,
}

/// What a guest's kernel and its first process take.
const GUEST_MB: u64 = 512;
/// A packet takes so many times its size: its buffer's share, its headers, and the sender's copy.
const BYTES_A_BYTE: u64 = 4;
/// The most memory that the events of a run may take.
const EVENTS_MB: u64 = 256;

/// A run as a guest gets it.
pub struct GuestSetting<'a> {
    cell: &'a Cell,
    flows: Vec<GuestFlow<'a>>,
    names: Vec<String>,
    layout: Layout,
    laboratory: &'a Module,
    /// What the cell's flows use, once each.
    algorithms: Vec<&'a Configured>,
    /// What the laboratory gets: node, file, bytes.
    requests: Vec<(usize, &'static str, Vec<u8>)>,
    run_ns: [u64; 2],
    memory_mb: u32,
}

impl<'a> GuestSetting<'a> {
    /// Errors: the guest cannot have what a field asks.
    pub fn new(plan: &'a Plan, run: &PlannedRun, modules: &'a Modules) -> Result<Self> {
        let cell = &plan.cells[run.cell];
        let layout = plan.layout(run);
        let names: Vec<String> = cell.flows.iter().map(|flow| modules.name_of(flow).to_owned()).collect();
        let flows = flow::flows(plan, run, &layout, &names)?;
        let mut requests = link_requests(plan, &layout)?;
        for flow in &flows {
            requests.extend(flow.requests().map(|(node, bytes)| (node, FLOWS, bytes)));
        }
        requests.push((0, EVENTS, flow::watch_request(plan.sample, EVENTS_MB << 20)));
        let run_ns = flow::run_ns(&flows);
        let mut algorithms = Vec::new();
        for configured in cell.flows.iter().filter_map(|flow| modules.of(flow)) {
            if !algorithms.contains(&configured) {
                algorithms.push(configured);
            }
        }
        let laboratory = &modules.laboratory;
        let on_the_way_mb = BYTES_A_BYTE * bytes_on_the_way(cell, &layout)? / (1 << 20);
        let memory_mb = (GUEST_MB + EVENTS_MB + on_the_way_mb) as u32;
        Ok(GuestSetting { cell, flows, names, layout, laboratory, algorithms, requests, run_ns, memory_mb })
    }

    /// Megabytes that the guest needs.
    pub fn memory_mb(&self) -> u32 {
        self.memory_mb
    }

    /// Puts everything into the folder that the guest shares.
    ///
    /// Errors: it cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let mut job =
            Job { layout: self.layout.clone(), modules: Vec::new(), requests: Vec::new(), run_ns: self.run_ns };
        let algorithms = self.algorithms.iter().map(|configured| (&configured.module, configured.parameters.as_str()));
        for (module, parameters) in std::iter::once((self.laboratory, "")).chain(algorithms) {
            let file = format!("{}.ko", module.name);
            // A copy: what the guest can write to must not be what the next one loads.
            fs::copy(&module.file, folder.join(&file))
                .with_context(|| format!("copy \"{}\"", module.file.display()))?;
            job.modules.push(Load { file, parameters: parameters.to_owned() });
        }
        for (number, (node, to, bytes)) in self.requests.iter().enumerate() {
            let file = format!("request-{number}");
            fs::write(folder.join(&file), bytes).with_context(|| format!("write \"{file}\""))?;
            job.requests.push(JobRequest { node: *node, to: (*to).to_owned(), file });
        }
        job.write(folder)
    }

    /// Reads what the guest left.
    ///
    /// Errors: something is missing or cut short; a flow failed.
    pub fn read(&self, folder: &Path) -> Result<Measured> {
        let read = |name: &str| fs::read(folder.join(name)).with_context(|| format!("read the guest's \"{name}\""));
        let time = Time { links_start_ns: flow::begin_ns(&read(RUN)?)?, length: self.cell.duration };
        let traced = flow::events(&read(EVENTS)?)?;
        if traced.dropped > 0 {
            let what = format!("the run has {} events more than its {EVENTS_MB} MB hold", traced.dropped);
            return Err(Failure::failed(what).hint("give `sample` more time, or the run less").into());
        }
        let reports = flow::reports(&read(FLOWS)?, &self.flows)?;
        let mut flows = Vec::new();
        for ((flow, name), report) in self.flows.iter().zip(&self.names).zip(&reports) {
            let names = [name.clone(), self.cell.label(flow.flow)];
            flows.push(flow_record(flow.flow, names, report, &flow.events(&traced.events), time)?);
        }
        let links = self.link_records(&read(LINKS)?)?;
        Ok(Measured { flows, links, events: traced.events, events_dropped: traced.dropped })
    }

    fn link_records(&self, bytes: &[u8]) -> Result<Vec<LinkRecord>> {
        let counters = link::counters(bytes)?;
        if counters.len() != 2 * self.cell.links.len() {
            bail!("the guest counts {} directions of links, {} were asked", counters.len(), 2 * self.cell.links.len());
        }
        let links = self.cell.links.iter().zip(counters.chunks_exact(2));
        let driver = Engine::Virtual.name();
        Ok(links
            .map(|(spec, both)| LinkRecord {
                name: spec.name(),
                driver: driver.to_owned(),
                counters: [both[0].clone(), both[1].clone()],
            })
            .collect())
    }
}

/// Both directions of every link, each on the node that sends into it.
fn link_requests(plan: &Plan, layout: &Layout) -> Result<Vec<(usize, &'static str, Vec<u8>)>> {
    let host_delay = plan.virtual_time.unwrap_or_default().host_delay;
    let mut requests = Vec::new();
    for link in &layout.links {
        for (direction, end) in link.ends.iter().enumerate() {
            let node = layout.nodes.iter().position(|node| node.name == end.node);
            let node = node.with_context(|| format!("find node \"{}\" in the layout", end.node))?;
            let (device, config) = (end.interface.as_str(), &link.config);
            let outlet = Outlet { device, config, direction, host_delay };
            requests.push((node, LINKS, outlet.request()?));
        }
    }
    Ok(requests)
}

/// What all links hold when every queue is full.
fn bytes_on_the_way(cell: &Cell, layout: &Layout) -> Result<u64> {
    let mut bytes = 0;
    for config in layout.links.iter().map(|link| &link.config) {
        for (direction, limit) in config.directions.iter().zip(config.queue_limits()?) {
            let rate = direction.rate.map_or(cost::traffic_bps(cell) as u64, |rate| rate.0);
            bytes += (rate as f64 / 8.0
                * (direction.delays()[1] + direction.jitter + direction.held_up()).as_secs_f64())
                as u64;
            bytes += match limit {
                QueueLimit::Packets(most) => u64::from(most) * u64::from(cell.mtu),
                QueueLimit::Bytes(most) => most,
            };
        }
    }
    Ok(bytes)
}
