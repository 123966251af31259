//! The pages that watch one view. Each frame is encoded once for all of them.

use bytes::Bytes;
use tokio::sync::broadcast;

/// Frames that may wait for a slow page.
const WAITING_FRAMES: usize = 4;

#[derive(Debug)]
pub(super) struct Joined {
    pub first: Bytes,
    pub frames: broadcast::Receiver<Bytes>,
}

#[derive(Debug)]
pub(super) struct Subscribers {
    frames: broadcast::Sender<Bytes>,
    /// The first frame for pages that join before the next tick.
    pub whole: Option<Bytes>,
}

impl Subscribers {
    pub(super) fn new() -> Subscribers {
        Subscribers { frames: broadcast::channel(WAITING_FRAMES).0, whole: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.receiver_count() == 0
    }

    /// Adds a page. The whole view is encoded once per tick and shared by all pages that join.
    pub(super) fn join(&mut self, encode: impl FnOnce() -> Bytes) -> Joined {
        let first = self.whole.get_or_insert_with(encode).clone();
        Joined { first, frames: self.frames.subscribe() }
    }

    pub(super) fn tell(&self, frame: Bytes) {
        let _ = self.frames.send(frame); // fails if no page is left
    }
}
