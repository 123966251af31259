//! Gathers what events lack: idle sockets, owners, cgroups, layouts, costs and arms of a policy.
//!
//! A thread of its own does the work. It rests ten times as long as it works.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::arms::{ArmBook, ReadArms};
use super::arrival::{Arrival, Fact};
use super::cost::{self, CallbackCost};
use super::event::Event;
use super::filter::Filter;
use super::snapshot;
use shared::catalog::StateLayout;
use shared::kernel::probe::Features;
use shared::kernel::{cgroup, clock, socket};

// Shortest time between two passes of the same work.
const NAMES_EVERY: Duration = Duration::from_secs(2);
const COSTS_EVERY: Duration = Duration::from_secs(2);
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const ARMS_EVERY: Duration = Duration::from_secs(1);
/// Rest after each piece of work, as a multiple of its duration.
const REST: u32 = 10;
/// Longest wait for a request before the thread checks what is due.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Most arrivals per parcel, and most parcels in the queue.
const PARCEL: usize = 1024;
const WAITING_PARCELS: usize = 64;
/// Attempts to find the owner of a socket.
const OWNER_TRIES: u8 = 3;
/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;

/// Finds the state layout of an algorithm by its kernel name.
pub type FindLayout = Box<dyn FnMut(&str) -> Option<StateLayout> + Send>;

/// Provides what the kernel's events lack.
pub struct Layouts {
    pub find: FindLayout,
    pub arms: ReadArms,
}

/// The work of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    /// Only the arms of a policy.
    Arms,
}

#[derive(Debug)]
pub(super) enum EnrichRequest {
    /// The state layout of an algorithm.
    Layout(String),
    /// Owner, cgroup path and arm of a new socket.
    Names { socket: u64, cgroup: u64 },
    /// The connection ended.
    Closed { socket: u64 },
}

pub(super) enum Enrichment {
    Arrivals(Vec<Arrival>),
    Notice(String),
}

struct Gatherer {
    filter: Filter,
    scope: Scope,
    layouts: FindLayout,
    features: Option<Features>,
    arms: ArmBook,
    /// Sockets whose owner is wanted, with the attempts to find it.
    ownerless: HashMap<u64, u8>,
    /// cgroups whose path is wanted.
    nameless: HashSet<u64>,
    /// cgroups whose path was reported.
    named: HashSet<u64>,
    due: [Instant; PIECES],
    to: SyncSender<Enrichment>,
}

/// Kinds of work.
const PIECES: usize = 4;
type GatherWork = fn(&mut Gatherer) -> Result<Vec<Arrival>>;

/// Starts the thread. It ends when the other ends of its channels are dropped.
pub(super) fn start(
    filter: Filter,
    layouts: Layouts,
    scope: Scope,
) -> (Sender<EnrichRequest>, Receiver<Enrichment>, JoinHandle<()>) {
    let (wanted, requests) = mpsc::channel();
    let (to, gathered) = mpsc::sync_channel(WAITING_PARCELS);
    let thread = std::thread::spawn(move || {
        let features = if scope == Scope::All { Features::probe().ok() } else { None };
        Gatherer { features, ..Gatherer::new(filter, layouts, scope, to) }.run(&requests);
    });
    (wanted, gathered, thread)
}

impl Gatherer {
    fn new(filter: Filter, layouts: Layouts, scope: Scope, to: SyncSender<Enrichment>) -> Gatherer {
        Gatherer {
            filter,
            scope,
            layouts: layouts.find,
            features: None,
            arms: ArmBook::new(layouts.arms),
            ownerless: HashMap::new(),
            nameless: HashSet::new(),
            named: HashSet::new(),
            due: [Instant::now(); PIECES],
            to,
        }
    }

