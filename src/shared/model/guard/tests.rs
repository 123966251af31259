//! Edge cases of the guard's statistics. Simulated trials are in `tests/host/guard_statistics.rs`.

use proptest::prelude::*;

use super::look::half_width;
use super::*;

const LIMIT: Limit = Limit { value: 1.2, worse: Worse::Above };

/// An arm with these (numerator, denominator) in its first folds.
fn arm(connections: u64, folds: impl IntoIterator<Item = (f64, f64)>) -> ArmSums {
    let mut arm = ArmSums { connections, ..ArmSums::default() };
    for (fold, (numerator, denominator)) in folds.into_iter().enumerate() {
        arm.add(fold, Sums { numerator, denominator });
    }
    arm
}

/// An arm of 1,000 connections in which fold i has the numerator `of(i)`.
fn even_arm(denominator: f64, of: impl Fn(usize) -> f64) -> ArmSums {
    arm(1000, (0..FOLDS).map(|fold| (of(fold), denominator)))
}

/// Reproducible noise from 0 to 4.
fn wobble(fold: usize) -> f64 {
    (fold * 7 % 5) as f64
}

#[test]
fn standard_error_of_a_mean_is_that_of_the_textbook() {
    let treated = even_arm(1.0, |fold| fold as f64);
    let estimate = estimate(&treated, &even_arm(1.0, |_| 0.0), Effect::Difference).unwrap();
    // The numbers 0 to 31: mean 15.5, variance 32 * 33 / 12 = 88.
    assert!((estimate.theta - 15.5).abs() < 1e-9, "{estimate:?}");
    assert!((estimate.se - (88.0f64 / 32.0).sqrt()).abs() < 1e-9, "{estimate:?}");
    assert!((estimate.folds - 32.0).abs() < 1e-9, "{estimate:?}");
}

#[test]
fn log_ratio_of_arms_is_that_of_their_sums() {
    let treated = even_arm(1000.0, |fold| 20.0 + wobble(fold));
    let control = even_arm(9000.0, |fold| 90.0 + wobble(fold + 1));
    let estimate = estimate(&treated, &control, Effect::LogRatio).unwrap();
    let plain = (treated.value(Effect::LogRatio).unwrap() / control.value(Effect::LogRatio).unwrap()).ln();
    assert!((estimate.theta - plain).abs() < 1e-3 && estimate.theta < plain, "{estimate:?} {plain}");
}

#[test]
fn path_of_a_peer_cancels_between_the_arms() {
    // Loss rates differ a hundredfold between folds, and the arms agree in each fold to a few percent.
    let loss = |fold: usize| if fold < 4 { 1000.0 } else { 10.0 };
    let treated = even_arm(1000.0, |fold| loss(fold) * (1.0 + 0.01 * wobble(fold)));
    let estimate = estimate(&treated, &even_arm(1000.0, loss), Effect::LogRatio).unwrap();
    assert!(estimate.se < 0.01 && estimate.theta < 0.03, "{estimate:?}");
    assert!(estimate.folds < 6.0, "four folds have nearly all losses: {estimate:?}");
}

#[test]
fn estimate_without_enough_data_says_what_is_missing() {
    let full = even_arm(100.0, |fold| 10.0 + wobble(fold));
    let check = |treated: &ArmSums, control: &ArmSums, expected: NotYet| {
        assert_eq!(estimate(treated, control, Effect::LogRatio), Err(expected));
        expected.to_string()
    };
    check(&ArmSums::default(), &ArmSums::default(), NotYet::FewConnections { seen: 0 });
    let few = check(&full, &ArmSums { connections: 499, ..full }, NotYet::FewConnections { seen: 499 });
    assert_eq!(few, "499 of 500 connections in the smaller arm");
    check(&full, &arm(1000, []), NotYet::FewPeers { folds: 0 });
    let few = check(&full, &arm(1000, [(9.0, 10.0); 7]), NotYet::FewPeers { folds: 7 });
    assert_eq!(few, "data from 7 of 8 groups of peers");
    let few = check(&even_arm(100.0, |_| 0.0), &even_arm(100.0, |_| 0.0), NotYet::FewEvents { seen: 0.0 });
    assert_eq!(few, "0 of 100 events in both arms");
    let one_peer = even_arm(100.0, |fold| if fold == 3 { 90.0 } else { 0.0 });
    check(&one_peer, &one_peer, NotYet::FewPeers { folds: 1 });
    let same = even_arm(100.0, |_| 10.0);
    check(&same, &same, NotYet::NoSpread);
    check(&full, &full, NotYet::NoSpread);
    check(&full, &even_arm(100.0, |_| f64::NAN), NotYet::NoSpread);
}

