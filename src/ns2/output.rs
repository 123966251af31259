//! What a simulation wrote, as records and events like those of a measured run: pure.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};

use super::script::{Simulation, payload_bytes};
use crate::lab::measure::blank;
use crate::model::run::{FlowRecord, LinkCounters, LinkRecord};
use crate::scenario::{FlowSpec, Sends};
use crate::trace::event::{CaState, Event, EventKind, PRIVATE_BYTES};

/// Fraction bits of ns-2's smoothed RTT (`T_SRTT_BITS`).
const SRTT_SCALE: f64 = 8.0;
/// UDP and IP header bytes of a packet, which the simulator's length of a packet includes.
const DATAGRAM_HEADER_BYTES: u32 = 28;
/// TCP's number for an established connection.
const ESTABLISHED: u8 = 1;

#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// Flows in the scenario's order.
    pub flows: Vec<FlowRecord>,
    /// Links in the scenario's order.
    pub links: Vec<LinkRecord>,
    /// Samples of the senders, in order of time.
    pub events: Vec<Event>,
}

/// A flow's variables at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
struct State {
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

impl State {
    fn of(values: &[f64]) -> Option<State> {
        let &[time_s, cwnd_pkts, ssthresh_pkts, ack, maxseq, next, retrans_pkts, srtt_ticks, rtt_ticks, tick_s] =
            values
        else {
            return None;
        };
        Some(State { time_s, cwnd_pkts, ssthresh_pkts, ack, maxseq, next, retrans_pkts, srtt_ticks, rtt_ticks, tick_s })
    }

    fn delivered_pkts(&self) -> u32 {
        (self.ack + 1.0) as u32
    }
}

/// What arrived of a flow of datagrams.
#[derive(Debug, Clone, Copy)]
struct Heard {
    received_pkts: u64,
    lost_pkts: u64,
    /// When the last one arrived.
    last_s: f64,
}

/// What the lines say, flow by flow and link by link.
#[derive(Debug, Default)]
struct Lines<'a> {
    states: Vec<Vec<State>>,
    heard: BTreeMap<usize, Heard>,
    links: BTreeMap<&'a str, LinkCounters>,
}

/// Reads the lines that the script wrote.
///
/// `delivered_pkts` of a flow is `maxseq_`, the highest sequence number sent, because that is what the papers count as
/// delivered; its events have what was acknowledged. ns-2 marks no packet as lost: each retransmission stands for one.
///
/// Errors: output that ends early, or lines of another form.
pub fn read(simulation: &Simulation<'_>, output: &str) -> Result<Simulated> {
    ensure!(output.lines().any(|line| line == "end"), "ns-2 ended before the simulated time was over");
    let mut lines = Lines { states: vec![Vec::new(); simulation.cell.flows.len()], ..Lines::default() };
    for line in output.lines() {
        lines.take(line).with_context(|| format!("ns-2 wrote a line of another form: \"{line}\""))?;
    }
    let flows = simulation.cell.flows.iter().zip(&lines.states).enumerate();
    let records = flows.clone().map(|(index, (flow, states))| match flow.sends {
        Sends::Datagrams { packet_bytes, .. } => datagrams_record(simulation, &lines, index, packet_bytes),
        Sends::Bulk | Sends::Transfers { .. } | Sends::Messages { .. } => record(simulation, index, flow, states),
    });
    let records = records.collect::<Result<_>>()?;
    let mut events: Vec<Event> =
        flows.flat_map(|(index, (flow, states))| events_of(simulation, index, flow, states)).collect();
    events.sort_by_key(|event| event.time_ns);
    Ok(Simulated { flows: records, links: link_records(simulation, &lines.links)?, events })
}

impl<'a> Lines<'a> {
    /// Takes in one line; ns-2's own remarks say nothing here.
    fn take(&mut self, line: &'a str) -> Result<()> {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            ["flow", flow, ref values @ ..] => {
                let state = State::of(&numbers::<f64>(values)?).context("count its numbers")?;
                self.states.get_mut(flow.parse::<usize>()?).context("find its flow")?.push(state);
            }
            ["datagrams", flow, received, lost, last_s] => {
                let heard =
                    Heard { received_pkts: received.parse()?, lost_pkts: lost.parse()?, last_s: last_s.parse()? };
                self.heard.insert(flow.parse()?, heard);
            }
            ["link", link, ref values @ ..] => {
                self.links.insert(link, counters(&numbers::<u64>(values)?).context("count its numbers")?);
            }
            _ => {}
        }
        Ok(())
    }
}

fn numbers<T: FromStr<Err: std::error::Error + Send + Sync + 'static>>(fields: &[&str]) -> Result<Vec<T>> {
    fields.iter().map(|field| field.parse().context("read a number")).collect()
}