    fn run(mut self, requests: &Receiver<EnrichRequest>) {
        loop {
            match requests.recv_timeout(POLL_INTERVAL) {
                Ok(first) => {
                    let waiting: Vec<EnrichRequest> = std::iter::once(first).chain(requests.try_iter()).collect();
                    if waiting.into_iter().try_for_each(|wanted| self.note(wanted)).is_none() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.do_what_is_due().is_none() {
                return;
            }
        }
    }

    /// None: the receiver is gone, here and below.
    fn note(&mut self, wanted: EnrichRequest) -> Option<()> {
        match wanted {
            EnrichRequest::Names { socket, cgroup } => {
                self.arms.meet(socket);
                if self.scope == Scope::All {
                    self.ownerless.insert(socket, 0);
                    if !self.named.contains(&cgroup) {
                        self.nameless.insert(cgroup);
                    }
                }
            }
            EnrichRequest::Closed { socket } => self.arms.leave(socket),
            EnrichRequest::Layout(_) if self.scope == Scope::Arms => {}
            EnrichRequest::Layout(algorithm) => {
                if let Some(layout) = (self.layouts)(&algorithm) {
                    self.send(vec![Arrival::Fact(Fact::Layout { algorithm, layout })])?;
                }
            }
        }
        Some(())
    }

    fn do_what_is_due(&mut self) -> Option<()> {
        let pieces: [(Duration, GatherWork); PIECES] = [
            (ARMS_EVERY, Gatherer::arms),
            (SWEEP_EVERY, Gatherer::sweep),
            (NAMES_EVERY, Gatherer::names),
            (COSTS_EVERY, Gatherer::costs),
        ];
        let wanted = if self.scope == Scope::All { PIECES } else { 1 };
        for (piece, (every, gather)) in pieces.into_iter().enumerate().take(wanted) {
            let begin = Instant::now();
            if begin < self.due[piece] {
                continue;
            }
            match gather(self) {
                Ok(arrivals) => self.send(arrivals)?,
                Err(why) => self.to.send(Enrichment::Notice(format!("{why:#}"))).ok()?,
            }
            let end = Instant::now();
            self.due[piece] = (begin + every).max(end + (end - begin) * REST);
        }
        Some(())
    }

    /// Sends parcels without excess capacity. Splitting the vector would keep the capacity of the whole.
    fn send(&mut self, arrivals: Vec<Arrival>) -> Option<()> {
        let mut rest = arrivals.into_iter();
        loop {
            let parcel: Vec<Arrival> = rest.by_ref().take(PARCEL).collect();
            if parcel.is_empty() {
                return Some(());
            }
            self.to.send(Enrichment::Arrivals(parcel)).ok()?;
        }
    }

    fn arms(&mut self) -> Result<Vec<Arrival>> {
        Ok(self.arms.read()?.into_iter().map(Arrival::Fact).collect())
    }

    fn sweep(&mut self) -> Result<Vec<Arrival>> {
        let begin_ns = clock::monotonic_ns()?;
        let sweep = snapshot::sweep(&self.filter)?;
        self.forget_names(&sweep.sockets);
        let (time_ns, hidden) = (clock::monotonic_ns()?, sweep.seen.hidden_at_least() as u64);
        let swept = Fact::Swept { begin_ns, time_ns, hidden, netns: sweep.seen.namespaces };
        let rows = sweep.sockets.into_iter().map(Arrival::Event);
        Ok(rows.chain([Arrival::Fact(swept)]).collect())
    }

    /// Forgets the cgroups without a socket in the sweep, as the receivers do.
    fn forget_names(&mut self, found: &[Event]) {
        let found: HashSet<u64> = found.iter().map(|event| event.cgroup).collect();
        self.named.retain(|cgroup| found.contains(cgroup));
    }

    /// Owners and cgroups of new sockets.
    fn names(&mut self) -> Result<Vec<Arrival>> {
        let mut facts = Vec::new();
        if !self.ownerless.is_empty() {
            let found = socket::owners()?.into_iter().filter(|owned| self.ownerless.remove(&owned.cookie).is_some());
            let owner = |owned: socket::ConnectionOwner| Fact::Owner {
                socket: owned.cookie,
                pid: owned.pid,
                command: owned.command,
            };
            facts.extend(found.map(owner).map(Arrival::Fact));
            // A connection has no owner before it is accepted and after it is closed.
            self.ownerless.retain(|_, tries| {
                *tries += 1;
                *tries < OWNER_TRIES
            });
        }
        if !self.nameless.is_empty() {
            // Fails without cgroup v2.
            let found = cgroup::paths(CGROUPS_MAX).unwrap_or_default().into_iter();
            for (cgroup, path) in found.filter(|(cgroup, _)| self.nameless.contains(cgroup)) {
                self.named.insert(cgroup);
                facts.push(Arrival::Fact(Fact::Cgroup { cgroup, path }));
            }
            self.nameless.clear();
        }
        Ok(facts)
    }

    fn costs(&mut self) -> Result<Vec<Arrival>> {
        let Some(features) = &self.features else { return Ok(Vec::new()) };
        let time_ns = clock::monotonic_ns()?;
        let fact = |cost: CallbackCost| {
            let CallbackCost { algorithm, callback, calls, nanoseconds } = cost;
            Arrival::Fact(Fact::Cost { time_ns, algorithm, callback, calls, nanoseconds })
        };
        Ok(cost::costs(features)?.into_iter().map(fact).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::model::live::samples::sample;

    fn gatherer() -> (Gatherer, Receiver<Enrichment>) {
        let (to, gathered) = mpsc::sync_channel(WAITING_PARCELS);
        let layouts = Layouts { find: Box::new(|_| None), arms: Box::new(|| Ok(None)) };
        (Gatherer::new(Filter::default(), layouts, Scope::All, to), gathered)
    }

    #[test]
    fn parcels_have_no_excess_capacity() {
        let (mut gatherer, gathered) = gatherer();
        gatherer.send((0..10 * PARCEL as u64 + 1).map(|at| Arrival::Event(sample(at, 1))).collect()).unwrap();
        let parcels = gathered.try_iter().map(|gathered| match gathered {
            Enrichment::Arrivals(arrivals) => arrivals,
            Enrichment::Notice(notice) => panic!("{notice}"),
        });
        let sizes: Vec<[usize; 2]> = parcels.map(|parcel| [parcel.len(), parcel.capacity()]).collect();
        assert_eq!(sizes.iter().map(|[len, _]| len).sum::<usize>(), 10 * PARCEL + 1);
        assert!(sizes.iter().all(|[len, capacity]| *len <= PARCEL && *capacity <= PARCEL), "{sizes:?}");
    }

    #[test]
    fn cgroup_without_a_socket_in_a_sweep_is_named_again_with_its_next_socket() {
        let (mut gatherer, _gathered) = gatherer();
        gatherer.named = HashSet::from([7, 8]);
        gatherer.forget_names(&[Event { cgroup: 7, ..sample(1, 1) }]);
        for cgroup in [7, 8] {
            gatherer.note(EnrichRequest::Names { socket: 2, cgroup }).unwrap();
        }
        assert_eq!(gatherer.nameless, HashSet::from([8]));
    }
}
