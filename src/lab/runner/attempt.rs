//! One attempt at one run: its own namespaces and links, its traffic, its record.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use super::lateness::{lateness, sender_lateness};
use super::together::Together;
use crate::emulate::Network;
use crate::emulate::topology::Topology;
use crate::kernel::cgroup::RunCgroup;
use crate::kernel::clock::monotonic_ns;
use crate::kernel::netns::Netns;
use crate::lab::algorithms::Algorithms;
use crate::lab::busy::BusyWatch;
use crate::lab::conditions::Conditions;
use crate::lab::follow::{Followed, Follower};
use crate::lab::measure::{Time, flow_record};
use crate::lab::plan::{Plan, PlannedRun};
use crate::lab::results::{OpenResultDir, RunFolder};
use crate::lab::traffic::Traffic;
use crate::lab::traffic::ends::{Bed, Ends};
use crate::lab::traffic::report::TrafficReport;
use crate::model::run::{FlowRecord, LinkRecord, RunRecord, RunStatus};
use crate::scenario::{Cell, FlowSpec};
use crate::trace::event::{Event, EventKind};

/// No path of an experiment holds so many packets: such a window is what an algorithm's callback leaves behind that the
/// kernel skipped, whose result is then whatever lay on the stack.
const WINDOW_MAX_PKTS: u32 = 1 << 24;
/// The last event of a flow comes within this time of its end.
const LAST_EVENT_WITHIN: Duration = Duration::from_secs(2);
/// How often a start time is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What all runs share.
pub struct Bench<'a> {
    pub plan: &'a Plan,
    pub results: &'a OpenResultDir,
    pub cgroup: &'a RunCgroup,
    pub algorithms: &'a Algorithms,
    pub conditions: &'a Conditions,
    pub follower: &'a Follower,
    pub network: &'a dyn Network,
    pub together: &'a Together,
    pub stop: &'a AtomicBool,
}

/// A run and what came of it so far.
#[derive(Debug, Clone, Copy)]
pub struct Try<'a> {
    pub run: &'a PlannedRun,
    /// Attempts that came to nothing.
    pub tried: u32,
    /// Those of them whose link or sender was late.
    pub late: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub status: RunStatus,
    pub why: Option<String>,
    /// Runs that sent at once while this one did, at most.
    pub jobs: u32,
}

#[derive(Default)]
struct Measured {
    flows: Vec<FlowRecord>,
    links: Vec<LinkRecord>,
    events: Vec<Event>,
    events_dropped: u64,
    others_share: Option<f64>,
    jobs: u32,
    /// Why it was not what was asked.
    late: Option<String>,
}

impl Measured {
    /// Algorithm and window of every event.
    fn windows(&self) -> impl Iterator<Item = (&str, u32)> {
        self.events.iter().map(|event| (event.algorithm.as_str(), event.cwnd_pkts))
    }
}

impl Bench<'_> {
    /// Makes a run and keeps it, whatever came of it; an interrupted one is not kept. Calls `sent` when its traffic is
    /// over and its results are still to be put away.
    ///
    /// Errors: the result directory cannot be written; the run was interrupted.
    pub fn attempt(&self, one: &Try<'_>, sent: &dyn Fn()) -> Result<Attempt> {
        let Try { run, tried, late } = *one;
        let started = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let folder = self.results.begin(&format!("{}-{tried}", run.id))?;
        let (status, why, measured) = match self.measure(run, &folder, sent) {
            Err(_) if self.stop.load(Ordering::Relaxed) => bail!("interrupted"),
            Err(error) => (RunStatus::Failed, Some(format!("{error:#}")), Measured::default()),
            Ok(measured) => match (skipped_callback(measured.windows()), measured.late.clone()) {
                (Some(why), _) => (RunStatus::Failed, Some(why), measured),
                (None, Some(why)) => (RunStatus::Late, Some(why), measured),
                (None, None) => (RunStatus::Done, None, measured),
            },
        };
        let jobs = measured.jobs.max(1);
        let record = RunRecord {
            id: self.results.id_of(run, status),
            status,
            why: why.clone(),
            late_attempts: late,
            flows: measured.flows,
            links: measured.links,
            jobs,
            events_dropped: measured.events_dropped,
            others_share: measured.others_share,
            ..self.plan.record(run, started)
        };
        folder.finish(&record, &measured.events)?;
        Ok(Attempt { status, why, jobs })
    }

    fn measure(&self, run: &PlannedRun, folder: &RunFolder, sent: &dyn Fn()) -> Result<Measured> {
        let cell = &self.plan.cells[run.cell];
        let topology = self.network.build(&self.plan.layout(run))?;
        let followed = self.follower.follow(&senders(cell, &topology)?)?;
        let ends = Ends::of_cell(cell, &topology)?;
        let bed = Bed { cgroup: self.cgroup, folder: folder.path(), stop: self.stop };
        let traffic = self.listen(&ends, bed)?;
        for (link, layout) in topology.links.iter().zip(&topology.layout.links) {
            link.reseed([layout.config.directions[0].seed, layout.config.directions[1].seed]);
            link.restart_counters();
        }
        let busy = BusyWatch::begin()?;
        let sender = self.together.begin();
        let time = Time { links_start_ns: monotonic_ns()?, length: cell.duration };
        topology.links.iter().for_each(|link| link.start());
        let reports = self.transfer(&ends, bed, traffic)?;
        let others_share = Some(busy.others()?.share);
        let jobs = sender.most();
        drop(sender);
        sent();
        let links = link_records(cell, &topology, self.network.link_driver());
        let events = gather(&opened(&ends, &reports), &followed);
        self.confirm_conditions(&ends)?;
        let mut flows = Vec::new();
        for (ends, report) in ends.iter().zip(&reports) {
            let own: Vec<&Event> = of_flow(&events, ends).collect();
            let names = [self.algorithms.name_of(ends.flow).to_owned(), cell.label(ends.flow)];
            flows.push(flow_record(ends.flow, names, report, &own, time)?);
        }
        let late = lateness(cell, &links).or_else(|| sender_lateness(&ends, &reports));
        Ok(Measured { flows, links, events, events_dropped: followed.dropped(), others_share, jobs, late })
    }

    /// Starts every receiver, and asks for every flow's conditions.
    fn listen(&self, ends: &[Ends<'_>], bed: Bed<'_>) -> Result<Vec<Traffic>> {
        let mut traffic = Vec::new();
        for ends in ends {
            traffic.push(Traffic::listen(ends, bed)?);
            for port in ends.sender_ports().filter(|_| has_conditions(ends.flow)) {
                self.conditions.ask(&ends.from.netns, port, ends.flow)?;
            }
        }
        Ok(traffic)
    }

    /// Sends every flow at its time and waits for all.
    fn transfer(&self, ends: &[Ends<'_>], bed: Bed<'_>, mut traffic: Vec<Traffic>) -> Result<Vec<TrafficReport>> {
        let begin = Instant::now();
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|&index| ends[index].flow.start);
        for index in order {
            let flow = ends[index].flow;
            while begin.elapsed() < flow.start {
                ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
                std::thread::sleep(LOOK_EVERY.min(flow.start.saturating_sub(begin.elapsed())));
            }
            traffic[index].send(&ends[index], self.algorithms.name_of(flow), bed)?;
        }
        let flows = traffic.into_iter().zip(ends);
        flows
            .map(|(traffic, ends)| {
                let finished = traffic.finish(ends, self.algorithms.name_of(ends.flow), self.stop);
                finished.with_context(|| format!("send flow \"{}\"", ends.flow.name))
            })
            .collect()
    }

    fn confirm_conditions(&self, ends: &[Ends<'_>]) -> Result<()> {
        for ends in ends.iter().filter(|ends| has_conditions(ends.flow)) {
            self.conditions.confirm(&ends.from.netns, ends.sender_ports(), ends.flow)?;
        }
        Ok(())
    }
}

fn has_conditions(flow: &FlowSpec) -> bool {
    flow.window_cap.or(flow.initial_ssthresh).or(flow.initial_cwnd).is_some()
}

/// The namespaces of the nodes that send, each once.
fn senders<'a>(cell: &Cell, topology: &'a Topology) -> Result<Vec<&'a Netns>> {
    let mut names: Vec<&str> = cell.flows.iter().map(|flow| flow.from.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().map(|name| Ok(&topology.node(name)?.netns)).collect()
}

