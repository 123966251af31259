//! One run as a guest's job, and the guest's words as a run's results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::ALGORITHMS;
use super::flow::{self, GuestFlow};
use super::job::{EVENTS, FLOWS, Job, LINKS, Load, RUN, Request};
use super::link::{self, Outlet};
use super::modules::{Module, Source, Workshop, source_of};
use crate::catalog::{self, NAME_LENGTH_MAX};
use crate::experiment::algorithms::source;
use crate::experiment::cost;
use crate::experiment::measure::{Time, flow_record};
use crate::experiment::net::layout::Layout;
use crate::experiment::plan::{Plan, PlannedRun};
use crate::experiment::scenario::{Cell, FlowSpec, Scenario, Sends};
use crate::failure::Failure;
use crate::model::run::{Engine, FlowRecord, LinkRecord};
use crate::path::{LinkConfig, QueueLimit};
use crate::trace::event::Event;

/// An algorithm with its tunables, as a flow asks for it.
type Asked = (String, BTreeMap<String, String>);

/// The modules of an experiment, compiled.
pub struct Modules {
    /// Links, traffic and tracer.
    pub laboratory: Module,
    /// Of our algorithms; the kernel's own need none.
    algorithms: BTreeMap<Asked, Configured>,
}

/// A module with its parameters, as the kernel takes them.
#[derive(PartialEq)]
struct Configured {
    module: Module,
    parameters: String,
}

impl Modules {
    /// Compiles what the cells ask for, or takes it from the cache.
    ///
    /// Errors: a tunable is refused; the compiler is missing or refuses a file.
    pub fn prepare<'a>(
        workshop: &Workshop<'_>,
        scenario: &Scenario,
        cells: impl Iterator<Item = &'a Cell>,
    ) -> Result<Modules> {
        let all = scenario.cells.iter().flat_map(|cell| &cell.flows).filter(|flow| flow.is_tcp());
        let names = names(&all.map(asked).collect());
        let mut modules = Modules { laboratory: workshop.laboratory()?, algorithms: BTreeMap::new() };
        for flow in cells.flat_map(|cell| &cell.flows).filter(|flow| flow.is_tcp()) {
            let asked = asked(flow);
            if modules.algorithms.contains_key(&asked) {
                continue;
            }
            let Some((source, tunables)) = described(scenario, flow)? else { continue };
            let name = &names[&asked];
            let module = workshop.algorithm(name, source)?;
            modules.algorithms.insert(asked, Configured { module, parameters: format!("name={name}{tunables}") });
        }
        Ok(modules)
    }

    /// What a flow asks for; none where that is the kernel's own, or the flow has no algorithm.
    fn of(&self, flow: &FlowSpec) -> Option<&Configured> {
        self.algorithms.get(&asked(flow)).filter(|_| flow.is_tcp())
    }

    /// The guest's name of what a flow asks for.
    fn name_of<'a>(&'a self, flow: &'a FlowSpec) -> &'a str {
        self.of(flow).map_or(&flow.algorithm, |configured| &configured.module.name)
    }

    /// Digest of each of our files, by the name under which it runs.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let modules = self.algorithms.values().map(|configured| &configured.module);
        modules.map(|module| (module.name.clone(), module.digest.clone())).collect()
    }
}

fn asked(flow: &FlowSpec) -> Asked {
    (flow.algorithm.clone(), flow.tunables.clone())
}

/// The name under which an algorithm registers without tunables: its id.
fn id_of(algorithm: &str) -> &str {
    source::id_of(algorithm).unwrap_or(algorithm)
}

/// The guest's name of everything that the flows of a scenario ask for: the kernel loads a module once under each name.
///
/// The same for every part of an experiment, and for one that is continued.
fn names(all: &BTreeSet<Asked>) -> BTreeMap<Asked, String> {
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

/// The source of an algorithm of ours, or of the user's own, and its tunables as the kernel takes them.
fn described<'a>(scenario: &'a Scenario, flow: &'a FlowSpec) -> Result<Option<(Source<'a>, String)>, Failure> {
    let file = flow.algorithm.as_str();
    if source::is_source(file) {
        let tunables = flow.tunables.iter().map(|(name, value)| format!(" {name}={value}"));
        return Ok(Some((Source { file, text: scenario.text_of(file) }, tunables.collect())));
    }
    let Some(source) = source_of(file) else { return Ok(None) };
    let settings = catalog::find(file)?.settings_of(&flow.tunables)?;
    let tunables = settings.iter().map(|setting| format!(" {}={}", setting.name, setting.value));
    Ok(Some((source, tunables.collect())))
}

