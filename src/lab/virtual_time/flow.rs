//! Flows of a guest: encodes requests to the laboratory, and decodes its reports and events. Pure.
//!
//! Before the run, the guest's first process writes every flow's [`GuestFlow::requests`] to `/proc/tccc/flows`,
//! [`watch_request`] to `/proc/tccc/events`, then [`run_ns`] to `/proc/tccc/run`. Afterwards it reads all three files.
//! The structs are those of `bpf/guest/layout.h`.

use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use zerocopy::IntoBytes as _;

use crate::c_types::{
    self, Connections, FlowEnd, FlowFrame, FlowReport, FlowRequest, GuestBurst, NegotiatedEcn, ReceiverKind, RunReport,
    RunRequest, SendsKind, TransferRequest, WatchReport, WatchRequest, take, take_all,
};
use crate::cost;
use crate::emulate::layout::Layout;
use crate::load::{Burst, PlannedTransfer, Schedule};
use crate::path::times::{self, TIME_BUCKETS};
use crate::plan::{Plan, PlannedRun, mix};
use crate::scenario::pattern::{FrameShape, Pattern};
use crate::scenario::{BulkSender, Cell, FlowSpec, NumberedFlow, Receiver, Sends};
use crate::traffic::ends::{FIRST_SENDER_PORT, FIRST_SERVER_PORT, slack};
use crate::traffic::own::QUIET;
use crate::traffic::report::{Datagrams, TrafficReport, TransferReport, Transferred};
use host::trace::live::LOSS_GAPS_PER_INTERVAL;
use shared::c_text;
use shared::event::{EVENT_BYTES, EVENT_VERSION, Event};
use shared::failure::Failure;
use shared::model::run::{FlowEcn, Frames, LimitedTime};
use shared::units::nanos;

/// Ports of senders in a lap: connections after them use the same ports again, to other servers.
const SENDER_PORTS: u32 = Connections::TCCC_SENDER_PORTS.0;
/// Distance of a server's port to that of the same flow in the lap before.
const LAP_SERVERS: u32 = Connections::TCCC_LAP_SERVERS.0;
/// Most connections of a run.
const CONNECTIONS_MAX: u32 = SENDER_PORTS * Connections::TCCC_LAPS_MAX.0;
/// Connections of a flow whose events are kept.
const TRACED_CONNECTIONS: u32 = Connections::TCCC_TRACED_CONNECTIONS.0;
const _: () = assert!(FIRST_SENDER_PORT as u32 == Connections::TCCC_FIRST_SENDER_PORT.0);
const _: () = assert!(FIRST_SERVER_PORT as u32 == Connections::TCCC_FIRST_SERVER_PORT.0);

/// Limit of datagrams per flow: `DATAGRAMS_MAX` of `traffic.c`.
const DATAGRAMS_MAX: u128 = 1 << 28;
/// Makes the random start times independent of the random numbers of links.
const START_STREAM: u64 = 0x0073_7461_7274;

/// A flow of a cell, as a guest sends it.
#[derive(Debug, Clone)]
pub struct GuestFlow<'a> {
    pub flow: &'a FlowSpec,
    /// Name of its algorithm in the guest's kernel; `udp` for datagrams.
    pub algorithm: String,
    /// Indices of the sending and the receiving node in the layout.
    nodes: [usize; 2],
    /// The request to both ends, except for [`FlowRequest::end`].
    request: FlowRequest,
    /// Its transfers, each over its own connection; `None` for a flow of one connection.
    transfers: Option<Vec<PlannedTransfer>>,
    schedule: Schedule,
}

/// What both ends of a flow report.
#[derive(Debug, Clone, PartialEq)]
pub struct GuestReport {
    pub traffic: TrafficReport,
    /// Whether it had not ended when the grace after its time was over.
    pub given_up: bool,
    /// `None` for datagrams.
    pub limited: Option<LimitedTime>,
    pub ecn: Option<FlowEcn>,
}

/// What the tracer recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Traced {
    /// In order of time.
    pub events: Vec<Event>,
    /// Events that were lost because their memory was full.
    pub dropped: u64,
}

