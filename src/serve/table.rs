//! The table of sockets as a page gets it: everything once, then what changed since the tick before.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::frame::{self, Status, millis};
use crate::model::live::Live;
use crate::model::live::socket::Socket;
use crate::trace::arrival::RuleArm;

/// Words of a socket that hardly ever change: handle, cookie, peer, local, process, cgroup, algorithm, first seen, rule and
/// arm of a policy.
///
/// Cookies are text: some are larger than the numbers of a page.
type Name<'a> =
    (u32, String, String, String, Option<String>, Option<String>, String, f64, Option<&'a str>, Option<&'a str>);

/// What of a socket changes: handle, phase, ca_state, cwnd, ssthresh, inflight, srtt, min_rtt, goodput, received, retrans,
/// whether it is closed. Packets, microseconds, bits per second, a share of 1.
type Row<'a> = (
    u32,
    Option<&'a str>,
    &'static str,
    u32,
    Option<u32>,
    u32,
    Option<u32>,
    Option<u32>,
    Option<u64>,
    Option<u64>,
    Option<f32>,
    bool,
);

#[derive(Debug, Clone, PartialEq)]
struct Sent {
    handle: u32,
    seen: bool,
    named: Option<Named>,
    values: Option<Values>,
}

/// What of its name could have changed.
#[derive(Debug, Clone, PartialEq)]
struct Named {
    algorithm: String,
    has_owner: bool,
    has_cgroup: bool,
    arm: Option<Arc<RuleArm>>,
    first_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Values {
    phase: u8,
    ca_state: &'static str,
    packets: [u32; 2],
    ssthresh_pkts: Option<u32>,
    times_us: [Option<u32>; 2],
    rates_bps: [Option<u64>; 2],
    retrans: Option<f32>,
    is_closed: bool,
}

#[derive(Serialize)]
struct Frame<'a> {
    status: &'a Status,
    names: Vec<Name<'a>>,
    rows: Vec<Row<'a>>,
    gone: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct SocketTable {
    sent: HashMap<u64, Sent>,
    next: u32,
}

impl SocketTable {
    /// Forgets everything: nobody watches.
    pub(super) fn clear(&mut self) {
        self.sent = HashMap::new();
    }

    /// What changed since the last call, for those who know what was before.
    pub(super) fn changes(&mut self, live: &Live, status: &Status) -> Bytes {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        self.sent.values_mut().for_each(|sent| sent.seen = false);
        for socket in live.sockets() {
            let (named, values) = (Some(Named::of(live, socket)), Some(Values::of(live, socket)));
            let next = &mut self.next;
            let sent = self.sent.entry(socket.latest.socket).or_insert_with(|| {
                *next = next.wrapping_add(1);
                Sent { handle: *next, seen: false, named: None, values: None }
            });
            sent.seen = true;
            if sent.named != named {
                names.push(name(live, socket, sent.handle));
                sent.named = named;
            }
            if sent.values != values {
                rows.extend(values.map(|values| row(live, socket, sent.handle, values)));
                sent.values = values;
            }
        }
        let mut gone = Vec::new();
        self.sent.retain(|_, sent| {
            gone.extend((!sent.seen).then_some(sent.handle));
            sent.seen
        });
        frame::encode("changes", &Frame { status, names, rows, gone })
    }

    /// Everything as of the last call of [`SocketTable::changes`], for one who knows nothing.
    pub(super) fn whole(&self, live: &Live, status: &Status) -> Bytes {
        let known = || live.sockets().filter_map(|socket| Some((socket, self.sent.get(&socket.latest.socket)?)));
        let names = known().map(|(socket, sent)| name(live, socket, sent.handle)).collect();
        let rows = known().filter_map(|(socket, sent)| Some(row(live, socket, sent.handle, sent.values?))).collect();
        frame::encode("sockets", &Frame { status, names, rows, gone: Vec::new() })
    }
}

impl Named {
    fn of(live: &Live, socket: &Socket) -> Named {
        Named {
            algorithm: socket.latest.algorithm.clone(),
            has_owner: live.owner(socket).is_some(),
            has_cgroup: live.cgroup(socket).is_some(),
            arm: live.arm(socket).cloned(),
            first_ns: socket.first_ns,
        }
    }
}

impl Values {
    fn of(live: &Live, socket: &Socket) -> Values {
        let (event, now) = (&socket.latest, live.now_ns());
        let rates = [socket.goodput_bps(now), socket.received_bps(now)];
        Values {
            phase: event.private_state[0],
            ca_state: event.ca_state.name(),
            packets: [event.cwnd_pkts, event.inflight_pkts],
            ssthresh_pkts: event.ssthresh_pkts,
            times_us: [event.srtt_us, event.min_rtt_us],
            rates_bps: rates.map(|rate| rate.map(|rate| rate as u64)),
            retrans: socket.retrans_ratio().map(|ratio| ratio as f32),
            is_closed: socket.closed_ns.is_some(),
        }
    }
}

fn name<'a>(live: &'a Live, socket: &'a Socket, handle: u32) -> Name<'a> {
    let event = &socket.latest;
    let process = live.owner(socket).map(|owner| format!("{} {}", owner.command, owner.pid));
    let cgroup = live.cgroup(socket).map(str::to_owned);
    let (id, peer, local) = (event.socket.to_string(), event.remote.to_string(), event.local.to_string());
    let given = live.arm(socket);
    let (rule, arm) = (given.map(|given| given.rule.as_str()), given.map(|given| given.arm.as_str()));
    (handle, id, peer, local, process, cgroup, event.algorithm.clone(), millis(socket.first_ns), rule, arm)
}

fn row<'a>(live: &'a Live, socket: &'a Socket, handle: u32, values: Values) -> Row<'a> {
    let phase = live.phase_name(&socket.latest.algorithm, values.phase);
    let [cwnd, inflight] = values.packets;
    let [srtt, min_rtt] = values.times_us;
    let [goodput, received] = values.rates_bps;
    let (ssthresh, retrans) = (values.ssthresh_pkts, values.retrans);
    (
        handle,
        phase,
        values.ca_state,
        cwnd,
        ssthresh,
        inflight,
        srtt,
        min_rtt,
        goodput,
        received,
        retrans,
        values.is_closed,
    )
}