/// What a run measured.
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
/// The most that a flow may send where no link has a rate: a minute of a processor for a second, as the forecast counts.
const UNHELD_BPS: f64 = 400e9;
/// The most memory that the events of a run may take.
const EVENTS_MB: u64 = 256;

/// Checks that a guest can have a cell.
///
/// Errors: the first field that it cannot have, with its place.
pub fn check(scenario: &Scenario, cell: &Cell) -> Result<()> {
    for flow in cell.flows.iter().filter(|flow| flow.is_tcp()) {
        if let Some(failure) = impossible(&flow.algorithm) {
            return Err(scenario.mistake_in_flow(cell, flow, "algorithm", failure).into());
        }
    }
    for spec in &cell.links {
        if let Some((direction, field, why)) = link::too_many_numbers(&spec.config(cell.mtu)) {
            return Err(scenario.mistake_in_link(cell, spec, (direction, field), why).into());
        }
    }
    if let Some((flow, failure)) = unheld(cell) {
        return Err(scenario.mistake_in_flow(cell, flow, "from", failure).into());
    }
    match flow::uncountable(cell) {
        Some((flow, why)) => Err(scenario.mistake_in_flow(cell, flow, "rate", why).into()),
        None => Ok(()),
    }
}

/// The first flow without end that neither a rate nor its window holds back, and why that cannot be.
///
/// A guest has no processor whose speed would: packets without number would leave at one moment.
fn unheld(cell: &Cell) -> Option<(&FlowSpec, Failure)> {
    let endless = cell.flows.iter().filter(|flow| flow.is_tcp() && matches!(flow.sends, Sends::Bulk));
    let (flow, bps) =
        endless.filter_map(|flow| Some((flow, cost::window_bps(cell, flow)?))).find(|one| one.1 > UNHELD_BPS)?;
    let round_trip = humantime::format_duration(cost::round_trip(cell, flow));
    let (bps, most) = (bps / 1e9, UNHELD_BPS / 1e9);
    let what = format!(
        "no link from here on has a rate, and with a round trip of {round_trip} flow \"{}\" could send {bps:.0} Gbit/s; \
         virtual time takes at most {most:.0} Gbit/s",
        flow.name
    );
    Some((
        flow,
        Failure::usage(what).hint("give a link on its way a `rate` or more `delay`, or the flow a `window_cap`"),
    ))
}

/// Why a guest cannot have an algorithm that exists.
///
/// None: it can.
fn impossible(algorithm: &str) -> Option<Failure> {
    if source::is_source(algorithm) {
        let id = id_of(algorithm);
        let what = format!("\"{algorithm}\": the guest's kernel has an algorithm of its own that is called \"{id}\"");
        return ALGORITHMS.contains(&id).then(|| Failure::usage(what).hint("give the file another name"));
    }
    let companion = catalog::find(algorithm).ok()?.companion.as_ref()?;
    let what = format!(
        "\"{algorithm}\" needs its companion program \"{}\" beside it, which is BPF, and the guest of virtual time has none",
        companion.program
    );
    Some(Failure::usage(what).hint("`--engine kernel` runs it"))
}

/// A run as it is told to a guest.
pub struct Setting<'a> {
    cell: &'a Cell,
    flows: Vec<GuestFlow<'a>>,
    names: Vec<String>,
    layout: Layout,
    laboratory: &'a Module,
    /// What the cell's flows use, once each.
    algorithms: Vec<&'a Configured>,
    /// What the laboratory is told: node, file, bytes.
    requests: Vec<(usize, &'static str, Vec<u8>)>,
    run_ns: [u64; 2],
    memory_mb: u32,
}