/// The first flow with more datagrams than a guest can count, and the field that says so.
pub fn uncountable(cell: &Cell) -> Option<(&FlowSpec, &'static str, Failure)> {
    cell.flows.iter().find_map(|flow| {
        let Sends::Datagrams(spec) = flow.sends else { return None };
        let count = Pattern::of(&spec).most_pkts(flow.length(cell.duration));
        let what = format!("it sends {count} datagrams, and a guest of virtual time counts fewer than {DATAGRAMS_MAX}");
        let field = if spec.frames.is_some() { "frames" } else { "rate" };
        (count >= DATAGRAMS_MAX)
            .then(|| (flow, field, Failure::usage(what).hint("lower its rate, or shorten the flow")))
    })
}

/// The flows of a run in the order of the cell. `algorithms` are the names of their algorithms in the guest's kernel.
///
/// Each flow has a random delay of up to `start_spread` after its start.
///
/// # Errors
/// A node is missing from the layout; an algorithm's name is too long.
pub fn flows<'a>(
    plan: &'a Plan,
    run: &PlannedRun,
    layout: &Layout,
    algorithms: impl IntoIterator<Item = String>,
) -> Result<Vec<GuestFlow<'a>>> {
    let cell = &plan.cells[run.cell];
    let spread = plan.virtual_time.unwrap_or_default().start_spread;
    let mut flows = Vec::new();
    for ((index, numbered), algorithm) in (0..).zip(cell.numbered_flows(run.seed)).zip(algorithms) {
        let NumberedFlow { flow, number, connection, transfers, bursts } = numbered;
        let node = |name: &str| {
            let place = layout.nodes.iter().position(|node| node.name == name);
            place.with_context(|| format!("find node \"{name}\" in the layout"))
        };
        let nodes = [node(&flow.from)?, node(&flow.to)?];
        let [from_address, to_address] = nodes.map(|node| layout.nodes[node].address.octets());
        let connections = transfers.as_ref().map_or(1, Vec::len) as u32;
        let (schedule, length) = (Schedule::of(bursts), flow.length(cell.duration));
        let start = flow.start + offset(spread, mix(run.seed ^ START_STREAM, number.into()));
        let request = FlowRequest {
            start_ns: nanos(start),
            length_ns: nanos(length),
            from_start: (flow.sender == BulkSender::Tccc).into(),
            request_bytes: flow.request.map_or(0, |size| size.0),
            bursts: schedule.bursts().len() as u64,
            settle_ns: if flow.is_tcp() { 0 } else { nanos(QUIET + cost::hold_up(cell, flow)) },
            receiver: receiver_kind(flow.receiver).0.into(),
            flow: index,
            window_cap: flow.window_cap.unwrap_or(0),
            initial_ssthresh: flow.initial_ssthresh.unwrap_or(0),
            initial_cwnd: flow.initial_cwnd.unwrap_or(0),
            netns: nodes[0] as u32 + 1, // as in events: the index of the node, from 1
            from_address,
            to_address,
            first: connection,
            to_port: u32::from(FIRST_SERVER_PORT) + number,
            algorithm: if flow.is_tcp() { name_of(&algorithm)? } else { Default::default() },
            ..sent(&flow.sends, connections, |count, interval| schedule.started(count, interval, length))
        };
        let last = connection + connections;
        ensure!(last <= CONNECTIONS_MAX, "a guest of virtual time has at most {CONNECTIONS_MAX} connections");
        flows.push(GuestFlow { flow, algorithm, nodes, request, transfers, schedule });
    }
    Ok(flows)
}

fn receiver_kind(receiver: Receiver) -> ReceiverKind {
    match receiver {
        Receiver::Honest | Receiver::NoSack => ReceiverKind::TCCC_RECEIVER_HONEST,
        Receiver::HidesMarks => ReceiverKind::TCCC_RECEIVER_HIDES_MARKS,
        Receiver::DividesAcks => ReceiverKind::TCCC_RECEIVER_DIVIDES_ACKS,
        Receiver::AcksEarly => ReceiverKind::TCCC_RECEIVER_ACKS_EARLY,
    }
}

