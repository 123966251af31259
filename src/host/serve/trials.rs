//! Documents about trials for the page. The caller of the server provides them; they are read at most once a second.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Lifetime of a cached document.
const KEPT: Duration = Duration::from_secs(1);

/// Documents about the trials on this host, as JSON.
pub trait Trials: Send + Sync {
    /// The running trial, the guard's latest look, the result of the previous trial, and the incidents.
    fn now(&self, history: TrialHistory<'_>) -> Vec<u8>;

    /// One incident by its name.
    ///
    /// None: no incident has that name, or it is too large.
    fn incident(&self, name: &str) -> Option<Vec<u8>>;
}

/// Whether a document includes the earlier looks of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialHistory<'a> {
    Without,
    /// Included unless the look of this name is still the latest.
    Since(&'a str),
}

#[derive(Clone)]
pub(super) struct TrialShelf {
    trials: Arc<dyn Trials>,
    brief: Arc<Mutex<Option<Kept>>>,
    whole: Arc<Mutex<Option<Kept>>>,
}

/// Time of creation, the look that the reader knew, and the document.
type Kept = (Instant, Option<String>, Bytes);

impl TrialShelf {
    pub(super) fn new(trials: Arc<dyn Trials>) -> TrialShelf {
        TrialShelf { trials, brief: Arc::default(), whole: Arc::default() }
    }

    pub(super) fn now(&self, history: TrialHistory<'_>) -> Bytes {
        let (kept, seen) = match history {
            TrialHistory::Without => (&self.brief, None),
            TrialHistory::Since(seen) => (&self.whole, Some(seen.to_owned())),
        };
        let mut kept = kept.lock().expect("nobody panics with the snapshot");
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
    struct CountingTrials(AtomicU32);

    impl Trials for CountingTrials {
        fn now(&self, history: TrialHistory<'_>) -> Vec<u8> {
            format!("{history:?} {}", self.0.fetch_add(1, Ordering::Relaxed)).into_bytes()
        }

        fn incident(&self, _: &str) -> Option<Vec<u8>> {
            None
        }
    }

    #[test]
    fn pages_that_ask_at_once_share_a_document() {
        let snapshot = TrialShelf::new(Arc::new(CountingTrials::default()));
        assert_eq!([(); 3].map(|()| snapshot.now(TrialHistory::Without)), ["Without 0"; 3]);
        assert_eq!([(); 2].map(|()| snapshot.now(TrialHistory::Since("7"))), ["Since(\"7\") 1"; 2]);
        assert_eq!(snapshot.now(TrialHistory::Since("8")), "Since(\"8\") 2", "another reader knows another look");
    }
}
