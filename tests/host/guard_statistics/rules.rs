//! The promise of 5 %: two rules, each with three limits and two steps, and an algorithm that is equal.

use std::array;

use tccc::model::guard::{ALPHA, LimitVerdict, Sums, ValueNoise, ValueVerdict, WindowSums, Worse, judge_value, look};
use tccc::policy::file;
use tccc::trial::judge::decisions;

use super::{
    ArmsSums, GOODPUT, HOST, LOOKS_PER_HOUR, Limit, RETRANSMITTED, SimulatedTraffic, estimate_of, limit_of, percent_of,
};

const ABNORMAL: usize = 4;
const STEPS: usize = 2;
const RULES: usize = 2;

/// Relative limits as tight as a policy may set them, and an absolute one.
fn policy() -> String {
    let rule = |port: usize| {
        format!(
            "[[rule]]\nname = \"r{port}\"\nlocal_port = {port}\nuse = \"dtcp\"\n\
             guard = [\"retransmitted<1x\", \"goodput>1x\", \"abnormal_ends<3%\"]\n\
             steps = [{{ percent = 10, for = \"30m\" }}, {{ percent = 50, for = \"30m\" }}]\n"
        )
    };
    format!("version = 1\n{}{}", rule(80), rule(443))
}

/// Whether any limit of any rule is crossed at any look of any step. `level` is the number of decisions.
///
/// A step of either rule begins the sums of both anew: they begin three times.
fn is_reverted(traffic: &mut [SimulatedTraffic; RULES], abnormal: f64, level: usize) -> bool {
    (0..1 + RULES * (STEPS - 1)).any(|_| {
        let mut arms: [ArmsSums; RULES] = array::from_fn(|_| ArmsSums::default());
        (0..LOOKS_PER_HOUR / 2).any(|_| {
            traffic.iter_mut().zip(&mut arms).any(|(traffic, arms)| {
                traffic.add_to(arms);
                crosses(arms, abnormal, level)
            })
        })
    })
}

fn crosses(arms: &ArmsSums, abnormal: f64, level: usize) -> bool {
    let is_worse = |metric: usize| {
        estimate_of(arms, metric)
            .is_some_and(|estimate| look(&estimate, limit_of(metric, 1.0), level).verdict == LimitVerdict::Crossed)
    };
    let treated = &arms[0][ABNORMAL];
    let window = WindowSums { connections: treated.connections as f64, sums: treated.total() };
    let limit = Limit { value: abnormal, worse: Worse::Above };
    is_worse(RETRANSMITTED)
        || is_worse(GOODPUT)
        || judge_value(&window, &ValueNoise::ABNORMAL_ENDS, limit, level) == ValueVerdict::Beyond
}

/// Only the limits of one rule counted, so that each further rule added its own 5 %.
#[test]
fn two_rules_with_three_limits_and_two_steps_are_reverted_in_at_most_5_of_100_trials() {
    const SEEDS: u64 = 60;
    let level = decisions(&file::parse("test.toml", &policy()).unwrap());
    assert_eq!(level, RULES * 3 * (1 + RULES * (STEPS - 1)));
    let trial = |seed: u64| {
        let mut traffic = array::from_fn(|rule| SimulatedTraffic::new(HOST, 1000 * seed + rule as u64));
        let mut sums = Sums::default();
        (0..20_000).for_each(|_| sums += traffic[0].connection().2[ABNORMAL]);
        is_reverted(&mut traffic, sums.numerator / sums.denominator, level)
    };
    let reverted = percent_of((0..SEEDS).map(trial));
    assert!(reverted <= 100.0 * ALPHA, "{reverted} %");
}