fn name_of<const N: usize>(algorithm: &str) -> Result<[i8; N]> {
    ensure!(algorithm.len() < N, "an algorithm's name has at most {} characters, \"{algorithm}\" has more", N - 1);
    Ok(c_text::padded(algorithm))
}

/// The part of a request that says what the flow sends. `started` is the number of messages that start before its end.
fn sent(sends: &Sends, connections: u32, started: impl Fn(u32, Duration) -> u32) -> FlowRequest {
    let (sends, bytes, count, interval_ns) = match *sends {
        Sends::Bulk => (SendsKind::TCCC_SENDS_BULK, 0, 1, 0),
        Sends::Transfers { .. } | Sends::Load(_) => (SendsKind::TCCC_SENDS_TRANSFERS, 0, connections, 0),
        Sends::Messages { size, count, interval } => {
            (SendsKind::TCCC_SENDS_MESSAGES, size.0, started(count, interval), nanos(interval))
        }
        Sends::Datagrams(spec) => return sent_in_frames(&Pattern::of(&spec)),
    };
    FlowRequest { sends: sends.0, bytes, count, interval_ns, ..FlowRequest::default() }
}

fn sent_in_frames(pattern: &Pattern) -> FlowRequest {
    let frame = |FrameShape { pkts, bytes, last_bytes }| FlowFrame { pkts, bytes, last_bytes };
    FlowRequest {
        sends: SendsKind::TCCC_SENDS_DATAGRAMS.0,
        count: 1,
        interval_ns: nanos(pattern.interval),
        frames: pattern.shapes.map(frame),
        every: pattern.every,
        deadline_ns: nanos(pattern.deadline),
        ..FlowRequest::default()
    }
}

/// A time from zero to `spread`, inclusive. The bias of the remainder is below 1e-9.
fn offset(spread: Duration, random: u64) -> Duration {
    Duration::from_nanos(random % (nanos(spread) + 1))
}

