//! Predicts, before a trial starts, which harm it can detect.

use super::estimate::{CONNECTIONS_MIN, Estimate};
use super::look::{Limit, half_width, needed};

/// Spread assumed for a metric without measured connections.
///
/// Retransmissions in the simulated traffic of `tests/host/guard_statistics.rs` have spreads of 5 to 7.
pub const SPREAD_DEFAULT: f64 = 7.0;
/// Effective folds of that simulated traffic, whose peers are Zipf-distributed.
pub const FOLDS_TYPICAL: f64 = 14.0;
/// Standard normal quantile of the probability of detection, 0.8.
const POWER_QUANTILE: f64 = 0.84;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ForecastPlan {
    /// Connections of both arms per second.
    pub connections_per_s: f64,
    /// Treated share; above 0 and below 1.
    pub treated_share: f64,
    /// Time until the deadline.
    pub seconds: f64,
    /// Spread of one connection's contribution to the metric: the standard deviation of N - R·D over the mean of N, where R
    /// is ΣN/ΣD. For a difference of means the divisor is the mean of D.
    pub spread: f64,
}

/// The smallest harm found by the deadline with a probability of 80 %.
///
/// An approximation: SE² = spread² · (1/n_treated + 1/n_control), as if connections were independent once the effects of
/// the peers' paths cancel between the arms. It assumes [`FOLDS_TYPICAL`] folds and one decision at the deadline. The
/// effect must be beyond the limit by the distance at which the e-value decides, plus 0.84 SE.
///
/// Shape: `decisions` as in [`super::look`].
/// Units: treated over control; above the limit if more is worse, below it if less is worse.
/// None: it is not a trial (a share of 0 or 1, or a rate, time or spread not above 0), the smaller arm stays under
/// [`CONNECTIONS_MIN`] connections, or no effect is large enough.
pub fn detectable(plan: &ForecastPlan, limit: Limit, decisions: usize) -> Option<f64> {
    let connections = plan.connections_per_s * plan.seconds;
    let arms = [plan.treated_share, 1.0 - plan.treated_share].map(|share| share * connections);
    let is_trial = plan.spread > 0.0 && arms.iter().all(|&arm| arm >= CONNECTIONS_MIN as f64);
    let se = plan.spread * arms.iter().map(|arm| 1.0 / arm).sum::<f64>().sqrt();
    let estimate = Estimate { theta: 0.0, se, folds: FOLDS_TYPICAL };
    let distance = half_width(&estimate, needed(decisions)).filter(|_| is_trial)? + POWER_QUANTILE * se;
    let ratio = (limit.ln() + limit.worse.sign() * distance).exp();
    ratio.is_normal().then_some(ratio)
}
