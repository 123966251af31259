//! Writes a run as the job of a guest, and reads the results of the guest.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::algorithms::Modules;
use super::flow::{self, GuestFlow};
use super::job::{self, EVENTS, ExperimentJob, FLOWS, JOB, JobRequest, LINKS, ModuleLoad, QUEUES, RUN};
use super::link::{self, GuestCounters};
use super::modules::Module;
use crate::cost;
use crate::emulate::layout::Layout;
use crate::measure::{Time, flow_record};
use crate::path::Direction;
use crate::path::request::DirectionRequest;
use crate::path::route::RoundTrip;
use crate::plan::{Plan, PlannedRun};
use crate::scenario::{Cell, FlowSpec, LinkSpec};
use shared::event::{EVENT_BYTES, Event};
use shared::failure::Failure;
use shared::model::queue::{self, QueueSample};
use shared::model::run::{Engine, FlowRecord, LinkRecord, LinkWait};

#[derive(Default)]
pub struct GuestResults {
    pub flows: Vec<FlowRecord>,
    pub links: Vec<LinkRecord>,
    pub queues: Vec<QueueSample>,
    pub events: Vec<Event>,
}

/// Memory of a guest's kernel and its first process.
const GUEST_MB: u64 = 128;
/// Memory of a flow: the largest send buffer of a socket.
const FLOW_MB: u64 = 4;
/// Connections for which that memory is enough, and memory of each further one: both of its sockets.
const CONNECTIONS: u64 = 2_000;
const CONNECTION_KB: u64 = 8;
/// Memory per byte of a packet: the unused part of its buffer, its headers, and the sender's copy.
const BYTES_A_BYTE: u64 = 4;
/// Least bound of the random delay of a packet inside any node: about what a host takes for a packet.
const HOST_DELAY: Duration = Duration::from_micros(10);
/// Limit of the memory for events, and what a run has at least.
const EVENTS_MB: Range<u64> = 32..256;
/// No run has more events than packets of this size would make, each with its acknowledgement.
const LEAST_PACKET: f64 = 40.0;

/// A run, prepared for a guest.
pub struct GuestSetting<'a> {
    cell: &'a Cell,
    layout: Layout,
    /// The delay of every node, if the scenario sets it.
    fixed: Option<Duration>,
    flows: Vec<GuestFlow<'a>>,
    /// The laboratory and the algorithms of the flows, each with its parameters.
    modules: Vec<(&'a Module, &'a str)>,
    /// For the laboratory: index of the node, file, bytes.
    requests: Vec<(usize, &'static str, Vec<u8>)>,
    events_mb: u64,
    /// Megabytes that the guest needs.
    pub memory_mb: u32,
}

impl<'a> GuestSetting<'a> {
    /// # Errors
    /// The guest does not support a field.
    pub fn new(plan: &'a Plan, run: &PlannedRun, modules: &'a Modules) -> Result<Self> {
        let cell = &plan.cells[run.cell];
        let layout = plan.layout(run);
        let names = cell.flows.iter().map(|flow| modules.name_of(flow).to_owned());
        let flows = flow::flows(plan, run, &layout, names)?;
        let sample = queue::sample_interval(plan.sample, cell.duration, 2 * layout.links.len());
        let events = 2.0 * cost::packets(cell) * f64::from(cell.mtu) / LEAST_PACKET;
        let events_mb = EVENTS_MB.start + (events as u64).saturating_mul(EVENT_BYTES as u64) / (1 << 20);
        let events_mb = events_mb.min(EVENTS_MB.end);
        let mut requests = link_requests(plan, &layout, sample)?;
        for flow in &flows {
            requests.extend(flow.requests().map(|(node, bytes)| (node, FLOWS, bytes)));
        }
        requests.push((0, EVENTS, flow::watch_request(plan.sample, events_mb << 20)));
        let mut loads = vec![(&modules.laboratory, "")];
        for configured in cell.flows.iter().filter_map(|flow| modules.of(flow)) {
            let load = (&configured.module, configured.parameters.as_str());
            if !loads.contains(&load) {
                loads.push(load);
            }
        }
        let on_the_way_mb = BYTES_A_BYTE * bytes_on_the_way(cell, &layout)? / (1 << 20);
        let connections = flows.last().map_or(0, |last| u64::from(last.connections().end));
        let sockets_mb = connections.saturating_sub(CONNECTIONS) * CONNECTION_KB / 1024;
        let samples_mb = samples_mb(&layout, cell.duration, sample);
        let flows_mb = FLOW_MB * flows.len() as u64;
        let memory_mb = (GUEST_MB + flows_mb + events_mb + sockets_mb + on_the_way_mb + samples_mb) as u32;
        let fixed = plan.virtual_time.unwrap_or_default().host_delay;
        Ok(GuestSetting { cell, layout, fixed, flows, modules: loads, requests, events_mb, memory_mb })
    }

