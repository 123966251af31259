//! Histograms: by powers of two, and of RTTs with bins narrow enough for percentiles.

pub use crate::trace::program::types::{totals_histogram as Powers, totals_rtt as RttCounts};

/// Bin n of [`Powers`] counts values above 2^(n-1) and up to 2^n. The last bin also counts larger values.
pub const BINS: usize = size_of::<Powers>() / size_of::<u64>() - 1;
/// One bin of [`RttCounts`] per us up to 8 us, then [`PARTS`] bins per power of two up to 2^24 us, and one for larger
/// values. Each includes its upper bound.
const RTT_BINS: usize = size_of::<RttCounts>() / size_of::<u64>() - 1;
/// Bins per power of two.
const PARTS: usize = 8;

impl Powers {
    pub(super) fn add(&mut self, other: &Powers) {
        self.sum += other.sum;
        self.bins.iter_mut().zip(other.bins).for_each(|(own, more)| *own += more);
    }
}

impl RttCounts {
    pub fn observe(&mut self, us: u32) {
        self.sum = self.sum.saturating_add(us.into());
        self.bins[bin_of(us)] += 1;
    }

    pub fn add(&mut self, other: &RttCounts) {
        self.sum = self.sum.saturating_add(other.sum);
        self.bins.iter_mut().zip(other.bins).for_each(|(own, more)| *own = own.saturating_add(more));
    }

    /// The growth since an earlier state of the same counts.
    pub fn since(&self, before: &RttCounts) -> RttCounts {
        let bins = std::array::from_fn(|bin| self.bins[bin].saturating_sub(before.bins[bin]));
        RttCounts { sum: self.sum.saturating_sub(before.sum), bins }
    }

    /// A percentile in microseconds, precise to an eighth of its value. Values above 2^24 us count as 2^24 us.
    ///
    /// None: there are no values.
    pub fn percentile_us(&self, share: f64) -> Option<u32> {
        let total: u64 = self.bins.iter().sum();
        let wanted = share * total as f64;
        let mut below = 0;
        for (bin, &count) in self.bins.iter().enumerate() {
            if count > 0 && (below + count) as f64 >= wanted {
                let (low, high) = bounds_us(bin);
                let part = ((wanted - below as f64) / count as f64).clamp(0.0, 1.0);
                return Some((low + (high - low) * part).round() as u32);
            }
            below += count;
        }
        None
    }

    /// Converts to a histogram by powers of two.
    pub fn powers(&self) -> Powers {
        let mut bins = [0; BINS];
        for (bin, count) in self.bins.iter().enumerate() {
            let power = match bin {
                0 => 0,
                1..PARTS => bin.ilog2() as usize + 1,
                _ => bin / PARTS + 3,
            };
            bins[power] += count;
        }
        Powers { sum: self.sum, bins }
    }
}

/// The bin of a value in microseconds, as in `observe_rtt` of the kernel program.
fn bin_of(us: u32) -> usize {
    let below = us.saturating_sub(1) as usize;
    let shift = below.checked_ilog2().unwrap_or(0).saturating_sub(PARTS.ilog2());
    (shift as usize * PARTS + (below >> shift)).min(RTT_BINS - 1)
}

/// Lower bound (excluded) and upper bound (included) of a bin, microseconds.
fn bounds_us(bin: usize) -> (f64, f64) {
    let shift = (bin / PARTS).saturating_sub(1);
    let first = bin - shift * PARTS;
    let bound = |part: usize| ((part as u64) << shift) as f64;
    if bin + 1 == RTT_BINS { (bound(first), bound(first)) } else { (bound(first), bound(first + 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_lie_side_by_side_and_end_at_powers_of_two() {
        for bin in 1..RTT_BINS {
            assert_eq!(bounds_us(bin).0, bounds_us(bin - 1).1, "bin {bin}");
        }
        assert_eq!(
            (bounds_us(0), bounds_us(8), bounds_us(RTT_BINS - 2).1),
            ((0.0, 1.0), (8.0, 9.0), f64::from(1 << 24))
        );
        for us in [0, 1, 2, 3, 4, 5, 8, 9, 16, 17, 1000, 1024, 1025, 41_000, 1 << 24, (1 << 24) + 1, u32::MAX] {
            let by_bounds =
                (0..RTT_BINS - 1).find(|&bin| f64::from(us.max(1)) <= bounds_us(bin).1).unwrap_or(RTT_BINS - 1);
            assert_eq!(bin_of(us), by_bounds, "{us} us");
            let mut counts = RttCounts::default();
            counts.observe(us);
            let power = (0..).find(|&power| u64::from(us) <= 1 << power).unwrap().min(25);
            assert_eq!(counts.powers().bins[power as usize], 1, "{us} us");
            assert_eq!(counts.powers().sum, u64::from(us));
        }
    }

    #[test]
    fn percentile_is_right_to_an_eighth() {
        let mut counts = RttCounts::default();
        assert_eq!(counts.percentile_us(0.5), None);
        (0..95).for_each(|_| counts.observe(41_000));
        (0..5).for_each(|_| counts.observe(300_000));
        let near = |share, us: f64| {
            let found = f64::from(counts.percentile_us(share).unwrap());
            assert!((found / us - 1.0).abs() <= 0.125, "{found} us for {us}");
        };
        near(0.5, 41_000.0);
        near(0.95, 41_000.0);
        near(0.99, 300_000.0);
        let later = counts;
        assert_eq!(later.since(&counts).percentile_us(0.5), None, "nothing came since");
        let mut above = RttCounts::default();
        above.observe(u32::MAX);
        assert_eq!(above.percentile_us(0.5), Some(1 << 24));
    }
}
