//! The table of sockets: all of it once, then the changes since the previous tick.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;

use super::frame::{self, Status, millis};
use shared::arrival::RuleArm;
use shared::model::live::Live;
use shared::model::live::socket::Socket;

#[derive(Debug, Clone)]
struct SentSocket {
    handle: u32,
    is_seen: bool,
    named: Option<SentName>,
    values: Option<SentValues>,
}

/// The parts of a name that can change: algorithm, whether owner and cgroup are known, arm, first seen.
type SentName = (String, bool, bool, Option<Arc<RuleArm>>, u64);

/// Phase, ca_state, numbers, share of retransmissions, whether closed.
///
/// The numbers are cwnd, ssthresh and inflight in packets, srtt and min_rtt in microseconds, goodput and received in bits
/// per second.
type SentValues = (u8, &'static str, [Option<u64>; 7], Option<f32>, bool);

#[derive(Serialize)]
struct TableFrame<'a, N, V> {
    status: &'a Status,
    names: Vec<N>,
    rows: Vec<V>,
    gone: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct SocketTable {
    sent: HashMap<u64, SentSocket>,
    next: u32,
}

impl SocketTable {
    pub(super) fn clear(&mut self) {
        self.sent = HashMap::new();
    }

    /// The changes since the last call.
    pub(super) fn changes(&mut self, live: &Live, status: &Status) -> Bytes {
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        self.sent.values_mut().for_each(|sent| sent.is_seen = false);
        for socket in live.sockets() {
            let (named, values) = (Some(named_of(live, socket)), values_of(live, socket));
            let next = &mut self.next;
            let sent = self.sent.entry(socket.latest.socket).or_insert_with(|| {
                *next = next.wrapping_add(1);
                SentSocket { handle: *next, is_seen: false, named: None, values: None }
            });
            sent.is_seen = true;
            if sent.named != named {
                names.push(name(live, socket, sent.handle));
                sent.named = named;
            }
            if sent.values != Some(values) {
                rows.push(row(live, socket, sent.handle, values));
                sent.values = Some(values);
            }
        }
        let mut gone = Vec::new();
        self.sent.retain(|_, sent| {
            gone.extend((!sent.is_seen).then_some(sent.handle));
            sent.is_seen
        });
        frame::encode("changes", &TableFrame { status, names, rows, gone })
    }

    /// The whole table as of the last call of [`SocketTable::changes`].
    pub(super) fn whole(&self, live: &Live, status: &Status) -> Bytes {
        let known = || live.sockets().filter_map(|socket| Some((socket, self.sent.get(&socket.latest.socket)?)));
        let names = known().map(|(socket, sent)| name(live, socket, sent.handle)).collect();
        let rows = known().filter_map(|(socket, sent)| Some(row(live, socket, sent.handle, sent.values?))).collect();
        frame::encode("sockets", &TableFrame { status, names, rows, gone: Vec::new() })
    }
}

fn named_of(live: &Live, socket: &Socket) -> SentName {
    let (has_owner, has_cgroup) = (live.owner(socket).is_some(), live.cgroup(socket).is_some());
    (socket.latest.algorithm.clone(), has_owner, has_cgroup, live.arm(socket).cloned(), socket.first_ns)
}

fn values_of(live: &Live, socket: &Socket) -> SentValues {
    let (event, now) = (&socket.latest, live.now_ns());
    let [goodput, received] = [socket.goodput_bps(now), socket.received_bps(now)].map(|bps| bps.map(|bps| bps as u64));
    let packets = [Some(event.cwnd_pkts), event.ssthresh_pkts, Some(event.inflight_pkts)];
    let [cwnd, ssthresh, inflight] = packets.map(|packets| packets.map(u64::from));
    let [srtt, min_rtt] = [event.srtt_us, event.min_rtt_us].map(|us| us.map(u64::from));
    let numbers = [cwnd, ssthresh, inflight, srtt, min_rtt, goodput, received];
    let retrans = socket.retrans_ratio().map(|ratio| ratio as f32);
    (event.private_state[0], event.ca_state.name(), numbers, retrans, socket.closed_ns.is_some())
}

/// Handle, cookie, peer, local, process, cgroup, algorithm, first seen, rule, arm: the columns that rarely change.
///
/// The cookie is text because JavaScript numbers lose digits above 2^53.
fn name<'a>(live: &'a Live, socket: &'a Socket, handle: u32) -> impl Serialize {
    let event = &socket.latest;
    let process = live.owner(socket).map(|owner| format!("{} {}", owner.command, owner.pid));
    let given = live.arm(socket);
    let (rule, arm) = (given.map(|given| &given.rule), given.map(|given| &given.arm));
    let (cookie, first_ms) = (event.socket.to_string(), millis(socket.first_ns));
    (handle, cookie, event.remote, event.local, process, live.cgroup(socket), &event.algorithm, first_ms, rule, arm)
}

/// Handle, name of the phase, and the values.
fn row<'a>(live: &'a Live, socket: &'a Socket, handle: u32, values: SentValues) -> impl Serialize {
    let (phase, ca_state, numbers, retrans, is_closed) = values;
    let [cwnd, ssthresh, inflight, srtt, min_rtt, goodput, received] = numbers;
    let phase = live.phase_name(&socket.latest.algorithm, phase);
    (handle, phase, ca_state, cwnd, ssthresh, inflight, srtt, min_rtt, goodput, received, retrans, is_closed)
}
