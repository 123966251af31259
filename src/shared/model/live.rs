//! The state of a host, built from live or replayed events. `tccc top` and `tccc serve` show it.
//!
//! Everything is bounded: sockets, points of their past, marks, names. What does not fit is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use crate::arrival::{Arrival, Fact, RuleArm};
use crate::event::{Event, EventKind};

pub mod algorithm;
pub mod filter;
pub mod histogram;
pub mod history;
pub mod listing;
pub mod meter;
pub mod socket;
pub mod summary;

use algorithm::LiveAlgorithm;
use history::Room;
use socket::{Socket, SocketOwner};

/// Sockets followed at the same time. On a host with more, the first are shown and the others counted.
pub const SOCKETS_MAX: usize = 200_000;
/// How long a closed connection is shown.
const LINGER_NS: u64 = 10_000_000_000;
/// Most names of one kind. A host has fewer; a damaged recording may have more.
const NAMES_MAX: usize = 400_000;
/// Largest total size of the names of cgroups. A single name may be as long as a path.
const CGROUP_BYTES_MAX: usize = 64 << 20;
/// Most algorithms: far more than a kernel has.
const ALGORITHMS_MAX: usize = 256;
/// Most arms that the policies of a host can number.
const ARMS_MAX: usize = 4096;

#[derive(Debug, Default, Clone)]
pub struct Live {
    sockets: HashMap<u64, Socket>,
    algorithms: BTreeMap<String, LiveAlgorithm>,
    owners: HashMap<u64, SocketOwner>,
    arms: HashMap<u64, Arc<RuleArm>>,
    /// Every arm ever seen. Sockets of one arm share its name.
    arm_names: BTreeSet<Arc<RuleArm>>,
    cgroups: HashMap<u64, String>,
    cgroup_bytes: usize,
    held: BTreeSet<u64>,
    now_ns: u64,
    counts: Counts,
}

/// What was seen and what was missed since the source began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub closed: u64,
    pub events: u64,
    /// Events the tracer could not send.
    pub dropped: u64,
    /// Events of sockets beyond [`SOCKETS_MAX`].
    pub untracked: u64,
    /// Names of owners, cgroups and arms that did not fit.
    pub unnamed: u64,
    /// Processes whose network namespace the last sweep could not read.
    pub hidden: u64,
}

