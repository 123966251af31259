//! Judges each limit of each rule on trial by the sums of the rule's arms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::arms::{ArmCells, connections_of, effect_of, sums_of, units_of};
use super::windows::Window;
use crate::policy::record::{PolicyRecord, RuleProgress};
use crate::policy::rule::{Allowed, Arm, GuardLimit, GuardMetric, Policy, Rule, Treatment};
use shared::model::guard::{
    self, CONNECTIONS_MIN, EVENTS_MIN, Limit, LimitVerdict, Look, MISMATCH, NotYet, PEER_FOLDS_MIN, ValueNoise,
    ValueVerdict, WindowSums, Worse,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleJudgement {
    pub rule: String,
    /// Since the latest step, in the order of the rule.
    pub arms: Vec<ArmSeen>,
    /// Each limit for each arm that got an algorithm.
    pub limits: Vec<LimitJudgement>,
    /// The arms do not have the shares of the split, so relative limits are not judged.
    pub is_broken: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSeen {
    /// An algorithm, or `keep`.
    pub arm: String,
    /// Share of the split, 0 to 1.
    pub share: f64,
    pub connections: u64,
    /// Distinct connections, peers or prefixes, whatever the rule splits by.
    #[serde(default)]
    pub units: u64,
    pub values: BTreeMap<GuardMetric, f64>,
}

/// One limit for one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitJudgement {
    pub limit: String,
    pub metric: GuardMetric,
    pub arm: String,
    /// Treated over control. `None` without enough data, and for absolute limits.
    pub ratio: Option<f64>,
    /// Confidence interval of the ratio, valid over all looks together.
    pub interval: Option<[f64; 2]>,
    /// E-values for being worse and for being better than the limit.
    pub evidence: Option<[f64; 2]>,
    /// The e-value that a decision needs.
    pub needed: Option<f64>,
    /// For absolute limits: the value over the latest minute, or over the window that crossed the limit.
    pub value: Option<f64>,
    /// Length of the window of `value`, seconds.
    #[serde(default)]
    pub window_s: Option<f64>,
    pub state: LimitState,
    /// Why nothing can be said yet.
    pub why_not: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitState {
    /// The arm is worse than the limit allows.
    Crossed,
    /// The arm is shown to be within the limit.
    Safe,
    /// Neither is shown.
    Undecided,
    /// At a share of 100 %, a relative limit has no control arm.
    NotComparable,
}

impl LimitState {
    /// Whether more data may decide it.
    pub fn is_open(self) -> bool {
        matches!(self, LimitState::Undecided | LimitState::Crossed)
    }
}

impl LimitJudgement {
    /// The limit and its arm, as in [`RuleProgress::shown`].
    pub fn key(&self) -> String {
        format!("{} for {}", self.limit, self.arm)
    }

    /// Whether the limit is shown to hold: now, or in the step before if nothing is left to compare with.
    pub fn is_shown(&self, progress: &RuleProgress) -> bool {
        match self.state {
            LimitState::Safe => true,
            LimitState::NotComparable => progress.shown.contains(&self.key()),
            LimitState::Undecided | LimitState::Crossed => false,
        }
    }
}

impl LimitJudgement {
    /// The window of `value` in words, such as `latest minute`.
    pub fn window(&self) -> String {
        match self.window_s.map(|seconds| seconds.round() as u64) {
            None | Some(55..90) => "latest minute".to_owned(),
            Some(seconds @ ..55) => format!("latest {seconds} s"),
            Some(seconds) => format!("latest {} minutes", (seconds + 30) / 60),
        }
    }
}

/// Sums of the arms by their numbers in labels.
#[derive(Debug, Clone, Copy)]
pub struct SeenSums<'a> {
    /// Since the generation began.
    pub whole: &'a BTreeMap<u32, ArmCells>,
    /// For absolute limits. The shortest first, the whole time last.
    pub windows: &'a [Window],
    pub ticks_per_s: f64,
}

/// Number of times that the sums of a trial begin anew: each step of any rule makes a new generation for all rules.
fn beginnings(policy: &Policy) -> usize {
    1 + policy.on_trial().map(|rule| rule.steps().len().saturating_sub(1)).sum::<usize>()
}

/// Number of decisions of a trial that may each revert it by chance: each limit of each treated arm of all rules, once
/// for each beginning of the sums.
///
/// Earlier steps leave no evidence behind, and a limit that held in one of them may be crossed by chance in the next.
pub fn decisions(policy: &Policy) -> usize {
    let of_rule = |rule: &Rule| rule.trial.as_ref().map_or(0, |trial| trial.limits.len()) * treated(rule).count();
    policy.on_trial().map(of_rule).sum::<usize>() * beginnings(policy)
}

fn treated(rule: &Rule) -> impl Iterator<Item = &Arm> {
    rule.split.arms.iter().filter(|arm| arm.treatment != Treatment::Keep)
}

pub fn judge(policy: &Policy, record: &PolicyRecord, seen: SeenSums) -> Vec<RuleJudgement> {
    let tests = policy.on_trial().count() * beginnings(policy);
    let counts = (decisions(policy), tests);
    policy.on_trial().map(|rule| judge_rule(rule, record, seen, counts)).collect()
}

fn judge_rule(rule: &Rule, record: &PolicyRecord, seen: SeenSums, (decisions, tests): (usize, usize)) -> RuleJudgement {
    let slot = |arm: &Arm| slot_of(record, &rule.name, &arm.treatment);
    let whole = |arm: &Arm| slot(arm).and_then(|slot| seen.whole.get(&slot)).copied().unwrap_or_default();
    let arms = rule.split.arms.iter().map(|arm| ArmSeen {
        arm: arm.treatment.to_string(),
        share: arm.portion.fraction(),
        connections: connections_of(&whole(arm)),
        units: units_of(&whole(arm)),
        values: values_of(&whole(arm), seen.ticks_per_s),
    });
    let arms: Vec<ArmSeen> = arms.collect();
    let is_broken = is_broken(&arms, tests);
    let trial = rule.trial.as_ref().expect("only rules on trial are judged");
    let control = rule.split.arms.iter().find(|arm| arm.treatment == Treatment::Keep && arm.portion.0 > 0);
    let mut limits = Vec::new();
    for arm in treated(rule) {
        for limit in &trial.limits {
            let blank = blank(limit, arm);
            limits.push(match (limit.allowed, control) {
                (Allowed::Absolute(value), _) => {
                    absolute(blank, slot(arm), (limit_of(limit.metric, value), decisions), seen)
                }
                (Allowed::Relative(_), None) => {
                    let state = LimitState::NotComparable;
                    LimitJudgement { state, why_not: Some(NO_CONTROL.to_owned()), ..blank }
                }
                (Allowed::Relative(_), Some(_)) if is_broken => {
                    LimitJudgement { why_not: Some(BROKEN.to_owned()), ..blank }
                }
                (Allowed::Relative(value), Some(control)) => {
                    let pair = [whole(arm), whole(control)];
                    relative(blank, &pair, (limit_of(limit.metric, value), decisions), seen.ticks_per_s)
                }
            });
        }
    }
    RuleJudgement { rule: rule.name.clone(), arms, limits, is_broken }
}

const BROKEN: &str = "the arms do not have the shares of the split, so they cannot be compared";
const NO_CONTROL: &str = "no connection keeps its algorithm, so that there is nothing to compare with";

/// The number of an arm in labels.
pub fn slot_of(record: &PolicyRecord, rule: &str, treatment: &Treatment) -> Option<u32> {
    let arm = treatment.to_string();
    let place = record.slots.iter().position(|slot| slot.rule == rule && slot.arm == arm)?;
    u32::try_from(place + 1).ok()
}

fn values_of(cells: &ArmCells, ticks_per_s: f64) -> BTreeMap<GuardMetric, f64> {
    let value = |metric| sums_of(cells, metric, ticks_per_s).value(effect_of(metric));
    GuardMetric::ALL.into_iter().filter_map(|metric| Some((metric, value(metric)?))).collect()
}

/// Whether the numbers of units contradict the split beyond chance, for example because one arm loses connections.
fn is_broken(arms: &[ArmSeen], tests: usize) -> bool {
    let observed: Vec<u64> = arms.iter().map(|arm| arm.units).collect();
    let expected: Vec<f64> = arms.iter().map(|arm| arm.share).collect();
    guard::sample_ratio_e(&observed, &expected).is_some_and(|e| e >= MISMATCH * tests as f64)
}

pub(super) fn blank(limit: &GuardLimit, arm: &Arm) -> LimitJudgement {
    LimitJudgement {
        limit: limit.to_string(),
        metric: limit.metric,
        arm: arm.treatment.to_string(),
        ratio: None,
        interval: None,
        evidence: None,
        needed: None,
        value: None,
        window_s: None,
        state: LimitState::Undecided,
        why_not: None,
    }
}

/// Converts a limit to the form that the statistics use.
pub fn limit_of(metric: GuardMetric, value: f64) -> Limit {
    Limit { value, worse: if metric.is_better_when_high() { Worse::Below } else { Worse::Above } }
}

/// A value that is beyond the limit in any window by more than chance crosses it. A value within the limit is safe once
/// the whole time has enough data: a quiet minute decides nothing.
fn absolute(
    blank: LimitJudgement,
    slot: Option<u32>,
    (limit, decisions): (Limit, usize),
    seen: SeenSums,
) -> LimitJudgement {
    let noise = noise_of(blank.metric);
    let look = |window: &Window| {
        let cells = slot.and_then(|slot| window.cells.get(&slot)).copied().unwrap_or_default();
        let sums = window_sums(&cells, blank.metric, window, seen.ticks_per_s);
        (window.seconds, sums, guard::judge_value(&sums, &noise, limit, decisions))
    };
    let looks: Vec<(f64, WindowSums, ValueVerdict)> = seen.windows.iter().map(look).collect();
    let crossed = looks.iter().find(|(.., verdict)| *verdict == ValueVerdict::Beyond);
    let (state, why_not) = match (crossed, looks.last().map(|(.., verdict)| *verdict)) {
        (Some(_), _) => (LimitState::Crossed, None),
        (None, Some(ValueVerdict::Within)) => (LimitState::Safe, None),
        (None, verdict) => (LimitState::Undecided, verdict.map(|verdict| verdict.to_string())),
    };
    let shown = crossed.or(looks.first()).and_then(|(seconds, sums, _)| Some((*seconds, sums.value(noise.effect)?)));
    let (window_s, value) = shown.unzip();
    LimitJudgement { value, window_s, state, why_not, ..blank }
}

fn noise_of(metric: GuardMetric) -> ValueNoise {
    match metric {
        GuardMetric::Retransmitted => ValueNoise::RETRANSMITTED,
        GuardMetric::Timeouts => ValueNoise::TIMEOUTS,
        GuardMetric::RttInflation => ValueNoise::RTT_INFLATION,
        GuardMetric::Goodput => ValueNoise::GOODPUT,
        GuardMetric::AbnormalEnds => ValueNoise::ABNORMAL_ENDS,
    }
}

/// Timeouts are per connection that was active in the window, so that a pool of long connections is not divided by the few
/// new ones.
///
/// Each reading counts the older connections that sent something since the previous one. The mean over the window's readings
/// is the number of connections that are active in a minute; longer windows count it once a minute. A connection that sends
/// in only one of a minute's six readings counts as a sixth.
fn window_sums(cells: &ArmCells, metric: GuardMetric, window: &Window, ticks_per_s: f64) -> WindowSums {
    let mut sums = sums_of(cells, metric, ticks_per_s).total();
    let active = cells.iter().map(|cell| cell.active).sum::<u64>() as f64 / window.readings.max(1) as f64;
    let connections = connections_of(cells) as f64 + active * (window.seconds / 60.0).max(1.0);
    if metric == GuardMetric::Timeouts {
        sums.denominator = connections;
    }
    WindowSums { connections, sums }
}

fn relative(
    blank: LimitJudgement,
    [treated, control]: &[ArmCells; 2],
    (limit, decisions): (Limit, usize),
    ticks_per_s: f64,
) -> LimitJudgement {
    let effect = effect_of(blank.metric);
    let [treated, control] = [treated, control].map(|cells| sums_of(cells, blank.metric, ticks_per_s));
    let estimate = match guard::estimate(&treated, &control, effect) {
        Ok(estimate) => estimate,
        Err(why) => return LimitJudgement { why_not: Some(phrase(why)), ..blank },
    };
    let Look { ratio, interval, e_worse, e_safe, needed, verdict } = guard::look(&estimate, limit, decisions);
    let state = match verdict {
        LimitVerdict::Crossed => LimitState::Crossed,
        LimitVerdict::Safe => LimitState::Safe,
        LimitVerdict::Undecided => LimitState::Undecided,
    };
    LimitJudgement {
        ratio: Some(ratio),
        interval,
        evidence: Some([e_worse, e_safe]),
        needed: Some(needed),
        state,
        ..blank
    }
}

fn phrase(why: NotYet) -> String {
    match why {
        NotYet::FewConnections { seen } => {
            format!("the smaller arm has {seen} connections of the {CONNECTIONS_MIN} that a comparison needs")
        }
        NotYet::FewEvents { seen } => format!("{seen} events of the {EVENTS_MIN} that a comparison needs"),
        NotYet::FewPeers { folds } => {
            format!("peers in {folds} groups of the {PEER_FOLDS_MIN} that a comparison needs: too few different peers")
        }
        NotYet::NoSpread => "all groups of peers have equal values, so no confidence interval can be given".to_owned(),
    }
}

#[cfg(test)]
mod tests;
