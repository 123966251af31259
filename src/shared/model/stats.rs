//! Statistics of repeated runs. Deterministic: the same values always give the same interval.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Fewest runs for an interval. With two it is so wide that it only misleads.
pub const FEWEST_FOR_INTERVAL: usize = 3;
/// Probability outside a 95 % interval on its upper side.
pub const UPPER_TAIL: f64 = 0.025;

/// None: no value.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The value below which a share of the values lies, interpolated linearly between neighbours.
///
/// Units: `share` from 0 to 1; output in the unit of the values.
/// Shape: order irrelevant.
/// None: no value.
/// Source: R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50(4), 1996, type 7.
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    percentile_in_place(&mut values.to_vec(), share)
}

/// Like [`percentile`], but sorts the given values instead of a copy.
pub fn percentile_in_place(sorted: &mut [f64], share: f64) -> Option<f64> {
    sorted.sort_unstable_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let position = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (position.floor() as usize, position.ceil() as usize);
    Some(sorted[below] + (sorted[above] - sorted[below]) * position.fract())
}

/// Shape: (value, weight) in any order; weights from 0, on any common scale.
/// None: no value has a weight.
pub fn weighted_mean(weighted: &[(f64, f64)]) -> Option<f64> {
    let total: f64 = weighted.iter().map(|(_, weight)| weight).sum();
    let sum: f64 = weighted.iter().map(|(value, weight)| value * weight).sum();
    (total > 0.0).then(|| sum / total)
}

/// The lowest value at or below which a share of the weight lies: the inverse of the weighted empirical distribution.
///
/// The result is always one of the values with a weight. It is not interpolated, because a quantity that jumps was never
/// in between. Splitting a value into several that share its weight changes nothing.
///
/// Units: `share` from 0 to 1; output in the unit of the values.
/// Shape: (value, weight) in any order; weights from 0, on any common scale.
/// None: no value has a weight.
/// Source: R. J. Hyndman, Y. Fan, "Sample quantiles in statistical packages", The American Statistician 50(4), 1996, type 1,
/// with weights in place of counts.
pub fn weighted_percentile(weighted: &[(f64, f64)], share: f64) -> Option<f64> {
    let mut sorted: Vec<(f64, f64)> = weighted.iter().copied().filter(|(_, weight)| *weight > 0.0).collect();
    sorted.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let total: f64 = sorted.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = sorted.iter().find(|(_, weight)| {
        below += weight;
        below >= share.clamp(0.0, 1.0) * total
    });
    reached.or(sorted.last()).map(|(value, _)| *value)
}

/// None: no value.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// Student's 95 % interval of the mean: mean ± t(n - 1) · s / √n.
///
/// Valid for independent, roughly normal runs. Sums over a whole run are roughly normal.
///
/// None: fewer than [`FEWEST_FOR_INTERVAL`] values.
/// Source: Student, "The probable error of a mean", Biometrika 6(1), 1908.
pub fn students_interval(values: &[f64]) -> Option<[f64; 2]> {
    let centre = mean(values)?;
    let margin = student(values.len())? * (covariance(values, values) / values.len() as f64).sqrt();
    Some([centre - margin, centre + margin])
}

/// Welch's two-sided test of equal means: its p, and both means.
///
/// None: one of the series has fewer than [`FEWEST_FOR_INTERVAL`] values.
/// Source: B. L. Welch, "The generalization of Student's problem", Biometrika 34, 1947.
pub fn welch(first: &[f64], second: &[f64]) -> Option<(f64, [f64; 2])> {
    let series = [first, second];
    if series.iter().any(|values| values.len() < FEWEST_FOR_INTERVAL) {
        return None;
    }
    let means = [mean(first)?, mean(second)?];
    let parts = series.map(|values| covariance(values, values) / values.len() as f64);
    let variance: f64 = parts.iter().sum();
    if variance == 0.0 {
        return Some((if means[0] == means[1] { 1.0 } else { 0.0 }, means));
    }
    let freedom = variance.powi(2)
        / series.iter().zip(parts).map(|(values, part)| part.powi(2) / (values.len() - 1) as f64).sum::<f64>();
    let t = (means[0] - means[1]).abs() / variance.sqrt();
    Some((2.0 * (1.0 - StudentsT::new(0.0, 1.0, freedom).ok()?.cdf(t)), means))
}

/// A ratio of two means over the same repeats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedRatio {
    /// Mean of the first over mean of the second.
    pub ratio: f64,
    pub ci95: Option<[f64; 2]>,
}

