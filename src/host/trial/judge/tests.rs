//! Judgements of the guard.

use super::*;
use crate::policy::record::ArmSlot;
use crate::policy::rule::{Match, Portion, RuleTrial, Split};
use crate::trial::arms::GuardCell;

const TICKS_PER_S: f64 = 250.0;

/// About the same values in each fold: connections, segments, retransmissions, ends, abnormal ends.
fn cells(number: usize, [connections, sent, retrans, ended, abnormal]: [u64; 5]) -> ArmCells {
    std::array::from_fn(|fold| {
        let extra = (fold + number) as u64 % 3;
        GuardCell([connections, 1000, 10, sent, retrans + extra, 0, 0, 0, ended, abnormal, connections, 0])
    })
}

fn policy(limits: &[&str], by: SplitBy, shares: &[(&str, u16)]) -> Policy {
    let arms = shares.iter().map(|(name, part)| Arm { treatment: (*name).into(), portion: Portion(*part) });
    let limits = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    let trial = Some(RuleTrial { limits, ..RuleTrial::default() });
    let rule = Rule::new("web", Match::default(), Split { arms: arms.collect(), by });
    Policy { rules: vec![Rule { trial, ..rule }] }
}

/// `arms`: the treated arm and the control arm.
fn judged(policy: &Policy, arms: [[u64; 5]; 2]) -> RuleJudgement {
    let slots = ["dtcp", "keep"].map(|arm| ArmSlot { rule: "web".into(), arm: arm.into() });
    let record = PolicyRecord { slots: slots.into(), ..PolicyRecord::default() };
    let arms = arms.into_iter().enumerate();
    let whole: BTreeMap<u32, ArmCells> = arms.map(|(number, arm)| (number as u32 + 1, cells(number, arm))).collect();
    let seen = SeenSums { whole: &whole, recent: &whole, ticks_per_s: TICKS_PER_S };
    judge(policy, &record, seen).remove(0)
}

const HALVES: [(&str, u16); 2] = [("dtcp", 5000), ("keep", 5000)];

#[track_caller]
fn check(limit: &str, arms: [[u64; 5]; 2], expected: LimitState) -> LimitJudgement {
    let judgement = judged(&policy(&[limit], SplitBy::Connection, &HALVES), arms);
    assert_eq!(judgement.limits[0].state, expected, "{judgement:?}");
    judgement.limits[0].clone()
}

#[test]
fn relative_limit_is_crossed_held_or_undecided() {
    let equal = [100, 10_000, 100, 90, 0];
    let crossed = check("retransmitted<1.2x", [[100, 10_000, 200, 90, 0], equal], LimitState::Crossed);
    assert!((crossed.ratio.unwrap() - 2.0).abs() < 0.05, "{crossed:?}");
    let [worse, better] = crossed.evidence.unwrap();
    assert!(worse > crossed.needed.unwrap() && better < 1.0, "{crossed:?}");
    check("retransmitted<1.2x", [equal, equal], LimitState::Safe);
    let few = check("retransmitted<1.2x", [[10, 1000, 20, 9, 0], [10, 1000, 10, 9, 0]], LimitState::Undecided);
    assert_eq!(few.why_not.unwrap(), "the smaller arm has 320 connections of the 500 that a comparison needs");
}

#[test]
fn absolute_limit_is_about_the_treated_arm_alone() {
    let fine = [100, 10_000, 100, 90, 0];
    let crossed = check("abnormal_ends<1%", [[100, 10_000, 100, 90, 2], fine], LimitState::Crossed);
    assert!((crossed.value.unwrap() - 2.0 / 90.0).abs() < 1e-9);
    check("abnormal_ends<1%", [fine, [100, 10_000, 100, 90, 50]], LimitState::Safe);
}

/// One arm lost a fifth of its connections before they could be counted.
#[test]
fn arms_without_their_shares_are_not_judged() {
    let limits = ["retransmitted<1.2x", "abnormal_ends<1%"];
    let arms = [[80, 10_000, 500, 80, 50], [100, 10_000, 100, 90, 0]];
    let judgement = judged(&policy(&limits, SplitBy::Connection, &HALVES), arms);
    assert!(judgement.is_broken);
    let said: Vec<_> = judgement.limits.iter().map(|limit| (limit.state, limit.why_not.clone().unwrap())).collect();
    let words = "the arms do not have the shares of the split, so that nothing is judged".to_owned();
    assert_eq!(said, vec![(LimitState::Undecided, words); 2]);
    // The same numbers of connections are no surprise under a split that says so.
    let shares = [("dtcp", 4444), ("keep", 5556)];
    assert!(!judged(&policy(&limits, SplitBy::Connection, &shares), arms).is_broken);
}

/// A peer with many connections was taken for a broken split.
#[test]
fn numbers_of_connections_say_nothing_where_peers_are_split() {
    let arms = [[80, 10_000, 500, 80, 50], [100, 10_000, 100, 90, 0]];
    for by in [SplitBy::Peer, SplitBy::Prefix] {
        let judgement = judged(&policy(&["retransmitted<1.2x"], by, &HALVES), arms);
        assert_eq!((judgement.is_broken, judgement.limits[0].state), (false, LimitState::Crossed));
    }
}

#[test]
fn nothing_is_left_to_compare_with_at_all_connections() {
    let policy = policy(&["retransmitted<1.2x"], SplitBy::Connection, &[("dtcp", 10_000)]);
    let judgement = judged(&policy, [[100, 10_000, 500, 90, 0], [0; 5]]);
    assert_eq!(judgement.limits[0].state, LimitState::NotComparable);
    assert!(!judgement.is_broken);
}
