//! The state of a host as its events tell it, live or replayed: what `tccc top` and `tccc serve` show.
//!
//! Everything is bounded: sockets, points of their past, marks, names. What does not fit is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use crate::trace::arrival::{Arrival, Fact, RuleArm};
use crate::trace::event::{Event, EventKind};

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

/// Sockets followed at the same time; a host with more shows the first of them and counts the rest.
pub const SOCKETS_MAX: usize = 200_000;
/// A closed connection is shown for so long.
const LINGER_NS: u64 = 10_000_000_000;
/// Names of one kind; a host has fewer, a damaged recording may not.
const NAMES_MAX: usize = 400_000;
/// Names of cgroups, all together: one alone may be as long as a path.
const CGROUP_BYTES_MAX: usize = 64 << 20;
/// Algorithms; the kernel's names for them are few.
const ALGORITHMS_MAX: usize = 256;
/// Arms of policies; a host numbers as many.
const ARMS_MAX: usize = 4096;

#[derive(Debug, Default, Clone)]
pub struct Live {
    sockets: HashMap<u64, Socket>,
    algorithms: BTreeMap<String, LiveAlgorithm>,
    owners: HashMap<u64, SocketOwner>,
    arms: HashMap<u64, Arc<RuleArm>>,
    /// Every arm that was met; sockets of one arm share its name.
    arm_names: BTreeSet<Arc<RuleArm>>,
    cgroups: HashMap<u64, String>,
    cgroup_bytes: usize,
    held: BTreeSet<u64>,
    now_ns: u64,
    counts: Counts,
}

