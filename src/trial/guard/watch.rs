//! One generation on trial, as its guard sees it: the lease, both arms, and what follows from them.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::kernel::{bpf, clock};
use crate::policy::pins::PolicyPins;
use crate::policy::record::{GenerationRecord, PolicyRecord, TrialRecord};
use crate::policy::rule::{Policy, Treatment};
use crate::state::Store;
use crate::state::pins::Pins;
use crate::trace::gather::Layouts;
use crate::trial::arms::{ArmCells, Arms};
use crate::trial::incident::{IncidentFacts, Recent};
use crate::trial::judge::{self, RuleJudgement, SeenSums};
use crate::trial::progress::{self, NextMove};
use crate::trial::standing::lease_of;
use crate::trial::turn::Turn;
use crate::trial::view::{self, LookHistory, TrialView};
use crate::trial::{advance, end, incident};

/// Between two looks at the arms, unless something is due.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What absolute limits are about.
const WINDOW: Duration = Duration::from_secs(60);

pub(super) enum Tick {
    On,
    /// It is over, by this guard or by somebody else.
    Over,
}

pub(super) struct TrialWatch {
    pub(super) generation: u32,
    lease: MapHandle,
    until_ns: u64,
    /// When it gave the latest sign of life.
    alive_ns: u64,
    arms: Option<Arms>,
    ticks_per_s: f64,
    /// Readings of the latest window, oldest first.
    readings: VecDeque<(u64, BTreeMap<u32, ArmCells>)>,
    looked_ns: u64,
    judgements: Vec<RuleJudgement>,
    history: LookHistory,
    /// The trial as it was when it was last shown.
    shown: Option<TrialRecord>,
    recent: Option<Recent>,
    layouts: fn() -> Layouts,
}

impl TrialWatch {
    pub(super) fn start(
        trial: &TrialRecord,
        (generation, record): (&GenerationRecord, &PolicyRecord),
        (earlier, layouts): (Option<TrialWatch>, fn() -> Layouts),
    ) -> Result<Self> {
        let pins = PolicyPins::of(Pins::writable()?);
        let lease = MapHandle::from_pinned_path(pins.part(trial.generation, "lease")).context("open the lease")?;
        let slots = slots_of(&generation.policy, record);
        let labels: OwnedFd = bpf::open_pin(&pins.labels())?;
        let arms = (!slots.is_empty()).then(|| Arms::start(&labels, generation.number, &slots)).transpose()?;
        let recent = match earlier.and_then(|earlier| earlier.recent) {
            Some(recent) => Some(recent),
            None if is_guarded(&generation.policy) => Recent::start(layouts()).ok(), // an incident without a recording is one too
            None => None,
        };
        Ok(TrialWatch {
            generation: generation.number,
            lease,
            until_ns: lease_of(trial)?.context("read the lease")?,
            alive_ns: clock::boottime_ns()?,
            arms,
            ticks_per_s: ticks_per_s(),
            readings: VecDeque::new(),
            looked_ns: 0,
            judgements: Vec::new(),
            history: LookHistory::default(),
            shown: None,
            recent,
            layouts,
        })
    }