impl<'a> Setting<'a> {
    /// Errors: the guest cannot have what a field asks.
    pub fn new(plan: &'a Plan, run: &PlannedRun, modules: &'a Modules) -> Result<Self> {
        let cell = &plan.cells[run.cell];
        let configs = plan.link_configs(run);
        let layout = Layout::new(cell, &configs, plan.profile);
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
        let on_the_way_mb = BYTES_A_BYTE * bytes_on_the_way(cell, &configs)? / (1 << 20);
        let memory_mb = (GUEST_MB + EVENTS_MB + on_the_way_mb) as u32;
        Ok(Setting { cell, flows, names, layout, laboratory, algorithms, requests, run_ns, memory_mb })
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
            job.requests.push(Request { node: *node, to: (*to).to_owned(), file });
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
fn bytes_on_the_way(cell: &Cell, configs: &[LinkConfig]) -> Result<u64> {
    let mut bytes = 0;
    for config in configs {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_tunables_has_a_name_that_fits_the_kernel() {
        let asked = |algorithm: &str, value: Option<u32>| -> Asked {
            let tunables = value.map(|value| ("beta".to_owned(), value.to_string()));
            (algorithm.to_owned(), tunables.into_iter().collect())
        };
        let long = |value: u32| asked("below/fifteen_letters.bpf.c", Some(value));
        let all = [asked("dtcp", Some(2)), asked("dtcp", None), asked("dtcp.bpf.c", None), long(7), long(8)];
        let names = names(&BTreeSet::from(all));
        let told: Vec<&str> = names.values().map(String::as_str).collect();
        assert_eq!(told, ["fifteen_letters", "fifteen_lette_1", "dtcp", "dtcp_1", "dtcp_2"]);
    }

    /// They named the flow or the link, and neither file nor line.
    #[test]
    fn what_a_guest_cannot_hold_is_refused_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let many: String = (1..=2_200_000).map(|number| format!("{number}\n")).collect();
        fs::write(folder.path().join("many.txt"), many).unwrap();
        let file = folder.path().join("x.toml").display().to_string();
        let refused = |link: &str, flow: &str| {
            let text = format!(
                "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"10s\"\nruns=1\nseed=1\n\
                 [[link]]\nends=[\"a\",\"b\"]\nrate=\"10gbit\"\ndelay=\"10ms\"\n{link}\n\
                 [[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"b\"\n{flow}\n"
            );
            let scenario = Scenario::parse(&file, &text).unwrap();
            check(&scenario, &scenario.cells[0]).unwrap_err().to_string()
        };
        let (tcp, losses) = ("algorithm=\"reno\"", "loss=\"trace:many.txt\"");
        let expected = |place: &str, why: &str| format!("{file}:{place}: {why}");
        let why = "its numbers take 17600000 bytes";
        assert!(refused(losses, tcp).starts_with(&expected("11: link.loss", why)));
        let back = format!("queue=\"9pkts\"\nreverse={{{losses}}}");
        assert!(refused(&back, tcp).starts_with(&expected("12: link.reverse.loss", why)));
        let later = format!("change=[{{at=\"1s\",{losses}}}]");
        assert!(refused(&later, tcp).starts_with(&expected("11: link.change", why)));
        let datagrams = refused("", "protocol=\"udp\"\npacket=\"36B\"\nrate=\"10gbit\"");
        assert!(datagrams.starts_with(&expected("18: flow.rate", "it gives ")), "{datagrams}");
    }

    #[test]
    fn flow_that_nothing_holds_back_is_refused() {
        let check = |link: &str, flow: &str| {
            let text = format!(
                "title=\"t\"\nclaim=\"c\"\nprofile=\"paper\"\nduration=\"10s\"\nruns=1\nseed=1\n\
                 [[link]]\nends=[\"a\",\"b\"]\n{link}\n[[flow]]\nname=\"f\"\nfrom=\"a\"\nto=\"b\"\n{flow}\n"
            );
            let scenario = Scenario::parse("x.toml", &text).unwrap();
            check(&scenario, &scenario.cells[0]).map_err(|error| error.to_string())
        };
        let bulk = "algorithm=\"reno\"";
        let refused = check("", bulk).unwrap_err();
        assert!(refused.starts_with("x.toml:12: flow.from: no link from here on has a rate"), "{refused}");
        assert!(check("delay=\"100us\"", bulk).is_err());
        assert!(check("rate=\"1gbit\"", bulk).is_ok() && check("delay=\"10ms\"", bulk).is_ok());
        assert!(check("delay=\"1ms\"", "algorithm=\"reno\"\nwindow_cap=100").is_ok());
        assert!(check("", "algorithm=\"reno\"\nsize=\"1MB\"").is_ok(), "it ends");
    }

    #[test]
    fn own_file_that_hides_an_algorithm_of_the_guest_is_refused() {
        assert!(impossible("cubic.bpf.c").unwrap().what.contains("algorithm of its own that is called \"cubic\""));
        assert!(impossible("mine.bpf.c").is_none() && impossible("dtcp").is_none());
        assert!(impossible("mswift").unwrap().what.contains("companion program"));
    }
}
