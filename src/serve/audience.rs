//! The pages that watch one view: each frame is encoded once for all of them.

use bytes::Bytes;
use tokio::sync::broadcast;

/// Frames that wait for one page.
const WAITING_FRAMES: usize = 4;

/// What a page is to begin with, and what comes after.
#[derive(Debug)]
pub(super) struct Joined {
    pub first: Bytes,
    pub frames: broadcast::Receiver<Bytes>,
}

/// The pages that watch a view, and what those begin with that join before the next tick.
#[derive(Debug)]
pub(super) struct Audience {
    frames: broadcast::Sender<Bytes>,
    pub whole: Option<Bytes>,
}

impl Audience {
    pub(super) fn new() -> Audience {
        Audience { frames: broadcast::channel(WAITING_FRAMES).0, whole: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.receiver_count() == 0
    }

    /// One page more; the whole view is encoded once per tick, however many join, and all share its bytes.
    pub(super) fn join(&mut self, encode: impl FnOnce() -> Bytes) -> Joined {
        let first = self.whole.get_or_insert_with(encode).clone();
        Joined { first, frames: self.frames.subscribe() }
    }

    /// A frame that nobody takes is no error.
    pub(super) fn tell(&self, frame: Bytes) {
        let _ = self.frames.send(frame);
    }
}
