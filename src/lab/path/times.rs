//! Histograms of times that links and guests count: `bpf/link/times.h`. Pure.

use crate::c_types::TimesLayout;
use shared::model::run::Delays;

/// Number of counts.
pub(crate) const TIME_BUCKETS: usize = TimesLayout::TCCC_TIMES_BUCKETS.0 as usize;
/// Binary logarithm of the shortest time that counts, nanoseconds.
const LEAST_BITS: u32 = TimesLayout::TCCC_TIMES_LEAST_BITS.0;
/// Binary logarithm of the number of buckets for each power of two.
const STEP_BITS: u32 = TimesLayout::TCCC_TIMES_STEP_BITS.0;

/// The distribution of the times.
///
/// Shape: [`TIME_BUCKETS`] counts.
/// None: no time was counted.
pub(crate) fn delays(counts: &[u64]) -> Option<Delays> {
    let total: u64 = counts.iter().sum();
    let counted = || (0..).zip(counts).filter(|(_, count)| **count > 0);
    let max = counted().last().map(|(bucket, _)| middle_us(bucket))?;
    let at = |share: f64| {
        let mut below = 0;
        let reached = counted().find(|(_, count)| {
            below += *count;
            below as f64 >= share * total as f64
        });
        reached.map_or(max, |(bucket, _)| middle_us(bucket))
    };
    let sum: f64 = counted().map(|(bucket, count)| middle_us(bucket) * *count as f64).sum();
    Some(Delays { mean: sum / total as f64, p50: at(0.5), p95: at(0.95), p99: at(0.99), max })
}

/// The middle of a bucket, microseconds.
fn middle_us(bucket: u32) -> f64 {
    let Some(bucket) = bucket.checked_sub(1) else { return 0.0 };
    let (power, step) = (LEAST_BITS + (bucket >> STEP_BITS), bucket & ((1 << STEP_BITS) - 1));
    let width_ns = f64::from(power - STEP_BITS).exp2();
    (f64::from((1 << STEP_BITS) + step) + 0.5) * width_ns / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles_are_a_64th_from_the_ends_of_their_buckets() {
        let middles: Vec<f64> = (1..TIME_BUCKETS as u32).map(middle_us).collect();
        assert!((middles[0] - 1.024 * (1.0 + 1.0 / 64.0)).abs() < 1e-9, "{}", middles[0]);
        let steps = middles.windows(2).map(|pair| pair[1] / pair[0]);
        assert!(steps.into_iter().all(|step| (1.015..1.033).contains(&step)));
        assert!((middles.last().unwrap() / 2_199e6 - 1.0).abs() < 0.02);
    }

    #[test]
    fn percentiles_are_those_of_the_buckets() {
        let mut counts = vec![0; TIME_BUCKETS];
        assert_eq!(delays(&counts), None);
        counts[0] = 90;
        counts[1] = 9;
        counts[33] = 1;
        let delays = delays(&counts).unwrap();
        assert_eq!((delays.p50, delays.p95, delays.p99), (0.0, middle_us(1), middle_us(1)));
        assert_eq!(delays.max, middle_us(33));
        assert!((delays.mean - (9.0 * middle_us(1) + middle_us(33)) / 100.0).abs() < 1e-9);
    }
}
