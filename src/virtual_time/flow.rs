//! Flows of a guest: encodes the requests to the laboratory, and decodes its reports and events. Pure.
//!
//! Written in this order: every flow's [`GuestFlow::requests`] to `/proc/tccc/flows`, [`watch_request`] to
//! `/proc/tccc/events`, then [`run_ns`] to `/proc/tccc/run`. Read afterwards: [`reports`], [`events`], [`begin_ns`].
//! `bpf/guest/lab.h` has the same structs in C.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;

use super::bytes::Bytes;
use crate::emulate::layout::Layout;
use crate::failure::Failure;
use crate::lab::cost;
use crate::lab::plan::{Plan, PlannedRun, mix};
use crate::lab::traffic::datagrams::UDP_HEADER_BYTES;
use crate::lab::traffic::ends::{FIRST_SENDER_PORT, FIRST_SERVER_PORT, slack};
use crate::lab::traffic::own::QUIET;
use crate::lab::traffic::report::{Datagrams, Report, TransferReport, Transferred};
use crate::scenario::{Cell, FlowSpec, Sends};
use crate::trace::event::{EVENT_BYTES, EVENT_VERSION, Event};
use crate::trace::live::LOSS_GAPS_PER_INTERVAL;

mod layout;

use layout::{ALGORITHM_NAME, FlowReport, Request, RunReport, WatchReport, WatchRequest};

/// How many datagrams of one flow a guest can count: `DATAGRAMS_MAX` of `traffic.c`.
const DATAGRAMS_MAX: u128 = 1 << 28;
/// Keeps the seeds of start moments apart from those of links.
const START_STREAM: u64 = 0x0073_7461_7274;

/// A flow of a cell, as a guest sends it.
#[derive(Debug, Clone)]
pub struct GuestFlow<'a> {
    pub flow: &'a FlowSpec,
    /// Place of the node that sends among the layout's nodes.
    pub from: usize,
    /// Place of the node that receives.
    pub to: usize,
    /// The guest's name of its algorithm; empty for datagrams.
    algorithm: String,
    /// Its place among the cell's flows.
    index: usize,
    addresses: [Ipv4Addr; 2],
    /// Local port of its first connection.
    sender_port: u16,
    /// From the start of the run, spread included.
    start: Duration,
    length: Duration,
    hold_up: Duration,
}

/// What the tracer saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traced {
    /// In order of time.
    pub events: Vec<Event>,
    /// Events that found no memory.
    pub dropped: u64,
}

/// The first flow of more datagrams than a guest can count, and why it cannot have it.
///
/// None: a guest can have all of the cell's flows.
pub fn uncountable(cell: &Cell) -> Option<(&FlowSpec, Failure)> {
    cell.flows.iter().find_map(|flow| {
        let Sends::Datagrams { rate, packet_bytes } = flow.sends else { return None };
        let count = flow.length(cell.duration).as_nanos() / u128::from(gap_ns(rate.0, packet_bytes).max(1));
        let what = format!("it gives {count} datagrams, a guest of virtual time counts {DATAGRAMS_MAX}");
        (count >= DATAGRAMS_MAX).then(|| (flow, Failure::usage(what).hint("lower `rate`, or shorten the flow")))
    })
}

/// The flows of a run in the cell's order; `algorithms` are the guest's names of their algorithms, in the same order.
///
/// Each begins at a seeded moment up to the scenario's `start_spread` after its start.
///
/// Errors: a node is missing from the layout; an algorithm's name is too long.
pub fn flows<'a>(
    plan: &'a Plan,
    run: &PlannedRun,
    layout: &Layout,
    algorithms: &[String],
) -> Result<Vec<GuestFlow<'a>>> {
    let cell = &plan.cells[run.cell];
    let spread = plan.virtual_time.unwrap_or_default().start_spread;
    let mut sender_port = FIRST_SENDER_PORT;
    let mut flows = Vec::new();
    for (index, (flow, algorithm)) in cell.flows.iter().zip(algorithms).enumerate() {
        if algorithm.len() >= ALGORITHM_NAME {
            bail!("an algorithm's name has at most {} characters, \"{algorithm}\" has more", ALGORITHM_NAME - 1);
        }
        let [from, to] = [node(layout, &flow.from)?, node(layout, &flow.to)?];
        flows.push(GuestFlow {
            flow,
            from,
            to,
            algorithm: if flow.is_tcp() { algorithm.clone() } else { String::new() },
            index,
            addresses: [from, to].map(|node| layout.nodes[node].address),
            sender_port,
            start: flow.start + offset(spread, mix(run.seed ^ START_STREAM, index as u64)),
            length: flow.length(cell.duration),
            hold_up: cost::hold_up(cell, flow),
        });
        sender_port += flow.connections() as u16;
    }
    Ok(flows)
}

