//! One socket: its latest state, rates and past.

use std::num::NonZeroU32;

use super::history::{Mark, MarkKind, Past, Room, SocketHistory};
use super::meter::{Growth, GrowthMeter, Moment, retrans_ratio};
use crate::event::{CaState, Event, EventKind};

/// Window of goodput: short enough to show changes, long enough for samples a second apart.
const GOODPUT_WINDOW_NS: u64 = 1_000_000_000;
/// Window of the share of retransmissions. A share of few packets says nothing.
const RETRANS_WINDOW_NS: u64 = 10_000_000_000;
/// A socket is idle after this time plus [`IDLE_GAPS`] times the gap between its last two events.
const IDLE_NS: u64 = 2_000_000_000;
const IDLE_GAPS: u64 = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketOwner {
    pub pid: u32,
    pub command: String,
}

/// Times are CLOCK_MONOTONIC.
#[derive(Debug, Clone)]
pub struct Socket {
    pub latest: Event,
    pub first_ns: u64,
    /// Latest event, rows of sweeps included.
    pub seen_ns: u64,
    /// When it was closed or found gone; `None` while it is open.
    pub closed_ns: Option<u64>,
    pub history: SocketHistory,
    fast: GrowthMeter,
    slow: GrowthMeter,
    gap_ns: u64,
}

impl Socket {
    /// Begins to follow a socket. Counts from before its first event are ignored, unless it opens the connection.
    pub(super) fn begin(event: Event) -> (Socket, Option<Growth>) {
        let now = Moment::from(&event);
        let opened = Moment { time_ns: now.time_ns, ..Moment::default() };
        let before = if event.kind == EventKind::Open { opened } else { now };
        let mut socket = Socket {
            first_ns: event.time_ns,
            seen_ns: event.time_ns,
            closed_ns: None,
            history: SocketHistory::default(),
            fast: GrowthMeter::begin(GOODPUT_WINDOW_NS, before),
            slow: GrowthMeter::begin(RETRANS_WINDOW_NS, before),
            gap_ns: 0,
            latest: event,
        };
        socket.history.push(socket.past(), Room::shared_by(1));
        (socket, (before != now).then(|| now.since(&before)))
    }

    /// Adds an event and returns the growth of the counts. `None` if the event is older than the latest one.
    pub(super) fn follow(&mut self, event: Event, room: Room) -> Option<Growth> {
        self.seen_ns = self.seen_ns.max(event.time_ns);
        if event.time_ns < self.latest.time_ns {
            return None; // a row of a sweep may be read after a newer sample
        }
        if event.kind == EventKind::Open {
            // The socket was reused for a new connection: the kernel counts from zero.
            let (again, growth) = Socket::begin(event);
            *self = again;
            return growth;
        }
        let growth = Moment::from(&event).since(&Moment::from(&self.latest));
        self.note_marks(&event, &growth, room);
        if event.kind != EventKind::Snapshot {
            self.gap_ns = event.time_ns - self.latest.time_ns;
        }
        if event.kind == EventKind::Close {
            self.closed_ns = Some(event.time_ns);
        }
        self.latest = event;
        let now = Moment::from(&self.latest);
        self.fast.note(now);
        self.slow.note(now);
        self.history.push(self.past(), room);
        let rtt_us = self.latest.rtt_us.filter(|_| self.latest.kind == EventKind::Sample);
        Some(Growth { rtt_us, ..growth })
    }

    fn note_marks(&mut self, event: &Event, growth: &Growth, room: Room) {
        let timed_out =
            event.kind == EventKind::State && event.ca_state == CaState::Loss && event.prior_ca_state != CaState::Loss;
        let mark = |kind, count| Mark { time_ns: event.time_ns, kind, count };
        if timed_out {
            self.history.mark(mark(MarkKind::Timeout, 1), room);
        }
        let lost = growth.lost_pkts.max(growth.retrans_pkts);
        if lost > 0 {
            self.history.mark(mark(MarkKind::Loss, lost), room);
        }
    }

    fn past(&self) -> Past {
        let event = &self.latest;
        Past {
            time_ns: event.time_ns,
            cwnd_pkts: event.cwnd_pkts,
            ssthresh_pkts: event.ssthresh_pkts.and_then(NonZeroU32::new),
            srtt_us: event.srtt_us.unwrap_or(0),
            min_rtt_us: event.min_rtt_us.unwrap_or(0),
            inflight_pkts: event.inflight_pkts,
            goodput_bps: self.recent().goodput_bps().unwrap_or(0.0) as f32,
            phase: event.private_state[0],
            ca_state: event.ca_state,
        }
    }

    fn recent(&self) -> Growth {
        self.fast.growth(&Moment::from(&self.latest))
    }

    /// Whether the time since the last event is much longer than the gap before that event.
    pub fn is_idle(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.latest.time_ns) > self.gap_ns.saturating_mul(IDLE_GAPS).saturating_add(IDLE_NS)
    }

    /// Payload acknowledged per second over the last second or two; 0 if it is idle or closed. `None` after one event.
    pub fn goodput_bps(&self, now_ns: u64) -> Option<f64> {
        self.unless_quiet(now_ns, self.recent().goodput_bps())
    }

    /// Payload received per second, as [`Socket::goodput_bps`].
    pub fn received_bps(&self, now_ns: u64) -> Option<f64> {
        self.unless_quiet(now_ns, self.recent().received_bps())
    }

    fn unless_quiet(&self, now_ns: u64, rate: Option<f64>) -> Option<f64> {
        let is_quiet = self.closed_ns.is_some() || self.is_idle(now_ns);
        rate.map(|rate| if is_quiet { 0.0 } else { rate })
    }

    /// Share of retransmissions in the last ten to twenty seconds. `None` if nothing was sent.
    pub fn retrans_ratio(&self) -> Option<f64> {
        let growth = self.slow.growth(&Moment::from(&self.latest));
        retrans_ratio(growth.delivered_pkts.into(), growth.retrans_pkts.into())
    }
}
