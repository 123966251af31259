//! Runs that wait, runs that go on, and what came of the others.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::attempt::{Attempt, Bench, Try};
use crate::failure::Failure;
use crate::lab::cost::{self, RunLimit};
use crate::lab::plan::{Plan, PlannedRun};
use crate::lab::schedule::{self, Going, Wanted};
use crate::lab::work::{Outcome, Progress, interrupted};
use crate::model::run::RunStatus;

/// Attempts at a run whose link was late or whose traffic failed.
const ATTEMPTS: u32 = 3;
/// How often the scheduler looks up when nothing happens.
const LOOK_UP: Duration = Duration::from_millis(100);
/// How often it says how long the rest takes.
const SAY_EVERY: Duration = Duration::from_secs(2);
/// Attempts at a run that others beside it make late: their number is halved in each, from 64 at most to none.
const ATTEMPTS_BESIDE_OTHERS: u32 = 7;
/// So many times as many runs as go on at once must be in time before more may.
const IN_TIME_ROUNDS: usize = 3;

/// The runs of one call.
pub struct Queue<'a> {
    plan: &'a Plan,
    waiting: Vec<(Try<'a>, Wanted)>,
    /// Runs that send or are about to.
    sending: Vec<Sending>,
    /// Runs that have sent and are being put away.
    ending: usize,
    numbers: usize,
    limit: RunLimit,
    most: RunLimit,
    /// Runs that were in time since one was not.
    in_time: usize,
    /// Runs that an earlier call finished.
    before: usize,
    said: Option<Instant>,
    /// What is left to say at the end.
    pub outcome: Outcome,
}

/// A run that takes its part of the limit.
struct Sending {
    number: usize,
    cost_bps: f64,
    until: Instant,
}

/// What a run's thread reports.
enum Message<'a> {
    /// Its traffic is over: another may take its place while it is put away.
    Sent(usize),
    /// It is over.
    Ended(usize, Try<'a>, Result<Attempt>),
}

/// What a run is expected to cost and take.
pub fn wanted(plan: &Plan, run: &PlannedRun) -> Wanted {
    let cell = &plan.cells[run.cell];
    Wanted { cost_bps: cost::load_bps(cell), time: cost::run_time(cell), repeat: run.repeat }
}

/// Whether a run is given up. What others beside it made late says little of the host: their number is halved each time,
/// so that it meets fewer, or none, at its next attempts.
fn is_last(tried: u32, attempt: &Attempt) -> bool {
    let is_crowded = attempt.status == RunStatus::Late && attempt.jobs > 1;
    tried >= if is_crowded { ATTEMPTS_BESIDE_OTHERS } else { ATTEMPTS }
}

impl<'a> Queue<'a> {
    /// All wait.
    pub fn new(plan: &'a Plan, to_do: Vec<&'a PlannedRun>, limit: RunLimit, before: usize) -> Self {
        Queue {
            plan,
            waiting: to_do.into_iter().map(|run| (Try { run, tried: 0, late: 0 }, wanted(plan, run))).collect(),
            sending: Vec::new(),
            ending: 0,
            numbers: 0,
            limit,
            most: limit,
            in_time: 0,
            before,
            said: None,
            outcome: Outcome::default(),
        }
    }

    /// How long the rest takes.
    pub fn time_left(&self) -> Duration {
        schedule::total_time(self.waiting.iter().map(|(_, wanted)| *wanted).collect(), self.going(), self.limit)
    }

