//! One tracer for all runs of an experiment: each run gets the events of its namespaces.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

use host::trace::filter::Filter;
use host::trace::limited::SocketLimits;
use host::trace::live::{RING_BYTES, Sampling, Tracer, Watcher};
use shared::event::{Event, EventKind};
use shared::kernel::netns::Netns;

/// How often the tracer checks whether to end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An event; a close event comes with what limited its socket.
pub type Seen = (Event, Option<SocketLimits>);
/// Maps a namespace's inode to the run that reads its events.
type Readers = Arc<Mutex<HashMap<u32, Sender<Seen>>>>;

/// A running tracer; dropping it stops the tracer.
#[derive(Debug)]
pub struct Follower {
    watcher: Watcher,
    readers: Readers,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The events of some namespaces as long as this value lives.
#[derive(Debug)]
pub struct Followed<'a> {
    follower: &'a Follower,
    netns: Vec<u32>,
    events: Receiver<Seen>,
    dropped_before: u64,
}

impl Follower {
    /// Starts a tracer that follows no namespace yet.
    ///
    /// Side effects: programs on the kernel's TCP tracepoints, which end with this process.
    ///
    /// # Errors
    /// Those of [`Tracer::start`].
    pub fn start(interval: Duration) -> Result<Follower> {
        let readers = Readers::default();
        let done = Arc::new(AtomicBool::new(false));
        let (to_starter, started) = mpsc::channel();
        let (for_thread, until) = (Arc::clone(&readers), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            let filter = Filter { netns: Some(Default::default()), ..Filter::default() };
            let tracer = match Tracer::start(&filter, Sampling::ByPacket(interval), RING_BYTES) {
                Ok(tracer) => tracer,
                Err(error) => return drop(to_starter.send(Err(error))),
            };
            let _ = to_starter.send(Ok(tracer.watcher().clone()));
            while !until.load(Ordering::Relaxed) {
                // Our own program of the same build sends no invalid bytes. If it did, a run without its last event
                // would fail in `measure::flow_record`.
                let _ = tracer.poll(POLL_INTERVAL, &mut |event| {
                    let limits = (event.kind == EventKind::Close).then(|| tracer.take_limits(event.socket)).flatten();
                    if let Some(reader) = lock(&for_thread).get(&event.netns) {
                        let _ = reader.send((event, limits)); // fails if its run is over
                    }
                });
            }
        });
        let watcher = started.recv().context("start the tracer")??;
        Ok(Follower { watcher, readers, done, thread: Some(thread) })
    }

    /// Follows the sockets of some namespaces.
    ///
    /// # Errors
    /// More namespaces than the tracer can follow.
    pub fn follow<'a>(&'a self, namespaces: &[&Netns]) -> Result<Followed<'a>> {
        let (sender, events) = mpsc::channel();
        let netns: Vec<u32> = namespaces.iter().map(|netns| netns.inode()).collect();
        let followed = Followed { follower: self, netns, events, dropped_before: self.watcher.dropped() };
        for &inode in &followed.netns {
            lock(&self.readers).insert(inode, sender.clone());
            self.watcher.watch_netns(inode).context("follow a namespace")?;
        }
        Ok(followed)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Followed<'_> {
    /// The next event; `None` after the timeout.
    pub fn next(&self, timeout: Duration) -> Option<Seen> {
        self.events.recv_timeout(timeout).ok()
    }

    /// Events of any namespace that the tracer dropped since this began.
    pub fn dropped(&self) -> u64 {
        self.follower.watcher.dropped().saturating_sub(self.dropped_before)
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        for inode in &self.netns {
            let _ = self.follower.watcher.unwatch_netns(*inode); // fails if the tracer has ended
            lock(&self.follower.readers).remove(inode);
        }
    }
}

fn lock(readers: &Readers) -> MutexGuard<'_, HashMap<u32, Sender<Seen>>> {
    readers.lock().unwrap_or_else(PoisonError::into_inner) // valid after every step
}