/// What was seen and what was not, since the source began.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub closed: u64,
    pub events: u64,
    /// Events the tracer could not send.
    pub dropped: u64,
    /// Events of sockets beyond [`SOCKETS_MAX`].
    pub untracked: u64,
    /// Names of owners, cgroups and arms for which there was no room.
    pub unnamed: u64,
    /// Processes whose network namespace the last sweep could not look at.
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

    /// Moves the clock, and forgets connections that closed some time ago.
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

    /// Keeps these sockets, and no others, even when they are closed, while somebody looks at them.
    pub fn hold(&mut self, sockets: impl IntoIterator<Item = u64>) {
        self.held = sockets.into_iter().collect();
    }

    /// The time of the state, CLOCK_MONOTONIC of the host it is of.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// What was seen and what was not.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    pub fn open_sockets(&self) -> usize {
        self.sockets.values().filter(|socket| socket.closed_ns.is_none()).count()
    }

    /// Every socket; those closed a moment ago too.
    pub fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.values()
    }

    pub fn socket(&self, socket: u64) -> Option<&Socket> {
        self.sockets.get(&socket)
    }

    /// Every algorithm that was met, by its kernel name.
    pub fn algorithms(&self) -> impl Iterator<Item = (&str, &LiveAlgorithm)> {
        self.algorithms.iter().map(|(name, algorithm)| (name.as_str(), algorithm))
    }

    pub fn algorithm(&self, name: &str) -> Option<&LiveAlgorithm> {
        self.algorithms.get(name)
    }

    /// The process that holds a socket; none while it is not known, or when it is closed and only sends its rest.
    pub fn owner(&self, socket: &Socket) -> Option<&SocketOwner> {
        self.owners.get(&socket.latest.socket)
    }

    /// The rule and arm of a policy that a socket is in; none while they are not known, and where there is no policy.
    pub fn arm(&self, socket: &Socket) -> Option<&Arc<RuleArm>> {
        self.arms.get(&socket.latest.socket)
    }

    /// Whether any socket was in an arm of a policy.
    pub fn has_arms(&self) -> bool {
        !self.arm_names.is_empty()
    }

    /// The path of a socket's cgroup below the mount; none while it is not known.
    pub fn cgroup(&self, socket: &Socket) -> Option<&str> {
        self.cgroups.get(&socket.latest.cgroup).map(String::as_str)
    }

    /// The phase of a socket's algorithm; none when it declares none.
    pub fn phase(&self, socket: &Socket) -> Option<&str> {
        self.phase_name(&socket.latest.algorithm, socket.latest.private_state[0])
    }

    pub fn phase_name(&self, algorithm: &str, phase: u8) -> Option<&str> {
        self.algorithms.get(algorithm)?.layout.as_ref()?.phase_name(&[phase])
    }

    /// What a socket's algorithm keeps in it, by name; the phase is not among it.
    ///
    /// Shape: in the order of the algorithm's state; empty when nobody knows its layout.
    pub fn private_state(&self, socket: &Socket) -> Vec<(&str, String)> {
        let layout = self.algorithms.get(&socket.latest.algorithm).and_then(|algorithm| algorithm.layout.as_ref());
        let fields = layout.map(|layout| layout.decode(&socket.latest.private_state)).unwrap_or_default();
        let named = fields.into_iter().filter(|(name, _)| *name != "phase");
        named.map(|(name, value)| (name, value.to_string())).collect()
    }

    fn apply_event(&mut self, event: Event) {
        self.counts.events += 1;
        self.now_ns = self.now_ns.max(event.time_ns);
        let room = self.room();
        if !self.sockets.contains_key(&event.socket) {
            if event.kind == EventKind::Close {
                return self.note_close(&event); // its past is not known
            }
            if self.sockets.len() >= SOCKETS_MAX {
                self.counts.untracked += 1;
                return;
            }
        }
        let is_close = event.kind == EventKind::Close;
        if is_close {
            self.note_close(&event);
        }
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

    fn note_close(&mut self, event: &Event) {
        self.counts.closed += 1;
        if !self.held.contains(&event.socket) {
            self.owners.remove(&event.socket);
        }
    }

    /// Makes room for an algorithm, unless there are too many.
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
            Fact::Owner { socket, pid, command } if self.owners.len() < NAMES_MAX => {
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

    /// Keeps the arm of a socket, unless there are too many.
    fn note_arm(&mut self, socket: u64, given: RuleArm) {
        let known = self.arm_names.get(&given).cloned();
        let is_full = self.arms.len() >= NAMES_MAX || (known.is_none() && self.arm_names.len() >= ARMS_MAX);
        if is_full {
            self.counts.unnamed += 1;
            return;
        }
        let name = known.unwrap_or_else(|| Arc::new(given));
        self.arm_names.insert(Arc::clone(&name));
        self.arms.insert(socket, name);
    }

    /// Keeps the name of a cgroup, unless there are too many or they are too long.
    fn name_cgroup(&mut self, cgroup: u64, path: String) {
        let before = self.cgroups.get(&cgroup).map_or(0, String::len);
        let bytes = self.cgroup_bytes - before + path.len();
        if self.cgroups.len() < NAMES_MAX && bytes <= CGROUP_BYTES_MAX {
            self.cgroup_bytes = bytes;
            self.cgroups.insert(cgroup, path);
        } else {
            self.counts.unnamed += 1;
        }
    }

    /// Forgets the names of cgroups that no socket has, once they take half of their room: recordings of earlier
    /// versions tell a name once, however often its sockets come and go.
    fn forget_cgroups(&mut self) {
        if self.cgroups.len() <= NAMES_MAX / 2 && self.cgroup_bytes <= CGROUP_BYTES_MAX / 2 {
            return;
        }
        let known: HashSet<u64> = self.sockets.values().map(|socket| socket.latest.cgroup).collect();
        self.cgroups.retain(|cgroup, _| known.contains(cgroup));
        self.cgroup_bytes = self.cgroups.values().map(String::len).sum();
    }

    /// Ends what a whole sweep did not find: its close event was dropped, or came before the tracer.
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

    /// The past that a socket may keep while there are so many.
    fn room(&self) -> Room {
        Room::shared_by(self.sockets.len().max(1))
    }
}

#[cfg(test)]
pub mod samples;
#[cfg(test)]
mod tests;