fn link_records(cell: &Cell, topology: &Topology, driver: &str) -> Vec<LinkRecord> {
    let links = cell.links.iter().zip(&topology.links);
    links
        .map(|(spec, link)| LinkRecord { name: spec.name(), driver: driver.to_owned(), counters: link.counters() })
        .collect()
}

/// The sockets that sent data: namespace and port.
fn opened(ends: &[Ends<'_>], reports: &[TrafficReport]) -> Vec<(u32, u16)> {
    let of_flow = |(ends, report): (&Ends<'_>, &TrafficReport)| {
        let ports: Vec<u16> = match report {
            TrafficReport::Bulk(_) => vec![ends.sender_port],
            TrafficReport::Transfers(transfers) => transfers.iter().map(|one| one.port).collect(),
            TrafficReport::Datagrams(_) => Vec::new(),
        };
        let netns = ends.from.netns.inode();
        ports.into_iter().map(move |port| (netns, port))
    };
    ends.iter().zip(reports).flat_map(of_flow).collect()
}

/// The events of the data senders, up to the close of each, in the order in which they came.
fn gather(senders: &[(u32, u16)], followed: &Followed<'_>) -> Vec<Event> {
    let deadline = Instant::now() + LAST_EVENT_WITHIN;
    let wanted: BTreeSet<(u32, u16)> = senders.iter().copied().collect();
    let mut open = wanted.clone();
    let mut events = Vec::new();
    while !open.is_empty() {
        let Some(event) = followed.next(deadline.saturating_duration_since(Instant::now())) else { break };
        let sender = (event.netns, event.local.port());
        if event.kind == EventKind::Close {
            open.remove(&sender);
        }
        if wanted.contains(&sender) {
            events.push(event);
        }
    }
    events
}

fn of_flow<'a>(events: &'a [Event], ends: &Ends<'_>) -> impl Iterator<Item = &'a Event> {
    let (netns, ports) = (ends.from.netns.inode(), ends.sender_ports());
    events.iter().filter(move |event| event.netns == netns && ports.contains(&event.local.port()))
}

/// Why the algorithm was not what ran; none when it was, as far as its window shows.
fn skipped_callback<'a>(mut windows: impl Iterator<Item = (&'a str, u32)>) -> Option<String> {
    let (algorithm, window) = windows.find(|(_, cwnd_pkts)| *cwnd_pkts > WINDOW_MAX_PKTS)?;
    Some(format!(
        "the window of {algorithm} was {window} packets: the kernel skipped a callback; `tccc doctor` says whether it may"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_that_no_path_holds_voids_a_run() {
        assert_eq!(skipped_callback([("reno", 10), ("reno", WINDOW_MAX_PKTS)].into_iter()), None);
        let why = skipped_callback([("reno", 10), ("reno", 1_984_680_703)].into_iter()).unwrap();
        assert!(why.contains("window of reno was 1984680703 packets"), "{why}");
    }
}
