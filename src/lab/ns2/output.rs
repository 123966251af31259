//! Converts a simulation's output into records and events like those of a measured run. Pure.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result, anyhow, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::script::{Simulation, payload_bytes};
use crate::measure::{blank, goodput_bps};
use crate::scenario::{FlowSpec, Sends};
use shared::event::{CaState, Event, EventKind, PRIVATE_BYTES};
use shared::model::run::{FlowRecord, LinkCounters, LinkRecord};

/// ns-2's smoothed RTT has three fraction bits (`T_SRTT_BITS`).
const SRTT_SCALE: f64 = 8.0;
/// UDP and IP headers, which the simulator's packet length includes.
const DATAGRAM_HEADER_BYTES: u32 = 28;
/// The kernel's number of the TCP state.
const ESTABLISHED: u8 = 1;

#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// In the scenario's order.
    pub flows: Vec<FlowRecord>,
    /// In the scenario's order.
    pub links: Vec<LinkRecord>,
    /// Samples of the senders in order of time.
    pub events: Vec<Event>,
}

/// A flow's variables at one moment, in the order of the script's output.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
struct AgentState {
    time_s: f64,
    cwnd_pkts: f64,
    ssthresh_pkts: f64,
    /// Highest sequence number acknowledged, from 0; -1 before the first.
    ack: f64,
    /// Highest sequence number sent.
    maxseq: f64,
    /// Next sequence number.
    next: f64,
    retrans_pkts: f64,
    srtt_ticks: f64,
    rtt_ticks: f64,
    tick_s: f64,
}

impl AgentState {
    fn delivered_pkts(&self) -> u32 {
        (self.ack + 1.0) as u32
    }
}

/// Datagrams of a flow that arrived.
#[derive(Debug, Clone, Copy, Deserialize)]
struct Heard {
    received_pkts: u64,
    lost_pkts: u64,
    /// Arrival of the last one.
    last_s: f64,
}

/// The parsed output, by flow and by link.
#[derive(Debug, Default)]
struct OutputLines<'a> {
    states: Vec<Vec<AgentState>>,
    heard: BTreeMap<usize, Heard>,
    links: BTreeMap<&'a str, LinkCounters>,
}

/// Reads the script's output.
///
/// A flow's `delivered_pkts` is `maxseq_`, the highest sequence number sent, because the papers count that as
/// delivered. Its events have the acknowledged packets. ns-2 marks no packet as lost, so each retransmission counts as
/// a loss.
///
/// # Errors
/// The output ends early; a line has another form.
pub fn read(simulation: &Simulation<'_>, output: &str) -> Result<Simulated> {
    ensure!(output.lines().any(|line| line == "end"), "ns-2 ended before the simulated time was over");
    let mut lines = OutputLines { states: vec![Vec::new(); simulation.cell.flows.len()], ..OutputLines::default() };
    for line in output.lines() {
        lines.take(line).with_context(|| format!("ns-2 wrote a line of unknown form: \"{line}\""))?;
    }
    let flows = simulation.cell.flows.iter().zip(&lines.states).enumerate();
    let records = flows.map(|(index, (flow, states))| match flow.sends {
        Sends::Datagrams(spec) => datagrams_record(simulation, &lines, index, spec.packet_bytes),
        Sends::Bulk | Sends::Transfers { .. } | Sends::Load(_) | Sends::Messages { .. } => {
            record(simulation, index, flow, states)
        }
    });
    let records = records.collect::<Result<_>>()?;
    let mut events: Vec<Event> =
        lines.states.iter().enumerate().flat_map(|(index, states)| events_of(simulation, index, states)).collect();
    events.sort_by_key(|event| event.time_ns);
    Ok(Simulated { flows: records, links: link_records(simulation, &lines.links)?, events })
}