    /// Gives a sign of life; returns how long there was none, where that was too long.
    ///
    /// A trial that is past its deadline gets no more of them, and that is no gap: what happens then is decided after it.
    pub(super) fn renew(&mut self, trial: &TrialRecord) -> Result<Option<Duration>> {
        let now_ns = clock::boottime_ns()?;
        if trial.deadline_ns.is_some_and(|deadline_ns| now_ns >= deadline_ns) {
            return Ok(None);
        }
        if now_ns >= self.until_ns {
            return Ok(Some(Duration::from_nanos(now_ns.saturating_sub(self.alive_ns))));
        }
        (self.until_ns, self.alive_ns) = (trial.lease_from(now_ns), now_ns);
        let value = self.until_ns.to_ne_bytes();
        self.lease.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY).context("renew the lease")?;
        Ok(None)
    }

    /// Looks if that is due, and does what follows.
    pub(super) fn act(
        &mut self,
        trial: &TrialRecord,
        generation: &GenerationRecord,
        record: &PolicyRecord,
    ) -> Result<Tick> {
        let now_ns = clock::boottime_ns()?;
        let policy = &generation.policy;
        let due = trial.rules.iter().filter_map(|progress| {
            let rule = policy.rules.iter().find(|rule| rule.name == progress.rule)?;
            view::due_ns(rule, progress)
        });
        // What was due at an earlier look is not due again: it waits until the arms can tell, or for a person.
        let mut due = due.chain(trial.deadline_ns).filter(|at| (self.looked_ns..=now_ns).contains(at));
        let is_due = due.next().is_some();
        if !is_due && now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY.as_nanos() as u64 {
            if self.shown.as_ref() != Some(trial) {
                self.write_view(trial, policy, now_ns);
            }
            return Ok(Tick::On);
        }
        self.look(trial, policy, record, now_ns)?;
        let next = progress::next(trial, policy, &self.judgements, now_ns);
        self.write_view(trial, policy, now_ns);
        self.follow(next, trial, generation)
    }

    fn look(&mut self, trial: &TrialRecord, policy: &Policy, record: &PolicyRecord, now_ns: u64) -> Result<()> {
        self.looked_ns = now_ns;
        let Some(arms) = &self.arms else { return Ok(()) };
        let whole = arms.read()?;
        let is_old = |at_ns: u64| now_ns.saturating_sub(at_ns) > WINDOW.as_nanos() as u64;
        while self.readings.len() > 1 && is_old(self.readings[1].0) {
            self.readings.pop_front();
        }
        let first = self.readings.front().map(|(_, cells)| cells);
        let recent = whole.iter().map(|(slot, cells)| {
            let earlier = first.and_then(|first| first.get(slot));
            let cells = earlier.map_or(*cells, |earlier| std::array::from_fn(|at| cells[at] - earlier[at]));
            (*slot, cells)
        });
        let recent: BTreeMap<u32, ArmCells> = recent.collect();
        let seen = SeenSums { whole: &whole, recent: &recent, ticks_per_s: self.ticks_per_s };
        self.judgements = judge::judge(policy, record, seen);
        self.readings.push_back((now_ns, whole));
        let at_s = now_ns.saturating_sub(trial.began_ns) as f64 / 1e9;
        self.history.add(at_s, &self.judgements);
        Ok(())
    }

    /// Nobody but those who look needs this: what cannot be written is left.
    fn write_view(&mut self, trial: &TrialRecord, policy: &Policy, now_ns: u64) {
        self.shown = Some(trial.clone());
        let view = TrialView {
            schema: view::SCHEMA,
            subject: trial.subject.clone(),
            title: trial.subject.phrase(),
            generation: trial.generation,
            began_ns: trial.began_ns,
            now_ns,
            at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            deadline_ns: trial.deadline_ns,
            lease_until_ns: self.until_ns,
            paused: trial.paused,
            rules: view::rules(trial, policy, &self.judgements),
            history: self.history.points(),
        };
        let _ = view::write(&Store::of_host(), &view);
    }

    fn follow(&mut self, next: NextMove, trial: &TrialRecord, generation: &GenerationRecord) -> Result<Tick> {
        let is_own = |other: &TrialRecord| other.began_ns == trial.began_ns;
        match next {
            NextMove::Wait => Ok(Tick::On),
            NextMove::Revert { why, is_incident } => {
                // First back, then the paperwork.
                let folder = is_incident.then(incident::new_folder);
                if end::revert_where(is_own, &why, folder.clone())?.is_some()
                    && let Some(folder) = folder
                {
                    let recent = self.recent.take();
                    let facts = IncidentFacts { why: &why, trial, generation, judgements: &self.judgements };
                    incident::write(&folder, &facts, &self.history, recent)?;
                }
                Ok(Tick::Over)
            }
            NextMove::Conclude { why } => end::keep_where(is_own, &why).map(|_| Tick::Over),
            NextMove::Change { rules, is_step, is_incident, why } => {
                let is_done = advance::change_progress(&Turn::take()?, trial, rules, is_step)?;
                if is_done && is_incident {
                    let facts = IncidentFacts { why: &why, trial, generation, judgements: &self.judgements };
                    let written = incident::write(&incident::new_folder(), &facts, &self.history, self.recent.take());
                    self.recent = Recent::start((self.layouts)()).ok();
                    written?;
                }
                Ok(Tick::On)
            }
        }
    }
}

/// Numbers of the arms of rules that are on trial.
fn slots_of(policy: &Policy, record: &PolicyRecord) -> Vec<u32> {
    let tried = policy.rules.iter().filter(|rule| rule.trial.is_some());
    let arms = tried.flat_map(|rule| rule.split.arms.iter().map(|arm| (&rule.name, &arm.treatment)));
    arms.filter_map(|(rule, treatment): (&String, &Treatment)| judge::slot_of(record, rule, treatment)).collect()
}

fn is_guarded(policy: &Policy) -> bool {
    policy.rules.iter().any(|rule| rule.trial.as_ref().is_some_and(|trial| trial.is_guarded()))
}

/// The kernel's tick, in which it counts the time that a connection is busy.
fn ticks_per_s() -> f64 {
    use nix::time::{ClockId, clock_getres};
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(0.004, |tick| tick.tv_nsec() as f64 / 1e9);
    1.0 / tick
}
