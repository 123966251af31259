//! Watches one generation on trial: renews its lease, looks at its arms, and acts on the result.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::policy::ending::TrialEnding;
use crate::policy::lease;
use crate::policy::pins::PolicyPins;
use crate::policy::record::{GenerationRecord, PolicyRecord, TrialRecord};
use crate::policy::rule::{Policy, Rule};
use crate::state::Store;
use crate::state::pins::Pins;
use crate::trace::gather::Layouts;
use crate::trial::arms::ArmCounter;
use crate::trial::incident::{self, Recent};
use crate::trial::judge::{self, RuleJudgement, SeenSums};
use crate::trial::progress::{self, NextMove};
use crate::trial::view::{self, LookHistory, TrialView};
use crate::trial::windows::Readings;
use crate::trial::{current, end, shown, step};
use crate::waits;
use shared::kernel::probe::Features;
use shared::kernel::{bpf, clock};
use shared::units::nanos;

/// Interval between looks. The guard looks earlier if something is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

pub(super) enum Tick {
    On,
    /// The trial has ended.
    Over,
}

pub(super) struct TrialWatch {
    pub(super) generation: u32,
    lease: MapHandle,
    until_ns: u64,
    /// When the lease was last renewed.
    alive_ns: u64,
    arms: Option<ArmCounter>,
    ticks_per_s: f64,
    readings: Readings,
    looked_ns: u64,
    judgements: Vec<RuleJudgement>,
    history: LookHistory,
    /// The trial in the latest view.
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
        let of_rule = |rule: &Rule| -> Vec<u32> {
            let arms = rule.split.arms.iter();
            arms.filter_map(|arm| judge::slot_of(record, &rule.name, &arm.treatment)).collect()
        };
        let slots: Vec<u32> = generation.policy.on_trial().flat_map(of_rule).collect();
        let labels: OwnedFd = bpf::open_pin(&pins.labels())?;
        let arms = (!slots.is_empty()).then(|| ArmCounter::start(&labels, generation.number, &slots)).transpose()?;
        let began_ns = clock::boottime_ns()?;
        let recent = match earlier.and_then(|earlier| earlier.recent) {
            None if generation.policy.rules.iter().any(Rule::is_guarded) => Some(Recent::start(layouts())),
            recent => recent,
        };
        Ok(TrialWatch {
            generation: generation.number,
            lease,
            until_ns: lease::of_trial(trial)?.context("read the lease")?,
            alive_ns: began_ns,
            arms,
            ticks_per_s: ticks_per_s(),
            readings: Readings::new(began_ns),
            looked_ns: 0,
            judgements: Vec::new(),
            history: LookHistory::default(),
            shown: None,
            recent,
            layouts,
        })
    }

    /// Renews the lease. If it was over already, returns the time since the last renewal.
    ///
    /// After the deadline, it neither renews the lease nor reports a gap.
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

    /// Looks at the arms if a look is due, and acts on the result.
    pub(super) fn act(
        &mut self,
        trial: &TrialRecord,
        generation: &GenerationRecord,
        record: &PolicyRecord,
    ) -> Result<Tick> {
        let now_ns = clock::boottime_ns()?;
        let policy = &generation.policy;
        let due = trial.rules.iter().filter_map(|progress| view::due_ns(policy.rule(&progress.rule)?, progress));
        // Something that was due at an earlier look waits for more data or for a person.
        let is_due = due.chain(trial.deadline_ns).any(|at| (self.looked_ns..=now_ns).contains(&at));
        if !is_due && now_ns.saturating_sub(self.looked_ns) < nanos(waits::time_of("guard.look", LOOK_INTERVAL)) {
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
        let windows = self.readings.add(now_ns, whole.clone());
        let seen = SeenSums { whole: &whole, windows: &windows, ticks_per_s: self.ticks_per_s };
        self.judgements = judge::judge(policy, record, seen);
        let at_s = now_ns.saturating_sub(trial.began_ns) as f64 / 1e9;
        self.history.add(at_s, &self.judgements);
        Ok(())
    }

    /// A failure is ignored, because only other commands read the view.
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
                // Reverts before it writes the incident.
                let folder = is_incident.then(incident::new_folder);
                let limits = shown::limits(trial, &generation.policy, &self.judgements);
                let ending = TrialEnding { incident: folder.clone(), limits, ..TrialEnding::reverted(why.clone()) };
                if let Some(reverted) = end::revert_where(is_own, ending)? {
                    let written = folder.map(|folder| self.write_incident(&folder, &why, (trial, generation)));
                    reverted.rest.and(written.unwrap_or(Ok(())))?;
                }
                Ok(Tick::Over)
            }
            NextMove::Conclude { why } => {
                let limits = shown::limits(trial, &generation.policy, &self.judgements);
                let ending = TrialEnding { limits, ..TrialEnding::kept(why) };
                end::keep_where(is_own, ending, &Features::probe()?).map(|_| Tick::Over)
            }
            NextMove::Change { rules, is_step, is_incident, why } => {
                let is_done = step::change_progress(&current::lock()?, trial, rules, is_step)?;
                if is_done && is_incident {
                    let written = self.write_incident(&incident::new_folder(), &why, (trial, generation));
                    self.recent = Some(Recent::start((self.layouts)()));
                    written?;
                }
                Ok(Tick::On)
            }
        }
    }

    fn write_incident(&mut self, folder: &Path, why: &str, of: (&TrialRecord, &GenerationRecord)) -> Result<()> {
        let recent = self.recent.take();
        incident::write(folder, why, of, (&self.judgements, &self.history), recent)
    }
}

/// The frequency of the kernel's tick, the unit of a connection's busy time.
fn ticks_per_s() -> f64 {
    use nix::time::{ClockId, clock_getres};
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).map_or(0.004, |tick| tick.tv_nsec() as f64 / 1e9);
    1.0 / tick
}