impl<'a> OutputLines<'a> {
    /// Parses one line; ignores ns-2's own messages.
    fn take(&mut self, line: &'a str) -> Result<()> {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["flow", flow, ref values @ ..] => {
                let states = self.states.get_mut(flow.parse::<usize>()?).context("find its flow")?;
                states.push(numbers(values)?);
            }
            ["datagrams", flow, ref values @ ..] => {
                self.heard.insert(flow.parse()?, numbers(values)?);
            }
            ["link", link, ref values @ ..] => {
                let [arrived, sent_pkts, sent_bytes, overflow_pkts, lost_pkts]: [u64; 5] = numbers(values)?;
                let received_pkts = arrived + lost_pkts; // the error model is in front of the queue
                let counters = LinkCounters {
                    received_pkts,
                    sent_pkts,
                    sent_bytes,
                    lost_pkts,
                    overflow_pkts,
                    ..LinkCounters::default()
                };
                self.links.insert(link, counters);
            }
            _ => {}
        }
        Ok(())
    }
}

fn numbers<T: DeserializeOwned>(fields: &[&str]) -> Result<T> {
    csv::StringRecord::from(fields.to_vec()).deserialize(None).context("read its numbers")
}

fn link_records(simulation: &Simulation<'_>, counted: &BTreeMap<&str, LinkCounters>) -> Result<Vec<LinkRecord>> {
    let of = |from: &str, to: &str| {
        let found = counted.get(format!("{from},{to}").as_str());
        found.cloned().ok_or_else(|| anyhow!("ns-2 wrote nothing about the link from {from} to {to}"))
    };
    let links = simulation.cell.links.iter().map(|link| {
        let [one, other] = &link.ends;
        let counters = [of(one, other)?, of(other, one)?];
        Ok(LinkRecord { name: link.name(), driver: "ns2".to_owned(), host_delay_us: None, counters })
    });
    links.collect()
}

fn since_start<'a>(flow: &FlowSpec, states: &'a [AgentState]) -> impl Iterator<Item = &'a AgentState> {
    let start_s = flow.start.as_secs_f64();
    states.iter().filter(move |state| state.time_s >= start_s)
}

/// The states from a flow's start until its time is over, or until everything has arrived if it has a size.
fn lifetime<'a>(simulation: &Simulation<'_>, flow: &FlowSpec, states: &'a [AgentState]) -> Vec<&'a AgentState> {
    let mut own: Vec<&AgentState> = since_start(flow, states).collect();
    let last = match flow.sends {
        Sends::Transfers { size, .. } => {
            let packets = size.0.div_ceil(u64::from(payload_bytes(simulation.cell)));
            own.iter().position(|state| u64::from(state.delivered_pkts()) >= packets)
        }
        Sends::Bulk | Sends::Load(_) | Sends::Messages { .. } | Sends::Datagrams(_) => {
            let end_s = flow.duration.map_or(f64::INFINITY, |length| (flow.start + length).as_secs_f64());
            own.iter().rposition(|state| state.time_s <= end_s)
        }
    };
    own.truncate(last.map_or(own.len(), |last| last + 1));
    own
}

fn record(simulation: &Simulation<'_>, index: usize, flow: &FlowSpec, states: &[AgentState]) -> Result<FlowRecord> {
    let label = simulation.cell.label(flow);
    let last = states.last().ok_or_else(|| anyhow!("ns-2 wrote nothing about the flow \"{}\"", flow.name))?;
    let mss_bytes = payload_bytes(simulation.cell);
    let own: Vec<&AgentState> = since_start(flow, states).collect();
    let grows = own.windows(2).rfind(|pair| pair[1].ack > pair[0].ack);
    let active_s = grows.map_or(0.0, |pair| pair[1].time_s - flow.start.as_secs_f64());
    let received_bytes = u64::from(last.delivered_pkts()) * u64::from(mss_bytes);
    let algorithm = simulation.spec.agent(&label).unwrap_or_default().to_owned();
    Ok(FlowRecord {
        socket: Some(socket(index)),
        delivered_pkts: last.maxseq.max(0.0) as u64,
        received_bytes,
        goodput_bps: goodput_bps(received_bytes as f64, active_s),
        retrans_pkts: last.retrans_pkts as u64,
        lost_pkts: last.retrans_pkts as u64,
        mss_bytes,
        begin_s: Some(flow.start.as_secs_f64()),
        active_s,
        tcp_sack: true, // ns-2's own count is exact with or without SACK
        ..blank(flow, algorithm, label)
    })
}

