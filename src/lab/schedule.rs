//! Which run starts next, and how long all of them take: pure.
//!
//! Runs start in their order as they fit. Where the first does not fit beside those that go on, a later one may go
//! before it if that does not put the first off ("EASY backfilling": D. Lifka, "The ANL/IBM SP scheduling system",
//! JSSPP 1995), so that one expensive run does not leave the host idle.

use std::time::Duration;

use crate::lab::cost::RunLimit;

/// Runs whose ends lie this share of their length apart count as ending together: those that start together do.
const TOGETHER: f64 = 0.05;

/// A run that waits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Expected traffic, bits per second over all links, less where it costs less.
    pub cost_bps: f64,
    /// From its start to its end.
    pub time: Duration,
    /// Its repeat: a run goes before those of its own repeat and the one before only, so that repeats stay together.
    pub repeat: u32,
}

/// A run that goes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Going {
    /// Expected traffic, bits per second over all links, less where it costs less.
    pub cost_bps: f64,
    /// Until its end.
    pub left: Duration,
}

/// Index of the run that starts now; none when none can.
///
/// Shape: `waiting` in the order in which they should start.
pub fn next(waiting: &[Wanted], going: &[Going], limit: RunLimit) -> Option<usize> {
    let first = waiting.first()?;
    let fits = |wanted: &Wanted| limit.allows(going.len() as u32, traffic_of(going), wanted.cost_bps);
    if fits(first) {
        return Some(0);
    }
    let turn = turn_of(first, going, limit);
    let candidates = waiting.iter().enumerate().skip(1).take_while(|(_, one)| one.repeat <= first.repeat + 1);
    let mut fitting = candidates.filter(|(_, one)| fits(one) && turn.leaves(one, limit));
    fitting.next().map(|(index, _)| index)
}

fn traffic_of(going: &[Going]) -> f64 {
    going.iter().map(|one| one.cost_bps).sum()
}

/// When a run that does not fit now will, and what goes on beside it then.
struct Turn {
    after: Duration,
    beside: u32,
    traffic_bps: f64,
}

fn turn_of(first: &Wanted, going: &[Going], limit: RunLimit) -> Turn {
    let mut left = going.to_vec();
    left.sort_by_key(|one| one.left);
    let mut after = Duration::ZERO;
    while !limit.allows(left.len() as u32, traffic_of(&left), first.cost_bps) {
        after = left.remove(0).left;
    }
    Turn { after, beside: left.len() as u32 + 1, traffic_bps: traffic_of(&left) + first.cost_bps }
}

impl Turn {
    /// Whether a run that starts now leaves the first its turn: it ends before, or fits beside it.
    fn leaves(&self, one: &Wanted, limit: RunLimit) -> bool {
        one.time.mul_f64(1.0 - TOGETHER) <= self.after || limit.allows(self.beside, self.traffic_bps, one.cost_bps)
    }
}

/// How long these runs take under a limit, beside those that go on already.
pub fn total_time(waiting: Vec<Wanted>, going: Vec<Going>, limit: RunLimit) -> Duration {
    time_and_most(waiting, going, limit).0
}

/// As [`total_time`], and how many go on at most at once.
pub fn time_and_most(mut waiting: Vec<Wanted>, mut going: Vec<Going>, limit: RunLimit) -> (Duration, usize) {
    let (mut total, mut most) = (Duration::ZERO, 0);
    loop {
        while let Some(index) = next(&waiting, &going, limit) {
            let one = waiting.remove(index);
            going.push(Going { cost_bps: one.cost_bps, left: one.time });
        }
        most = most.max(going.len());
        let Some(step) = going.iter().map(|one| one.left).min() else { return (total, most) };
        total += step;
        going.retain_mut(|one| {
            one.left -= step;
            !one.left.is_zero()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(cost_mbit: f64, seconds: u64, repeat: u32) -> Wanted {
        Wanted { cost_bps: cost_mbit * 1e6, time: Duration::from_secs(seconds), repeat }
    }

    fn going(cost_mbit: f64, seconds: u64) -> Going {
        Going { cost_bps: cost_mbit * 1e6, left: Duration::from_secs(seconds) }
    }

    const LIMIT: RunLimit = RunLimit::Traffic(120e6);

    #[test]
    fn cheap_run_goes_before_an_expensive_one_that_has_to_wait_anyway() {
        let waiting = [wanted(200.0, 100, 0), wanted(6.0, 100, 0)];
        assert_eq!(next(&waiting, &[], LIMIT), Some(0));
        assert_eq!(next(&waiting, &[going(6.0, 99)], LIMIT), Some(1));
        assert_eq!(next(&waiting, &[going(6.0, 50)], LIMIT), None, "the expensive one would wait for it");
        assert_eq!(next(&waiting[..1], &[going(6.0, 99)], LIMIT), None);
        let fits_beside = [wanted(100.0, 100, 0), wanted(6.0, 100, 0)];
        assert_eq!(next(&fits_beside, &[going(30.0, 50)], LIMIT), Some(1));
    }

    #[test]
    fn repeats_stay_together() {
        let waiting = [wanted(200.0, 100, 0), wanted(6.0, 100, 2)];
        assert_eq!(next(&waiting, &[going(6.0, 99)], LIMIT), None);
    }

    #[test]
    fn table_with_one_expensive_cell_takes_what_it_must() {
        let mut table = vec![wanted(6.0, 100, 0); 20];
        table.insert(10, wanted(200.0, 100, 0));
        assert_eq!(total_time(table, Vec::new(), LIMIT), Duration::from_secs(200));
    }

    #[test]
    fn total_time_follows_the_limit() {
        let runs = || vec![wanted(1.0, 10, 0); 6];
        assert_eq!(time_and_most(runs(), Vec::new(), RunLimit::Runs(3)), (Duration::from_secs(20), 3));
        assert_eq!(total_time(runs(), Vec::new(), RunLimit::Runs(1)), Duration::from_secs(60));
        assert_eq!(total_time(Vec::new(), Vec::new(), RunLimit::Runs(1)), Duration::ZERO);
        assert_eq!(total_time(runs(), vec![going(1.0, 7)], RunLimit::Runs(2)), Duration::from_secs(37));
    }
}
