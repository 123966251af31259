//! A histogram of round-trip times, with bounds of 1, 1.5, 2, 3, 5 and 7 in each decade.

/// Upper bounds of the bins, microseconds. One more bin has everything above the last bound.
pub const BOUNDS_US: [u32; 42] = [
    10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000, 15_000,
    20_000, 30_000, 50_000, 70_000, 100_000, 150_000, 200_000, 300_000, 500_000, 700_000, 1_000_000, 1_500_000,
    2_000_000, 3_000_000, 5_000_000, 7_000_000, 10_000_000, 15_000_000, 20_000_000, 30_000_000, 50_000_000, 70_000_000,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Histogram {
    /// Samples per bin of [`BOUNDS_US`], then those above.
    pub counts: [u64; BOUNDS_US.len() + 1],
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: [0; BOUNDS_US.len() + 1] }
    }
}

impl Histogram {
    pub fn add(&mut self, rtt_us: u32) {
        self.counts[BOUNDS_US.partition_point(|&bound| bound < rtt_us)] += 1;
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn with(mut self, other: &Histogram) -> Histogram {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, more)| *own += more);
        self
    }

    /// An upper bound of a percentile, microseconds: the bound of its bin.
    ///
    /// None: no sample, or the percentile is above the last bound.
    pub fn percentile_us(&self, share: f64) -> Option<u32> {
        let wanted = (share * self.total() as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let bin = self.counts.iter().position(|count| {
            below += count;
            below >= wanted
        });
        BOUNDS_US.get(bin?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fall_into_the_bin_of_their_upper_bound() {
        let mut histogram = Histogram::default();
        for rtt in [1, 10, 11, 15, 40_000, 50_000, u32::MAX] {
            histogram.add(rtt);
        }
        let bin = |bound: u32| histogram.counts[BOUNDS_US.iter().position(|it| *it == bound).unwrap()];
        assert_eq!((bin(10), bin(15), bin(50_000)), (2, 2, 2));
        assert_eq!((histogram.counts[BOUNDS_US.len()], histogram.total()), (1, 7));
        assert!(BOUNDS_US.is_sorted());
        assert_eq!(histogram.percentile_us(0.5), Some(15));
        assert_eq!(histogram.percentile_us(0.8), Some(50_000));
        assert_eq!(histogram.percentile_us(1.0), None);
        assert_eq!(Histogram::default().percentile_us(0.5), None);
    }
}