#[test]
fn control_without_events_does_not_hide_harm() {
    let treated = even_arm(1000.0, |fold| 3.0 * wobble(fold));
    let estimate = estimate(&treated, &even_arm(9000.0, |_| 0.0), Effect::LogRatio).unwrap();
    assert_eq!(look(&estimate, LIMIT, 5).verdict, LimitVerdict::Crossed, "{estimate:?}");
}

#[test]
fn small_control_without_events_by_chance_is_not_harm() {
    // Ten clusters of losses, all in the nine tenths that are treated: in a third of all cases this is chance.
    let treated = even_arm(9000.0, |fold| if fold % 3 == 0 { 10.0 } else { 0.0 });
    let estimate = estimate(&treated, &even_arm(1000.0, |_| 0.0), Effect::LogRatio).unwrap();
    assert_eq!(look(&estimate, LIMIT, 1).verdict, LimitVerdict::Undecided, "{estimate:?}");
}

#[test]
fn evidence_of_many_folds_is_the_normal_mixture() {
    let estimate = Estimate { theta: 0.5, se: 0.1, folds: 1e9 };
    let limit = Limit { value: 0.2f64.exp(), worse: Worse::Above };
    let r = MIXTURE_SD.powi(2) / 0.01;
    let normal = (9.0 * r / (2.0 * (1.0 + r))).exp() / (1.0 + r).sqrt();
    let e_worse = look(&estimate, limit, 1).e_worse;
    assert!((e_worse / normal - 1.0).abs() < 1e-5, "{e_worse} {normal}");
    let few = look(&Estimate { folds: 10.0, ..estimate }, limit, 1).e_worse;
    assert!(few < e_worse, "few folds are less sure: {few}");
}

#[test]
fn distance_that_decides_has_exactly_the_evidence_needed() {
    for folds in [8.0, 14.0, 32.0] {
        let estimate = Estimate { theta: 0.0, se: 0.1, folds };
        let theta = half_width(&estimate, 20.0).unwrap();
        let e_worse = look(&Estimate { theta, ..estimate }, Limit { value: 1.0, worse: Worse::Above }, 1).e_worse;
        assert!((e_worse - 20.0).abs() < 1e-6, "{folds}: {e_worse}");
    }
    assert_eq!(half_width(&Estimate { theta: 9.0, se: 2.0, folds: 8.0 }, 20.0), None);
}

#[test]
fn less_goodput_is_worse() {
    let limit = Limit { value: 0.9, worse: Worse::Below };
    let at = |theta| look(&Estimate { theta, se: 0.05, folds: 20.0 }, limit, 1);
    assert_eq!(at(-0.6).verdict, LimitVerdict::Crossed);
    assert_eq!(at(0.2).verdict, LimitVerdict::Safe);
    assert_eq!(at(-0.12).verdict, LimitVerdict::Undecided);
    assert!(at(-0.6).e_worse > 20.0 && at(-0.6).e_safe < 1.0);
}

#[track_caller]
fn check_value(noise: ValueNoise, limit: f64, [connections, numerator, denominator]: [f64; 3]) -> ValueVerdict {
    let worse = if noise == ValueNoise::GOODPUT { Worse::Below } else { Worse::Above };
    let window = WindowSums { connections, sums: Sums { numerator, denominator } };
    judge_value(&window, &noise, Limit { value: limit, worse }, 1)
}