fn counters(values: &[u64]) -> Option<LinkCounters> {
    let &[arrived, sent_pkts, sent_bytes, overflow_pkts, lost_pkts] = values else { return None };
    Some(LinkCounters {
        received_pkts: arrived + lost_pkts, // the error model stands before the queue
        sent_pkts,
        sent_bytes,
        lost_pkts,
        overflow_pkts,
        ..LinkCounters::default()
    })
}

fn link_records(simulation: &Simulation<'_>, counted: &BTreeMap<&str, LinkCounters>) -> Result<Vec<LinkRecord>> {
    let of = |from: &str, to: &str| {
        let found = counted.get(format!("{from},{to}").as_str());
        found.cloned().ok_or_else(|| anyhow!("ns-2 wrote nothing about the link from {from} to {to}"))
    };
    let links = simulation.cell.links.iter().map(|link| {
        let [one, other] = &link.ends;
        Ok(LinkRecord { name: link.name(), driver: "ns2".to_owned(), counters: [of(one, other)?, of(other, one)?] })
    });
    links.collect()
}

/// The states from a flow's start on.
fn since_start<'a>(flow: &FlowSpec, states: &'a [State]) -> impl Iterator<Item = &'a State> {
    let start_s = flow.start.as_secs_f64();
    states.iter().filter(move |state| state.time_s >= start_s)
}

/// The states of a flow's life: from its start until its time is over or, of a flow with a size, until all has arrived.
fn lifetime<'a>(simulation: &Simulation<'_>, flow: &FlowSpec, states: &'a [State]) -> Vec<&'a State> {
    let mut own: Vec<&State> = since_start(flow, states).collect();
    let last = match flow.sends {
        Sends::Transfers { size, .. } => {
            let packets = size.0.div_ceil(u64::from(payload_bytes(simulation.cell)));
            own.iter().position(|state| u64::from(state.delivered_pkts()) >= packets)
        }
        Sends::Bulk | Sends::Messages { .. } | Sends::Datagrams { .. } => {
            let end_s = flow.duration.map_or(f64::INFINITY, |length| (flow.start + length).as_secs_f64());
            own.iter().rposition(|state| state.time_s <= end_s)
        }
    };
    own.truncate(last.map_or(own.len(), |last| last + 1));
    own
}

fn record(simulation: &Simulation<'_>, index: usize, flow: &FlowSpec, states: &[State]) -> Result<FlowRecord> {
    let label = simulation.cell.label(flow);
    let last = states.last().ok_or_else(|| anyhow!("ns-2 wrote nothing about the flow \"{}\"", flow.name))?;
    let mss_bytes = payload_bytes(simulation.cell);
    let own: Vec<&State> = since_start(flow, states).collect();
    let grows = own.windows(2).rfind(|pair| pair[1].ack > pair[0].ack);
    let active_s = grows.map_or(0.0, |pair| pair[1].time_s - flow.start.as_secs_f64());
    let received_bytes = u64::from(last.delivered_pkts()) * u64::from(mss_bytes);
    let algorithm = simulation.spec.agent(&label).unwrap_or_default().to_owned();
    Ok(FlowRecord {
        socket: Some(socket(index)),
        delivered_pkts: last.maxseq.max(0.0) as u64,
        received_bytes,
        goodput_bps: if active_s > 0.0 { 8.0 * received_bytes as f64 / active_s } else { 0.0 },
        retrans_pkts: last.retrans_pkts as u64,
        lost_pkts: last.retrans_pkts as u64,
        mss_bytes,
        begin_s: Some(flow.start.as_secs_f64()),
        active_s,
        tcp_sack: true, // its count of what was delivered is its own, also without selective acknowledgements
        ..blank(flow, algorithm, label)
    })
}

/// A flow of datagrams counts from its start to its last arrival; one in flight at the end is neither received nor lost.
fn datagrams_record(
    simulation: &Simulation<'_>,
    lines: &Lines<'_>,
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
        goodput_bps: if active_s > 0.0 { 8.0 * received_bytes as f64 / active_s } else { 0.0 },
        lost_pkts: heard.lost_pkts,
        mss_bytes: packet_bytes,
        begin_s: Some(flow.start.as_secs_f64()),
        active_s,
        datagrams: true,
        ..blank(flow, flow.algorithm.clone(), simulation.cell.label(flow))
    })
}

/// The number that stands for a flow's socket in events.
fn socket(index: usize) -> u64 {
    index as u64 + 1
}

fn events_of<'a>(
    simulation: &'a Simulation<'_>,
    index: usize,
    flow: &'a FlowSpec,
    states: &'a [State],
) -> impl Iterator<Item = Event> {
    let own = lifetime(simulation, flow, states);
    let last = own.len().saturating_sub(1);
    own.into_iter().enumerate().map(move |(number, state)| {
        let kind = match number {
            0 => EventKind::Open,
            _ if number == last => EventKind::Close,
            _ => EventKind::Sample,
        };
        event(simulation, index, kind, state)
    })
}

fn event(simulation: &Simulation<'_>, index: usize, kind: EventKind, state: &State) -> Event {
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
