//! What events do not carry: sockets that send nothing, owners, cgroups, layouts, costs and arms of a policy, gathered on a
//! thread that rests ten times as long as it works.

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
use crate::catalog::StateLayout;
use crate::kernel::probe::Features;
use crate::kernel::{cgroup, clock, socket};

/// Shortest time between two looks at the same thing.
const NAMES_EVERY: Duration = Duration::from_secs(2);
const COSTS_EVERY: Duration = Duration::from_secs(2);
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const ARMS_EVERY: Duration = Duration::from_secs(1);
/// Rest after each piece of work, in times of what it took.
const REST: u32 = 10;
/// How soon the thread sees that it is not needed any more.
const NAP: Duration = Duration::from_millis(100);
/// Arrivals handed over at once, and such parcels that may wait.
const PARCEL: usize = 1024;
const WAITING_PARCELS: usize = 64;
/// How often the owner of a socket is looked for.
const OWNER_TRIES: u8 = 3;
/// More cgroups than a host has.
const CGROUPS_MAX: usize = 100_000;

/// Finds what an algorithm keeps in a socket, by its kernel name.
pub type FindLayout = Box<dyn FnMut(&str) -> Option<StateLayout> + Send>;

/// How a host that is watched is asked for what the kernel's events do not say.
pub struct Layouts {
    /// Finds what an algorithm keeps in a socket.
    pub find: FindLayout,
    /// Reads which arm of a policy each connection is in.
    pub arms: ReadArms,
}

/// Which work the thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    All,
    /// Arms of a policy alone: for whoever shows events as they are.
    Arms,
}

#[derive(Debug)]
pub(super) enum GatherRequest {
    /// What an algorithm keeps in a socket.
    Layout(String),
    /// Owner, name of the cgroup and arm of a socket that was seen for the first time.
    Names { socket: u64, cgroup: u64 },
    /// Nothing more: the connection ended.
    Nothing { socket: u64 },
}

pub(super) enum Gathered {
    Arrivals(Vec<Arrival>),
    Notice(String),
}

struct Gatherer {
    filter: Filter,
    scope: Scope,
    layouts: FindLayout,
    features: Option<Features>,
    arms: ArmBook,
    /// Sockets whose owner is wanted, and how often it was looked for.
    ownerless: HashMap<u64, u8>,
    /// cgroups whose name is wanted.
    nameless: HashSet<u64>,
    /// cgroups whose name was told, and is still known to those who were told.
    named: HashSet<u64>,
    due: [Instant; PIECES],
    to: SyncSender<Gathered>,
}

/// Pieces of the thread's work.
const PIECES: usize = 4;
type Piece = fn(&mut Gatherer) -> Result<Vec<Arrival>>;

/// Whoever waits for what is gathered has gone.
struct Gone;

/// Starts the thread; it ends when both ends of its channels are dropped.
pub(super) fn start(
    filter: Filter,
    layouts: Layouts,
    scope: Scope,
) -> (Sender<GatherRequest>, Receiver<Gathered>, JoinHandle<()>) {
    let (wanted, requests) = mpsc::channel();
    let (to, gathered) = mpsc::sync_channel(WAITING_PARCELS);
    let thread = std::thread::spawn(move || {
        let features = if scope == Scope::All { Features::probe().ok() } else { None };
        Gatherer { features, ..Gatherer::new(filter, layouts, scope, to) }.run(&requests);
    });
    (wanted, gathered, thread)
}

