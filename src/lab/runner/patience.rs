//! A measurement that others on this host disturb is repeated, for a while.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::lab::busy::BusyWatch;
use crate::lab::work::Progress;
use crate::model::run::Calibration;

/// How long an experiment waits for a quiet host before it believes that its paths are wrong.
const WAIT: Duration = Duration::from_secs(60);

/// Until when an experiment waits: set by the first measurement that others disturbed.
#[derive(Debug, Default)]
pub struct Patience {
    deadline: Option<Instant>,
}

impl Patience {
    /// Measures, and again while the result is outside its tolerance and others use the processors.
    ///
    /// Errors: those of the measurement; /proc cannot be read.
    pub fn measure(
        &mut self,
        measure: impl Fn() -> Result<Vec<Calibration>>,
        stop: &AtomicBool,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Calibration>> {
        loop {
            let watch = BusyWatch::begin()?;
            let measured = measure()?;
            let is_good = measured.iter().all(|one| one.within);
            let others = watch.others()?;
            if is_good || !others.disturb() || stop.load(Ordering::Relaxed) {
                return Ok(measured);
            }
            if self.deadline.is_none() {
                tell(Progress::Disturbed { others: others.clone(), waits: Some(WAIT) });
            }
            if Instant::now() >= *self.deadline.get_or_insert_with(|| Instant::now() + WAIT) {
                tell(Progress::Disturbed { others, waits: None });
                return Ok(measured);
            }
        }
    }
}
