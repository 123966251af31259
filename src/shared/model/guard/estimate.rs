//! Estimates the effect of a treatment from the sums of both arms.

use std::ops::{AddAssign, Sub};

use derive_more::Display;
use serde::Serialize;

/// Number of groups into which peers are divided.
pub const FOLDS: usize = 32;
/// Fewest connections of the smaller arm before the first look.
pub const CONNECTIONS_MIN: u64 = 500;
/// Fewest events of both arms together before the first look at a ratio. Goodput, which counts bytes, has enough.
pub const EVENTS_MIN: f64 = 100.0;
/// Fewest folds with data in both arms. With fewer, the spread between peers cannot be measured.
pub const PEER_FOLDS_MIN: usize = 8;
/// Events added to both arms together before a logarithm is taken.
const CONTINUITY_EVENTS: f64 = 0.5;
/// Smaller standard errors are rounding errors.
const SE_MIN: f64 = 1e-9;

/// Numerator and denominator of a metric, summed over connections.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sums {
    /// Events, bytes or logarithms.
    pub numerator: f64,
    /// Segments, connections or seconds.
    pub denominator: f64,
}

/// One arm's sums for one metric since the shares of the split last changed.
///
/// Sums over different shares must not be mixed. If losses and the treated share both rise in the evening, more of the
/// treated arm falls into the evening, and it would look worse for that reason alone.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ArmSums {
    /// Connections that contributed.
    pub connections: u64,
    /// One entry per fold. The fold is a hash of the peer's address modulo [`FOLDS`], independent of the hash that chooses
    /// the arm.
    pub folds: [Sums; FOLDS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Logarithm of the treated ratio over the control ratio.
    LogRatio,
    /// Difference of the means of a quantity that is a logarithm itself, such as ln(srtt / min_rtt).
    Difference,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Logarithm of treated over control.
    pub theta: f64,
    pub se: f64,
    /// Number of equally large folds that would give the same precision of `se`; 1 to [`FOLDS`].
    pub folds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Display, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotYet {
    #[display("{seen} of {CONNECTIONS_MIN} connections in the smaller arm")]
    FewConnections { seen: u64 },
    #[display("{seen:.0} of {EVENTS_MIN} events in both arms")]
    FewEvents { seen: f64 },
    /// Data or events come from fewer than [`PEER_FOLDS_MIN`] folds.
    #[display("data from {folds} of {PEER_FOLDS_MIN} groups of peers")]
    FewPeers { folds: usize },
    /// All folds give the same effect, or a sum is not a number, so there is no spread to judge by.
    #[display("no difference between any peers to judge by")]
    NoSpread,
}

/// Sums of both arms over the same peers: treated, then control.
type ArmPair = [Sums; 2];

/// Estimates the effect of the treatment on a metric.
///
/// The standard error is a delete-one jackknife over the folds. A fold is left out of both arms at once. Effects of a
/// peer's path on both arms therefore cancel, and connections of one peer need not be independent.
///
/// The ratio of an arm without events has no logarithm. Half an event is therefore added to both arms together, in
/// proportion to their denominators. This adds the same amount to both ratios, so it can only move the effect towards
/// zero. From 100 events on, it cannot hide a large effect.
///
/// Units: `theta` and `se` are natural logarithms.
/// Source: R. G. Miller, "The jackknife: a review", Biometrika 61(1), 1974; B. Efron, C. Stein, "The jackknife estimate of
/// variance", Annals of Statistics 9(3), 1981.
///
/// # Errors
/// Each reason of [`NotYet`].
pub fn estimate(treated: &ArmSums, control: &ArmSums, effect: Effect) -> Result<Estimate, NotYet> {
    let seen = treated.connections.min(control.connections);
    if seen < CONNECTIONS_MIN {
        return Err(NotYet::FewConnections { seen });
    }
    let pairs = treated.folds.iter().zip(&control.folds).map(|(&treated, &control)| [treated, control]);
    let folds: Vec<ArmPair> = pairs.filter(|pair| pair.iter().any(Sums::has_data)).collect();
    let common = folds.iter().filter(|pair| pair.iter().all(Sums::has_data)).count();
    if common < PEER_FOLDS_MIN {
        return Err(NotYet::FewPeers { folds: common });
    }
    let total = [treated.total(), control.total()];
    let own = jackknife_variance(&folds, total, |pair| effect.of(pair));
    let variance = match effect {
        Effect::LogRatio => own.max(borrowed_variance(&folds, total)?),
        Effect::Difference => own,
    };
    let estimate =
        Estimate { theta: effect.of(total), se: variance.sqrt(), folds: effective_folds(&folds, total, effect) };
    let is_number = estimate.theta.is_finite() && estimate.se.is_finite() && estimate.folds.is_finite();
    if is_number && estimate.se > SE_MIN { Ok(estimate) } else { Err(NotYet::NoSpread) }
}

/// Variance of a statistic of both arms: (g - 1)/g · Σ (θ₍ᵢ₎ - θ̄)², with θ₍ᵢ₎ the statistic without fold i.
fn jackknife_variance(folds: &[ArmPair], total: ArmPair, statistic: impl Fn(ArmPair) -> f64) -> f64 {
    let count = folds.len() as f64;
    let without: Vec<f64> = folds.iter().map(|fold| statistic([total[0] - fold[0], total[1] - fold[1]])).collect();
    let mean = without.iter().sum::<f64>() / count;
    without.iter().map(|value| (value - mean).powi(2)).sum::<f64>() * (count - 1.0) / count
}

/// Lower bound for the variance of a log ratio if one arm has too few events to show its own; 0 if both have enough.
///
/// The jackknife gives an arm without events the variance 0, and ten clustered events may all fall into the other arm by
/// chance. The arm is assumed to vary like the other one, per unit of denominator: Var_other · (1 + D_other/D_few).
fn borrowed_variance(folds: &[ArmPair], total: ArmPair) -> Result<f64, NotYet> {
    let seen = total[0].numerator + total[1].numerator;
    if seen < EVENTS_MIN {
        return Err(NotYet::FewEvents { seen });
    }
    let with_events = [0, 1].map(|arm| folds.iter().filter(|pair| pair[arm].numerator > 0.0).count());
    let arm = match with_events.map(|count| count >= PEER_FOLDS_MIN) {
        [true, true] => return Ok(0.0),
        [true, false] => 0,
        [false, true] => 1,
        [false, false] => return Err(NotYet::FewPeers { folds: with_events[0].max(with_events[1]) }),
    };
    let own = jackknife_variance(folds, total, |pair| pair[arm].ratio().ln());
    Ok(own * (1.0 + total[arm].denominator / total[1 - arm].denominator))
}

/// Number of equally large folds whose variance would be known equally well: (Σv)² / Σv².
///
/// v is a fold's share of the effect's variance. Variance is assumed proportional to the events expected from the fold's
/// denominators at the ratio of both arms: v = R_fold · (D_treated/D²_treated,all + D_control/D²_control,all). For a
/// difference of means R is 1. A busy peer lowers the number, and so does a peer with most of the losses.
///
/// Source: F. E. Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin
/// 2(6), 1946.
fn effective_folds(folds: &[ArmPair], total: ArmPair, effect: Effect) -> f64 {
    let share = |pair: &ArmPair| {
        let [treated, control] = pair;
        let rate = match effect {
            Effect::LogRatio => (treated.numerator + control.numerator) / (treated.denominator + control.denominator),
            Effect::Difference => 1.0,
        };
        rate * (treated.denominator / total[0].denominator.powi(2) + control.denominator / total[1].denominator.powi(2))
    };
    let (sum, squares) = folds.iter().map(share).fold((0.0, 0.0), |(sum, squares), v| (sum + v, squares + v * v));
    sum * sum / squares
}

impl Effect {
    pub(super) fn of(self, [treated, control]: ArmPair) -> f64 {
        match self {
            Effect::Difference => treated.ratio() - control.ratio(),
            Effect::LogRatio => {
                let added = CONTINUITY_EVENTS / (treated.denominator + control.denominator);
                (treated.ratio() + added).ln() - (control.ratio() + added).ln()
            }
        }
    }
}

impl ArmSums {
    /// Adds the growth of one fold's connections since the last tick.
    ///
    /// Does not change `connections`: a connection counts once, however many ticks it lasts.
    ///
    /// Shape: `fold` is taken modulo [`FOLDS`].
    pub fn add(&mut self, fold: usize, sums: Sums) {
        self.folds[fold % FOLDS] += sums;
    }

    pub fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.folds.iter().for_each(|&fold| total += fold);
        total
    }

    /// The arm's value: numerator over denominator, or the geometric mean of a quantity in logarithms. `None` without data.
    pub fn value(&self, effect: Effect) -> Option<f64> {
        let total = self.total();
        let value = match effect {
            Effect::LogRatio => total.ratio(),
            Effect::Difference => total.ratio().exp(),
        };
        (total.has_data() && value.is_finite()).then_some(value)
    }
}

impl Sums {
    pub(super) fn ratio(self) -> f64 {
        self.numerator / self.denominator
    }

    fn has_data(&self) -> bool {
        self.denominator > 0.0
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.numerator += other.numerator;
        self.denominator += other.denominator;
    }
}

impl Sub for Sums {
    type Output = Sums;

    fn sub(self, other: Sums) -> Sums {
        Sums { numerator: self.numerator - other.numerator, denominator: self.denominator - other.denominator }
    }
}
