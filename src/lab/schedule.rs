//! Decides which run starts next, and forecasts how long all of them take. Pure.
//!
//! Runs start in their order as they fit. If the first does not fit beside the active runs, a later one may start
//! before it, unless that delays the first. One expensive run then does not leave the host idle.
//!
//! Source: "EASY backfilling": D. Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995.

use std::time::Duration;

use crate::cost::RunLimit;

/// A run counts as ending with another if it ends at most this share of its length later. So runs of equal length that
/// start together also end together.
const TOGETHER: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WaitingRun {
    /// Expected load, bits per second over all links; see [`crate::cost::load_bps`].
    pub cost_bps: f64,
    /// From start to end.
    pub time: Duration,
    /// A run may start before runs of its own repeat and of the one before, so that repeats stay together.
    pub repeat: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActiveRun {
    /// As for [`WaitingRun`].
    pub cost_bps: f64,
    /// Time until its end.
    pub left: Duration,
}

/// Index of the run that starts now; `None` if none can.
///
/// Shape: `waiting` in the order in which the runs should start.
pub fn next(waiting: &[WaitingRun], active: &[ActiveRun], limit: RunLimit) -> Option<usize> {
    let first = waiting.first()?;
    let fits = |one: &WaitingRun| limit.allows(active.len() as u32, traffic_of(active), one.cost_bps);
    if fits(first) {
        return Some(0);
    }
    // When the first run will fit, and what is active then.
    let mut left = active.to_vec();
    left.sort_by_key(|one| one.left);
    let mut after = Duration::ZERO;
    while !limit.allows(left.len() as u32, traffic_of(&left), first.cost_bps) {
        after = left.remove(0).left;
    }
    let (beside, traffic_bps) = (left.len() as u32 + 1, traffic_of(&left) + first.cost_bps);
    let delays_first =
        |one: &WaitingRun| one.time.mul_f64(1.0 - TOGETHER) > after && !limit.allows(beside, traffic_bps, one.cost_bps);
    let mut candidates = waiting.iter().enumerate().skip(1).take_while(|(_, one)| one.repeat <= first.repeat + 1);
    candidates.find(|(_, one)| fits(one) && !delays_first(one)).map(|(index, _)| index)
}

fn traffic_of(active: &[ActiveRun]) -> f64 {
    active.iter().map(|one| one.cost_bps).sum()
}

/// How long the waiting runs take beside the active ones, and the most runs that are active at once.
pub fn time_and_most(mut waiting: Vec<WaitingRun>, mut active: Vec<ActiveRun>, limit: RunLimit) -> (Duration, usize) {
    let (mut total, mut most) = (Duration::ZERO, 0);
    loop {
        while let Some(index) = next(&waiting, &active, limit) {
            let WaitingRun { cost_bps, time, .. } = waiting.remove(index);
            active.push(ActiveRun { cost_bps, left: time });
        }
        most = most.max(active.len());
        let Some(step) = active.iter().map(|one| one.left).min() else { return (total, most) };
        total += step;
        active.retain_mut(|one| {
            one.left -= step;
            !one.left.is_zero()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cost_mbit: f64, seconds: u64, repeat: u32) -> WaitingRun {
        WaitingRun { cost_bps: cost_mbit * 1e6, time: Duration::from_secs(seconds), repeat }
    }

    fn active(cost_mbit: f64, seconds: u64) -> ActiveRun {
        ActiveRun { cost_bps: cost_mbit * 1e6, left: Duration::from_secs(seconds) }
    }

    const LIMIT: RunLimit = RunLimit::Traffic(120e6);

    #[test]
    fn cheap_run_goes_before_an_expensive_one_that_has_to_wait_anyway() {
        let waiting = [run(200.0, 100, 0), run(6.0, 100, 0)];
        for (waiting, active, expected) in [
            (&waiting[..], &[][..], Some(0)),
            (&waiting, &[active(6.0, 99)], Some(1)),
            (&waiting, &[active(6.0, 50)], None), // the expensive one would wait for it
            (&waiting[..1], &[active(6.0, 99)], None),
            (&[run(100.0, 100, 0), run(6.0, 100, 0)], &[active(30.0, 50)], Some(1)), // both fit then
            (&[run(200.0, 100, 0), run(6.0, 100, 2)], &[active(6.0, 99)], None),     // repeats stay together
        ] {
            assert_eq!(next(waiting, active, LIMIT), expected, "{waiting:?} {active:?}");
        }
    }

    #[test]
    fn total_time_follows_the_limit() {
        let mut table = vec![run(6.0, 100, 0); 20];
        table.insert(10, run(200.0, 100, 0));
        let six = || vec![run(1.0, 10, 0); 6];
        for (waiting, active, limit, expected) in [
            (six(), vec![], RunLimit::Runs(3), (20, 3)),
            (six(), vec![], RunLimit::Runs(1), (60, 1)),
            (vec![], vec![], RunLimit::Runs(1), (0, 0)),
            (six(), vec![active(1.0, 7)], RunLimit::Runs(2), (37, 2)),
            (table, vec![], LIMIT, (200, 20)), // one expensive cell costs its own time only
        ] {
            let (seconds, most) = expected;
            assert_eq!(time_and_most(waiting, active, limit), (Duration::from_secs(seconds), most), "{limit:?}");
        }
    }
}
