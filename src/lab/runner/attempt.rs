//! One attempt at one run: it builds namespaces and links, sends the traffic and writes the record.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use super::gauge::ConcurrencyGauge;
use super::lateness::{lateness, sender_lateness};
use crate::algorithms::PreparedAlgorithms;
use crate::busy::BusyWatch;
use crate::conditions::SocketConditions;
use crate::emulate::Network;
use crate::emulate::topology::Topology;
use crate::follow::{Followed, Follower};
use crate::measure::{Time, flow_record};
use crate::path::Direction;
use crate::plan::{Plan, PlannedRun};
use crate::results::{OpenResultDir, RunFolder};
use crate::room;
use crate::scenario::{Cell, FlowSpec};
use crate::traffic::FlowProcesses;
use crate::traffic::ends::{FlowEnds, RunContext};
use crate::traffic::report::TrafficReport;
use host::trace::limited::SocketLimits;
use shared::event::{Event, EventKind};
use shared::kernel::cgroup::RunCgroup;
use shared::kernel::clock::monotonic_ns;
use shared::kernel::netns::Netns;
use shared::model::queue::{self, QueueSample};
use shared::model::run::{FlowRecord, LimitedTime, LinkRecord, RunRecord, RunStatus};
use shared::poll::POLL_INTERVAL;

/// No path of an experiment holds this many packets. A larger window shows that the kernel skipped a callback of the
/// algorithm, whose result is then whatever was on the stack.
const WINDOW_MAX_PKTS: u32 = 1 << 24;
/// The tracer delivers a flow's last event within this time after the flow's end.
const LAST_EVENT_WITHIN: Duration = Duration::from_secs(2);

/// The parts of an experiment that all its runs share.
pub struct SharedLab<'a> {
    pub plan: &'a Plan,
    pub results: &'a OpenResultDir,
    pub cgroup: &'a RunCgroup,
    pub algorithms: &'a PreparedAlgorithms,
    pub conditions: &'a SocketConditions,
    pub follower: &'a Follower,
    pub network: &'a dyn Network,
    pub gauge: &'a ConcurrencyGauge,
    pub stop: &'a AtomicBool,
}

/// The queues over time of the links that can sample them.
fn queues(topology: &Topology) -> Vec<QueueSample> {
    let mut samples = Vec::new();
    for (link, layout) in topology.links.iter().zip(&topology.layout.links) {
        let [one, other] = layout.ends.each_ref().map(|end| end.node.as_str());
        for (ends, states) in [[one, other], [other, one]].into_iter().zip(link.queues()) {
            samples.extend(states.into_iter().map(|state| QueueSample::of(ends, state)));
        }
    }
    samples
}

/// A run that is not done yet.
#[derive(Debug, Clone, Copy)]
pub struct PendingRun<'a> {
    pub run: &'a PlannedRun,
    /// Attempts that failed or were late.
    pub tried: u32,
    /// Attempts whose link or sender was late.
    pub late: u32,
}

