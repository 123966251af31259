//! One socket as a page gets it: its past once, then the moments since the tick before.

use bytes::Bytes;
use serde::Serialize;

use super::frame::{self, Status, millis};
use crate::model::live::Live;
use crate::model::live::history::{Mark, MarkKind, Past};
use crate::model::live::socket::Socket;

/// Losses that lie close are one mark, which grows for a while after it was sent.
const GROWING_NS: u64 = 5_000_000_000;

/// Of a connection that is not known, any more or at all.
#[derive(Serialize)]
struct Unknown<'a> {
    status: &'a Status,
}

#[derive(Serialize)]
struct Frame<'a> {
    status: &'a Status,
    socket: Known<'a>,
    moments: Moments,
    /// Time, "loss" or "timeout", packets or timeouts.
    marks: Vec<(f64, &'static str, u32)>,
    phases: Vec<(u8, &'a str)>,
    /// What the algorithm keeps in the socket, by name.
    state: Vec<(&'a str, String)>,
}

#[derive(Serialize)]
struct Known<'a> {
    socket: String,
    peer: String,
    local: String,
    process: Option<String>,
    cgroup: Option<&'a str>,
    netns: u32,
    uid: u32,
    algorithm: &'a str,
    rule: Option<&'a str>,
    arm: Option<&'a str>,
    phase: Option<&'a str>,
    ca_state: &'static str,
    cwnd_pkts: u32,
    ssthresh_pkts: Option<u32>,
    inflight_pkts: u32,
    srtt_us: Option<u32>,
    min_rtt_us: Option<u32>,
    rto_us: u32,
    mss_bytes: u32,
    pacing_rate_bps: Option<u64>,
    goodput_bps: Option<f64>,
    received_bps: Option<f64>,
    retrans_ratio: Option<f64>,
    delivered_pkts: u32,
    delivered_ce_pkts: u32,
    lost_pkts: u32,
    retrans_pkts: u32,
    bytes_acked: u64,
    bytes_received: u64,
    app_limited: bool,
    first_ms: f64,
    closed_ms: Option<f64>,
}

/// Columns of the same length; 0 in a time is no sample.
#[derive(Default, Serialize)]
struct Moments {
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

impl Moments {
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

/// What the pages that watch one socket know.
#[derive(Debug)]
pub(super) struct WatchedFlow {
    socket: u64,
    sent_ns: u64,
}

impl WatchedFlow {
    pub(super) fn new(socket: u64) -> WatchedFlow {
        WatchedFlow { socket, sent_ns: 0 }
    }

    /// The moments since the last call, for those who know what was before.
    pub(super) fn moments(&mut self, live: &Live, status: &Status) -> Bytes {
        let frame = self.frame("moments", live, status, self.sent_ns);
        self.sent_ns = live.socket(self.socket).map_or(self.sent_ns, |it| it.latest.time_ns);
        frame
    }

    /// Everything, for a page that knows nothing; it recognises moments that it gets twice by their time.
    pub(super) fn whole(&self, live: &Live, status: &Status) -> Bytes {
        self.frame("flow", live, status, 0)
    }

    /// What was before is void: the time was set back.
    pub(super) fn restart(&mut self) {
        self.sent_ns = 0;
    }

    fn frame(&self, name: &str, live: &Live, status: &Status, since_ns: u64) -> Bytes {
        let Some(socket) = live.socket(self.socket) else { return frame::encode("unknown", &Unknown { status }) };
        let mut moments = Moments::default();
        socket.history.points().filter(|past| past.time_ns > since_ns).for_each(|past| moments.push(past));
        let is_growing = |mark: &&Mark| mark.time_ns.saturating_add(GROWING_NS) > since_ns;
        let marks = socket.history.marks().filter(is_growing).map(mark).collect();
        let algorithm = live.algorithm(&socket.latest.algorithm);
        let layout = algorithm.and_then(|algorithm| algorithm.layout.as_ref());
        let phases = layout.map(|layout| layout.phases.as_slice()).unwrap_or_default().iter();
        let phases = phases.map(|phase| (phase.value, phase.name.as_str())).collect();
        let (socket, state) = (known(live, socket), live.private_state(socket));
        frame::encode(name, &Frame { status, socket, moments, marks, phases, state })
    }
}

fn mark(mark: &Mark) -> (f64, &'static str, u32) {
    let kind = match mark.kind {
        MarkKind::Loss => "loss",
        MarkKind::Timeout => "timeout",
    };
    (millis(mark.time_ns), kind, mark.count)
}

fn known<'a>(live: &'a Live, socket: &'a Socket) -> Known<'a> {
    let event = &socket.latest;
    Known {
        socket: event.socket.to_string(),
        peer: event.remote.to_string(),
        local: event.local.to_string(),
        process: live.owner(socket).map(|owner| format!("{} {}", owner.command, owner.pid)),
        cgroup: live.cgroup(socket),
        netns: event.netns,
        uid: event.uid,
        algorithm: &event.algorithm,
        rule: live.arm(socket).map(|given| given.rule.as_str()),
        arm: live.arm(socket).map(|given| given.arm.as_str()),
        phase: live.phase(socket),
        ca_state: event.ca_state.name(),
        cwnd_pkts: event.cwnd_pkts,
        ssthresh_pkts: event.ssthresh_pkts,
        inflight_pkts: event.inflight_pkts,
        srtt_us: event.srtt_us,
        min_rtt_us: event.min_rtt_us,
        rto_us: event.rto_us,
        mss_bytes: event.mss_bytes,
        pacing_rate_bps: event.pacing_rate_bps,
        goodput_bps: socket.goodput_bps(live.now_ns()),
        received_bps: socket.received_bps(live.now_ns()),
        retrans_ratio: socket.retrans_ratio(),
        delivered_pkts: event.delivered_pkts,
        delivered_ce_pkts: event.delivered_ce_pkts,
        lost_pkts: event.lost_pkts,
        retrans_pkts: event.retrans_pkts,
        bytes_acked: event.bytes_acked,
        bytes_received: event.bytes_received,
        app_limited: event.app_limited,
        first_ms: millis(socket.first_ns),
        closed_ms: socket.closed_ns.map(millis),
    }
}