impl Live {
    pub fn apply(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Event(event) => self.apply_event(event),
            Arrival::Fact(fact) => self.apply_fact(fact),
            Arrival::Restart => *self = Live { held: std::mem::take(&mut self.held), ..Live::default() },
        }
    }

    /// Moves the clock and drops connections that closed some time ago.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        let (now, held, arms) = (self.now_ns, &self.held, &mut self.arms);
        self.sockets.retain(|id, socket| {
            let stays = held.contains(id) || socket.closed_ns.is_none_or(|at| now.saturating_sub(at) < LINGER_NS);
            if !stays {
                arms.remove(id);
            }
            stays
        });
        self.algorithms.values_mut().for_each(|algorithm| algorithm.advance(now));
    }

    /// Keeps these sockets, instead of those held before, even when they close.
    pub fn hold(&mut self, sockets: impl IntoIterator<Item = u64>) {
        self.held = sockets.into_iter().collect();
    }

    /// Time of the latest event, or of a later [`Live::advance`]; CLOCK_MONOTONIC of the observed host.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn open_sockets(&self) -> usize {
        self.sockets.values().filter(|socket| socket.closed_ns.is_none()).count()
    }

    /// All sockets, recently closed ones included.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.values()
    }

    pub fn socket(&self, socket: u64) -> Option<&Socket> {
        self.sockets.get(&socket)
    }

    pub fn algorithms(&self) -> impl Iterator<Item = (&str, &LiveAlgorithm)> {
        self.algorithms.iter().map(|(name, algorithm)| (name.as_str(), algorithm))
    }

    pub fn algorithm(&self, name: &str) -> Option<&LiveAlgorithm> {
        self.algorithms.get(name)
    }

    /// The process that holds a socket. `None` while unknown, or if the socket was closed and only sends its remaining data.
    pub fn owner(&self, socket: &Socket) -> Option<&SocketOwner> {
        self.owners.get(&socket.latest.socket)
    }

    /// The rule and arm of a policy that a socket is in, if known.
    pub fn arm(&self, socket: &Socket) -> Option<&Arc<RuleArm>> {
        self.arms.get(&socket.latest.socket)
    }

    pub fn has_arms(&self) -> bool {
        !self.arm_names.is_empty()
    }

    /// Path of a socket's cgroup below the mount, if known.
    pub fn cgroup(&self, socket: &Socket) -> Option<&str> {
        self.cgroups.get(&socket.latest.cgroup).map(String::as_str)
    }

    /// Phase of a socket's algorithm; `None` if it declares no phases.
    pub fn phase(&self, socket: &Socket) -> Option<&str> {
        self.phase_name(&socket.latest.algorithm, socket.latest.private_state[0])
    }

    pub fn phase_name(&self, algorithm: &str, phase: u8) -> Option<&str> {
        self.algorithms.get(algorithm)?.layout.as_ref()?.phase_name(&[phase])
    }

    /// Fields of the algorithm's private state in a socket, without the phase.
    ///
    /// Shape: in the order of the layout; empty if the layout is unknown.
    pub fn private_state(&self, socket: &Socket) -> Vec<(&str, String)> {
        let layout = self.algorithms.get(&socket.latest.algorithm).and_then(|algorithm| algorithm.layout.as_ref());
        let fields = layout.map(|layout| layout.decode(&socket.latest.private_state)).unwrap_or_default();
        let named = fields.into_iter().filter(|(name, _)| *name != "phase");
        named.map(|(name, value)| (name, value.to_string())).collect()
    }

    fn apply_event(&mut self, event: Event) {
        self.counts.events += 1;
        self.now_ns = self.now_ns.max(event.time_ns);
        let is_known = self.sockets.contains_key(&event.socket);
        if event.kind == EventKind::Close {
            self.counts.closed += 1;
            if !self.held.contains(&event.socket) {
                self.owners.remove(&event.socket);
            }
            if !is_known {
                return; // its past is unknown
            }
        }
        if !is_known && self.sockets.len() >= SOCKETS_MAX {
            self.counts.untracked += 1;
            return;
        }
        let room = Room::shared_by(self.sockets.len().max(1));
        self.algorithm_named(&event.algorithm);
        let (id, name) = (event.socket, event.algorithm.clone());
        let growth = match self.sockets.get_mut(&id) {
            Some(socket) => socket.follow(event, room),
            None => {
                let (socket, growth) = Socket::begin(event);
                self.sockets.insert(id, socket);
                growth
            }
        };
        if let (Some(algorithm), Some(growth)) = (self.algorithms.get_mut(&name), growth) {
            algorithm.note(&growth);
        }
    }

    /// Finds or adds an algorithm, unless there are too many.
    fn algorithm_named(&mut self, name: &str) -> Option<&mut LiveAlgorithm> {
        if !self.algorithms.contains_key(name) {
            if self.algorithms.len() >= ALGORITHMS_MAX {
                return None;
            }
            self.algorithms.insert(name.to_owned(), LiveAlgorithm::default());
        }
        self.algorithms.get_mut(name)
    }

    fn apply_fact(&mut self, fact: Fact) {
        match fact {
            Fact::Layout { algorithm, layout } => {
                if let Some(known) = self.algorithm_named(&algorithm) {
                    known.layout = Some(layout);
                }
            }
            Fact::Owner { socket, pid, command } if has_room(&self.owners, &socket) => {
                self.owners.insert(socket, SocketOwner { pid, command });
            }
            Fact::Owner { .. } => self.counts.unnamed += 1,
            Fact::Cgroup { cgroup, path } => self.name_cgroup(cgroup, path),
            Fact::Arm { socket, given: Some(given) } => self.note_arm(socket, given),
            Fact::Arm { socket, given: None } => drop(self.arms.remove(&socket)),
            Fact::Cost { algorithm, callback, calls, nanoseconds, .. } => {
                if let Some(known) = self.algorithm_named(&algorithm) {
                    known.note_cost(callback, calls, nanoseconds);
                }
            }
            Fact::Dropped { events, .. } => self.counts.dropped = events,
            Fact::Swept { begin_ns, time_ns, hidden, netns } => {
                self.counts.hidden = hidden;
                let netns: HashSet<u32> = netns.into_iter().collect();
                self.end_unseen([begin_ns, time_ns], |inode| hidden == 0 || netns.contains(&inode));
                self.forget_cgroups();
            }
        }
    }

    /// Stores the arm of a socket, unless there are too many.
    fn note_arm(&mut self, socket: u64, given: RuleArm) {
        let known = self.arm_names.get(&given).cloned();
        let is_full = !has_room(&self.arms, &socket) || (known.is_none() && self.arm_names.len() >= ARMS_MAX);
        if is_full {
            self.counts.unnamed += 1;
            return;
        }
        let arm = known.unwrap_or_else(|| Arc::new(given));
        self.arm_names.insert(Arc::clone(&arm));
        self.arms.insert(socket, arm);
    }

    /// Stores the name of a cgroup, unless there are too many or they are too long.
    fn name_cgroup(&mut self, cgroup: u64, path: String) {
        let before = self.cgroups.get(&cgroup).map_or(0, String::len);
        let bytes = self.cgroup_bytes - before + path.len();
        if has_room(&self.cgroups, &cgroup) && bytes <= CGROUP_BYTES_MAX {
            self.cgroup_bytes = bytes;
            self.cgroups.insert(cgroup, path);
        } else {
            self.counts.unnamed += 1;
        }
    }

    /// Drops the names of cgroups without a socket once names fill half of their limit. Not earlier, because recordings
    /// of earlier versions contain a name only once, however often the cgroup's sockets come and go.
    fn forget_cgroups(&mut self) {
        if self.cgroups.len() <= NAMES_MAX / 2 && self.cgroup_bytes <= CGROUP_BYTES_MAX / 2 {
            return;
        }
        let known: HashSet<u64> = self.sockets.values().map(|socket| socket.latest.cgroup).collect();
        self.cgroups.retain(|cgroup, _| known.contains(cgroup));
        self.cgroup_bytes = self.cgroups.values().map(String::len).sum();
    }

    /// Closes sockets that a complete sweep did not find. Their close event was dropped or preceded the tracer.
    fn end_unseen(&mut self, [begin_ns, time_ns]: [u64; 2], was_swept: impl Fn(u32) -> bool) {
        let open = self.sockets.values_mut().filter(|socket| socket.closed_ns.is_none());
        for socket in open.filter(|socket| socket.seen_ns < begin_ns && was_swept(socket.latest.netns)) {
            socket.closed_ns = Some(time_ns);
            self.counts.closed += 1;
        }
        let sockets = &self.sockets;
        self.owners.retain(|id, _| sockets.contains_key(id));
        self.arms.retain(|id, _| sockets.contains_key(id));
    }
}

/// Whether a name may be stored: a known key is replaced, and a new one needs room.
fn has_room<T>(names: &HashMap<u64, T>, key: &u64) -> bool {
    names.contains_key(key) || names.len() < NAMES_MAX
}

#[cfg(any(test, feature = "samples"))]
pub mod samples;
#[cfg(test)]
mod tests;