impl SharedLab<'_> {
    /// Makes a run and writes its record, even if the run was late or failed, but not if it was interrupted. Calls
    /// `sent` when its traffic is over, before it writes the results.
    ///
    /// # Errors
    /// The result directory cannot be written; the run was interrupted.
    pub fn attempt(&self, one: &PendingRun<'_>, sent: &dyn Fn()) -> Result<RunRecord> {
        let started = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let place = self.results.path();
        let begin = || self.results.begin(&format!("{}-{}", one.run.id, one.tried));
        let folder = begin().map_err(|error| room::explained(error, place))?;
        let blank = RunRecord { late_attempts: one.late, ..self.plan.record(one.run, started) };
        let id = |status| self.results.id_of(one.run, status);
        let failed = |error: &anyhow::Error| {
            let (status, why) = (RunStatus::Failed, Some(format!("{error:#}")));
            RunRecord { id: id(status), status, why, ..blank.clone() }
        };
        let layouts = self.algorithms.layouts();
        let error = match self.measure(one.run, blank.clone(), &folder, sent) {
            Err(_) if self.stop.load(Ordering::Relaxed) => bail!("interrupted"),
            Err(error) => match room::suspected(error, place) {
                full if room::is_full(&full) => full,
                other => {
                    let record = failed(&other);
                    return folder.finish(&record, &[], layouts).map(|()| record);
                }
            },
            Ok((record, events)) => {
                let record = RunRecord { id: id(record.status), ..record };
                match folder.finish(&record, &events, layouts) {
                    Ok(()) => return Ok(record),
                    Err(error) => room::explained(error, place),
                }
            }
        };
        // The folder of the attempt is gone, which may leave room for the reason.
        let _ = begin().and_then(|folder| folder.finish(&failed(&error), &[], layouts));
        Err(error)
    }

    /// Completes the record `blank`; also returns the events.
    fn measure(
        &self,
        run: &PlannedRun,
        blank: RunRecord,
        folder: &RunFolder,
        sent: &dyn Fn(),
    ) -> Result<(RunRecord, Vec<Event>)> {
        let cell = &self.plan.cells[run.cell];
        let topology = self.network.build(&self.plan.layout(run))?;
        let followed = self.follower.follow(&senders(cell, &topology)?)?;
        let ends = FlowEnds::of_cell(cell, run.seed, &topology)?;
        let context = RunContext { cgroup: self.cgroup, folder: folder.path(), stop: self.stop };
        let traffic = self.listen(&ends, context)?;
        let sample = queue::sample_interval(self.plan.sample, cell.duration, 2 * topology.links.len());
        for (link, layout) in topology.links.iter().zip(&topology.layout.links) {
            link.reseed([layout.config.directions[0].seed, layout.config.directions[1].seed]);
            link.restart_counters();
            link.sample(sample, cell.duration);
        }
        let busy = BusyWatch::begin()?;
        let most_at_once = self.gauge.begin();
        let time = Time { links_start_ns: monotonic_ns()?, length: cell.duration };
        topology.links.iter().for_each(|link| link.start());
        let reports = self.transfer(&ends, context, traffic)?;
        let others_share = Some(busy.others()?.share);
        let jobs = most_at_once.load(Ordering::Relaxed);
        drop(most_at_once);
        sent();
        let links = topology.links.iter().zip(&topology.layout.links).map(|(link, layout)| LinkRecord {
            name: layout.name.clone(),
            driver: self.network.link_driver().to_owned(),
            host_delay_us: link
                .delays_hosts()
                .then(|| layout.config.directions.each_ref().map(Direction::host_delay_us)),
            counters: link.counters(),
        });
        let links: Vec<LinkRecord> = links.collect();
        folder.write_queues(&queues(&topology))?;
        let Gathered { events, limits } = gather(&opened(&ends, &reports), &followed);
        for ends in ends.iter().filter(|ends| has_conditions(ends.flow)) {
            self.conditions.confirm(&ends.from.netns, ends.sender_ports(), ends.flow)?;
        }
        for ends in ends.iter().filter(|ends| self.algorithms.is_of_both_ends(ends.flow)) {
            self.conditions.confirm_receiver(&ends.to.netns, ends.server_port(), ends.flow)?;
        }
        let mut flows = Vec::new();
        for (ends, report) in ends.iter().zip(&reports) {
            let (netns, ports) = (ends.from.netns.inode(), ends.sender_ports());
            let is_own = |event: &&Event| event.netns == netns && ports.contains(&event.local.port());
            let own: Vec<&Event> = events.iter().filter(is_own).collect();
            let names = [self.algorithms.name_of(ends.flow).to_owned(), cell.label(ends.flow)];
            let record = flow_record(ends.flow, names, report, &own, time)?;
            flows.push(FlowRecord { limited: limited(&own, &limits), ..record });
        }
        let late = lateness(cell, &links).or_else(|| sender_lateness(&ends, &reports));
        let (status, why) = match (skipped_callback(&events), late) {
            (Some(why), _) => (RunStatus::Failed, Some(why)),
            (None, Some(why)) => (RunStatus::Late, Some(why)),
            (None, None) => (RunStatus::Done, None),
        };
        let events_dropped = followed.dropped();
        Ok((RunRecord { status, why, flows, links, jobs, events_dropped, others_share, ..blank }, events))
    }

    /// Starts every receiver, which gets the sender's algorithm if that needs ECN, and requests every flow's socket
    /// conditions.
    fn listen(&self, ends: &[FlowEnds<'_>], context: RunContext<'_>) -> Result<Vec<FlowProcesses>> {
        let mut traffic = Vec::new();
        for ends in ends {
            traffic.push(FlowProcesses::listen(ends, context)?);
            if self.algorithms.is_of_both_ends(ends.flow) {
                let name = self.algorithms.name_of(ends.flow);
                self.conditions.give_receiver(&ends.to.netns, ends.server_port(), name)?;
            }
            for port in ends.sender_ports().filter(|_| has_conditions(ends.flow)) {
                self.conditions.ask(&ends.from.netns, port, ends.flow)?;
            }
        }
        Ok(traffic)
    }

    /// Sends every flow at its time and waits for all.
    fn transfer(
        &self,
        ends: &[FlowEnds<'_>],
        context: RunContext<'_>,
        mut traffic: Vec<FlowProcesses>,
    ) -> Result<Vec<TrafficReport>> {
        let begin = Instant::now();
        let mut order: Vec<usize> = (0..ends.len()).collect();
        order.sort_by_key(|&index| ends[index].flow.start);
        for index in order {
            let flow = ends[index].flow;
            while begin.elapsed() < flow.start {
                ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
                std::thread::sleep(POLL_INTERVAL.min(flow.start.saturating_sub(begin.elapsed())));
            }
            traffic[index].send(&ends[index], self.algorithms.name_of(flow), context)?;
        }
        let reports = traffic.into_iter().zip(ends).map(|(traffic, ends)| {
            let finished = traffic.finish(ends, self.algorithms.name_of(ends.flow), self.stop);
            finished.with_context(|| format!("send flow \"{}\"", ends.flow.name))
        });
        reports.collect()
    }
}

fn has_conditions(flow: &FlowSpec) -> bool {
    flow.window_cap.or(flow.initial_ssthresh).or(flow.initial_cwnd).is_some()
}

/// The namespaces of the sending nodes, without duplicates.
fn senders<'a>(cell: &Cell, topology: &'a Topology) -> Result<Vec<&'a Netns>> {
    let names: BTreeSet<&str> = cell.flows.iter().map(|flow| flow.from.as_str()).collect();
    names.into_iter().map(|name| Ok(&topology.node(name)?.netns)).collect()
}

