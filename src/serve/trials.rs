//! What a page shows of trials: documents of whoever started the server, read again at most once a second.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// However many pages ask, the documents are made this rarely.
const KEPT: Duration = Duration::from_secs(1);

/// What is known of trials on this host, as JSON.
pub trait Trials: Send + Sync {
    /// The trial that goes on and when its guard looked last, how the latest one ended, and the incidents.
    ///
    /// The history of the trial is part of it for a reader who asks; `seen` names the look that the reader knows.
    fn now(&self, history: History<'_>) -> Vec<u8>;

    /// One incident by its name.
    ///
    /// None: no incident has that name, or it is too large.
    fn incident(&self, name: &str) -> Option<Vec<u8>>;
}

/// Whether a reader wants the earlier looks of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History<'a> {
    Without,
    /// Unless nothing was added since the look of this name.
    Since(&'a str),
}

/// The documents, with the latest of each kind.
#[derive(Clone)]
pub(super) struct TrialShelf {
    trials: Arc<dyn Trials>,
    brief: Arc<Mutex<Option<Kept>>>,
    whole: Arc<Mutex<Option<Kept>>>,
}

/// When a document was made, the look that its reader knew, and its bytes.
type Kept = (Instant, Option<String>, Bytes);

impl TrialShelf {
    pub(super) fn new(trials: Arc<dyn Trials>) -> TrialShelf {
        TrialShelf { trials, brief: Arc::default(), whole: Arc::default() }
    }

    pub(super) fn now(&self, history: History<'_>) -> Bytes {
        let (kept, seen) = match history {
            History::Without => (&self.brief, None),
            History::Since(seen) => (&self.whole, Some(seen.to_owned())),
        };
        let mut kept = kept.lock().expect("nobody panics with the shelf");
        if let Some((.., document)) = kept.as_ref().filter(|(since, of, _)| since.elapsed() < KEPT && *of == seen) {
            return document.clone();
        }
        let document = Bytes::from(self.trials.now(history));
        *kept = Some((Instant::now(), seen, document.clone()));
        document
    }

    pub(super) fn incident(&self, name: &str) -> Option<Bytes> {
        self.trials.incident(name).map(Bytes::from)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Trials for Counting {
        fn now(&self, history: History<'_>) -> Vec<u8> {
            format!("{history:?} {}", self.0.fetch_add(1, Ordering::Relaxed)).into_bytes()
        }

        fn incident(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
    }

    #[test]
    fn pages_that_ask_at_once_share_a_document() {
        let shelf = TrialShelf::new(Arc::new(Counting::default()));
        assert_eq!([(); 3].map(|()| shelf.now(History::Without)), ["Without 0"; 3]);
        assert_eq!([(); 2].map(|()| shelf.now(History::Since("7"))), ["Since(\"7\") 1"; 2]);
        assert_eq!(shelf.now(History::Since("8")), "Since(\"8\") 2", "another reader knows another look");
    }
}
