//! The process that guards a trial: it renews the lease, looks at both arms, and ends the trial.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use super::arms::{ArmCells, Arms};
use super::incident::Recent;
use super::judge::{self, RuleJudgement, Seen};
use super::progress::{self, Next};
use super::view::{self, History, TrialView};
use super::{end, incident};
use crate::kernel::process::Process;
use crate::kernel::{bpf, clock};
use crate::policy::change;
use crate::policy::generation::{self, NewGeneration, NewTrial, Role};
use crate::policy::pins::PolicyPins;
use crate::policy::record::{GenerationRecord, PolicyRecord, RuleProgress, TrialRecord};
use crate::policy::rule::{Policy, Treatment};
use crate::state::Store;
use crate::state::pins::Pins;
use crate::trace::gather::Layouts;

/// Between two signs of life.
const TICK: Duration = Duration::from_secs(1);
/// Between two looks at the arms, unless something is due.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What absolute limits are about.
const WINDOW: Duration = Duration::from_secs(60);
/// How long the guard waits for the command that started it.
const BEGIN_WITHIN: Duration = Duration::from_secs(60);
/// How often it looks whether a signal came, or the trial began.
const NAP: Duration = Duration::from_millis(50);

/// Until when a trial may decide, by the kernel's own lease.
///
/// None: the generation is gone, or may not be looked at.
/// Errors: the lease cannot be read.
pub fn lease_of(trial: &TrialRecord) -> Result<Option<u64>> {
    let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
    let place = pins.part(trial.generation, "lease");
    let Ok(lease) = MapHandle::from_pinned_path(place) else { return Ok(None) };
    let bytes = lease.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).context("read the lease")?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes))
}

/// Guards the trial that began at `began_ns`, until it is over.
///
/// Errors: the kernel refuses the guard's programs, or a part of the trial is gone: the lease then ends the trial.
/// Side effects: ends the trial, or lets its share rise.
pub fn run(began_ns: u64, layouts: fn() -> Layouts) -> Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("take signals")?;
    }
    if !has_begun(began_ns)? {
        return Ok(());
    }
    let mut watch: Option<Watch> = None;
    loop {
        let Some((trial, generation)) = of_trial(began_ns)? else { return Ok(()) };
        if watch.as_ref().is_none_or(|watch| watch.generation != generation.number) {
            let earlier = watch.take();
            watch = Some(Watch::start(&trial, &generation, (earlier, layouts))?);
        }
        let watch = watch.as_mut().expect("it was just begun");
        if stop.load(Ordering::Relaxed) {
            return end::revert("its guard was told to end").map(drop);
        }
        if let Some(gap) = watch.renew(&trial)? {
            let seconds = gap.as_secs_f64();
            let why = format!("its guard did not run for {seconds:.0} s, so that the lease was over");
            return end::revert(&why).map(drop);
        }
        if watch.act(&trial, &generation)? {
            return Ok(());
        }
        nap(TICK, &stop);
    }
}

/// Waits until the command that started this process has begun the trial; false where it failed or died.
fn has_begun(began_ns: u64) -> Result<bool> {
    let parent = Process::of(nix::unistd::getppid().as_raw() as u32);
    let until_ns = began_ns + BEGIN_WITHIN.as_nanos() as u64;
    loop {
        if of_trial(began_ns)?.is_some() {
            return Ok(true);
        }
        let is_waited_for = parent.is_some_and(|parent| parent.lives());
        if !is_waited_for || clock::boottime_ns()? > until_ns {
            // It may have begun the trial as the last thing it did.
            return Ok(of_trial(began_ns)?.is_some());
        }
        std::thread::sleep(NAP);
    }
}

/// The trial and the generation that decides, if it is this one.
fn of_trial(began_ns: u64) -> Result<Option<(TrialRecord, GenerationRecord)>> {
    let record = PolicyRecord::read(&Store::of_host())?;
    let Some(pins) = PolicyPins::of_host() else { return Ok(None) };
    let active = generation::active(&pins, &record);
    let trials = [record.next_trial.clone(), record.trial.clone()];
    let trial = trials.into_iter().flatten().find(|trial| Some(trial.generation) == active);
    let Some(trial) = trial.filter(|trial| trial.began_ns == began_ns) else { return Ok(None) };
    let generation = record.generation(trial.generation).cloned();
    Ok(generation.map(|generation| (trial, generation)))
}

fn nap(time: Duration, stop: &AtomicBool) {
    let naps = time.as_millis() / NAP.as_millis();
    for _ in 0..naps {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(NAP);
    }
}

/// What the guard knows of one generation.
struct Watch {
    generation: u32,
    lease: MapHandle,
    until_ns: u64,
    arms: Option<Arms>,
    ticks_per_s: f64,
    /// Readings of the latest window, oldest first.
    readings: VecDeque<(u64, BTreeMap<u32, ArmCells>)>,
    looked_ns: u64,
    judgements: Vec<RuleJudgement>,
    history: History,
    recent: Option<Recent>,
}

