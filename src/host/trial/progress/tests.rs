//! Steps of a trial.

use std::time::Duration;

use super::*;
use crate::policy::ending::{LimitAtEnd, Shown};
use crate::policy::rule::{Arm, Match, Portion, RolloutStep, Rule, RuleTrial, Split, SplitBy};
use crate::trial::judge::{LimitJudgement, blank};
use crate::trial::shown;

const SECOND: u64 = 1_000_000_000;
const BEGAN: u64 = 1000 * SECOND;

fn trial_of(deadline_s: Option<u64>, state: RuleState) -> TrialRecord {
    TrialRecord {
        began_ns: BEGAN,
        deadline_ns: deadline_s.map(|seconds| BEGAN + seconds * SECOND),
        rules: vec![RuleProgress { rule: "web".into(), step: 0, since_ns: BEGAN, state, shown: Vec::new() }],
        ..TrialRecord::default()
    }
}

/// One rule with a limit and two steps of ten seconds each, unless `change` changes them.
fn policy_of(change: impl FnOnce(&mut RuleTrial)) -> Policy {
    let step = |hundredths| RolloutStep { portion: Portion(hundredths), duration: Duration::from_secs(10) };
    let mut trial = RuleTrial {
        limits: vec!["retransmitted<1.2x".parse().unwrap()],
        steps: vec![step(500), step(10_000)],
        ..RuleTrial::default()
    };
    change(&mut trial);
    let arms = [("dtcp", 500), ("keep", 9500)];
    let arms = arms.map(|(name, part)| Arm { treatment: name.into(), portion: Portion(part) });
    let rule = Rule::new("web", Match::default(), Split { arms: arms.into(), by: SplitBy::Connection });
    Policy { rules: vec![Rule { trial: Some(trial), ..rule }] }
}

fn seen(state: LimitState) -> Vec<RuleJudgement> {
    let arm = Arm { treatment: "dtcp".into(), portion: Portion(500) };
    let blank = blank(&"retransmitted<1.2x".parse().unwrap(), &arm);
    let limit = LimitJudgement { ratio: Some(2.0), state, ..blank };
    vec![RuleJudgement { rule: "web".into(), arms: Vec::new(), limits: vec![limit], is_broken: false }]
}

fn broken() -> Vec<RuleJudgement> {
    seen(LimitState::Undecided).into_iter().map(|it| RuleJudgement { is_broken: true, ..it }).collect()
}

fn at(seconds: u64) -> u64 {
    BEGAN + seconds * SECOND
}

#[track_caller]
fn assert_reverts(next: &NextMove, incident: bool, words: &str) {
    let NextMove::Revert { why, is_incident } = next else { panic!("{next:?}") };
    assert!(why.contains(words) && *is_incident == incident, "{next:?}");
}

#[track_caller]
fn changed(next: NextMove) -> (Vec<RuleProgress>, bool) {
    let NextMove::Change { rules, is_step, .. } = next else { panic!("{next:?}") };
    (rules, is_step)
}

/// Known defects of other tools: they checked no limit while a step waited, and none at the last promotion.
#[test]
fn crossed_limit_reverts_in_every_state() {
    let policy = policy_of(|_| {});
    let crossed = seen(LimitState::Crossed);
    for (paused, step, now) in [(false, 0, at(1)), (true, 0, at(1)), (true, 0, at(999)), (false, 1, at(10))] {
        let mut trial = TrialRecord { paused, ..trial_of(None, RuleState::Judged) };
        trial.rules[0].step = step;
        let words = "\"dtcp\" crossed the limit retransmitted<1.2x: retransmitted is 2.00 times";
        assert_reverts(&next(&trial, &policy, &crossed, now), true, words);
    }
    let passed = trial_of(Some(100), RuleState::Passed);
    assert_reverts(&next(&passed, &policy, &crossed, at(50)), true, "rule \"web\"");
}

#[test]
fn crossed_limit_freezes_where_the_rule_says_so_and_once_only() {
    let policy = policy_of(|trial| trial.on_fail = OnFail::Freeze);
    let crossed = seen(LimitState::Crossed);
    let next_move = next(&trial_of(None, RuleState::Judged), &policy, &crossed, at(1));
    let NextMove::Change { rules, is_step: false, is_incident: true, why } = next_move else { panic!("{next_move:?}") };
    assert_eq!(rules[0].state, RuleState::Frozen);
    assert!(why.contains("crossed the limit retransmitted<1.2x"), "{why}");
    assert_eq!(next(&trial_of(None, RuleState::Frozen), &policy, &crossed, at(999)), NextMove::Wait);
}

#[test]
fn share_rises_when_the_time_is_over_and_every_limit_is_shown_to_hold() {
    let policy = policy_of(|_| {});
    let (trial, safe) = (trial_of(None, RuleState::Judged), seen(LimitState::Safe));
    assert_eq!(next(&trial, &policy, &safe, at(9)), NextMove::Wait);
    let (rules, is_step) = changed(next(&trial, &policy, &safe, at(10)));
    assert_eq!((rules[0].step, rules[0].since_ns, is_step), (1, at(10), true));
    let arms: Vec<_> = at_progress(&policy, &rules).rules[0].split.arms.iter().map(|arm| arm.portion.0).collect();
    assert_eq!(arms, [10_000]);
    let last = TrialRecord { rules, ..trial };
    assert_eq!(next(&last, &policy, &safe, at(19)), NextMove::Wait);
    assert!(matches!(next(&last, &policy, &safe, at(20)), NextMove::Conclude { .. }));
}

