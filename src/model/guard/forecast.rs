//! What a trial can detect, before it starts.

use super::estimate::{CONNECTIONS_MIN, Effect, Estimate};
use super::look::{Limit, half_width, needed};

/// Spread of a metric when there are no connections to measure it from.
///
/// Retransmissions in the simulated traffic of `tests/host/guard_statistics.rs` have spreads of 5 to 7.
pub const SPREAD_DEFAULT: f64 = 7.0;
/// Effective folds of that traffic, whose peers are Zipf-distributed.
pub const FOLDS_TYPICAL: f64 = 14.0;
/// Standard normal quantile of the probability of detection, 0.8.
const POWER_QUANTILE: f64 = 0.84;
/// Fewest connections that a spread is measured from, and fewest of them with a numerator other than 0.
const SPREAD_CONNECTIONS_MIN: usize = 100;
const SPREAD_NONZERO_MIN: usize = 10;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForecastPlan {
    /// Connections of both arms per second.
    pub connections_per_s: f64,
    /// Share of them that is treated; above 0 and below 1.
    pub treated_share: f64,
    /// Time until the deadline.
    pub seconds: f64,
    /// Spread of one connection's contribution to the metric: [`spread`] or [`SPREAD_DEFAULT`].
    pub spread: f64,
}

/// The smallest harm that is found by the deadline with a probability of 80 %.
///
/// An approximation. SE² = spread² · (1/n_treated + 1/n_control), as if connections were independent after the
/// peers' paths cancel between the arms; [`FOLDS_TYPICAL`] folds; and the look at the deadline decides. The effect must
/// be beyond the limit by the distance at which the e-value decides, and by 0.84 SE.
///
/// Shape: `metrics` as in [`super::look`].
/// Units: treated over control; above the limit if more is worse, below it if less is worse.
/// None: when the plan is not a trial (a share of 0 or 1, a rate, time or spread that is not above 0), when the
/// smaller arm stays under [`CONNECTIONS_MIN`] connections, or when no effect is large enough.
pub fn detectable(plan: &ForecastPlan, limit: Limit, metrics: usize) -> Option<f64> {
    let connections = plan.connections_per_s * plan.seconds;
    let arms = [plan.treated_share, 1.0 - plan.treated_share].map(|share| share * connections);
    let is_trial = plan.spread > 0.0 && arms.iter().all(|&arm| arm >= CONNECTIONS_MIN as f64);
    let se = plan.spread * arms.iter().map(|arm| 1.0 / arm).sum::<f64>().sqrt();
    let estimate = Estimate { theta: 0.0, se, folds: FOLDS_TYPICAL };
    let distance = half_width(&estimate, needed(metrics)).filter(|_| is_trial)? + POWER_QUANTILE * se;
    let ratio = (limit.ln() + limit.worse.sign() * distance).exp();
    ratio.is_normal().then_some(ratio)
}

/// Spread of one connection's contribution to a metric: the standard deviation of N - R·D over the mean of N.
///
/// R is ΣN/ΣD. For a difference of means the standard deviation is divided by the mean of D instead. Sockets that are open
/// at one moment are mostly long connections; their spread is only a first guess.
///
/// Shape: one (numerator, denominator) per connection, order irrelevant.
/// None: under 100 connections, or under 10 with a numerator other than 0. Take [`SPREAD_DEFAULT`].
pub fn spread(connections: &[(f64, f64)], effect: Effect) -> Option<f64> {
    let nonzero = connections.iter().filter(|(numerator, _)| *numerator != 0.0).count();
    if connections.len() < SPREAD_CONNECTIONS_MIN || nonzero < SPREAD_NONZERO_MIN {
        return None;
    }
    let count = connections.len() as f64;
    let (numerator, denominator) = connections.iter().fold((0.0, 0.0), |sums, one| (sums.0 + one.0, sums.1 + one.1));
    let ratio = numerator / denominator;
    let squares: f64 = connections.iter().map(|(n, d)| (n - ratio * d).powi(2)).sum();
    let mean = match effect {
        Effect::LogRatio => numerator / count,
        Effect::Difference => denominator / count,
    };
    let spread = (squares / (count - 1.0)).sqrt() / mean;
    (spread.is_finite() && spread > 0.0).then_some(spread)
}
