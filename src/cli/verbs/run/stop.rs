//! Stopping: a signal ends the call; an experiment that stops itself, because none of its runs works, ends alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};

use crate::cli::verbs::signals;

/// The two flags: a signal sets both, an experiment only the one that it is given.
#[derive(Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
    flag: Arc<AtomicBool>,
}

impl Stop {
    /// Listens for the signals that ask a program to end.
    ///
    /// Errors: the kernel refuses a handler.
    /// Side effects: handlers of these signals, for as long as the process lives.
    pub fn listen() -> Result<Stop> {
        let stop = Stop::default();
        for signal in signals::that_end() {
            // `renew` counts on this order, which is that of their calls.
            for flag in [&stop.asked, &stop.flag] {
                signal_hook::flag::register(signal, Arc::clone(flag)).context("listen for signals")?;
            }
        }
        Ok(stop)
    }

    /// What an experiment looks at.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    /// Whether a signal came.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Lets the next experiment begin, unless a signal came: one that comes meanwhile is not lost, because it sets
    /// `asked` first.
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