/// Namespace and port of each socket that sent data.
fn opened(ends: &[FlowEnds<'_>], reports: &[TrafficReport]) -> BTreeSet<(u32, u16)> {
    let of_flow = |(ends, report): (&FlowEnds<'_>, &TrafficReport)| {
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

/// What the tracer recorded of the data senders.
#[derive(Default)]
struct Gathered {
    /// Up to the close of each, in the order of their arrival.
    events: Vec<Event>,
    /// By the sockets' cookies.
    limits: HashMap<u64, SocketLimits>,
}

fn gather(senders: &BTreeSet<(u32, u16)>, followed: &Followed<'_>) -> Gathered {
    let deadline = Instant::now() + LAST_EVENT_WITHIN;
    let mut open = senders.clone();
    let Gathered { mut events, mut limits } = Gathered::default();
    while !open.is_empty()
        && let Some((event, of_socket)) = followed.next(deadline.saturating_duration_since(Instant::now()))
    {
        let sender = (event.netns, event.local.port());
        if event.kind == EventKind::Close {
            open.remove(&sender);
        }
        if senders.contains(&sender) {
            limits.extend(of_socket.map(|of_socket| (event.socket, of_socket)));
            events.push(event);
        }
    }
    Gathered { events, limits }
}

/// The sum over a flow's connections. `None` if none of them is known.
fn limited(own: &[&Event], limits: &HashMap<u64, SocketLimits>) -> Option<LimitedTime> {
    let ended = own.iter().filter(|event| event.kind == EventKind::Close);
    let known = ended.filter_map(|event| limits.get(&event.socket));
    let add = |sum: Option<LimitedTime>, one: &SocketLimits| {
        let sum = sum.unwrap_or_default();
        Some(LimitedTime {
            busy_s: sum.busy_s + one.busy.as_secs_f64(),
            receive_window_s: sum.receive_window_s + one.receive_window.as_secs_f64(),
            send_buffer_s: sum.send_buffer_s + one.send_buffer.as_secs_f64(),
        })
    };
    known.fold(None, add)
}

/// Reports a window so large that the algorithm cannot have set it.
fn skipped_callback(events: &[Event]) -> Option<String> {
    let Event { algorithm, cwnd_pkts, .. } = events.iter().find(|event| event.cwnd_pkts > WINDOW_MAX_PKTS)?;
    let window = format!("the window of {algorithm} was {cwnd_pkts} packets");
    Some(format!("{window}: the kernel skipped a callback; `tccc doctor` shows whether it can"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::model::live::samples::sample;

    #[test]
    fn window_that_no_path_holds_voids_a_run() {
        let event = |cwnd_pkts| Event { algorithm: "reno".into(), cwnd_pkts, ..sample(1, 0) };
        assert_eq!(skipped_callback(&[event(10), event(WINDOW_MAX_PKTS)]), None);
        let why = skipped_callback(&[event(10), event(1_984_680_703)]).unwrap();
        assert!(why.contains("window of reno was 1984680703 packets"), "{why}");
    }
}