    /// Writes the job to the folder that the guest shares.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let (layout, run_ns) = (self.layout.clone(), flow::run_ns(&self.flows));
        let mut job = ExperimentJob { layout, modules: Vec::new(), requests: Vec::new(), run_ns };
        for (module, parameters) in &self.modules {
            let file = format!("{}.ko", module.name);
            // A copy, because the guest can write to the folder.
            fs::copy(&module.file, folder.join(&file)).with_context(|| format!("copy a module to \"{file}\""))?;
            job.modules.push(ModuleLoad { file, parameters: (*parameters).to_owned() });
        }
        for (number, (node, to, bytes)) in self.requests.iter().enumerate() {
            let file = format!("request-{number}");
            fs::write(folder.join(&file), bytes).with_context(|| format!("write \"{file}\""))?;
            job.requests.push(JobRequest { node: *node, to: (*to).to_owned(), file });
        }
        job::write(&job, &folder.join(JOB))
    }

    /// Reads the results of the guest.
    ///
    /// # Errors
    /// A file is missing or too short; a flow failed; events were lost.
    pub fn read(&self, folder: &Path) -> Result<GuestResults> {
        let read = |name: &str| fs::read(folder.join(name)).with_context(|| format!("read the guest's \"{name}\""));
        let time = Time { links_start_ns: flow::begin_ns(&read(RUN)?)?, length: self.cell.duration };
        let traced = flow::events(&read(EVENTS)?)?;
        if traced.dropped > 0 {
            let what = format!("the run has {} events more than fit into {} MB", traced.dropped, self.events_mb);
            return Err(Failure::failed(what).hint("raise `sample`, or shorten the run").into());
        }
        let reports = flow::reports(&read(FLOWS)?, &self.flows)?;
        let counted = self.counted(&read(LINKS)?)?;
        let mut flows = Vec::new();
        for (flow, report) in self.flows.iter().zip(&reports) {
            let names = [flow.algorithm.clone(), self.cell.label(flow.flow)];
            let record = flow_record(flow.flow, names, &report.traffic, &flow.events(&traced.events), time)?;
            let given_up = report.given_up && !is_cut(self.cell, flow.flow);
            flows.push(FlowRecord {
                limited: report.limited,
                ecn: report.ecn,
                given_up,
                waits: self.waits(flow, &counted),
                ..record
            });
        }
        let links = self.link_records(counted);
        let queues = link::queues(&read(QUEUES)?, self.directions())?;
        Ok(GuestResults { flows, links, queues, events: flow::traced(&self.flows, traced.events) })
    }

    /// The two nodes of each direction of each link.
    fn directions(&self) -> impl Iterator<Item = [&str; 2]> {
        self.cell.links.iter().flat_map(|link| {
            let [one, other] = link.ends.each_ref().map(String::as_str);
            [[one, other], [other, one]]
        })
    }

    /// What the guest counts of each direction of each link.
    fn counted(&self, bytes: &[u8]) -> Result<Vec<GuestCounters>> {
        let counted = link::counters(bytes)?;
        if counted.len() != 2 * self.cell.links.len() {
            bail!("the guest counts {} link directions instead of {}", counted.len(), 2 * self.cell.links.len());
        }
        Ok(counted)
    }

    /// How long a flow's packets waited at each link.
    fn waits(&self, flow: &GuestFlow<'_>, counted: &[GuestCounters]) -> Vec<LinkWait> {
        let wait = |([from, to], one): ([&str; 2], &GuestCounters)| {
            let (_, us) = one.flow_waits.iter().find(|(number, _)| *number == flow.number())?;
            Some(LinkWait { from: from.to_owned(), to: to.to_owned(), us: *us })
        };
        self.directions().zip(counted).filter_map(wait).collect()
    }

    fn link_records(&self, counted: Vec<GuestCounters>) -> Vec<LinkRecord> {
        let mut counters = counted.into_iter().map(|one| one.counters);
        let record = |spec: &LinkSpec| {
            Some(LinkRecord {
                name: spec.name(),
                driver: Engine::Virtual.name().to_owned(),
                host_delay_us: Some(
                    spec.directions.each_ref().map(|one| host_delay(self.fixed, one).as_secs_f64() * 1e6),
                ),
                counters: [counters.next()?, counters.next()?],
            })
        };
        self.cell.links.iter().map_while(record).collect()
    }
}

