//! Judges each limit of each rule on trial by the sums of the rule's arms.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::arms::{ArmCells, connections_of, effect_of, sums_of};
use crate::model::guard::{
    self, ArmSums, CONNECTIONS_MIN, EVENTS_MIN, Limit, LimitVerdict, Look, MISMATCH, NotYet, PEER_FOLDS_MIN, Worse,
};
use crate::policy::record::PolicyRecord;
use crate::policy::rule::{Allowed, Arm, GuardLimit, GuardMetric, Policy, Rule, SplitBy, Treatment};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleJudgement {
    pub rule: String,
    /// Since the latest step, in the order of the rule.
    pub arms: Vec<ArmSeen>,
    /// Each limit for each arm that got an algorithm.
    pub limits: Vec<LimitJudgement>,
    /// The arms do not have the shares of the split, so nothing is judged.
    pub is_broken: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSeen {
    /// An algorithm, or `keep`.
    pub arm: String,
    /// Share of the split, 0 to 1.
    pub share: f64,
    pub connections: u64,
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
    /// For absolute limits, over the latest window.
    pub value: Option<f64>,
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
    /// Whether the limit holds. At a share of 100 %, a relative limit was shown to hold in the earlier steps.
    pub fn is_met(self) -> bool {
        matches!(self, LimitState::Safe | LimitState::NotComparable)
    }
}

/// Sums of the arms by their numbers in labels.
#[derive(Debug, Clone, Copy)]
pub struct SeenSums<'a> {
    /// Since the generation began.
    pub whole: &'a BTreeMap<u32, ArmCells>,
    /// In the latest window, for absolute limits.
    pub recent: &'a BTreeMap<u32, ArmCells>,
    pub ticks_per_s: f64,
}

pub fn judge(policy: &Policy, record: &PolicyRecord, seen: SeenSums) -> Vec<RuleJudgement> {
    policy.on_trial().map(|rule| judge_rule(rule, record, seen)).collect()
}

fn judge_rule(rule: &Rule, record: &PolicyRecord, seen: SeenSums) -> RuleJudgement {
    let slot = |arm: &Arm| slot_of(record, &rule.name, &arm.treatment);
    let cells = |arm: &Arm, of: &BTreeMap<u32, ArmCells>| slot(arm).and_then(|slot| of.get(&slot)).copied();
    let whole = |arm: &Arm| cells(arm, seen.whole).unwrap_or_default();
    let arms = rule.split.arms.iter().map(|arm| ArmSeen {
        arm: arm.treatment.to_string(),
        share: arm.portion.fraction(),
        connections: connections_of(&whole(arm)),
        values: values_of(&whole(arm), seen.ticks_per_s),
    });
    let arms: Vec<ArmSeen> = arms.collect();
    let is_broken = is_broken(&arms, rule.split.by);
    let trial = rule.trial.as_ref().expect("only rules on trial are judged");
    let treated: Vec<&Arm> = rule.split.arms.iter().filter(|arm| arm.treatment != Treatment::Keep).collect();
    let control = rule.split.arms.iter().find(|arm| arm.treatment == Treatment::Keep && arm.portion.0 > 0);
    // Each limit decides once for each arm and each step.
    let decisions = trial.limits.len() * treated.len() * trial.steps.len().max(1);
    let mut limits = Vec::new();
    for arm in &treated {
        for limit in &trial.limits {
            let blank = blank(limit, arm);
            limits.push(match (limit.allowed, control) {
                _ if is_broken => LimitJudgement { why_not: Some(BROKEN.to_owned()), ..blank },
                (Allowed::Absolute(value), _) => {
                    let recent = cells(arm, seen.recent).unwrap_or_default();
                    let mut sums = sums_of(&recent, limit.metric, seen.ticks_per_s);
                    sums.connections = connections_of(&whole(arm)); // includes connections from before the window
                    absolute(blank, &sums, limit_of(limit.metric, value))
                }
                (Allowed::Relative(value), Some(control)) => {
                    let pair = [whole(arm), whole(control)];
                    relative(blank, &pair, (limit_of(limit.metric, value), decisions), seen.ticks_per_s)
                }
                (Allowed::Relative(_), None) => {
                    let state = LimitState::NotComparable;
                    LimitJudgement { state, why_not: Some(NO_CONTROL.to_owned()), ..blank }
                }
            });
        }
    }
    RuleJudgement { rule: rule.name.clone(), arms, limits, is_broken }
}

const BROKEN: &str = "the arms do not have the shares of the split, so that nothing is judged";
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

/// Whether the numbers of connections contradict the split beyond chance, for example because one arm loses some.
///
/// In a split by peers or prefixes, connections come in clusters, so their numbers say nothing.
fn is_broken(arms: &[ArmSeen], by: SplitBy) -> bool {
    if by != SplitBy::Connection {
        return false;
    }
    let observed: Vec<u64> = arms.iter().map(|arm| arm.connections).collect();
    let expected: Vec<f64> = arms.iter().map(|arm| arm.share).collect();
    guard::sample_ratio_e(&observed, &expected).is_some_and(|e| e >= MISMATCH)
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
        state: LimitState::Undecided,
        why_not: None,
    }
}

/// Converts a limit to the form that the statistics use.
pub fn limit_of(metric: GuardMetric, value: f64) -> Limit {
    Limit { value, worse: if metric.is_better_when_high() { Worse::Below } else { Worse::Above } }
}

/// A value beyond the limit crosses it. A value within it is safe once there are enough connections.
fn absolute(blank: LimitJudgement, sums: &ArmSums, limit: Limit) -> LimitJudgement {
    let effect = effect_of(blank.metric);
    let (state, why_not) = match guard::exceeds(sums, effect, limit) {
        Some(true) => (LimitState::Crossed, None),
        Some(false) => (LimitState::Safe, None),
        None => (LimitState::Undecided, Some(format!("{} connections are not enough", sums.connections))),
    };
    LimitJudgement { value: sums.value(effect), state, why_not, ..blank }
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