impl GuestFlow<'_> {
    /// The requests of the receiver and then of the sender, each with the index of its node.
    pub fn requests(&self) -> [(usize, Vec<u8>); 2] {
        let of_end = |end: FlowEnd| FlowRequest { end: end.0, ..self.request }.as_bytes().to_vec();
        let planned = |one: &PlannedTransfer| TransferRequest { start_ns: one.start_ns, bytes: one.bytes };
        let transfers: Vec<TransferRequest> = self.transfers.iter().flatten().map(planned).collect();
        let [from, to] = self.nodes;
        let burst = |&Burst { start_ns, before_ns }: &Burst| GuestBurst { start_ns, before_ns };
        let bursts: Vec<GuestBurst> = self.schedule.bursts().iter().map(burst).collect();
        let end = of_end(FlowEnd::TCCC_END_RECEIVES);
        let received = [end, transfers.as_bytes().to_vec(), bursts.as_bytes().to_vec()].concat();
        [(to, received), (from, of_end(FlowEnd::TCCC_END_SENDS))]
    }

    /// Numbers of its connections among all of the run, in the order of their start.
    pub fn connections(&self) -> Range<u32> {
        self.request.first..self.request.first + self.transfers.as_ref().map_or(1, Vec::len) as u32
    }

    /// `None`: no connection negotiated ECN. An algorithm may do so whatever the scenario says.
    /// The number by which links know its packets.
    pub fn number(&self) -> u64 {
        u64::from(self.request.to_port - u32::from(FIRST_SERVER_PORT))
    }

    fn ecn(&self, report: &FlowReport) -> Option<FlowEcn> {
        let accurate = report.ecn == NegotiatedEcn::TCCC_ECN_ACCURATE.0;
        let has_ecn = report.ecn != NegotiatedEcn::TCCC_ECN_NONE.0;
        has_ecn.then_some(FlowEcn { accurate, delivered_ce_pkts: report.delivered_ce_pkts.into() })
    }

    /// The events of its senders, in order of time.
    pub fn events<'e>(&self, events: &'e [Event]) -> Vec<&'e Event> {
        let own = self.connections();
        events.iter().filter(|event| own.contains(&connection_of(event))).collect()
    }

    /// A bulk flow whose connection timed out, such as over a link that is down, counts what arrived in its time.
    ///
    /// # Errors
    /// The flow failed or was not done; it ran another algorithm.
    fn report(
        &self,
        report: &FlowReport,
        transfers: &[c_types::TransferReport],
        delays: &[u64],
    ) -> Result<TrafficReport> {
        let error = (report.error != 0).then(|| Errno::from_raw(-report.error));
        let timed_out = matches!(self.flow.sends, Sends::Bulk) && error == Some(Errno::ETIMEDOUT);
        ensure!(report.is_done != 0 || timed_out, "it had not finished at the end of the run");
        if let Some(error) = error.filter(|_| !timed_out) {
            bail!("{}", error.desc());
        }
        let to_port = self.request.to_port;
        Ok(match &self.flow.sends {
            Sends::Bulk => {
                let (ran, asked) = (c_text::text(&report.algorithm), &self.algorithm);
                ensure!(ran == *asked, "it ran \"{ran}\" instead of \"{asked}\"");
                let (received_bytes, receiver_s) = (report.received_bytes, report.counted_ns as f64 / 1e9);
                let counted = self.flow.sender == BulkSender::Tccc && report.counted_ns > 0;
                let begun_ns = counted.then_some(report.first_ns);
                TrafficReport::Bulk(TransferReport { received_bytes, receiver_s, begun_ns })
            }
            Sends::Messages { size, .. } => {
                TrafficReport::Transfers(transfers.iter().map(|one| transferred(one, to_port, size.0)).collect())
            }
            Sends::Transfers { .. } | Sends::Load(_) => {
                let planned = self.transfers.iter().flatten().map(|planned| planned.bytes);
                let one = |(one, size): (&_, u64)| transferred(one, to_port, size);
                TrafficReport::Transfers(transfers.iter().zip(planned).map(one).collect())
            }
            Sends::Datagrams(_) => TrafficReport::Datagrams(Datagrams {
                latest: Duration::from_nanos(report.latest_ns),
                lost_pkts: report.sent_pkts.saturating_sub(report.arrived_pkts),
                received_pkts: report.received_pkts,
                received_bytes: report.received_bytes,
                active_s: report.last_ns.saturating_sub(report.first_ns) as f64 / 1e9,
                delay_us: times::delays(delays),
                frames: Some(Frames { sent: report.frames, in_time: report.frames_in_time }),
            }),
        })
    }
}

fn limited(report: &FlowReport) -> LimitedTime {
    let [busy_s, receive_window_s, send_buffer_s] =
        [report.busy_us, report.rwnd_limited_us, report.sndbuf_limited_us].map(|us| us as f64 / 1e6);
    LimitedTime { busy_s, receive_window_s, send_buffer_s }
}

fn transferred(one: &c_types::TransferReport, first_server: u32, size: u64) -> Transferred {
    let [port, to_port] = ports(one.connection, first_server);
    let last_ns = (one.last_ns != 0).then_some(one.last_ns);
    Transferred {
        port,
        to_port,
        opened_ns: one.begun_ns,
        begun_ns: if one.requested_ns == 0 { one.begun_ns } else { one.requested_ns },
        last_ns,
        done_ns: last_ns.filter(|_| one.received_bytes >= size),
        received_bytes: one.received_bytes,
        bytes: size,
    }
}

/// The ports of the sender and of the receiver of a connection. `first_server` is the server's in the first lap.
fn ports(connection: u32, first_server: u32) -> [u16; 2] {
    let to_port = first_server + connection / SENDER_PORTS * LAP_SERVERS;
    [FIRST_SENDER_PORT + (connection % SENDER_PORTS) as u16, to_port as u16]
}

/// The number of the connection of an event.
fn connection_of(event: &Event) -> u32 {
    let lap = u32::from(event.remote.port().saturating_sub(FIRST_SERVER_PORT)) / LAP_SERVERS;
    lap * SENDER_PORTS + u32::from(event.local.port().saturating_sub(FIRST_SENDER_PORT))
}