/// Whether no algorithm could end this flow in time, because of its path at the end of the run.
fn is_cut(cell: &Cell, flow: &FlowSpec) -> bool {
    let trip = RoundTrip::between(&cell.links, &flow.from, &flow.to);
    trip.is_some_and(|trip| trip.directions(&cell.links).any(Direction::is_cut_at_the_end))
}

/// The longest random delay of a packet that a node sends into this direction.
fn host_delay(fixed: Option<Duration>, direction: &Direction) -> Duration {
    fixed.unwrap_or(direction.host_delay.max(HOST_DELAY))
}

/// Requests for both directions of every link: the index of the sending node, the file, and the bytes.
fn link_requests(plan: &Plan, layout: &Layout, sample: Duration) -> Result<Vec<(usize, &'static str, Vec<u8>)>> {
    let fixed = plan.virtual_time.unwrap_or_default().host_delay;
    let mut requests = Vec::new();
    for link in &layout.links {
        for (direction, end) in link.ends.iter().enumerate() {
            let node = layout.nodes.iter().position(|node| node.name == end.node);
            let node = node.with_context(|| format!("find node \"{}\" in the layout", end.node))?;
            let (device, config) = (Some(end.interface.as_str()), &link.config);
            let host_delay = host_delay(fixed, &config.directions[direction]);
            let request = DirectionRequest { device, config, direction, host_delay, sample };
            requests.push((node, LINKS, link::request(&request)?));
        }
    }
    Ok(requests)
}

/// Memory for the samples of all queues and for the copy that the guest gives out, megabytes.
fn samples_mb(layout: &Layout, length: Duration, interval: Duration) -> u64 {
    let of_direction = length.as_nanos() / interval.as_nanos().max(1) + 1;
    let samples = of_direction as u64 * 2 * layout.links.len() as u64;
    2 * samples * link::SAMPLE_BYTES / (1 << 20)
}

/// Bytes on all links when every queue is full.
fn bytes_on_the_way(cell: &Cell, layout: &Layout) -> Result<u64> {
    let traffic_bps = cost::traffic_bps(cell) as u64;
    let mut bytes = 0;
    for config in layout.links.iter().map(|link| &link.config) {
        for (side, direction) in config.directions.iter().enumerate() {
            let rate = direction.rate.map_or(traffic_bps, |rate| rate.0);
            bytes += (rate as f64 / 8.0
                * (direction.delays()[1] + direction.spread() + direction.held_up()).as_secs_f64())
                as u64;
            let limits = config.queue_limits_over_time(side)?;
            bytes += limits.iter().map(|limit| limit.bytes(cell.mtu)).max().unwrap_or_default();
        }
    }
    Ok(bytes)
}
