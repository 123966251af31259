//! The thread that watches the source and sends the pages one frame per tick and view.
//!
//! It never waits for a page. A full queue loses its oldest frame, and its reader learns how many were lost.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::oneshot;

use super::exporter::SharedSnapshot;
use super::flow::WatchedFlow;
use super::frame::{self, Status};
use super::heartbeat::{Heartbeat, ServerPart};
use super::overview::{self, Overview, Sampler};
use super::past::{self, PastQuantity};
use super::subscribers::{Joined, Subscribers};
use super::table::SocketTable;
use crate::trace::source::EventSource;
use shared::arrival::Arrival;
use shared::model::live::Live;

/// Length of the queue of requests, more than the number of pages.
const WAITING_ASKS: usize = 256;
/// Sockets that pages may watch at the same time.
const FLOWS_MAX: usize = 256;
/// Requests answered before the source is polled again, because the source must not wait for pages.
const ASKS_PER_TURN: usize = 16;
/// Shortest step of a recording's overview.
const RECORDED_STEP_NS: u64 = 1_000_000_000;
/// A request waits at most this long for the source.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Overview,
    Sockets,
    Algorithms,
    Flow(u64),
}

#[derive(Debug)]
pub(super) enum ViewRequest {
    /// Starts watching a view. The sender is dropped if too many sockets are watched already.
    Join(View, oneshot::Sender<Joined>),
    Past(PastQuantity, Vec<u64>, oneshot::Sender<Bytes>),
    Play(Play),
}

/// Controls the playback of a recording.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Play {
    speed: Option<f64>,
    seek_ms: Option<f64>,
}

/// Creates the source on the thread that watches it.
pub type MakeSource = Box<dyn FnOnce() -> Result<Box<dyn EventSource>> + Send>;

pub(super) fn channel() -> (SyncSender<ViewRequest>, Receiver<ViewRequest>) {
    sync_channel(WAITING_ASKS)
}

pub(super) struct Watching {
    source: Box<dyn EventSource>,
    live: Live,
    requests: Receiver<ViewRequest>,
    refresh: Duration,
    snapshot: SharedSnapshot,
    table: SocketTable,
    overview: Subscribers,
    sockets: Subscribers,
    algorithms: Subscribers,
    flows: BTreeMap<u64, (WatchedFlow, Subscribers)>,
    was_restarted: bool,
    /// Counts the sockets of a recording. `None` for this host, whose sockets the kernel counts.
    sampler: Option<Sampler>,
}

impl Watching {
    pub(super) fn new(
        mut source: Box<dyn EventSource>,
        requests: Receiver<ViewRequest>,
        refresh: Duration,
        snapshot: SharedSnapshot,
    ) -> Watching {
        let sampler = source.playback().map(|playback| {
            let (begin_ns, end_ns) = playback.span_ns();
            let step_ns = end_ns.saturating_sub(begin_ns) / overview::SLOTS as u64;
            *snapshot.overview() = Overview::new(step_ns.clamp(RECORDED_STEP_NS, overview::STEP_NS));
            Sampler::default()
        });
        Watching {
            source,
            live: Live::default(),
            requests,
            refresh,
            snapshot,
            table: SocketTable::default(),
            overview: Subscribers::new(),
            sockets: Subscribers::new(),
            algorithms: Subscribers::new(),
            flows: BTreeMap::new(),
            was_restarted: false,
            sampler,
        }
    }

