//! Tests whether the arms have the shares set by the split. If not, the arms are not comparable.

use statrs::function::gamma::ln_gamma;

/// One test's e-value from which on the arms do not have their shares: a false alarm in at most one of 1,000 trials.
///
/// A trial with several tests, one for each rule and step, needs this times their number.
pub const MISMATCH: f64 = 1000.0;
/// Concentration of the alternatives around the expected shares, as a number of prior observations.
///
/// The alternatives' standard deviation is √(p (1 - p) / 1001): 0.9 points for a share of 10 %.
const CONCENTRATION: f64 = 1000.0;

/// E-value of the arms not having the expected shares. It may be computed after every connection.
///
/// The likelihood of the counts under Dirichlet-distributed shares around the expected ones, over the likelihood under
/// the expected shares.
///
/// Shape: one count and one share per arm, in the same order, since the shares last changed. Shares have any common scale.
/// Counts are of the units that were split, each counted once: address pairs with their ports, peers or prefixes. A
/// proxy's few ports come round again and again, always in the same arm, so counts of connections would be clustered.
/// Without counts the e-value is 1.
/// None: fewer than two arms with a share, different lengths, a negative share, a share that is not a number, or a count
/// in an arm without a share.
/// Source: M. Lindon, A. Malek, "Anytime-valid inference for multinomial count data", NeurIPS 2022.
pub fn sample_ratio_e(observed: &[u64], expected_share: &[f64]) -> Option<f64> {
    let arms = arms(observed, expected_share)?;
    let total: f64 = arms.iter().map(|(count, _)| count).sum();
    let of_arm = |(count, share): &(f64, f64)| {
        let prior = CONCENTRATION * share;
        ln_gamma(prior + count) - ln_gamma(prior) - count * share.ln()
    };
    let ln_e = ln_gamma(CONCENTRATION) - ln_gamma(CONCENTRATION + total) + arms.iter().map(of_arm).sum::<f64>();
    ln_e.is_finite().then(|| ln_e.exp().min(f64::MAX))
}

/// Counts and normalised shares of the arms with a share.
fn arms(observed: &[u64], expected_share: &[f64]) -> Option<Vec<(f64, f64)>> {
    let total: f64 = expected_share.iter().sum();
    let is_valid = |(&count, &share): (&u64, &f64)| share > 0.0 || (share == 0.0 && count == 0);
    let all_valid = total.is_finite() && observed.iter().zip(expected_share).all(is_valid);
    if observed.len() != expected_share.len() || !all_valid {
        return None;
    }
    let pairs = observed.iter().zip(expected_share).filter(|(_, share)| **share > 0.0);
    let arms: Vec<_> = pairs.map(|(&count, share)| (count as f64, share / total)).collect();
    (arms.len() >= 2).then_some(arms)
}
