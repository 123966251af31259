//! Illinois's two functions, whose fractions differ from the kernel's, against the paper: `bpf/cc/bpf_illinois.bpf.c`.

use proptest::prelude::*;

use super::*;

const ID: &str = "bpf_illinois";
const BASE_US: u32 = 20_000;
/// Successive rounds without queue that restore the fast growth.
const THETA: usize = 5;

/// alpha and beta.
fn parameters(flow: &Endpoint) -> [f64; 2] {
    ["alpha", "beta"].map(|name| flow.field(name) as f64 / 1024.0)
}

/// alpha and beta after a round with mean queueing delay `da_us`, if the longest one is `dm_us`.
fn at_delay(da_us: u32, dm_us: u32) -> [f64; 2] {
    let mut flow = Endpoint::avoiding(ID, 1000);
    flow.end_round(&[BASE_US, BASE_US + dm_us]);
    flow.end_rounds(THETA, &[BASE_US + da_us]);
    parameters(&flow)
}

/// Equations (1) and (2) with the paper's constants, and d1 in whole microseconds, as in the program.
fn published(da: f64, dm: f64) -> [f64; 2] {
    let (alpha_max, alpha_min, beta_max, beta_min) = (10.0, 0.3, 0.5, 0.125);
    let (d1, d2, d3) = ((dm / 100.0).floor(), dm / 10.0, 0.8 * dm);
    let kappa1 = (dm - d1) * alpha_min * alpha_max / (alpha_max - alpha_min);
    let kappa2 = (dm - d1) * alpha_min / (alpha_max - alpha_min) - d1;
    let kappa4 = (beta_max - beta_min) / (d3 - d2);
    let alpha = if da <= d1 { alpha_max } else { kappa1 / (kappa2 + da) };
    [alpha, (beta_min + kappa4 * (da - d2)).clamp(beta_min, beta_max)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn alpha_and_beta_are_the_paper_s(dm in 1_000..1_000_000u32, permille in 11..=1000u32) {
        let da = (u64::from(dm) * u64::from(permille) / 1000) as u32;
        let (measured, expected) = (at_delay(da, dm), published(da.into(), dm.into()));
        // alpha_min is 307/1024 instead of 0.3, and alpha is a floor.
        prop_assert!((measured[0] / expected[0] - 1.0).abs() < 0.006, "alpha {measured:?} for {expected:?}");
        prop_assert!((measured[1] - expected[1]).abs() < 0.002, "beta {measured:?} for {expected:?}");
    }
}

#[test]
fn extremes_are_the_constants() {
    assert_eq!(at_delay(0, 10_000), [10.0, 0.125]);
    assert_eq!(at_delay(10_000, 10_000)[1], 0.5);
    assert!((at_delay(10_000, 10_000)[0] - 0.3).abs() < 0.002);
    assert_eq!(at_delay(0, 0), [10.0, 0.125], "without any queue ever");
}

#[test]
fn fast_growth_comes_back_after_five_short_rounds() {
    let mut flow = Endpoint::avoiding(ID, 1000);
    flow.end_round(&[BASE_US, 2 * BASE_US]);
    flow.end_round(&[2 * BASE_US]);
    let slow = parameters(&flow)[0];
    for short in 1..=THETA {
        flow.end_round(&[BASE_US]);
        assert_eq!(parameters(&flow)[0], if short < THETA { slow } else { 10.0 });
    }
}

#[test]
fn small_windows_and_timeouts_are_reno_s() {
    let (mut small, mut timed_out) = (Endpoint::avoiding(ID, 14), Endpoint::avoiding(ID, 100));
    small.end_round(&[BASE_US]);
    timed_out.end_round(&[BASE_US]);
    timed_out.apply(Operation::TimeOut);
    assert_eq!([&small, &timed_out].map(parameters), [[1.0, 0.5]; 2]);
    assert_eq!(small.reduce(), 7);
    // The path's delays are unknown.
    assert_eq!(Endpoint::avoiding(ID, 100).reduce(), 50, "the first cut is half");
}
