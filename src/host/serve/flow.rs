//! The view of one socket: first its whole past, then the moments since the previous tick.

use bytes::Bytes;
use serde::Serialize;

use super::frame::{self, Status, millis};
use shared::event::Event;
use shared::model::live::Live;
use shared::model::live::history::{Mark, MarkKind, Past};
use shared::model::live::socket::Socket;

/// Losses close in time share one mark, whose count may grow for this long after it was sent.
const GROWING_NS: u64 = 5_000_000_000;

#[derive(Serialize)]
struct FlowFrame<'a> {
    status: &'a Status,
    socket: FlowFacts<'a>,
    moments: FlowMoments,
    /// Time, "loss" or "timeout", packets or timeouts.
    marks: Vec<(f64, &'static str, u32)>,
    phases: Vec<(u8, &'a str)>,
    /// The algorithm's private state, by field.
    state: Vec<(&'a str, String)>,
}

#[derive(Serialize)]
struct FlowFacts<'a> {
    #[serde(flatten)]
    event: &'a Event,
    /// The cookie as text, because JavaScript numbers lose digits above 2^53.
    id: String,
    process: Option<String>,
    cgroup_path: Option<&'a str>,
    rule: Option<&'a str>,
    arm: Option<&'a str>,
    phase: Option<&'a str>,
    goodput_bps: Option<f64>,
    received_bps: Option<f64>,
    retrans_ratio: Option<f64>,
    first_ms: f64,
    closed_ms: Option<f64>,
}

/// Columns of equal length. 0 in an RTT column means no sample.
#[derive(Default, Serialize)]
struct FlowMoments {
    time_ms: Vec<f64>,
    cwnd_pkts: Vec<u32>,
    ssthresh_pkts: Vec<Option<u32>>,
    inflight_pkts: Vec<u32>,
    srtt_us: Vec<u32>,
    min_rtt_us: Vec<u32>,
    goodput_bps: Vec<u64>,
    phase: Vec<u8>,
    ca_state: Vec<&'static str>,
}

impl FlowMoments {
    fn push(&mut self, past: &Past) {
        self.time_ms.push(millis(past.time_ns));
        self.cwnd_pkts.push(past.cwnd_pkts);
        self.ssthresh_pkts.push(past.ssthresh_pkts.map(Into::into));
        self.inflight_pkts.push(past.inflight_pkts);
        self.srtt_us.push(past.srtt_us);
        self.min_rtt_us.push(past.min_rtt_us);
        self.goodput_bps.push(past.goodput_bps as u64);
        self.phase.push(past.phase);
        self.ca_state.push(past.ca_state.name());
    }
}

/// A socket that pages watch, and the time up to which they know it.
#[derive(Debug)]
pub(super) struct WatchedFlow {
    pub socket: u64,
    pub sent_ns: u64,
}

impl WatchedFlow {
    /// The moments since the last call.
    pub(super) fn moments(&mut self, live: &Live, status: &Status) -> Bytes {
        let frame = self.frame("moments", live, status, self.sent_ns);
        self.sent_ns = live.socket(self.socket).map_or(self.sent_ns, |it| it.latest.time_ns);
        frame
    }

    /// The whole past. A page recognises moments that it receives twice by their time.
    pub(super) fn whole(&self, live: &Live, status: &Status) -> Bytes {
        self.frame("flow", live, status, 0)
    }

    fn frame(&self, name: &str, live: &Live, status: &Status, since_ns: u64) -> Bytes {
        let Some(socket) = live.socket(self.socket) else {
            return frame::encode("unknown", &serde_json::json!({"status": status}));
        };
        let mut moments = FlowMoments::default();
        socket.history.points().filter(|past| past.time_ns > since_ns).for_each(|past| moments.push(past));
        let is_growing = |mark: &&Mark| mark.time_ns.saturating_add(GROWING_NS) > since_ns;
        let marks = socket.history.marks().filter(is_growing).map(mark).collect();
        let algorithm = live.algorithm(&socket.latest.algorithm);
        let layout = algorithm.and_then(|algorithm| algorithm.layout.as_ref());
        let phases = layout.map(|layout| layout.phases.as_slice()).unwrap_or_default().iter();
        let phases = phases.map(|phase| (phase.value, phase.name.as_str())).collect();
        let (socket, state) = (facts(live, socket), live.private_state(socket));
        frame::encode(name, &FlowFrame { status, socket, moments, marks, phases, state })
    }
}

fn mark(mark: &Mark) -> (f64, &'static str, u32) {
    let kind = match mark.kind {
        MarkKind::Loss => "loss",
        MarkKind::Timeout => "timeout",
    };
    (millis(mark.time_ns), kind, mark.count)
}

fn facts<'a>(live: &'a Live, socket: &'a Socket) -> FlowFacts<'a> {
    FlowFacts {
        event: &socket.latest,
        id: socket.latest.socket.to_string(),
        process: live.owner(socket).map(|owner| format!("{} {}", owner.command, owner.pid)),
        cgroup_path: live.cgroup(socket),
        rule: live.arm(socket).map(|given| given.rule.as_str()),
        arm: live.arm(socket).map(|given| given.arm.as_str()),
        phase: live.phase(socket),
        goodput_bps: socket.goodput_bps(live.now_ns()),
        received_bps: socket.received_bps(live.now_ns()),
        retrans_ratio: socket.retrans_ratio(),
        first_ms: millis(socket.first_ns),
        closed_ms: socket.closed_ns.map(millis),
    }
}
