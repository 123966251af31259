//! The live source: the tracer's events, sweeps for idle sockets, and facts about both.

use std::collections::HashSet;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::arrival::{Arrival, Fact};
use super::event::{Event, EventKind};
use super::filter::Filter;
use super::gather::{self, EnrichRequest, Enrichment, Layouts, Scope};
use super::live::{Sampling, Tracer};
use super::source::EventSource;
use shared::kernel::clock;
use shared::kernel::struct_ops::Statistics;

/// Limit of remembered sockets; beyond it, all are forgotten and asked for again. Some are remembered after their end,
/// because a sweep may show a socket after its close event, and close events may be lost.
const SEEN_MAX: usize = 400_000;
/// Longest wait for events before gathered facts are passed on.
const SLICE: Duration = Duration::from_millis(50);

pub struct WatchSettings {
    pub filter: Filter,
    /// Time between samples of one socket.
    pub interval: Duration,
    /// Size of the ring buffer.
    pub ring_bytes: u32,
    pub layouts: Layouts,
}

/// Watches this host until dropped.
pub struct Watch {
    tracer: Tracer,
    wanted: Option<Sender<EnrichRequest>>,
    gathered: Receiver<Enrichment>,
    thread: Option<std::thread::JoinHandle<()>>,
    seen: HashSet<u64>,
    algorithms: HashSet<String>,
    dropped: u64,
    notices: Vec<String>,
    statistics: Option<Statistics>,
}

impl Watch {
    /// Starts to watch.
    ///
    /// Side effects: those of [`Tracer::start`]; a thread that reads sockets, processes and cgroups, and uses at most a
    /// tenth of a processor.
    ///
    /// # Errors
    /// Those of [`Tracer::start`].
    pub fn start(settings: WatchSettings) -> Result<Watch> {
        Watch::start_gathering(settings, Scope::All)
    }

    /// Like [`Watch::start`], with only the work of `scope` for the thread.
    ///
    /// # Errors
    /// Those of [`Tracer::start`].
    pub fn start_gathering(settings: WatchSettings, scope: Scope) -> Result<Watch> {
        let tracer = Tracer::start(&settings.filter, Sampling::ByClock(settings.interval), settings.ring_bytes)?;
        let notices = tracer.notices().to_vec();
        let (wanted, gathered, thread) = gather::start(settings.filter, settings.layouts, scope);
        let (seen, algorithms) = (HashSet::new(), HashSet::new());
        let (wanted, thread) = (Some(wanted), Some(thread));
        Ok(Watch { tracer, wanted, gathered, thread, seen, algorithms, dropped: 0, notices, statistics: None })
    }

    /// Requests facts about a new socket or algorithm.
    fn meet(&mut self, event: &Event) {
        let Some(wanted) = &self.wanted else { return };
        if !self.algorithms.contains(&event.algorithm) {
            self.algorithms.insert(event.algorithm.clone());
            let _ = wanted.send(EnrichRequest::Layout(event.algorithm.clone())); // fails if the thread has ended
        }
        if event.kind == EventKind::Close {
            if self.seen.remove(&event.socket) {
                let _ = wanted.send(EnrichRequest::Closed { socket: event.socket });
            }
        } else if !self.seen.contains(&event.socket) {
            if self.seen.len() >= SEEN_MAX {
                self.seen.clear();
            }
            self.seen.insert(event.socket);
            let _ = wanted.send(EnrichRequest::Names { socket: event.socket, cgroup: event.cgroup });
        }
    }

    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    fn take_gathered(&mut self, take: &mut dyn FnMut(Arrival)) {
        while let Ok(gathered) = self.gathered.try_recv() {
            match gathered {
                Enrichment::Arrivals(arrivals) => arrivals.into_iter().for_each(|arrival| {
                    if let Arrival::Event(event) = &arrival {
                        self.meet(event);
                    }
                    take(arrival);
                }),
                Enrichment::Notice(notice) if !self.notices.contains(&notice) => self.notices.push(notice),
                Enrichment::Notice(_) => {}
            }
        }
    }
}

impl EventSource for Watch {
    fn poll(&mut self, timeout: Duration, take: &mut dyn FnMut(Arrival)) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let mut events = Vec::new();
            let wait = deadline.saturating_duration_since(Instant::now()).min(SLICE);
            self.tracer.poll(wait, &mut |event| events.push(event))?;
            for event in events {
                self.meet(&event);
                take(Arrival::Event(event));
            }
            self.take_gathered(take);
            let [full, unfollowed] = self.tracer.watcher().drops();
            if full + unfollowed != self.dropped {
                self.dropped = full + unfollowed;
                let (time_ns, unfollowed) = (self.now_ns(), Some(unfollowed));
                take(Arrival::Fact(Fact::Dropped { time_ns, events: self.dropped, unfollowed }));
            }
            if Instant::now() >= deadline {
                return Ok(());
            }
        }
    }

    fn now_ns(&self) -> u64 {
        clock::monotonic_ns().unwrap_or(0)
    }

    fn title(&self) -> String {
        nix::sys::utsname::uname().map_or_else(
            |_| "live".to_owned(),
            |name| format!("live: {}, Linux {}", name.nodename().display(), name.release().display()),
        )
    }

    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    fn is_over(&self) -> bool {
        false
    }

    fn counts_costs(&self) -> bool {
        self.statistics.is_some()
    }

    fn count_costs(&mut self, counts: bool) -> Result<()> {
        self.statistics = if counts { Some(Statistics::begin()?) } else { None };
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.wanted = None; // ends an idle thread
        self.gathered = std::sync::mpsc::sync_channel(0).1; // ends a thread that is sending
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
