//! One look at an estimate: evidence, interval and verdict.

use serde::Serialize;

use super::estimate::Estimate;

/// Probability of ever crossing a limit that is exactly met, over all looks and all decisions of a trial together.
pub const ALPHA: f64 = 0.05;
/// Standard deviation of the effects that the e-value is tuned to find, in natural logarithms.
///
/// Chosen by simulation. With 0.2 and 14 effective folds, the e-value stays below 20 until the standard error is below 0.3,
/// however large the effect. With 1.0 and long loss bursts, 4 instead of 0.3 of 100 equal algorithms were reverted.
pub const MIXTURE_SD: f64 = 0.5;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// A ratio of treated over control, or a value in the metric's unit; above 0.
    pub value: f64,
    pub worse: Worse,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worse {
    /// More is worse, as for retransmissions.
    Above,
    /// Less is worse, as for goodput.
    Below,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Look {
    /// Treated over control.
    pub ratio: f64,
    /// Contains the true ratio at all looks and for all decisions at once, in 95 of 100 trials. It excludes the limit exactly
    /// if the verdict is not `Undecided`. `None` while it is unbounded.
    pub interval: Option<[f64; 2]>,
    pub e_worse: f64,
    /// E-value of being better than the limit.
    pub e_safe: f64,
    /// The deciding e-value: decisions / [`ALPHA`].
    pub needed: f64,
    pub verdict: LimitVerdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitVerdict {
    Crossed,
    Safe,
    Undecided,
}

/// Judges an estimate by a limit on the ratio of treated over control.
///
/// With t = (θ - ln limit) / SE, r = τ² / SE² and ν = folds - 1, the e-value is
/// (1 + r)^(-1/2) · ((1 + t²/ν) / (1 + t²/(ν (1 + r))))^((ν + 1)/2): the likelihood of t under effects with standard deviation
/// τ = [`MIXTURE_SD`], over that under the limit. For many folds it is the normal mixture exp(t² r / (2 (1 + r))) / √(1 + r).
/// Student's form allows for an estimated standard error. In simulated trials of six hours, the normal
/// form's intervals contained the truth at all looks in 85 of 100 trials, Student's in 95 or more.
///
/// Shape: `decisions` is the number of tests that may end the trial, see [`super::decisions`]; 0 counts as 1.
/// Source: R. Johari, P. Koomen, L. Pekelis, D. Walsh, "Always valid inference: continuous monitoring of A/B tests",
/// Operations Research 70(3), 2022; H. Robbins, "Statistical methods related to the law of the iterated logarithm", Annals of
/// Mathematical Statistics 41(5), 1970; estimated variances: I. Waudby-Smith et al., arXiv 2103.06476; Student's form:
/// M. Lindon, D. W. Ham, M. Tingley, I. Bojinov, arXiv 2210.08589.
pub fn look(estimate: &Estimate, limit: Limit, decisions: usize) -> Look {
    let needed = needed(decisions);
    let excess = limit.excess(estimate.theta);
    let (e_worse, e_safe) = (evidence(estimate, excess.max(0.0)), evidence(estimate, excess.min(0.0)));
    let verdict = match (e_worse >= needed, e_safe >= needed) {
        (true, _) => LimitVerdict::Crossed,
        (_, true) => LimitVerdict::Safe,
        _ => LimitVerdict::Undecided,
    };
    let Estimate { theta, .. } = *estimate;
    let interval = half_width(estimate, needed).map(|half| [theta - half, theta + half].map(ratio));
    Look { ratio: ratio(theta), interval, e_worse, e_safe, needed, verdict }
}

/// The ratio with this logarithm, clamped to positive finite numbers.
fn ratio(ln: f64) -> f64 {
    ln.exp().clamp(f64::MIN_POSITIVE, f64::MAX)
}

/// The deciding e-value for this many decisions: Bonferroni's division of [`ALPHA`].
pub(super) fn needed(decisions: usize) -> f64 {
    decisions.max(1) as f64 / ALPHA
}

/// The e-value of an effect at a distance from a limit.
fn evidence(estimate: &Estimate, distance: f64) -> f64 {
    let (r, nu) = mixture(estimate);
    let t_squared = (distance / estimate.se).powi(2);
    let growth = (t_squared / nu).ln_1p() - (t_squared / (nu * (1.0 + r))).ln_1p();
    ((nu + 1.0) / 2.0 * growth - r.ln_1p() / 2.0).exp().min(f64::MAX)
}

/// Distance from a limit at which the e-value is `needed`.
///
/// Solved for t: with a = (needed · √(1 + r))^(2 / (ν + 1)), t² = ν (a - 1) / (1 - a / (1 + r)).
///
/// None: no distance is enough, because the standard error is too large for so few folds.
pub(super) fn half_width(estimate: &Estimate, needed: f64) -> Option<f64> {
    let (r, nu) = mixture(estimate);
    let a = ((needed.ln() + r.ln_1p() / 2.0) * 2.0 / (nu + 1.0)).exp();
    let t_squared = nu * (a - 1.0) / (1.0 - a / (1.0 + r));
    (a < 1.0 + r).then(|| estimate.se * t_squared.sqrt())
}

/// r = τ²/SE², and the degrees of freedom (at least 1).
fn mixture(estimate: &Estimate) -> (f64, f64) {
    ((MIXTURE_SD / estimate.se).powi(2), (estimate.folds - 1.0).max(1.0))
}

impl Limit {
    /// Distance of an effect beyond the limit; positive is worse.
    pub(super) fn excess(self, theta: f64) -> f64 {
        self.worse.sign() * (theta - self.ln())
    }

    /// The limit on the scale of effects, finite even for a limit of 0.
    pub(super) fn ln(self) -> f64 {
        self.value.max(f64::MIN_POSITIVE).ln()
    }
}

impl Worse {
    /// 1 if larger effects are worse, -1 if smaller ones are.
    pub(super) fn sign(self) -> f64 {
        match self {
            Worse::Above => 1.0,
            Worse::Below => -1.0,
        }
    }
}