#[test]
fn limit_on_the_value_needs_data_of_its_own_window() {
    let few = |noise, limit, window| match check_value(noise, limit, window) {
        ValueVerdict::TooFew { .. } => {}
        verdict => panic!("{verdict:?}"),
    };
    few(ValueNoise::ABNORMAL_ENDS, 0.01, [99.0, 90.0, 99.0]);
    few(ValueNoise::ABNORMAL_ENDS, 0.01, [200.0, 9.0, 9.0]);
    few(ValueNoise::RETRANSMITTED, 0.02, [200.0, 5.0, 400.0]);
    few(ValueNoise::GOODPUT, 1e6, [200.0, 4e5, 3.0]);
    few(ValueNoise::TIMEOUTS, 0.5, [3.0, 10.0, 3.0]);
    few(ValueNoise::RTT_INFLATION, 3.0, [500.0, 120.0, 20.0]);
    few(ValueNoise::GOODPUT, 1e6, [0.0; 3]);
    let few = check_value(ValueNoise::GOODPUT, 1e6, [200.0, 4e5, 3.0]).to_string();
    assert_eq!(few, "3 seconds with data to send of the 10 that a value needs");
}

#[test]
fn value_beyond_its_limit_counts_only_if_chance_cannot_explain_it() {
    use ValueVerdict::{Beyond, Chance, Within};
    let check = |noise, limit, window, expected| assert_eq!(check_value(noise, limit, window), expected, "{window:?}");
    let ends = ValueNoise::ABNORMAL_ENDS;
    check(ends, 0.01, [1000.0, 10.0, 1000.0], Within);
    check(ends, 0.01, [1000.0, 15.0, 1000.0], Chance);
    check(ends, 0.01, [1000.0, 80.0, 1000.0], Beyond);
    check(ends, 0.01, [1e5, 1500.0, 1e5], Beyond);
    check(ends, 0.0, [1000.0, 0.0, 1000.0], Within);
    check(ends, 0.0, [1000.0, 9.0, 1000.0], Chance);
    check(ends, 0.0, [1000.0, 10.0, 1000.0], Beyond);
    // Twelve of twelve connections of a pool that ended.
    check(ends, 0.01, [200.0, 12.0, 12.0], Beyond);
    // One connection of 30,000 segments with a lossy path.
    check(ValueNoise::RETRANSMITTED, 0.02, [110.0, 1200.0, 31_000.0], Chance);
    check(ValueNoise::RETRANSMITTED, 0.02, [2000.0, 40_000.0, 160_000.0], Beyond);
    check(ValueNoise::GOODPUT, 1e6, [150.0, 9e6, 12.0], Chance);
    check(ValueNoise::GOODPUT, 1e6, [2000.0, 1e8, 400.0], Beyond);
    check(ValueNoise::GOODPUT, 1e6, [2000.0, 0.0, 400.0], Beyond);
    check(ValueNoise::TIMEOUTS, 0.5, [400.0, 10.0, 400.0], Within);
    // The mean of ln(srtt/min_rtt) is 1.2: srtt is 3.3 times min_rtt.
    check(ValueNoise::RTT_INFLATION, 3.0, [5000.0, 6000.0, 5000.0], Beyond);
    check(ValueNoise::RTT_INFLATION, 3.0, [200.0, 240.0, 200.0], Chance);
}

#[test]
fn more_decisions_need_a_larger_distance_from_the_limit() {
    let window = WindowSums { connections: 1e4, sums: Sums { numerator: 172.0, denominator: 1e4 } };
    let limit = Limit { value: 0.01, worse: Worse::Above };
    let at = |decisions| judge_value(&window, &ValueNoise::ABNORMAL_ENDS, limit, decisions);
    assert_eq!([at(1), at(100)], [ValueVerdict::Chance; 2], "172 of 100");
    let more = WindowSums { sums: Sums { numerator: 190.0, denominator: 1e4 }, ..window };
    let at = |decisions| judge_value(&more, &ValueNoise::ABNORMAL_ENDS, limit, decisions);
    assert_eq!([at(1), at(100)], [ValueVerdict::Beyond, ValueVerdict::Chance]);
}

#[test]
fn shares_that_cannot_be_tested_have_no_evidence() {
    let check = |observed: &[u64], shares: &[f64]| assert_eq!(sample_ratio_e(observed, shares), None);
    check(&[], &[]);
    check(&[10], &[1.0]);
    check(&[10, 10], &[1.0]);
    check(&[10, 10], &[1.0, 0.0]);
    check(&[10, 10], &[1.0, -1.0]);
    check(&[10, 10], &[f64::NAN, 1.0]);
    check(&[10, 10], &[f64::INFINITY, 1.0]);
    assert_eq!(sample_ratio_e(&[0, 0], &[0.5, 0.5]), Some(1.0));
    assert!(sample_ratio_e(&[10, 10, 0], &[0.5, 0.5, 0.0]).unwrap() <= 1.0, "an arm without a share is left out");
    assert!(sample_ratio_e(&[u64::MAX / 2, 0], &[0.5, 0.5]).unwrap() > MISMATCH, "evidence stays a number");
}