    /// Starts runs as they fit and takes in their results, until none is left.
    pub fn carry_out<'scope, 'env>(
        &mut self,
        scope: &'scope Scope<'scope, 'env>,
        bench: &'env Bench<'env>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<()>
    where
        'a: 'scope,
    {
        let (sender, messages): (Sender<Message<'a>>, Receiver<Message<'a>>) = mpsc::channel();
        loop {
            let stopping = bench.stop.load(Ordering::Relaxed);
            while !stopping && let Some((number, next)) = self.start_next() {
                let sender = sender.clone();
                // Nobody listens after an error.
                scope.spawn(move || {
                    let result = bench.attempt(&next, &|| drop(sender.send(Message::Sent(number))));
                    let _ = sender.send(Message::Ended(number, next, result));
                });
            }
            if self.sending.is_empty() && self.ending == 0 {
                return if stopping { Err(interrupted()) } else { Ok(()) };
            }
            self.say_time_left(tell);
            match messages.recv_timeout(LOOK_UP) {
                Ok(Message::Sent(number)) => self.put_away(number),
                Ok(Message::Ended(number, one, result)) => {
                    self.put_away(number);
                    self.ending -= 1;
                    self.take_in(one, result, bench, tell)?;
                }
                Err(_) => {}
            }
        }
    }

    fn going(&self) -> Vec<Going> {
        let now = Instant::now();
        let left = |one: &Sending| Going { cost_bps: one.cost_bps, left: one.until.saturating_duration_since(now) };
        self.sending.iter().map(left).collect()
    }

    /// The run that starts now, taken from those that wait, with its number among those that send.
    fn start_next(&mut self) -> Option<(usize, Try<'a>)> {
        let wanted: Vec<Wanted> = self.waiting.iter().map(|(_, wanted)| *wanted).collect();
        let (next, wanted) = self.waiting.remove(schedule::next(&wanted, &self.going(), self.limit)?);
        self.numbers += 1;
        let until = Instant::now() + wanted.time;
        self.sending.push(Sending { number: self.numbers, cost_bps: wanted.cost_bps, until });
        Some((self.numbers, next))
    }

    /// A run that sent gives its place away; it may have done so before.
    fn put_away(&mut self, number: usize) {
        let sending = self.sending.len();
        self.sending.retain(|one| one.number != number);
        self.ending += sending - self.sending.len();
    }

    fn say_time_left(&mut self, tell: &mut dyn FnMut(Progress)) {
        if self.said.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said = Some(Instant::now());
            tell(Progress::Left { going: self.sending.len(), left: self.time_left() });
        }
    }

    fn take_in(
        &mut self,
        mut one: Try<'a>,
        result: Result<Attempt>,
        bench: &Bench<'_>,
        tell: &mut dyn FnMut(Progress),
    ) -> Result<()> {
        if bench.stop.load(Ordering::Relaxed) && result.as_ref().map_or(true, |attempt| attempt.why.is_some()) {
            return Ok(()); // stopped in the middle, so it says nothing
        }
        let id = one.run.id.clone();
        let attempt = result.with_context(|| format!("make the run {id}"))?;
        let Some(why) = attempt.why.clone() else {
            self.outcome.finished += 1;
            self.note_in_time();
            tell(Progress::Finished(id));
            return Ok(());
        };
        one.tried += 1;
        let last = is_last(one.tried, &attempt);
        tell(Progress::Again { id: id.clone(), attempt: one.tried, why: why.clone(), last });
        if attempt.status == RunStatus::Late {
            one.late += 1;
            self.in_time = 0;
            let cost_bps = wanted(self.plan, one.run).cost_bps;
            self.limit = self.limit.halved(attempt.jobs, cost_bps * f64::from(attempt.jobs));
        }
        match (last, attempt.status) {
            (false, _) => self.waiting.push((one, wanted(self.plan, one.run))),
            (true, RunStatus::Late) => self.outcome.late.push(id),
            (true, _) => self.outcome.failed.push((id, why.clone())),
        }
        if self.before + self.outcome.finished == 0 && !self.outcome.failed.is_empty() {
            // It is not this run: nothing works.
            bench.stop.store(true, Ordering::Relaxed);
            return Err(Failure::failed(format!("no run works: {why}")).into());
        }
        Ok(())
    }

    /// Many runs in time allow more at once again.
    fn note_in_time(&mut self) {
        self.in_time += 1;
        if self.in_time > IN_TIME_ROUNDS * self.sending.len() {
            self.in_time = 0;
            self.limit = self.limit.raised(&self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rounds of too many at once gave runs up that the host carries well.
    #[test]
    fn run_that_others_make_late_has_more_attempts() {
        let attempt = |status, jobs| Attempt { status, why: Some("why".into()), jobs };
        assert!(is_last(3, &attempt(RunStatus::Late, 1)) && is_last(3, &attempt(RunStatus::Failed, 9)));
        assert!(!is_last(6, &attempt(RunStatus::Late, 2)) && is_last(7, &attempt(RunStatus::Late, 2)));
    }
}