impl Watch {
    fn start(
        trial: &TrialRecord,
        generation: &GenerationRecord,
        (earlier, layouts): (Option<Watch>, fn() -> Layouts),
    ) -> Result<Self> {
        let pins = PolicyPins::of(Pins::writable()?);
        let lease = MapHandle::from_pinned_path(pins.part(trial.generation, "lease")).context("open the lease")?;
        let record = PolicyRecord::read(&Store::of_host())?;
        let slots = slots_of(&generation.policy, &record);
        let labels: OwnedFd = bpf::open_pin(&pins.labels())?;
        let arms = (!slots.is_empty()).then(|| Arms::start(&labels, generation.number, &slots)).transpose()?;
        let recent = match earlier.and_then(|earlier| earlier.recent) {
            Some(recent) => Some(recent),
            None if is_guarded(&generation.policy) => Recent::start(layouts()).ok(), // an incident without a recording is one too
            None => None,
        };
        Ok(Watch {
            generation: generation.number,
            lease,
            until_ns: lease_of(trial)?.context("read the lease")?,
            arms,
            ticks_per_s: ticks_per_s(),
            readings: VecDeque::new(),
            looked_ns: 0,
            judgements: Vec::new(),
            history: History::default(),
            recent,
        })
    }

    /// Gives a sign of life; returns how long there was none, where that was too long.
    fn renew(&mut self, trial: &TrialRecord) -> Result<Option<Duration>> {
        let now_ns = clock::boottime_ns()?;
        if now_ns >= self.until_ns {
            let since_ns = self.until_ns.saturating_sub(trial.lease_ns);
            return Ok(Some(Duration::from_nanos(now_ns.saturating_sub(since_ns))));
        }
        self.until_ns = now_ns + trial.lease_ns;
        let value = self.until_ns.to_ne_bytes();
        self.lease.update(&0u32.to_ne_bytes(), &value, MapFlags::ANY).context("renew the lease")?;
        Ok(None)
    }

    /// Looks if that is due, and does what follows; true when the trial is over.
    fn act(&mut self, trial: &TrialRecord, generation: &GenerationRecord) -> Result<bool> {
        let now_ns = clock::boottime_ns()?;
        let policy = &generation.policy;
        let is_due = |at: Option<u64>| at.is_some_and(|at| now_ns >= at);
        let rules = trial.rules.iter().filter_map(|progress| {
            let rule = policy.rules.iter().find(|rule| rule.name == progress.rule)?;
            view::due_ns(rule, progress)
        });
        let is_something_due = is_due(trial.deadline_ns) || rules.into_iter().any(|at| is_due(Some(at)));
        if !is_something_due && now_ns.saturating_sub(self.looked_ns) < LOOK_EVERY.as_nanos() as u64 {
            return Ok(false);
        }
        self.look(trial, policy, now_ns)?;
        let next = progress::next(trial, policy, &self.judgements, now_ns);
        self.write_view(trial, policy, now_ns);
        self.follow(next, trial, generation)
    }

    fn look(&mut self, trial: &TrialRecord, policy: &Policy, now_ns: u64) -> Result<()> {
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
        let record = PolicyRecord::read(&Store::of_host())?;
        let seen = Seen { whole: &whole, recent: &recent, ticks_per_s: self.ticks_per_s };
        self.judgements = judge::judge(policy, &record, seen);
        self.readings.push_back((now_ns, whole));
        let at_s = now_ns.saturating_sub(trial.began_ns) as f64 / 1e9;
        self.history.add(at_s, &self.judgements);
        Ok(())
    }

    /// Nobody but those who look needs this: what cannot be written is left.
    fn write_view(&self, trial: &TrialRecord, policy: &Policy, now_ns: u64) {
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

    fn follow(&mut self, next: Next, trial: &TrialRecord, generation: &GenerationRecord) -> Result<bool> {
        match next {
            Next::Wait => Ok(false),
            Next::Revert { why, is_incident } => {
                // First back, then the paperwork.
                let folder = is_incident.then(incident::new_folder);
                end::revert_with(&why, folder.clone())?;
                if let Some(folder) = folder {
                    let facts = incident::Facts { why: &why, trial, generation, judgements: &self.judgements };
                    incident::write(&folder, &facts, &self.history, self.recent.take())?;
                }
                Ok(true)
            }
            Next::Conclude { why } => end::keep(None, &why).map(|_| true),
            Next::Change { rules, is_step, .. } => {
                change_progress(trial, generation, rules, is_step)?;
                Ok(false)
            }
        }
    }
}

/// Writes the rules' progress down; where a share rises, another generation decides from now on.
///
/// Errors: the trial is over meanwhile; the kernel refuses the generation.
/// Side effects: those of [`generation::apply`].
pub fn change_progress(
    trial: &TrialRecord,
    generation: &GenerationRecord,
    rules: Vec<RuleProgress>,
    is_step: bool,
) -> Result<()> {
    let store = Store::of_host();
    let trial = TrialRecord { rules, ..trial.clone() };
    let applied = {
        let locked = store.lock()?;
        if !is_step {
            let mut record = PolicyRecord::read(&store)?;
            record.trial = Some(trial);
            return record.write(&locked);
        }
        let policy = progress::at_progress(&generation.policy, &trial.rules);
        let until_ns = clock::boottime_ns()? + trial.lease_ns;
        let role = Role::Continues(NewTrial { trial: trial.clone(), until_ns });
        generation::apply(&locked, NewGeneration { policy: &policy, file: generation.file.as_deref(), role })?
    };
    if trial.live {
        change::move_open(&applied)?;
    }
    Ok(())
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