/// Counts from the flow's start to its last arrival. A datagram in flight at the end is neither received nor lost.
fn datagrams_record(
    simulation: &Simulation<'_>,
    lines: &OutputLines<'_>,
    index: usize,
    packet_bytes: u32,
) -> Result<FlowRecord> {
    let flow = &simulation.cell.flows[index];
    let heard = lines.heard.get(&index);
    let heard = heard.ok_or_else(|| anyhow!("ns-2 wrote nothing about the flow \"{}\"", flow.name))?;
    let received_bytes = heard.received_pkts * u64::from(packet_bytes.saturating_sub(DATAGRAM_HEADER_BYTES));
    let active_s = (heard.last_s - flow.start.as_secs_f64()).max(0.0);
    Ok(FlowRecord {
        compared: false,
        delivered_pkts: heard.received_pkts,
        received_bytes,
        goodput_bps: goodput_bps(received_bytes as f64, active_s),
        lost_pkts: heard.lost_pkts,
        mss_bytes: packet_bytes,
        begin_s: Some(flow.start.as_secs_f64()),
        active_s,
        datagrams: true,
        ..blank(flow, flow.algorithm.clone(), simulation.cell.label(flow))
    })
}

/// A flow's socket cookie in events.
fn socket(index: usize) -> u64 {
    index as u64 + 1
}

fn events_of(simulation: &Simulation<'_>, index: usize, states: &[AgentState]) -> Vec<Event> {
    let flow = &simulation.cell.flows[index];
    let own = lifetime(simulation, flow, states);
    let event = |(number, state): (usize, &&AgentState)| {
        let kind = match number {
            0 => EventKind::Open,
            _ if number + 1 == own.len() => EventKind::Close,
            _ => EventKind::Sample,
        };
        event(simulation, index, kind, state)
    };
    own.iter().enumerate().map(event).collect()
}

fn event(simulation: &Simulation<'_>, index: usize, kind: EventKind, state: &AgentState) -> Event {
    let micros = |ticks: f64| Some((ticks * state.tick_s * 1e6).round() as u32).filter(|micros| *micros > 0);
    let (delivered_pkts, mss_bytes) = (state.delivered_pkts(), payload_bytes(simulation.cell));
    let flow = &simulation.cell.flows[index];
    let agent = simulation.spec.agent(&simulation.cell.label(flow)).unwrap_or_default();
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    Event {
        kind,
        time_ns: (state.time_s * 1e9).round() as u64,
        socket: socket(index),
        cgroup: 0,
        netns: 0,
        uid: 0,
        local: nowhere,
        remote: nowhere,
        algorithm: agent.to_owned(),
        cwnd_pkts: state.cwnd_pkts as u32,
        ssthresh_pkts: Some(state.ssthresh_pkts as u32),
        srtt_us: micros(state.srtt_ticks / SRTT_SCALE),
        min_rtt_us: None,
        rtt_us: micros(state.rtt_ticks),
        rto_us: 0,
        inflight_pkts: (state.next - 1.0 - state.ack).max(0.0) as u32,
        delivered_pkts,
        delivered_ce_pkts: 0,
        lost_pkts: state.retrans_pkts as u32,
        retrans_pkts: state.retrans_pkts as u32,
        bytes_acked: u64::from(delivered_pkts) * u64::from(mss_bytes),
        bytes_received: 0,
        mss_bytes,
        pacing_rate_bps: None,
        ca_state: CaState::Open,
        prior_ca_state: CaState::Open,
        tcp_state: ESTABLISHED,
        app_limited: false,
        private_state: [0; PRIVATE_BYTES],
    }
}