    /// Runs until `stop` is set.
    ///
    /// # Errors
    /// The source is broken.
    pub(super) fn run(mut self, stop: &AtomicBool, heartbeat: &Heartbeat) -> Result<()> {
        let mut due = Instant::now();
        let mut is_asked = false;
        while !stop.load(Ordering::Relaxed) {
            heartbeat.beat(ServerPart::Page, Duration::ZERO);
            let rest = due.saturating_duration_since(Instant::now()).min(POLL_INTERVAL);
            self.take_in(if is_asked { Duration::ZERO } else { rest })?;
            is_asked = self.answer_some();
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

    /// Answers some requests; returns whether more may be waiting.
    fn answer_some(&mut self) -> bool {
        for _ in 0..ASKS_PER_TURN {
            let Ok(ask) = self.requests.try_recv() else { return false };
            self.answer(ask);
        }
        true
    }

    fn answer(&mut self, ask: ViewRequest) {
        match ask {
            // The page may be gone already.
            ViewRequest::Join(view, to) => drop(self.join(view).map(|joined| to.send(joined))),
            ViewRequest::Past(quantity, sockets, to) => drop(to.send(past::document(&self.live, quantity, &sockets))),
            ViewRequest::Play(Play { speed, seek_ms }) => {
                let Some(playback) = self.source.playback() else { return };
                speed.into_iter().for_each(|speed| playback.set_speed(speed));
                seek_ms.into_iter().for_each(|at_ms| playback.seek((at_ms.max(0.0) * 1e6) as u64));
            }
        }
    }

    fn join(&mut self, view: View) -> Option<Joined> {
        let Watching { source, live, table, overview, sockets, algorithms, flows, snapshot, .. } = self;
        let (live, refresh) = (&*live, self.refresh);
        let mut status = || Status::of(live, source.as_mut(), refresh);
        Some(match view {
            View::Overview => overview.join(|| snapshot.overview().whole(&status())),
            View::Sockets => {
                if sockets.is_empty() && sockets.whole.is_none() {
                    table.changes(live, &status()); // fills the table
                }
                sockets.join(|| table.whole(live, &status()))
            }
            View::Algorithms => algorithms.join(|| frame::algorithms(live, &status())),
            View::Flow(socket) => {
                if flows.len() >= FLOWS_MAX && !flows.contains_key(&socket) {
                    return None;
                }
                let (flow, subscribers) =
                    flows.entry(socket).or_insert_with(|| (WatchedFlow { socket, sent_ns: 0 }, Subscribers::new()));
                subscribers.join(|| flow.whole(live, &status()))
            }
        })
    }

    /// Sends a frame to every view that has pages.
    fn tick(&mut self) {
        self.live.advance(self.source.now_ns());
        self.snapshot.note_dropped(self.live.counts().dropped);
        let status = Status::of(&self.live, self.source.as_mut(), self.refresh);
        self.tell_overview(&status);
        self.sockets.whole = None;
        if self.sockets.is_empty() {
            self.table.clear();
        } else {
            self.sockets.tell(self.table.changes(&self.live, &status));
        }
        self.algorithms.whole = None;
        if !self.algorithms.is_empty() {
            let frame = frame::algorithms(&self.live, &status);
            self.algorithms.whole = Some(frame.clone());
            self.algorithms.tell(frame);
        }
        self.flows.retain(|_, (_, subscribers)| !subscribers.is_empty());
        self.live.hold(self.flows.keys().copied());
        for (flow, subscribers) in self.flows.values_mut() {
            subscribers.whole = None;
            if self.was_restarted {
                flow.sent_ns = 0;
                subscribers.tell(flow.whole(&self.live, &status));
            }
            subscribers.tell(flow.moments(&self.live, &status));
        }
        self.was_restarted = false;
    }

    fn tell_overview(&mut self, status: &Status) {
        let mut overview = self.snapshot.overview();
        if let Some(sampler) = &mut self.sampler {
            if self.was_restarted {
                *sampler = Sampler::default();
                overview.restart();
            }
            overview.observe(self.live.now_ns(), sampler.look(&self.live));
        }
        self.overview.whole = None;
        if !self.overview.is_empty() {
            let is_void = self.was_restarted;
            self.overview.tell(if is_void { overview.whole(status) } else { overview.recent(status) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::serve::frame::data;
    use crate::trace::source::Playback;
    use shared::model::live::samples::{SECOND, arrival, sample};

    /// Turns of the thread before the source ends it.
    const TURNS: usize = 4;

    /// A source that logs its calls: `p` for a poll without waiting, `w` with waiting, `s` for a seek.
    #[derive(Default)]
    struct Noting {
        log: Arc<Mutex<String>>,
        stop: Arc<AtomicBool>,
    }

    impl EventSource for Noting {
        fn poll(&mut self, timeout: Duration, _: &mut dyn FnMut(Arrival)) -> Result<()> {
            let mut log = self.log.lock().unwrap();
            log.push(if timeout.is_zero() { 'p' } else { 'w' });
            self.stop.store(log.matches(['p', 'w']).count() >= TURNS, Ordering::Relaxed);
            Ok(())
        }

        fn now_ns(&self) -> u64 {
            SECOND
        }

        fn title(&self) -> String {
            "noting".into()
        }

        fn notices(&self) -> Vec<String> {
            Vec::new()
        }

        fn is_over(&self) -> bool {
            false
        }

        fn playback(&mut self) -> Option<&mut dyn Playback> {
            Some(self)
        }
    }

    impl Playback for Noting {
        fn span_ns(&self) -> (u64, u64) {
            (0, SECOND)
        }

        fn speed(&self) -> f64 {
            1.0
        }

        fn set_speed(&mut self, _: f64) {}

        fn seek(&mut self, _: u64) {
            self.log.lock().unwrap().push('s');
        }
    }

    fn watching(source: Noting) -> (Watching, SyncSender<ViewRequest>) {
        let (requests, asked) = channel();
        let refresh = Duration::from_secs(3600); // no tick but those of the test
        (Watching::new(Box::new(source), asked, refresh, SharedSnapshot::new()), requests)
    }

    /// Regression: while pages asked, the source was not read, and its ring buffer overflowed.
    #[test]
    fn source_is_looked_at_between_the_asks_of_many_pages() {
        let source = Noting::default();
        let (log, stop) = (Arc::clone(&source.log), Arc::clone(&source.stop));
        let (watching, requests) = watching(source);
        for _ in 0..2 * ASKS_PER_TURN + 3 {
            requests.try_send(ViewRequest::Play(Play { seek_ms: Some(0.0), ..Play::default() })).unwrap();
        }
        watching.run(&stop, &Heartbeat::default()).unwrap();
        let full = "s".repeat(ASKS_PER_TURN);
        assert_eq!(*log.lock().unwrap(), format!("p{full}p{full}psssw"));
    }

    /// Regression: the whole table was encoded and kept once per page.
    #[test]
    fn pages_that_join_before_the_next_tick_share_one_frame_and_each_frame_has_the_refresh_time() {
        for view in [View::Overview, View::Sockets, View::Algorithms, View::Flow(1)] {
            let mut watching = watching(Noting::default()).0;
            watching.live.apply(arrival(sample(1, SECOND)));
            let left = watching.join(view).unwrap().first;
            let [one, other] = [(); 2].map(|()| watching.join(view).unwrap());
            assert_eq!([one.first.as_ptr(), other.first.as_ptr()], [left.as_ptr(); 2], "{view:?} was encoded again");
            watching.live.apply(arrival(sample(2, SECOND)));
            watching.tick();
            let mut later = watching.join(view).unwrap();
            assert_eq!(data(&one.first)["status"]["open"], 1, "{view:?}");
            assert_eq!(data(&later.first)["status"]["open"], 2, "{view:?} is out of date");
            watching.tick();
            for frame in [&later.first, &later.frames.try_recv().unwrap()] {
                assert_eq!(data(frame)["status"]["refresh_ms"], 3_600_000.0, "{view:?}");
            }
        }
    }

    /// Regression: ages were counted from the time before the jump, and became negative.
    #[test]
    fn first_moment_that_a_jump_changed_is_told() {
        let mut watching = watching(Noting::default()).0;
        watching.live.apply(arrival(sample(1, 10 * SECOND)));
        let mut page = watching.join(View::Sockets).unwrap();
        assert_eq!(data(&page.first)["names"][0][7], 10_000.0);
        watching.live.apply(Arrival::Restart);
        watching.live.apply(arrival(sample(1, 2 * SECOND)));
        watching.tick();
        assert_eq!(data(&page.frames.try_recv().unwrap())["names"][0][7], 2000.0);
    }

    #[test]
    fn page_that_begins_with_a_kept_frame_is_told_what_came_since() {
        let mut watching = watching(Noting::default()).0;
        watching.live.apply(arrival(sample(1, SECOND)));
        let _first = watching.join(View::Sockets).unwrap();
        watching.live.apply(arrival(sample(2, SECOND)));
        let mut second = watching.join(View::Sockets).unwrap();
        watching.tick();
        let changes = data(&second.frames.try_recv().unwrap());
        let cookies = |data: &serde_json::Value| -> Vec<String> {
            data["names"].as_array().unwrap().iter().map(|name| name[1].as_str().unwrap().to_owned()).collect()
        };
        assert_eq!((cookies(&data(&second.first)), cookies(&changes)), (vec!["1".to_owned()], vec!["2".to_owned()]));
    }
}