impl Gatherer {
    fn new(filter: Filter, layouts: Layouts, scope: Scope, to: SyncSender<Gathered>) -> Gatherer {
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

    fn run(mut self, requests: &Receiver<GatherRequest>) {
        loop {
            match requests.recv_timeout(NAP) {
                Ok(first) => {
                    let waiting: Vec<GatherRequest> = std::iter::once(first).chain(requests.try_iter()).collect();
                    if waiting.into_iter().try_for_each(|wanted| self.note(wanted)).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.do_what_is_due().is_err() {
                return;
            }
        }
    }

    fn note(&mut self, wanted: GatherRequest) -> Result<(), Gone> {
        match wanted {
            GatherRequest::Names { socket, cgroup } => {
                self.arms.meet(socket);
                if self.scope == Scope::All {
                    self.ownerless.insert(socket, 0);
                    if !self.named.contains(&cgroup) {
                        self.nameless.insert(cgroup);
                    }
                }
            }
            GatherRequest::Nothing { socket } => self.arms.leave(socket),
            GatherRequest::Layout(_) if self.scope == Scope::Arms => {}
            GatherRequest::Layout(algorithm) => {
                if let Some(layout) = (self.layouts)(&algorithm) {
                    self.send(vec![Arrival::Fact(Fact::Layout { algorithm, layout })])?;
                }
            }
        }
        Ok(())
    }

    fn do_what_is_due(&mut self) -> Result<(), Gone> {
        let pieces: [(Duration, Piece); PIECES] = [
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
                Err(why) => self.to.send(Gathered::Notice(format!("{why:#}"))).map_err(|_| Gone)?,
            }
            let end = Instant::now();
            self.due[piece] = (begin + every).max(end + (end - begin) * REST);
        }
        Ok(())
    }

    /// A parcel has room for its own arrivals only: what remains of a vector that is split keeps the room of all.
    fn send(&mut self, arrivals: Vec<Arrival>) -> Result<(), Gone> {
        let mut rest = arrivals.into_iter();
        loop {
            let parcel: Vec<Arrival> = rest.by_ref().take(PARCEL).collect();
            if parcel.is_empty() {
                return Ok(());
            }
            self.to.send(Gathered::Arrivals(parcel)).map_err(|_| Gone)?;
        }
    }

    /// Arms of the sockets that were met, as far as they are not told already.
    fn arms(&mut self) -> Result<Vec<Arrival>> {
        Ok(self.arms.read()?.into_iter().map(Arrival::Fact).collect())
    }

    fn sweep(&mut self) -> Result<Vec<Arrival>> {
        let begin_ns = clock::monotonic_ns()?;
        let sweep = snapshot::sweep(&self.filter)?;
        self.forget_names(&sweep.sockets);
        let (time_ns, hidden) = (clock::monotonic_ns()?, sweep.seen.hidden as u64);
        let swept = Fact::Swept { begin_ns, time_ns, hidden, netns: sweep.seen.namespaces };
        let rows = sweep.sockets.into_iter().map(Arrival::Event);
        Ok(rows.chain([Arrival::Fact(swept)]).collect())
    }

    /// Forgets that cgroups were named in which a sweep found nothing: whoever was told forgets their names with it.
    fn forget_names(&mut self, found: &[Event]) {
        let found: HashSet<u64> = found.iter().map(|event| event.cgroup).collect();
        self.named.retain(|cgroup| found.contains(cgroup));
    }

    /// Owners and cgroups of the sockets that were met since.
    fn names(&mut self) -> Result<Vec<Arrival>> {
        let mut facts = Vec::new();
        if !self.ownerless.is_empty() {
            let found = socket::owners()?.into_iter().filter(|owned| self.ownerless.remove(&owned.cookie).is_some());
            let owner = |owned: socket::SocketOwner| Fact::Owner {
                socket: owned.cookie,
                pid: owned.pid,
                command: owned.command,
            };
            facts.extend(found.map(owner).map(Arrival::Fact));
            // A connection that nobody has accepted yet has no owner; one that was closed has none any more.
            self.ownerless.retain(|_, tries| {
                *tries += 1;
                *tries < OWNER_TRIES
            });
        }
        if !self.nameless.is_empty() {
            // Without cgroup v2 sockets are in none.
            let found = cgroup::paths(CGROUPS_MAX).unwrap_or_default().into_iter();
            for (cgroup, path) in found.filter(|(cgroup, _)| self.nameless.contains(cgroup)) {
                self.named.insert(cgroup);
                facts.push(Arrival::Fact(Fact::Cgroup { cgroup, path }));
            }
            self.nameless.clear();
        }
        Ok(facts)
    }

    /// What every algorithm that is a BPF program cost so far; nothing while the kernel does not count.
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
    use crate::model::live::samples::sample;

    #[test]
    fn parcels_take_no_more_memory_than_what_is_in_them() {
        let (to, gathered) = mpsc::sync_channel(WAITING_PARCELS);
        let layouts = Layouts { find: Box::new(|_| None), arms: Box::new(|| Ok(None)) };
        let mut gatherer = Gatherer::new(Filter::default(), layouts, Scope::All, to);
        let arrivals = (0..10 * PARCEL as u64 + 1).map(|at| Arrival::Event(sample(at, 1))).collect();
        assert!(gatherer.send(arrivals).is_ok());
        let parcels = gathered.try_iter().map(|gathered| match gathered {
            Gathered::Arrivals(arrivals) => arrivals,
            Gathered::Notice(notice) => panic!("{notice}"),
        });
        let sizes: Vec<[usize; 2]> = parcels.map(|parcel| [parcel.len(), parcel.capacity()]).collect();
        assert_eq!(sizes.iter().map(|[len, _]| len).sum::<usize>(), 10 * PARCEL + 1);
        assert!(sizes.iter().all(|[len, capacity]| *len <= PARCEL && *capacity <= PARCEL), "{sizes:?}");
    }

    #[test]
    fn cgroup_in_which_a_sweep_found_nothing_is_named_again_with_its_next_socket() {
        let (to, _gathered) = mpsc::sync_channel(WAITING_PARCELS);
        let layouts = Layouts { find: Box::new(|_| None), arms: Box::new(|| Ok(None)) };
        let mut gatherer = Gatherer::new(Filter::default(), layouts, Scope::All, to);
        gatherer.named = HashSet::from([7, 8]);
        gatherer.forget_names(&[Event { cgroup: 7, ..sample(1, 1) }]);
        for cgroup in [7, 8] {
            assert!(gatherer.note(GatherRequest::Names { socket: 2, cgroup }).is_ok());
        }
        assert_eq!(gatherer.nameless, HashSet::from([8]));
    }
}