fn node(layout: &Layout, name: &str) -> Result<usize> {
    let place = layout.nodes.iter().position(|node| node.name == name);
    place.with_context(|| format!("find node \"{name}\" in the layout"))
}

/// A time from zero to the whole spread. The bias of the remainder is below 1e-9.
fn offset(spread: Duration, random: u64) -> Duration {
    Duration::from_nanos(random % (nanos(spread) + 1))
}

/// From one datagram to the next; the same number as in [`crate::lab::traffic::datagrams`].
fn gap_ns(rate_bps: u64, packet_bytes: u32) -> u64 {
    nanos(Duration::from_secs_f64(8.0 * f64::from(packet_bytes) / rate_bps as f64))
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

impl GuestFlow<'_> {
    /// The requests of the receiver and then of the sender, each with the place of the node that writes it.
    pub fn requests(&self) -> [(usize, Vec<u8>); 2] {
        let of_end = |end| Request { end, ..self.request() }.to_bytes();
        [(self.to, of_end(layout::END_RECEIVES)), (self.from, of_end(layout::END_SENDS))]
    }

    /// Local ports of its connections, in the order in which they start.
    pub fn sender_ports(&self) -> Range<u16> {
        self.sender_port..self.sender_port + self.flow.connections() as u16
    }

    /// The events of its senders, in order.
    pub fn events<'e>(&self, events: &'e [Event]) -> Vec<&'e Event> {
        let ports = self.sender_ports();
        events.iter().filter(|event| ports.contains(&event.local.port())).collect()
    }

    /// The request without its end.
    fn request(&self) -> Request {
        let (sends, bytes, count, interval_ns) = match self.flow.sends {
            Sends::Bulk => (layout::SENDS_BULK, 0, 1, 0),
            Sends::Transfers { size, count, interval } => (layout::SENDS_TRANSFERS, size.0, count, nanos(interval)),
            Sends::Messages { size, count, interval } => (layout::SENDS_MESSAGES, size.0, count, nanos(interval)),
            Sends::Datagrams { rate, packet_bytes } => {
                let payload = u64::from(packet_bytes - UDP_HEADER_BYTES);
                (layout::SENDS_DATAGRAMS, payload, 1, gap_ns(rate.0, packet_bytes))
            }
        };
        Request { sends, bytes, count, interval_ns, ..self.conditions() }
    }

    /// The request without what the flow sends.
    fn conditions(&self) -> Request {
        let mut algorithm = [0; ALGORITHM_NAME];
        algorithm[..self.algorithm.len()].copy_from_slice(self.algorithm.as_bytes());
        Request {
            start_ns: nanos(self.start),
            length_ns: nanos(self.length),
            settle_ns: if self.flow.is_tcp() { 0 } else { nanos(QUIET + self.hold_up) },
            flow: self.index as u32,
            window_cap: self.flow.window_cap.unwrap_or(0),
            initial_ssthresh: self.flow.initial_ssthresh.unwrap_or(0),
            initial_cwnd: self.flow.initial_cwnd.unwrap_or(0),
            netns: self.netns(),
            from_address: self.addresses[0].octets(),
            to_address: self.addresses[1].octets(),
            from_port: self.sender_port.into(),
            to_port: u32::from(FIRST_SERVER_PORT) + self.index as u32,
            algorithm,
            ..Request::default()
        }
    }

    /// The events' number of the sender's network namespace: the node's place, from 1.
    fn netns(&self) -> u32 {
        self.from as u32 + 1
    }

    /// Errors: the flow failed, or was given up; it ran another algorithm.
    fn report(&self, report: &FlowReport, transfers: &[layout::TransferReport]) -> Result<Report> {
        ensure!(report.is_done != 0, "it was not over at the end of the run");
        ensure!(report.error == 0, "{}", Errno::from_raw(-report.error).desc());
        Ok(match self.flow.sends {
            Sends::Bulk => Report::Bulk(self.bulk(report)?),
            Sends::Transfers { size, .. } | Sends::Messages { size, .. } => {
                Report::Transfers(transfers.iter().map(|one| transferred(one, size.0)).collect())
            }
            Sends::Datagrams { .. } => Report::Datagrams(datagrams(report)),
        })
    }

    fn bulk(&self, report: &FlowReport) -> Result<TransferReport> {
        let name: Vec<u8> = report.algorithm.iter().copied().take_while(|&byte| byte != 0).collect();
        let algorithm = String::from_utf8_lossy(&name).into_owned();
        ensure!(algorithm == self.algorithm, "it ran \"{algorithm}\" where \"{}\" was asked", self.algorithm);
        Ok(TransferReport {
            algorithm,
            received_bytes: report.received_bytes,
            receiver_s: report.counted_ns as f64 / 1e9,
            retrans_pkts: report.retrans_pkts.into(),
            mss_bytes: report.mss_bytes,
        })
    }
}