/// Ratio of the means of paired values with Fieller's 95 % interval.
///
/// Runs of one repeat share their seed across variants, so common conditions cancel; the interval uses their covariance.
/// Fieller's interval needs no random numbers and keeps its coverage at three to ten pairs. A percentile bootstrap is far
/// too narrow there (three pairs have ten distinct resamples).
///
/// Shape: one (numerator, denominator) per repeat, order irrelevant.
/// None: no pair, or the mean of the denominators is zero. `ci95` is `None` below [`FEWEST_FOR_INTERVAL`] pairs, and if
/// the denominators' own interval contains zero, because the ratio is then unbounded.
/// Source: E. C. Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16(2), 1954.
pub fn paired_ratio(pairs: &[(f64, f64)]) -> Option<PairedRatio> {
    let (above, below): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ratio = mean(&above)? / mean(&below).filter(|mean| *mean != 0.0)?;
    Some(PairedRatio { ratio, ci95: fieller(&above, &below) })
}

/// The two roots r of (a - r·b)² = t² · (s_aa - 2·r·s_ab + r²·s_bb) / n (Fieller 1954), where a and b are the means.
fn fieller(above: &[f64], below: &[f64]) -> Option<[f64; 2]> {
    let (a, b) = (mean(above)?, mean(below)?);
    let t_squared_over_n = student(above.len())?.powi(2) / above.len() as f64;
    let quadratic = b * b - t_squared_over_n * covariance(below, below);
    let half_linear = a * b - t_squared_over_n * covariance(above, below);
    let constant = a * a - t_squared_over_n * covariance(above, above);
    let discriminant = half_linear * half_linear - quadratic * constant;
    // The denominators may be zero, so the interval is unbounded.
    if quadratic <= 0.0 {
        return None;
    }
    // Rounding may push a discriminant of 0 below 0.
    let root = discriminant.max(0.0).sqrt();
    Some([(half_linear - root) / quadratic, (half_linear + root) / quadratic])
}

/// Sample covariance with n - 1; the variance if both series are the same. 0 for fewer than two values.
fn covariance(first: &[f64], second: &[f64]) -> f64 {
    let (Some(mean_first), Some(mean_second)) = (mean(first), mean(second)) else { return 0.0 };
    let sum: f64 = first.iter().zip(second).map(|(x, y)| (x - mean_first) * (y - mean_second)).sum();
    sum / (first.len().max(2) - 1) as f64
}

/// The upper 2.5 % point of Student's t with n - 1 degrees of freedom.
///
/// None: `n` is below [`FEWEST_FOR_INTERVAL`].
pub fn student(n: usize) -> Option<f64> {
    if n < FEWEST_FOR_INTERVAL {
        return None;
    }
    StudentsT::new(0.0, 1.0, (n - 1) as f64).ok().map(|t| t.inverse_cdf(1.0 - UPPER_TAIL))
}

