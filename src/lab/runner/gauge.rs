//! Counts the runs that send at the same time.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// For each run that sends, the most runs that sent at once since it began.
#[derive(Debug, Default)]
pub struct ConcurrencyGauge(Mutex<Vec<Weak<AtomicU32>>>);

impl ConcurrencyGauge {
    /// Begins a run, which counts as sending until the returned value is dropped. The value is the most runs that have
    /// sent at once so far, including this one.
    pub fn begin(&self) -> Arc<AtomicU32> {
        let mut sending = self.0.lock().unwrap_or_else(PoisonError::into_inner); // valid after every step
        let most = Arc::new(AtomicU32::new(0));
        sending.retain(|run| run.strong_count() > 0);
        sending.push(Arc::downgrade(&most));
        let count = sending.len() as u32;
        for run in sending.iter().filter_map(Weak::upgrade) {
            run.fetch_max(count, Ordering::Relaxed);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_counts_those_that_begin_after_it_and_not_those_that_ended_before() {
        let gauge = ConcurrencyGauge::default();
        let most = |runs: &[&Arc<AtomicU32>]| runs.iter().map(|run| run.load(Ordering::Relaxed)).collect::<Vec<_>>();
        let first = gauge.begin();
        assert_eq!(most(&[&first]), [1]);
        let (second, third) = (gauge.begin(), gauge.begin());
        assert_eq!(most(&[&first, &second, &third]), [3, 3, 3]);
        drop((second, third));
        let last = gauge.begin();
        assert_eq!(most(&[&first, &last]), [3, 2]);
    }
}
