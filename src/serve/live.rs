//! The thread that watches the source and tells the pages: one frame per tick and view, whoever reads it or does not.
//!
//! Nothing here waits for a page: a queue that is full loses its oldest frame, and whoever reads it is told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use tokio::sync::{broadcast, oneshot};

use super::exporter::Shelf;
use super::flow::Flow;
use super::frame::{self, Algorithms, Status};
use super::table::Table;
use crate::model::live::Live;
use crate::trace::arrival::Arrival;
use crate::trace::source::Source;

/// Frames that wait for one page.
const WAITING_FRAMES: usize = 4;
/// Questions that wait for the thread: more than there are pages.
const WAITING_ASKS: usize = 256;
/// Sockets that pages may watch at the same time.
const FLOWS_MAX: usize = 256;
/// How soon a question is answered.
const POLL: Duration = Duration::from_millis(100);

/// What a page watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Sockets,
    Algorithms,
    Flow(u64),
}

/// What a page is to begin with, and what comes after.
#[derive(Debug)]
pub(super) struct Joined {
    pub first: Bytes,
    pub frames: broadcast::Receiver<Bytes>,
}

/// What pages want of the thread.
#[derive(Debug)]
pub(super) enum Ask {
    /// To watch a view; no answer when too many sockets are watched already.
    Join(View, oneshot::Sender<Joined>),
    /// A recording: from this moment on, milliseconds.
    Seek(f64),
    /// A recording: so fast.
    Speed(f64),
}

/// Makes the source on the thread that watches it.
pub type MakeSource = Box<dyn FnOnce() -> Result<Box<dyn Source>> + Send>;

/// The way to ask; the second end belongs to the thread.
pub(super) fn channel() -> (SyncSender<Ask>, Receiver<Ask>) {
    sync_channel(WAITING_ASKS)
}

/// The thread's state.
pub(super) struct Watching {
    source: Box<dyn Source>,
    live: Live,
    asks: Receiver<Ask>,
    refresh: Duration,
    shelf: Shelf,
    table: Table,
    sockets: broadcast::Sender<Bytes>,
    algorithms: broadcast::Sender<Bytes>,
    flows: BTreeMap<u64, (Flow, broadcast::Sender<Bytes>)>,
    was_restarted: bool,
}

impl Watching {
    pub(super) fn new(source: Box<dyn Source>, asks: Receiver<Ask>, refresh: Duration, shelf: Shelf) -> Watching {
        let queue = || broadcast::channel(WAITING_FRAMES).0;
        let (sockets, algorithms, flows) = (queue(), queue(), BTreeMap::new());
        let (live, table) = (Live::default(), Table::default());
        Watching { source, live, asks, refresh, shelf, table, sockets, algorithms, flows, was_restarted: false }
    }

    /// Watches until `stop` is set.
    ///
    /// Errors: the source is broken.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Result<()> {
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let wait = due.saturating_duration_since(Instant::now()).min(POLL);
            self.take_in(wait)?;
            while let Ok(ask) = self.asks.try_recv() {
                self.answer(ask);
            }
            if Instant::now() >= due {
                due = Instant::now() + self.refresh;
                self.tick();
            }
        }
        Ok(())
    }

    fn take_in(&mut self, wait: Duration) -> Result<()> {
        let (live, was_restarted) = (&mut self.live, &mut self.was_restarted);
        self.source.poll(wait, &mut |arrival| {
            *was_restarted |= matches!(arrival, Arrival::Restart);
            live.apply(arrival);
        })
    }

    fn answer(&mut self, ask: Ask) {
        match ask {
            // Who asked may have gone.
            Ask::Join(view, to) => drop(self.join(view).map(|joined| to.send(joined))),
            Ask::Seek(at_ms) => {
                if let Some(playback) = self.source.playback() {
                    playback.seek((at_ms.max(0.0) * 1e6) as u64);
                }
            }
            Ask::Speed(speed) => {
                if let Some(playback) = self.source.playback() {
                    playback.set_speed(speed);
                }
            }
        }
    }

    fn join(&mut self, view: View) -> Option<Joined> {
        let status = Status::of(&self.live, self.source.as_mut());
        Some(match view {
            View::Sockets => {
                if self.sockets.receiver_count() == 0 {
                    self.table.changes(&self.live, &status); // nobody knew anything
                }
                Joined { first: self.table.whole(&self.live, &status), frames: self.sockets.subscribe() }
            }
            View::Algorithms => Joined { first: self.algorithms_frame(&status), frames: self.algorithms.subscribe() },
            View::Flow(socket) => {
                if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&socket) {
                    return None;
                }
                let begin = || (Flow::new(socket), broadcast::channel(WAITING_FRAMES).0);
                let (flow, queue) = self.flows.entry(socket).or_insert_with(begin);
                Joined { first: flow.whole(&self.live, &status), frames: queue.subscribe() }
            }
        })
    }

    fn algorithms_frame(&self, status: &Status) -> Bytes {
        frame::encode("algorithms", &Algorithms::of(&self.live, status))
    }

    /// Tells every view that somebody watches; a frame that nobody takes is no error.
    fn tick(&mut self) {
        self.live.advance(self.source.now_ns());
        self.shelf.note_dropped(self.live.counts().dropped);
        let status = Status::of(&self.live, self.source.as_mut());
        if self.sockets.receiver_count() > 0 {
            let _ = self.sockets.send(self.table.changes(&self.live, &status));
        } else {
            self.table.clear();
        }
        if self.algorithms.receiver_count() > 0 {
            let _ = self.algorithms.send(self.algorithms_frame(&status));
        }
        self.flows.retain(|_, (_, queue)| queue.receiver_count() > 0);
        self.live.hold(self.flows.keys().copied());
        for (flow, queue) in self.flows.values_mut() {
            if self.was_restarted {
                flow.restart();
                let _ = queue.send(flow.whole(&self.live, &status));
            }
            let _ = queue.send(flow.moments(&self.live, &status));
        }
        self.was_restarted = false;
    }
}
