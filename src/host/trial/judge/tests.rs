//! Judgements of the guard.

use std::time::Duration;

use super::*;
use crate::policy::record::ArmSlot;
use crate::policy::rule::{Match, Portion, RolloutStep, RuleTrial, Split, SplitBy};
use crate::trial::arms::GuardCell;

const TICKS_PER_S: f64 = 250.0;

/// About the same values in each fold: connections, segments, retransmissions, ends, abnormal ends.
fn cells(number: usize, [connections, sent, retrans, ended, abnormal]: [u64; 5]) -> ArmCells {
    std::array::from_fn(|fold| {
        let extra = (fold + number) as u64 % 3;
        cell_of([connections, 1000, 10, sent, retrans + extra, 0, 0, 0, ended, abnormal, connections, 0])
    })
}

/// The counts in the order of their fields.
fn cell_of(counts: [u64; 12]) -> GuardCell {
    zerocopy::transmute!(counts)
}

fn policy(limits: &[&str], by: SplitBy, shares: &[(&str, u16)]) -> Policy {
    let arms = shares.iter().map(|(name, part)| Arm { treatment: (*name).into(), portion: Portion(*part) });
    let limits = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    let trial = Some(RuleTrial { limits, ..RuleTrial::default() });
    let rule = Rule::new("web", Match::default(), Split { arms: arms.collect(), by });
    Policy { rules: vec![Rule { trial, ..rule }] }
}

fn judged(policy: &Policy, arms: [[u64; 5]; 2]) -> RuleJudgement {
    judged_units(policy, arms, arms.map(|[connections, ..]| connections))
}

/// `arms`: the treated arm and the control arm. `units`: of each fold.
fn judged_units(policy: &Policy, arms: [[u64; 5]; 2], units: [u64; 2]) -> RuleJudgement {
    let slots = ["dtcp", "keep"].map(|arm| ArmSlot { rule: "web".into(), arm: arm.into() });
    let record = PolicyRecord { slots: slots.into(), ..PolicyRecord::default() };
    let of_arm = |number: usize| {
        let mut cells = cells(number, arms[number]);
        cells.iter_mut().for_each(|cell| cell.units = units[number]);
        (number as u32 + 1, cells)
    };
    let whole: BTreeMap<u32, ArmCells> = [0, 1].map(of_arm).into();
    let windows = [Window { seconds: 60.0, readings: 6, cells: whole.clone() }];
    let seen = SeenSums { whole: &whole, windows: &windows, ticks_per_s: TICKS_PER_S };
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
    let crossed = check("abnormal_ends<1%", [[100, 10_000, 100, 90, 3], fine], LimitState::Crossed);
    assert!((crossed.value.unwrap() - 3.0 / 90.0).abs() < 1e-9);
    check("abnormal_ends<1%", [fine, [100, 10_000, 100, 90, 50]], LimitState::Safe);
}

/// One arm lost a fifth of its connections before they could be counted. Absolute limits were not judged then either, so
/// that harm went unseen.
#[test]
fn broken_split_leaves_absolute_limits_in_force() {
    let limits = ["retransmitted<1.2x", "abnormal_ends<1%", "abnormal_ends<90%"];
    let arms = [[80, 10_000, 500, 80, 50], [100, 10_000, 100, 90, 0]];
    let judgement = judged(&policy(&limits, SplitBy::Connection, &HALVES), arms);
    assert!(judgement.is_broken);
    let said = judgement.limits.iter().map(|limit| (limit.state, limit.why_not.as_deref()));
    let words = "the arms do not have the shares of the split, so they cannot be compared";
    let expected = [(LimitState::Undecided, Some(words)), (LimitState::Crossed, None), (LimitState::Safe, None)];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    // The same numbers of connections are no surprise under a split that says so.
    let shares = [("dtcp", 4444), ("keep", 5556)];
    assert!(!judged(&policy(&limits, SplitBy::Connection, &shares), arms).is_broken);
}

/// Numbers of connections were tested: a peer with many of them, or a proxy whose few ports came round again, was taken for
/// a broken split.
#[test]
fn split_is_tested_by_the_units_that_it_splits() {
    let split = |by, units: [u64; 2]| {
        let arms = [[80, 10_000, 500, 80, 50], [100, 10_000, 100, 90, 0]];
        judged_units(&policy(&["retransmitted<1.2x"], by, &HALVES), arms, units)
    };
    for by in [SplitBy::Connection, SplitBy::Peer, SplitBy::Prefix] {
        let judgement = split(by, [90, 90]);
        assert_eq!((judgement.is_broken, judgement.limits[0].state), (false, LimitState::Crossed), "{by:?}");
        assert!(split(by, [80, 100]).is_broken, "{by:?}");
    }
}