/// Leaves out the events of the connections that the guest records only at their end.
pub fn traced(flows: &[GuestFlow<'_>], events: Vec<Event>) -> Vec<Event> {
    let mut firsts: Vec<u32> = flows.iter().map(|flow| flow.request.first).collect();
    firsts.sort_unstable();
    let is_traced = |event: &Event| {
        let number = connection_of(event);
        let flow = firsts.partition_point(|first| *first <= number).saturating_sub(1);
        number - firsts.get(flow).unwrap_or(&0) < TRACED_CONNECTIONS
    };
    events.into_iter().filter(is_traced).collect()
}

/// The request to `/proc/tccc/events`: interval of the samples, and memory for events.
pub fn watch_request(interval: Duration, bytes_max: u64) -> Vec<u8> {
    let loss_gap_ns = nanos(interval) / u64::from(LOSS_GAPS_PER_INTERVAL);
    WatchRequest { interval_ns: nanos(interval), loss_gap_ns, bytes_max }.as_bytes().to_vec()
}

/// The times of the request to `/proc/tccc/run`: how long flows may send, and how long they may take to end after that.
pub fn run_ns(flows: &[GuestFlow<'_>]) -> [u64; 2] {
    let end_ns = flows.iter().map(|flow| flow.request.start_ns + flow.request.length_ns).max().unwrap_or_default();
    [end_ns, nanos(slack(Duration::from_nanos(end_ns)))]
}

/// The request to `/proc/tccc/run`.
pub fn run_request([length_ns, grace_ns]: [u64; 2]) -> Vec<u8> {
    RunRequest { length_ns, grace_ns }.as_bytes().to_vec()
}

/// Decodes `/proc/tccc/flows`, which has a report of each flow, in their order.
///
/// # Errors
/// Too few or too many bytes; a flow failed, was not done, or ran another algorithm.
pub fn reports(mut bytes: &[u8], flows: &[GuestFlow<'_>]) -> Result<Vec<GuestReport>> {
    const TOO_EARLY: &str = "the guest's reports of flows end too early";
    let mut reports = Vec::new();
    for flow in flows {
        let report: FlowReport = take(&mut bytes).context(TOO_EARLY)?;
        let transfers: Vec<_> = take_all(&mut bytes, report.transfers).context(TOO_EARLY)?;
        let buckets = if flow.flow.is_tcp() { 0 } else { TIME_BUCKETS };
        let delays: Vec<u64> = take_all(&mut bytes, buckets as u64).context(TOO_EARLY)?;
        let traffic = flow.report(&report, &transfers, &delays);
        let traffic = traffic.with_context(|| format!("send flow \"{}\"", flow.flow.name))?;
        let given_up = report.is_done == 0;
        reports.push(GuestReport {
            traffic,
            given_up,
            limited: flow.flow.is_tcp().then(|| limited(&report)),
            ecn: flow.ecn(&report),
        });
    }
    ensure!(bytes.is_empty(), "the guest reports more flows than were requested");
    Ok(reports)
}

/// Decodes `/proc/tccc/events`.
///
/// # Errors
/// Another version of events; malformed bytes.
pub fn events(mut bytes: &[u8]) -> Result<Traced> {
    let report: WatchReport = take(&mut bytes).context("the guest's events have no header")?;
    if (report.version, report.event_bytes as usize) != (EVENT_VERSION, EVENT_BYTES) {
        bail!("the guest's events have version {}, {EVENT_VERSION} was expected", report.version);
    }
    ensure!(bytes.len().is_multiple_of(EVENT_BYTES), "the guest's last event is incomplete");
    let events = bytes.chunks_exact(EVENT_BYTES).map(Event::decode).collect::<Result<_, _>>();
    Ok(Traced { events: events.context("read the guest's events")?, dropped: report.dropped })
}

/// Decodes `/proc/tccc/run`: the start of the run on the clock of the events.
///
/// # Errors
/// Too few bytes; there was no run.
pub fn begin_ns(mut bytes: &[u8]) -> Result<u64> {
    let report: RunReport = take(&mut bytes).context("the guest's report of its run ends too early")?;
    ensure!(report.begin_ns != 0, "the guest made no run");
    Ok(report.begin_ns)
}

#[cfg(test)]
mod tests;