fn transferred(one: &layout::TransferReport, size: u64) -> Transferred {
    let last_ns = (one.last_ns != 0).then_some(one.last_ns);
    Transferred {
        port: one.port as u16,
        begun_ns: one.begun_ns,
        last_ns,
        done_ns: last_ns.filter(|_| one.received_bytes >= size),
        received_bytes: one.received_bytes,
    }
}

fn datagrams(report: &FlowReport) -> Datagrams {
    Datagrams {
        latest: Duration::from_nanos(report.latest_ns),
        lost_pkts: report.sent_pkts.saturating_sub(report.arrived_pkts),
        received_pkts: report.received_pkts,
        received_bytes: report.received_bytes,
        active_s: report.last_ns.saturating_sub(report.first_ns) as f64 / 1e9,
    }
}

/// The request to `/proc/tccc/events`: the interval of samples, and the most memory that events may take.
pub fn watch_request(interval: Duration, bytes_max: u64) -> Vec<u8> {
    let loss_gap_ns = nanos(interval) / u64::from(LOSS_GAPS_PER_INTERVAL);
    WatchRequest { interval_ns: nanos(interval), loss_gap_ns, bytes_max }.to_bytes()
}

/// The request to `/proc/tccc/run`, nanoseconds: how long flows may send, and how long they may then take to end.
pub fn run_ns(flows: &[GuestFlow<'_>]) -> [u64; 2] {
    let end = flows.iter().map(|flow| flow.start + flow.length).max().unwrap_or_default();
    [nanos(end), nanos(slack(end))]
}

/// Decodes `/proc/tccc/flows`: a report of each flow, in their order.
///
/// Errors: the bytes end too early or go on; a flow failed, was given up, or ran another algorithm.
pub fn reports(mut bytes: &[u8], flows: &[GuestFlow<'_>]) -> Result<Vec<Report>> {
    const TOO_EARLY: &str = "the guest's reports of flows end too early";
    let mut reports = Vec::new();
    for flow in flows {
        let report = FlowReport::take_from(&mut bytes).context(TOO_EARLY)?;
        let transfers: Option<Vec<layout::TransferReport>> =
            (0..report.transfers).map(|_| Bytes::take_from(&mut bytes)).collect();
        let told = flow.report(&report, &transfers.context(TOO_EARLY)?);
        reports.push(told.with_context(|| format!("send flow \"{}\"", flow.flow.name))?);
    }
    ensure!(bytes.is_empty(), "the guest reports more flows than it was told of");
    Ok(reports)
}

/// Decodes `/proc/tccc/events`.
///
/// Errors: the events have another version; the bytes are no events.
pub fn events(mut bytes: &[u8]) -> Result<Traced> {
    let report = WatchReport::take_from(&mut bytes).context("the guest's events have no beginning")?;
    if (report.version, report.event_bytes as usize) != (EVENT_VERSION, EVENT_BYTES) {
        bail!("the guest's events are of version {}, {EVENT_VERSION} was expected", report.version);
    }
    ensure!(bytes.len().is_multiple_of(EVENT_BYTES), "the guest's last event is not whole");
    let events = bytes.chunks_exact(EVENT_BYTES).map(Event::decode).collect::<Result<_, _>>();
    Ok(Traced { events: events.context("read the guest's events")?, dropped: report.dropped })
}

/// Decodes `/proc/tccc/run`: when the run began, on the clock of the events.
///
/// Errors: the bytes end too early; no run was made.
pub fn begin_ns(mut bytes: &[u8]) -> Result<u64> {
    let report = RunReport::take_from(&mut bytes).context("the guest's report of its run ends too early")?;
    ensure!(report.begin_ns != 0, "the guest made no run");
    Ok(report.begin_ns)
}

#[cfg(test)]
mod tests;
