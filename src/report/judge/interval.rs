//! Intervals of means and medians, from resamples of the runs themselves where there are enough: no assumption about how
//! they scatter.
//!
//! The draws are seeded, so that a report of the same runs says the same, years later too.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};
use strum::IntoStaticStr;

use crate::model::stats::{self, UPPER_TAIL};

/// Fewest runs for which resamples say something: four runs have 35 distinct ones, and their interval is far too narrow.
pub const FEWEST: usize = 5;
/// Resamples; the ends of the interval then vary by about 2 % of its width from seed to seed.
const RESAMPLES: usize = 4000;
/// Of the draws.
const SEED: u64 = 1979;

/// How an interval was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum IntervalKind {
    /// [`stats::students_interval`]: too few runs to resample.
    Student,
    /// [`bootstrap`].
    Bootstrap,
}

impl IntervalKind {
    /// The word of files.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An interval of something that cannot be below 0, as no metric and no ratio of two can: it covers what it covered.
pub fn from_zero([low, high]: [f64; 2]) -> [f64; 2] {
    [low.max(0.0), high.max(0.0)]
}

/// The 95 % interval of the mean of a metric: by resampling where there are enough runs, else Student's from 0 on.
///
/// None: under [`stats::FEWEST_FOR_INTERVAL`] values.
pub fn mean_interval(values: &[f64]) -> Option<([f64; 2], IntervalKind)> {
    let resampled = bootstrap(values, stats::mean).map(|ends| (ends, IntervalKind::Bootstrap));
    resampled.or_else(|| stats::students_interval(values).map(|ends| (from_zero(ends), IntervalKind::Student)))
}

/// The 95 % interval of the median, by resampling.
///
/// None: under [`FEWEST`] values.
pub fn median_interval(values: &[f64]) -> Option<[f64; 2]> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    order.iter().enumerate().for_each(|(rank, index)| ranks[*index] = rank);
    // Counting ranks finds the same median as sorting every resample, ten times as fast.
    let mut counts = vec![0_usize; values.len()];
    bootstrap(&ranks, |drawn| {
        counts.fill(0);
        drawn.iter().for_each(|rank| counts[*rank] += 1);
        let mut below = 0;
        let mut value_at = |position: usize| {
            let rank = counts.iter().position(|count| {
                below += count;
                below > position
            })?;
            below = 0;
            Some(values[order[rank]])
        };
        let last = drawn.len() - 1;
        let (low, high) = (value_at(last / 2)?, value_at(last.div_ceil(2))?);
        Some(low + (high - low) * 0.5)
    })
}

/// A 95 % interval of a statistic: percentiles of its values over resamples of the runs with replacement, set further
/// apart the fewer runs there are.
///
/// The plain percentiles are too narrow by as much as the normal quantile is below Student's t; here they are those of
/// t, Φ(-t(n-1) · √(n/(n-1))). Of normal runs the interval of the mean covers 92 % at 5 runs and 95 % from 8 on.
///
/// Shape: order irrelevant.
/// None: under [`FEWEST`] values; a resample without the statistic.
/// Source: T. Hesterberg, "What teachers should know about the bootstrap", The American Statistician 69(4), 2015, 4.3,
/// the expanded percentile interval; B. Efron, "Bootstrap methods", Annals of Statistics 7(1), 1979.
fn bootstrap<T: Copy>(values: &[T], mut statistic: impl FnMut(&[T]) -> Option<f64>) -> Option<[f64; 2]> {
    let n = values.len();
    if n < FEWEST {
        return None;
    }
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    let mut drawn = values.to_vec();
    let mut statistics = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for value in &mut drawn {
            // A number of 32 bits to an index below n, as evenly as 2^32 divides.
            *value = values[((u64::from(random.next_u32()) * n as u64) >> 32) as usize];
        }
        statistics.push(statistic(&drawn)?);
    }
    let tail = expanded_tail(n)?;
    Some([stats::percentile(&statistics, tail)?, stats::percentile(&statistics, 1.0 - tail)?])
}

/// The share of the resamples below the interval.
fn expanded_tail(n: usize) -> Option<f64> {
    let runs = n as f64;
    let normal = Normal::new(0.0, 1.0).ok()?;
    let tail = normal.cdf(-stats::student(n)? * (runs / (runs - 1.0)).sqrt());
    Some(tail.min(UPPER_TAIL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A roughly normal number with mean 0 and variance 1: twelve uniforms minus six.
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        (0..12).map(|_| f64::from(random.next_u32()) / f64::from(u32::MAX)).sum::<f64>() - 6.0
    }

    #[test]
    fn four_runs_give_no_interval_and_equal_runs_one_without_width() {
        assert_eq!(bootstrap(&[1.0, 2.0, 3.0, 4.0], stats::mean), None);
        assert_eq!(bootstrap(&[7.0; 5], stats::median), Some([7.0, 7.0]));
    }

    #[test]
    fn interval_is_the_same_every_time_and_near_students_for_normal_runs() {
        let mut random = Pcg64Mcg::seed_from_u64(11);
        let runs: Vec<f64> = (0..11).map(|_| 100.0 + 10.0 * normal(&mut random)).collect();
        let [low, high] = bootstrap(&runs, stats::mean).unwrap();
        assert_eq!(bootstrap(&runs, stats::mean), Some([low, high]));
        let [t_low, t_high] = stats::students_interval(&runs).unwrap();
        let ratio = (high - low) / (t_high - t_low);
        assert!((0.85..1.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn intervals_cover_the_true_value_in_about_95_of_100_experiments() {
        let mut random = Pcg64Mcg::seed_from_u64(5);
        for statistic in [stats::mean as fn(&[f64]) -> Option<f64>, stats::median] {
            let covered = (0..200).filter(|_| {
                let runs: Vec<f64> = (0..11).map(|_| 10.0 + normal(&mut random)).collect();
                bootstrap(&runs, statistic).is_some_and(|[low, high]| low <= 10.0 && 10.0 <= high)
            });
            let share = covered.count() as f64 / 200.0;
            assert!((0.90..=0.99).contains(&share), "{share}");
        }
    }

    #[test]
    fn enough_runs_are_resampled_and_few_are_not() {
        let values = [1.0, 2.0, 3.0, 4.0, 6.0];
        assert_eq!(mean_interval(&values).unwrap().1, IntervalKind::Bootstrap);
        assert_eq!(mean_interval(&values[..3]).unwrap().1, IntervalKind::Student);
        assert_eq!(mean_interval(&[0.0, 0.0, 3.0]).unwrap().0[0], 0.0, "Student's begins below");
        assert_eq!((median_interval(&values[..4]), median_interval(&values)), (None, Some([1.0, 6.0])));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn interval_lies_within_the_runs(values in proptest::collection::vec(0.0..1e6f64, 5..20)) {
            let [low, high] = median_interval(&values).unwrap();
            prop_assert_eq!(bootstrap(&values, stats::median), Some([low, high]), "as by sorting");
            prop_assert!(low <= high);
            prop_assert!(values.iter().any(|&v| v <= low) && values.iter().any(|&v| v >= high));
        }
    }
}
