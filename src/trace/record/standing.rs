//! What goes on being true when a recording begins another file: no more than the host has at that time, however many
//! sockets came and went before.

use std::collections::{BTreeMap, HashSet};

use crate::trace::arrival::{Arrival, Fact};
use crate::trace::event::{Event, EventKind};

/// Sockets whose owner can stand: as many as the live source asks for.
const SOCKETS_MAX: usize = 400_000;

/// Facts that a new file begins with.
#[derive(Debug, Default)]
pub(super) struct StandingFacts {
    facts: BTreeMap<(u8, String), Fact>,
    /// Names, of cgroups that such a socket has or had since the last sweep.
    cgroups: BTreeMap<u64, Fact>,
    /// Those that are open, as far as their events and the sweeps tell.
    sockets: BTreeMap<u64, Socket>,
}

#[derive(Debug)]
struct Socket {
    seen_ns: u64,
    netns: u32,
    cgroup: u64,
    owner: Option<Fact>,
    arm: Option<Fact>,
}

impl StandingFacts {
    /// Learns what stands, and what does not any more.
    pub(super) fn note(&mut self, arrival: &Arrival) {
        match arrival {
            Arrival::Event(event) if event.kind == EventKind::Close => drop(self.sockets.remove(&event.socket)),
            Arrival::Event(event) => self.see(event),
            Arrival::Fact(fact) => self.learn(fact),
            Arrival::Restart => {}
        }
    }

    /// Shape: layouts, the drop count and cgroups, then owners and arms in the order of their sockets.
    pub(super) fn facts(&self) -> impl Iterator<Item = &Fact> {
        let of_sockets = self.sockets.values().flat_map(|socket| socket.owner.iter().chain(&socket.arm));
        self.facts.values().chain(self.cgroups.values()).chain(of_sockets)
    }

    fn see(&mut self, event: &Event) {
        if let Some(socket) = self.sockets.get_mut(&event.socket) {
            socket.seen_ns = socket.seen_ns.max(event.time_ns);
        } else if self.sockets.len() < SOCKETS_MAX {
            let Event { time_ns: seen_ns, netns, cgroup, .. } = *event;
            let socket = Socket { seen_ns, netns, cgroup, owner: None, arm: None };
            self.sockets.insert(event.socket, socket);
        }
    }

    fn learn(&mut self, fact: &Fact) {
        let key = match fact {
            Fact::Layout { algorithm, .. } => (0, algorithm.clone()),
            Fact::Dropped { .. } => (1, String::new()),
            Fact::Cgroup { cgroup, .. } => return drop(self.cgroups.insert(*cgroup, fact.clone())),
            Fact::Owner { socket, .. } => {
                // It is looked for after the socket's first event, and may be told after its last.
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.owner = Some(fact.clone());
                }
                return;
            }
            Fact::Arm { socket, given } => {
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.arm = given.as_ref().map(|_| fact.clone());
                }
                return;
            }
            Fact::Swept { begin_ns, hidden, netns, .. } => {
                let netns: HashSet<u32> = netns.iter().copied().collect();
                return self.forget_unseen(*begin_ns, |inode| *hidden == 0 || netns.contains(&inode));
            }
            Fact::Cost { .. } => return,
        };
        self.facts.insert(key, fact.clone());
    }

    /// Forgets what a whole sweep did not find: its close event was dropped, or came before an older row of a sweep.
    /// A cgroup that nothing is left of is named again with its next socket.
    fn forget_unseen(&mut self, begin_ns: u64, was_swept: impl Fn(u32) -> bool) {
        self.sockets.retain(|_, socket| socket.seen_ns >= begin_ns || !was_swept(socket.netns));
        let known: HashSet<u64> = self.sockets.values().map(|socket| socket.cgroup).collect();
        self.cgroups.retain(|cgroup, _| known.contains(cgroup));
    }
}
