//! A flag that stops one experiment, or with a signal all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use signal_hook::flag;

use super::signals::that_end;

/// A signal sets both flags, an experiment only `flag`.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// Side effects: signal handlers for the rest of the process.
    pub fn listen() -> Result<Stop> {
        let stop = Stop::default();
        for signal in that_end() {
            // `renew` relies on this order, in which the handlers are called.
            for flag in [&stop.asked, &stop.flag] {
                flag::register(signal, Arc::clone(flag)).context("listen for signals")?;
            }
        }
        Ok(stop)
    }

    /// The flag that an experiment polls.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Whether a signal came.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Lets the next experiment begin, unless a signal came. A signal during this call is not lost, because it sets `asked`
    /// first.
    pub fn renew(&self) {
        self.flag.store(false, Ordering::SeqCst);
        if self.is_asked() {
            self.flag.store(true, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiment_that_stops_itself_leaves_the_next_and_a_signal_does_not() {
        let stop = Stop::default();
        stop.flag().store(true, Ordering::Relaxed);
        stop.renew();
        assert!(!stop.flag().load(Ordering::Relaxed) && !stop.is_asked());
        stop.asked.store(true, Ordering::Relaxed);
        stop.renew();
        assert!(stop.flag().load(Ordering::Relaxed) && stop.is_asked());
    }
}