#[test]
fn decisions_count_every_rule_limit_arm_and_beginning_of_the_sums() {
    let steps = |count: usize| -> Vec<RolloutStep> {
        let step = |at| RolloutStep { portion: Portion(1000 * (at as u16 + 1)), duration: Duration::from_secs(60) };
        (0..count).map(step).collect()
    };
    let rule = |limits: &[&str], shares: &[(&str, u16)], count: usize| {
        let mut rule = policy(limits, SplitBy::Connection, shares).rules.remove(0);
        rule.trial.as_mut().unwrap().steps = steps(count);
        rule
    };
    let check = |rules: Vec<Rule>, expected: usize| assert_eq!(decisions(&Policy { rules }), expected);
    let limits = ["retransmitted<1.2x", "goodput>0.9x", "abnormal_ends<1%"];
    check(vec![rule(&limits, &HALVES, 0)], 3);
    check(vec![rule(&limits, &HALVES, 3)], 9);
    check(vec![rule(&limits, &HALVES, 0), rule(&limits, &HALVES, 0)], 6);
    check(vec![rule(&limits, &[("dtcp", 2500), ("reno", 2500), ("keep", 5000)], 0)], 6);
    // A step of one rule begins the sums of the other anew: 1 + 2 + 1 times.
    check(vec![rule(&limits, &HALVES, 3), rule(&limits[..1], &HALVES, 2)], 16);
    let permanent = Rule { trial: None, ..rule(&limits, &HALVES, 0) };
    check(vec![permanent, rule(&limits, &HALVES, 0)], 3);
}

/// A window of a minute, and what was before it.
fn judged_windows(limit: &str, minute: GuardCell, before: GuardCell) -> LimitJudgement {
    let spread = |cell: GuardCell| -> ArmCells { std::array::from_fn(|_| cell) };
    let [ours, theirs]: [[u64; 12]; 2] = zerocopy::transmute!([minute, before]);
    let whole = cell_of(std::array::from_fn(|word| ours[word] + theirs[word]));
    let of = |cell| BTreeMap::from([(1, spread(cell))]);
    let windows = [
        Window { seconds: 60.0, readings: 6, cells: of(minute) },
        Window { seconds: 3600.0, readings: 360, cells: of(whole) },
    ];
    let record = PolicyRecord { slots: vec![ArmSlot { rule: "web".into(), arm: "dtcp".into() }], ..Default::default() };
    let seen = SeenSums { whole: &of(whole), windows: &windows, ticks_per_s: TICKS_PER_S };
    let judged = judge(&policy(&[limit], SplitBy::Connection, &HALVES), &record, seen);
    judged[0].limits[0].clone()
}

/// The minimum of 100 connections was that of the whole trial, so three connections of a quiet minute could revert it.
#[test]
fn quiet_minute_crosses_no_limit_and_leaves_it_shown() {
    let hour = cell_of([100, 1_000_000, 250, 10_000, 10, 1, 0, 0, 100, 0, 100, 0]);
    let quiet = cell_of([1, 100, 250, 10, 5, 1, 0, 0, 1, 1, 1, 0]);
    for limit in ["goodput>1kbit", "retransmitted<2%", "timeouts<0.5"] {
        let judgement = judged_windows(limit, quiet, hour);
        assert_eq!(judgement.state, LimitState::Safe, "{judgement:?}");
    }
    let judgement = judged_windows("abnormal_ends<1%", GuardCell::default(), hour);
    assert_eq!((judgement.state, judgement.value), (LimitState::Safe, None), "{judgement:?}");
    let judgement = judged_windows("abnormal_ends<1%", quiet, GuardCell::default());
    let why = "32 connections of the 100 that a value needs";
    assert_eq!((judgement.state, judgement.why_not.as_deref()), (LimitState::Undecided, Some(why)));
}

/// The timeouts of all open connections were divided by the new ones alone.
#[test]
fn timeouts_of_long_connections_are_per_connection_that_was_active() {
    let hour = cell_of([10, 0, 0, 10_000, 10, 30, 0, 0, 0, 0, 10, 354 * 10]);
    // In each fold, 10 connections are active at each of 6 readings, none is new, and one timeout occurs.
    let minute = cell_of([0, 0, 0, 100, 1, 1, 0, 0, 0, 0, 0, 60]);
    let judgement = judged_windows("timeouts<0.5", minute, hour);
    assert_eq!((judgement.state, judgement.value, judgement.window_s), (LimitState::Safe, Some(0.1), Some(60.0)));
    let harm = GuardCell { timeouts: 20, ..minute };
    let judgement = judged_windows("timeouts<0.5", harm, hour);
    assert_eq!((judgement.state, judgement.value), (LimitState::Crossed, Some(2.0)));
}

#[test]
fn harm_that_one_minute_cannot_show_is_found_over_the_whole_time() {
    // 1.5 % of the connections, with 6 per fold and minute, and 60 times as many in the hour.
    let minute = cell_of([6, 0, 0, 600, 0, 0, 0, 0, 6, 0, 6, 0]);
    let hour = cell_of([600, 0, 0, 60_000, 0, 0, 0, 0, 600, 12, 600, 0]);
    let judgement = judged_windows("abnormal_ends<1%", minute, hour);
    assert_eq!((judgement.state, judgement.window_s), (LimitState::Crossed, Some(3600.0)), "{judgement:?}");
}

#[test]
fn nothing_is_left_to_compare_with_at_all_connections() {
    let policy = policy(&["retransmitted<1.2x"], SplitBy::Connection, &[("dtcp", 10_000)]);
    let judgement = judged(&policy, [[100, 10_000, 500, 90, 0], [0; 5]]);
    assert_eq!(judgement.limits[0].state, LimitState::NotComparable);
    assert!(!judgement.is_broken);
}