#[test]
fn forecast_follows_the_plan() {
    let plan = ForecastPlan { connections_per_s: 10.0, treated_share: 0.1, seconds: 3600.0, spread: SPREAD_DEFAULT };
    let at = |plan: ForecastPlan, metrics| detectable(&plan, LIMIT, metrics);
    let ratio = at(plan, 1).unwrap();
    assert!(ratio > 1.2 && ratio < 3.0, "{ratio}");
    assert!(at(ForecastPlan { seconds: 36_000.0, ..plan }, 1).unwrap() < ratio);
    assert!(at(plan, 5).unwrap() > ratio);
    let less = detectable(&plan, Limit { value: 1.0 / 1.2, worse: Worse::Below }, 1).unwrap();
    assert!((less * ratio - 1.0).abs() < 1e-9, "{less} mirrors {ratio}");
    for treated_share in [0.0, 1.0, -1.0, 0.01, f64::NAN] {
        assert_eq!(at(ForecastPlan { treated_share, ..plan }, 1), None, "{treated_share}");
    }
    assert_eq!(at(ForecastPlan { spread: 0.0, ..plan }, 1), None);
    assert_eq!(at(ForecastPlan { spread: 500.0, ..plan }, 1), None, "no effect is large enough");
}

/// Folds with whole events and denominators from nothing to very much.
fn any_arm() -> impl Strategy<Value = ArmSums> {
    let fold = (0..3u32, 0.0..1e3f64, -3.0..12.0f64).prop_map(|(kind, numerator, exponent)| match kind {
        0 => (0.0, 0.0),
        1 => (0.0, 10f64.powf(exponent)),
        _ => (numerator.round(), 10f64.powf(exponent)),
    });
    proptest::collection::vec(fold, FOLDS).prop_map(|folds| arm(1000, folds))
}

proptest! {
    #[test]
    fn estimates_and_looks_are_numbers_and_agree(
        treated in any_arm(), control in any_arm(), times in 0.1..10.0f64, difference: bool, below: bool,
    ) {
        let effect = if difference { Effect::Difference } else { Effect::LogRatio };
        let limit = Limit { value: times, worse: if below { Worse::Below } else { Worse::Above } };
        let Ok(estimate) = estimate(&treated, &control, effect) else { return Ok(()) };
        prop_assert!((1.0..=32.0 + 1e-9).contains(&estimate.folds), "{:?}", estimate);
        let look = look(&estimate, limit, 3);
        prop_assert!([look.ratio, look.e_worse, look.e_safe].iter().all(|value| value.is_finite()), "{:?}", look);
        let outside = look.interval.is_some_and(|[low, high]| limit.value < low || high < limit.value);
        prop_assert_eq!(outside, look.verdict != LimitVerdict::Undecided, "{:?}", look);
    }

    #[test]
    fn swapping_the_arms_turns_the_effect_around(one in any_arm(), other in any_arm()) {
        let there = estimate(&one, &other, Effect::LogRatio);
        let back = estimate(&other, &one, Effect::LogRatio);
        prop_assert_eq!(there.is_ok(), back.is_ok());
        if let (Ok(there), Ok(back)) = (there, back) {
            prop_assert!((there.theta + back.theta).abs() < 1e-9 && (there.se / back.se - 1.0).abs() < 1e-6);
        }
    }

    #[test]
    fn added_events_never_move_the_effect_away_from_equal(
        numerators in [1.0..1e6f64, 1.0..1e6f64], denominators in [1.0..1e6f64, 1.0..1e6f64],
    ) {
        let pair = [0, 1].map(|arm| Sums { numerator: numerators[arm], denominator: denominators[arm] });
        let plain = (pair[0].ratio() / pair[1].ratio()).ln();
        let added = Effect::LogRatio.of(pair);
        prop_assert!(added.abs() <= plain.abs() + 1e-12 && added * plain >= -1e-12, "{added} {plain}");
    }
}
