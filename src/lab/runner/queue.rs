//! The queue of one call's runs: it starts them as they fit and handles their results.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::attempt::{PendingRun, SharedLab};
use crate::cost::{self, RunLimit};
use crate::plan::{Plan, PlannedRun};
use crate::schedule::{self, ActiveRun, WaitingRun};
use crate::work::{Progress, WorkOutcome, interrupted};
use shared::failure::Failure;
use shared::model::run::{RunRecord, RunStatus};

/// Attempts at a run whose link was late or whose traffic failed.
const ATTEMPTS: u32 = 3;
/// How often the queue checks for an interruption when nothing happens.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often the queue reports the remaining time.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Attempts at a run that is late beside other runs. Each delayed attempt halves the number of concurrent runs. Seven
/// attempts bring 64 down to one.
const ATTEMPTS_BESIDE_OTHERS: u32 = 7;
/// The limit rises after this many on-time runs per active run.
const IN_TIME_ROUNDS: usize = 3;

pub struct Queue<'a> {
    plan: &'a Plan,
    waiting: Vec<(PendingRun<'a>, WaitingRun)>,
    started: Vec<StartedRun>,
    /// Number of the next run to start.
    next: usize,
    limit: RunLimit,
    most: RunLimit,
    /// On-time runs since the last late run.
    in_time: usize,
    /// Runs that an earlier call finished.
    before: usize,
    /// When the queue last reported the remaining time.
    said: Option<Instant>,
    pub outcome: WorkOutcome,
}

struct StartedRun {
    number: usize,
    cost_bps: f64,
    until: Instant,
    /// Its traffic is over, so it only writes its results and does not count towards the limit.
    has_sent: bool,
}

/// The number of a run, and its result. There is no result yet if only its traffic is over, so that another run may
/// start.
type Message<'a> = (usize, Option<(PendingRun<'a>, Result<RunRecord>)>);

/// The expected cost and time of a run.
pub fn waiting_run(plan: &Plan, run: &PlannedRun) -> WaitingRun {
    let cell = &plan.cells[run.cell];
    WaitingRun { cost_bps: cost::load_bps(cell), time: cost::run_time(cell), repeat: run.repeat }
}

/// Whether a run is given up. Lateness under load does not count against the host: the next
/// attempt has fewer runs beside it.
fn is_last(tried: u32, status: RunStatus, jobs: u32) -> bool {
    let is_crowded = status == RunStatus::Late && jobs > 1;
    tried >= if is_crowded { ATTEMPTS_BESIDE_OTHERS } else { ATTEMPTS }
}

impl<'a> Queue<'a> {
    /// `before` is the number of runs that an earlier call finished.
    pub fn new(plan: &'a Plan, to_do: Vec<&'a PlannedRun>, limit: RunLimit, before: usize) -> Self {
        Queue {
            plan,
            waiting: to_do
                .into_iter()
                .map(|run| (PendingRun { run, tried: 0, late: 0 }, waiting_run(plan, run)))
                .collect(),
            started: Vec::new(),
            next: 0,
            limit,
            most: limit,
            in_time: 0,
            before,
            said: None,
            outcome: WorkOutcome::default(),
        }
    }

    /// Starts runs as they fit and handles their results, until none is left.
    pub fn carry_out<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        lab: &'env SharedLab<'env>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<()>
    where
        'a: 'scope,
    {
        let (sender, messages): (Sender<Message<'a>>, Receiver<Message<'a>>) = mpsc::channel();
        loop {
            let stopping = lab.stop.load(Ordering::Relaxed);
            while !stopping && let Some((number, next)) = self.start_next() {
                let sender = sender.clone();
                // The receiver is gone after an error.
                scope.spawn(move || {
                    let result = lab.attempt(&next, &|| drop(sender.send((number, None))));
                    let _ = sender.send((number, Some((next, result))));
                });
            }
            if self.started.is_empty() {
                return if stopping { Err(interrupted()) } else { Ok(()) };
            }
            self.say_time_left(tell);
            match messages.recv_timeout(POLL_INTERVAL) {
                Ok((number, None)) => {
                    self.started.iter_mut().filter(|one| one.number == number).for_each(|one| one.has_sent = true);
                }
                Ok((number, Some((one, result)))) => {
                    self.started.retain(|one| one.number != number);
                    self.take_in(one, result, lab, tell)?;
                }
                Err(_) => {}
            }
        }
    }