/// Once the first rule that crossed a limit decided for all rules. A rule that freezes then prevented another's revert.
#[test]
fn one_rule_that_reverts_is_enough() {
    let mut policy = policy_of(|trial| trial.on_fail = OnFail::Freeze);
    let mut other = policy_of(|_| {}).rules.remove(0);
    other.name = "mail".into();
    policy.rules.push(other);
    let mut trial = trial_of(None, RuleState::Judged);
    trial.rules.push(RuleProgress { rule: "mail".into(), ..trial.rules[0].clone() });
    let mut crossed = seen(LimitState::Crossed);
    crossed.push(RuleJudgement { rule: "mail".into(), ..crossed[0].clone() });
    assert_reverts(&next(&trial, &policy, &crossed, at(1)), true, "rule \"mail\"");
    let (rules, _) = changed(next(&trial, &policy, &crossed[..1], at(1)));
    assert_eq!([rules[0].state, rules[1].state], [RuleState::Frozen, RuleState::Judged]);
}

/// Once a paused step was reverted when its time was over and its limit was undecided.
#[test]
fn paused_steps_wait_for_a_person() {
    let policy = policy_of(|_| {});
    let paused = TrialRecord { paused: true, ..trial_of(None, RuleState::Judged) };
    for state in [LimitState::Safe, LimitState::Undecided] {
        assert_eq!(next(&paused, &policy, &seen(state), at(999)), NextMove::Wait);
    }
    assert_eq!(next(&paused, &policy, &broken(), at(999)), NextMove::Wait);
}

#[test]
fn undecided_limit_goes_as_the_rule_says_and_broken_measurement_promotes_nothing() {
    let of = |undecided| policy_of(|trial| trial.undecided = undecided);
    let trial = trial_of(None, RuleState::Judged);
    let unclear = seen(LimitState::Undecided);
    assert_reverts(&next(&trial, &of(Undecided::Revert), &unclear, at(10)), false, "the rule says revert");
    assert_eq!(changed(next(&trial, &of(Undecided::Proceed), &unclear, at(10))).0[0].step, 1);
    assert_eq!(next(&trial, &of(Undecided::Hold), &unclear, at(999)), NextMove::Wait);
    assert_eq!(next(&trial, &of(Undecided::Proceed), &broken(), at(999)), NextMove::Wait);
    assert_reverts(&next(&trial, &of(Undecided::Revert), &broken(), at(10)), false, "not shown");
}

/// Once "every limit is shown to hold" after a trial without a connection, because nothing is comparable at 100 %.
#[test]
fn last_step_at_all_connections_needs_no_comparison_and_claims_none() {
    let policy = policy_of(|_| {});
    let conclude = |first: LimitState, words: &str| {
        let mut trial = trial_of(None, RuleState::Judged);
        advance(&mut trial.rules[0], &policy.rules[0], seen(first).first(), at(0));
        let next = next(&trial, &policy, &seen(LimitState::NotComparable), at(10));
        let NextMove::Conclude { why } = next else { panic!("{next:?}") };
        assert!(why.ends_with(words), "{why}");
        let shown = |it: &LimitAtEnd| it.shown;
        let at_end = shown::limits(&trial, &policy, &seen(LimitState::NotComparable));
        at_end.iter().map(shown).collect::<Vec<_>>()
    };
    assert_eq!(conclude(LimitState::Safe, "every limit is shown to hold"), [Shown::Held]);
    assert_eq!(conclude(LimitState::Undecided, "nothing is left to compare with"), [Shown::NoControl]);
}

#[test]
fn limit_at_the_end_says_why_it_was_not_decided() {
    let (policy, trial) = (policy_of(|_| {}), trial_of(None, RuleState::Judged));
    let check = |judgements: &[RuleJudgement], expected: Shown, why: Option<&str>| {
        let limits = shown::limits(&trial, &policy, judgements);
        assert_eq!((limits.len(), limits[0].shown, limits[0].why.as_deref()), (1, expected, why));
    };
    check(&seen(LimitState::Safe), Shown::Held, None);
    check(&seen(LimitState::Crossed), Shown::Crossed, None);
    check(&seen(LimitState::Undecided), Shown::NeverDecided, Some("the data show neither harm nor its absence"));
    check(&[], Shown::NeverDecided, Some("the guard has not looked since the latest step began"));
}

/// Without a time limit, the trial waits for a person. With one, it is reverted unless a person confirms it in time.
/// The deadline of a rule concludes the trial by itself.
#[test]
fn rule_without_steps_ends_by_a_person_or_its_deadline() {
    let mut policy = policy_of(|trial| trial.steps.clear());
    let safe = seen(LimitState::Safe);
    assert_eq!(next(&trial_of(None, RuleState::Judged), &policy, &safe, at(99_999)), NextMove::Wait);
    for state in [RuleState::Judged, RuleState::Passed] {
        assert_eq!(next(&trial_of(Some(60), state), &policy, &safe, at(59)), NextMove::Wait);
    }
    let late = next(&trial_of(Some(60), RuleState::Judged), &policy, &safe, at(60));
    assert_reverts(&late, false, "nobody confirmed it in time");
    policy.rules[0].trial.as_mut().unwrap().deadline = Some(Duration::from_secs(30));
    let trial = trial_of(None, RuleState::Judged);
    assert_eq!(next(&trial, &policy, &safe, at(29)), NextMove::Wait);
    assert!(matches!(next(&trial, &policy, &safe, at(30)), NextMove::Conclude { .. }));
}
