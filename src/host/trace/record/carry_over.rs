//! The facts that still hold when a recording starts another file.
//!
//! Their number depends on the sockets and cgroups that exist then, not on how many existed before.

use std::collections::{BTreeMap, HashSet};

use shared::arrival::{Arrival, Fact};
use shared::event::{Event, EventKind};

/// Limit of the sockets, as in the live source.
const SOCKETS_MAX: usize = 400_000;

#[derive(Debug, Default)]
pub(super) struct StandingFacts {
    /// Layouts by algorithm.
    layouts: BTreeMap<String, Fact>,
    dropped: Option<Fact>,
    /// cgroups with a socket since the last sweep.
    cgroups: BTreeMap<u64, Fact>,
    /// Open sockets, according to events and sweeps.
    sockets: BTreeMap<u64, StandingSocket>,
}

#[derive(Debug)]
struct StandingSocket {
    seen_ns: u64,
    netns: u32,
    cgroup: u64,
    owner: Option<Fact>,
    arm: Option<Fact>,
}

impl StandingFacts {
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
        self.layouts.values().chain(&self.dropped).chain(self.cgroups.values()).chain(of_sockets)
    }

    fn see(&mut self, event: &Event) {
        if let Some(socket) = self.sockets.get_mut(&event.socket) {
            socket.seen_ns = socket.seen_ns.max(event.time_ns);
        } else if self.sockets.len() < SOCKETS_MAX {
            let Event { time_ns: seen_ns, netns, cgroup, .. } = *event;
            let socket = StandingSocket { seen_ns, netns, cgroup, owner: None, arm: None };
            self.sockets.insert(event.socket, socket);
        }
    }

    fn learn(&mut self, fact: &Fact) {
        match fact {
            Fact::Layout { algorithm, .. } => drop(self.layouts.insert(algorithm.clone(), fact.clone())),
            Fact::Dropped { .. } => self.dropped = Some(fact.clone()),
            Fact::Cgroup { cgroup, .. } => drop(self.cgroups.insert(*cgroup, fact.clone())),
            // Owners and arms may arrive after the socket's last event.
            Fact::Owner { socket, .. } => {
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.owner = Some(fact.clone());
                }
            }
            Fact::Arm { socket, given } => {
                if let Some(socket) = self.sockets.get_mut(socket) {
                    socket.arm = given.as_ref().map(|_| fact.clone());
                }
            }
            Fact::Swept { begin_ns, hidden, netns, .. } => {
                // The close event of a missing socket was dropped, or came before an older row of a sweep.
                let netns: HashSet<u32> = netns.iter().copied().collect();
                let was_swept = |inode| *hidden == 0 || netns.contains(&inode);
                self.sockets.retain(|_, socket| socket.seen_ns >= *begin_ns || !was_swept(socket.netns));
                let known: HashSet<u64> = self.sockets.values().map(|socket| socket.cgroup).collect();
                self.cgroups.retain(|cgroup, _| known.contains(cgroup));
            }
            Fact::Cost { .. } => {}
        }
    }
}