#[cfg(any(test, feature = "samples"))]
pub mod samples {
    /// A roughly normal number with mean 0 and variance 1: twelve uniforms minus six.
    pub fn normal(mut uniform: impl FnMut() -> u32) -> f64 {
        (0..12).map(|_| f64::from(uniform()) / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::samples::normal;
    use super::*;
    use proptest::prelude::*;
    use rand_pcg::Pcg64Mcg;
    use rand_pcg::rand_core::SeedableRng as _;

    /// The p is that of scipy's `ttest_ind(a, b, equal_var=False)`.
    #[test]
    fn welch_tests_means_of_series_with_other_variances() {
        let (p, means) = welch(&[27.5, 21.0, 19.0, 23.6, 17.0, 17.9], &[27.1, 22.0, 20.8, 23.4, 23.4, 23.5]).unwrap();
        assert!((p - 0.234_861_75).abs() < 1e-6, "{p}");
        assert!((means[0] - 21.0).abs() < 1e-9 && (means[1] - 23.3667).abs() < 1e-4, "{means:?}");
        assert_eq!(welch(&[1.0; 3], &[1.0; 4]).unwrap().0, 1.0);
        assert_eq!(welch(&[1.0; 3], &[2.0; 4]).unwrap().0, 0.0);
        assert_eq!(welch(&[1.0; 2], &[2.0; 4]), None);
    }

    #[test]
    fn percentiles_interpolate_between_neighbours() {
        let values = [40.0, 10.0, 20.0, 30.0];
        assert_eq!(percentile(&values, 0.0), Some(10.0));
        assert_eq!(percentile(&values, 1.0), Some(40.0));
        assert_eq!(median(&values), Some(25.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn weighted_percentile_is_the_value_that_reaches_the_share_of_the_weight() {
        let weighted = [(30.0, 1.0), (10.0, 6.0), (20.0, 3.0), (99.0, 0.0), (1.0, 0.0)];
        let percentiles =
            [0.0, 0.5, 0.6, 0.61, 0.9, 0.95, 1.0].map(|share| weighted_percentile(&weighted, share).unwrap());
        assert_eq!(percentiles, [10.0, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0]);
        assert_eq!(weighted_mean(&weighted), Some(15.0));
        let split = [(20.0, 1.0), (30.0, 1.0), (20.0, 2.0), (10.0, 6.0)];
        assert_eq!(weighted_percentile(&split, 0.61), Some(20.0));
        assert_eq!(weighted_percentile(&[(7.0, 0.0)], 0.5), None);
        assert_eq!((weighted_percentile(&[], 0.5), weighted_mean(&[])), (None, None));
    }

    #[test]
    fn interval_of_the_mean_agrees_with_the_printed_t_table() {
        // t(0.975, 4) = 2.776; s = 1.5811; margin = 2.776 * 1.5811 / sqrt(5) = 1.963
        let [low, high] = students_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((low - 1.037).abs() < 0.001 && (high - 4.963).abs() < 0.001, "{low} {high}");
    }

    #[test]
    fn two_runs_give_no_interval() {
        assert_eq!(students_interval(&[1.0, 2.0]), None);
        let ratio = paired_ratio(&[(2.0, 1.0), (4.0, 2.0)]).unwrap();
        assert_eq!((ratio.ratio, ratio.ci95), (2.0, None));
    }

    #[test]
    fn ratio_of_proportional_pairs_is_exact() {
        let ratio = paired_ratio(&[(15.0, 10.0), (18.0, 12.0), (12.0, 8.0)]).unwrap();
        let [low, high] = ratio.ci95.unwrap();
        assert!((low - 1.5).abs() < 1e-6 && (high - 1.5).abs() < 1e-6, "{low} {high}");
    }

    #[test]
    fn ratio_over_values_around_zero_has_no_interval() {
        assert_eq!(paired_ratio(&[(1.0, -1.0), (1.0, 0.5), (1.0, 1.0)]).unwrap().ci95, None);
        assert_eq!(paired_ratio(&[(1.0, 0.0)]), None);
    }

    #[test]
    fn paired_interval_covers_the_true_ratio_in_95_of_100_experiments() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        for pairs in [3, 5, 11] {
            let covered = (0..2000).filter(|_| {
                let runs: Vec<(f64, f64)> = (0..pairs)
                    .map(|_| {
                        let shared = normal(|| random.next_u32());
                        let reno = 100.0 + 5.0 * shared + 4.0 * normal(|| random.next_u32());
                        (124.0 + 5.0 * shared + 4.0 * normal(|| random.next_u32()), reno)
                    })
                    .collect();
                paired_ratio(&runs).and_then(|r| r.ci95).is_some_and(|[low, high]| low <= 1.24 && 1.24 <= high)
            });
            let share = covered.count() as f64 / 2000.0;
            assert!((0.935..=0.965).contains(&share), "{pairs} pairs: {share}");
        }
    }

    proptest! {
        #[test]
        fn weighted_percentile_is_a_value_with_weight_and_grows_with_the_share(
            weighted in proptest::collection::vec((-1e6..1e6f64, 0.0..1e3f64), 0..20), shares: [u8; 2],
        ) {
            let mut shares = shares.map(|share| f64::from(share) / 255.0);
            shares.sort_by(f64::total_cmp);
            let [low, high] = shares.map(|share| weighted_percentile(&weighted, share));
            prop_assert!(low <= high);
            let is_there = |found| weighted.iter().any(|(value, weight)| *value == found && *weight > 0.0);
            prop_assert_eq!(low.is_some_and(is_there), weighted.iter().any(|(_, weight)| *weight > 0.0));
        }

        #[test]
        fn intervals_contain_their_centre(values in proptest::collection::vec(1.0..1e6f64, 3..20)) {
            let centre = mean(&values).unwrap();
            let [low, high] = students_interval(&values).unwrap();
            prop_assert!(low <= centre && centre <= high);
            let middle = median(&values).unwrap();
            prop_assert!(values.iter().any(|&v| v <= middle) && values.iter().any(|&v| v >= middle));
        }
    }
}