    fn active(&self) -> Vec<ActiveRun> {
        let now = Instant::now();
        let left =
            |one: &StartedRun| ActiveRun { cost_bps: one.cost_bps, left: one.until.saturating_duration_since(now) };
        self.started.iter().filter(|one| !one.has_sent).map(left).collect()
    }

    fn waiting_runs(&self) -> Vec<WaitingRun> {
        self.waiting.iter().map(|(_, waiting)| *waiting).collect()
    }

    /// Takes the run that starts now from the waiting ones, and numbers it.
    fn start_next(&mut self) -> Option<(usize, PendingRun<'a>)> {
        let index = schedule::next(&self.waiting_runs(), &self.active(), self.limit)?;
        let (next, WaitingRun { cost_bps, time, .. }) = self.waiting.remove(index);
        let (number, until) = (self.next, Instant::now() + time);
        self.next += 1;
        self.started.push(StartedRun { number, cost_bps, until, has_sent: false });
        Some((number, next))
    }

    fn say_time_left(&mut self, tell: &mut dyn FnMut(Progress)) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            let active = self.active();
            let going = active.len();
            let (left, _) = schedule::time_and_most(self.waiting_runs(), active, self.limit);
            tell(Progress::Left { going, left });
        }
    }

    fn take_in(
        &mut self,
        mut one: PendingRun<'a>,
        result: Result<RunRecord>,
        lab: &SharedLab<'_>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        if lab.stop.load(Ordering::Relaxed) && result.as_ref().map_or(true, |attempt| attempt.why.is_some()) {
            return Ok(()); // it was interrupted
        }
        let id = one.run.id.clone();
        // An error, such as a full disk, ends the other runs too.
        let result = result.inspect_err(|_| lab.stop.store(true, Ordering::Relaxed));
        let attempt = result.with_context(|| format!("perform the run {id}"))?;
        let Some(why) = attempt.why.clone() else {
            self.outcome.finished += 1;
            self.in_time += 1;
            if self.in_time > IN_TIME_ROUNDS * self.active().len() {
                self.in_time = 0;
                self.limit = self.limit.raised(&self.most);
            }
            tell(Progress::Finished(id));
            return Ok(());
        };
        one.tried += 1;
        let last = is_last(one.tried, attempt.status, attempt.jobs);
        tell(Progress::Again { id: id.clone(), attempt: one.tried, why: why.clone(), last });
        if attempt.status == RunStatus::Late {
            one.late += 1;
            self.in_time = 0;
            let cost_bps = waiting_run(self.plan, one.run).cost_bps;
            self.limit = self.limit.halved(attempt.jobs, cost_bps * f64::from(attempt.jobs));
        }
        match (last, attempt.status) {
            (false, _) => self.waiting.push((one, waiting_run(self.plan, one.run))),
            (true, RunStatus::Late) => self.outcome.late.push(id),
            (true, _) => self.outcome.failed.push((id, why.clone())),
        }
        if self.before + self.outcome.finished == 0 && !self.outcome.failed.is_empty() {
            // Nothing has worked yet, so the cause is not this run.
            lab.stop.store(true, Ordering::Relaxed);
            return Err(Failure::failed(format!("no run works: {why}")).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With three attempts, too many runs at once made tccc give up runs that the host could carry.
    #[test]
    fn run_delayed_by_other_runs_gets_more_attempts() {
        for (tried, status, jobs, last) in [
            (3, RunStatus::Late, 1, true),
            (3, RunStatus::Failed, 9, true),
            (6, RunStatus::Late, 2, false),
            (7, RunStatus::Late, 2, true),
        ] {
            assert_eq!(is_last(tried, status, jobs), last, "{tried} {status:?} {jobs}");
        }
    }
}
