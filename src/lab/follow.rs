//! One tracer for all runs of an experiment: its events are handed to the run in whose namespace they happen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use crate::kernel::netns::Netns;
use crate::trace::event::Event;
use crate::trace::filter::Filter;
use crate::trace::live::{RING_BYTES, Sampling, Tracer, Watcher};

/// How long the tracer waits for events before it looks whether it is still needed.
const POLL: Duration = Duration::from_millis(50);

type Readers = Arc<Mutex<HashMap<u32, Sender<Event>>>>;

/// The running tracer; stopped when dropped.
#[derive(Debug)]
pub struct Follower {
    watcher: Watcher,
    readers: Readers,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The events of some namespaces, for as long as this value lives.
#[derive(Debug)]
pub struct Followed<'a> {
    follower: &'a Follower,
    netns: Vec<u32>,
    events: Receiver<Event>,
    dropped_before: u64,
}

impl Follower {
    /// Starts to trace, at first nothing.
    ///
    /// Errors: those of [`Tracer::start`].
    /// Side effects: programs on the kernel's TCP tracepoints, held by this process alone.
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
                // Bytes that are no event cannot come from our own program of the same build. A run that misses its
                // last event because of them fails (`measure::flow_record`).
                let _ = tracer.poll(POLL, &mut |event| hand_over(&for_thread, event));
            }
        });
        let watcher = started.recv().context("start the tracer")??;
        Ok(Follower { watcher, readers, done, thread: Some(thread) })
    }

    /// Follows the sockets of some namespaces.
    ///
    /// Errors: more namespaces than the tracer can follow.
    pub fn follow<'a>(&'a self, namespaces: &[&Netns]) -> Result<Followed<'a>> {
        let (sender, events) = mpsc::channel();
        let netns: Vec<u32> = namespaces.iter().map(|netns| netns.inode()).collect();
        let followed = Followed { follower: self, netns, events, dropped_before: self.watcher.dropped() };
        for &inode in &followed.netns {
            readers(&self.readers)?.insert(inode, sender.clone());
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
    /// The next event; none when nothing came in time.
    pub fn next(&self, timeout: Duration) -> Option<Event> {
        self.events.recv_timeout(timeout).ok()
    }

    /// Events the tracer had to drop since the follow began, whosever they were.
    pub fn dropped(&self) -> u64 {
        self.follower.watcher.dropped().saturating_sub(self.dropped_before)
    }
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        for inode in &self.netns {
            let _ = self.follower.watcher.unwatch_netns(*inode); // the namespace goes in any case
            if let Ok(mut readers) = readers(&self.follower.readers) {
                readers.remove(inode);
            }
        }
    }
}

fn readers(readers: &Readers) -> Result<MutexGuard<'_, HashMap<u32, Sender<Event>>>> {
    readers.lock().map_err(|_| anyhow!("the tracer's thread ended badly"))
}

fn hand_over(to: &Readers, event: Event) {
    if let Ok(readers) = readers(to)
        && let Some(reader) = readers.get(&event.netns)
    {
        let _ = reader.send(event); // its run is over
    }
}
