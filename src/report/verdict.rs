//! What a verdict compares, and how it says so.
//!
//! Targets, in this order:
//!
//! 1. The scenario's expectations for this cell (of the ratio to the baseline, of the value): all that are given must
//!    hold, and the reason names the first that does not.
//! 2. Without an expectation, the source's numbers within the scenario's tolerance: the published ratio where variant
//!    and baseline both have a published value, else the published value.
//!
//! Compared is the measured mean, or the ratio of the means; the interval is shown beside it and not used, so that
//! noisy runs are never `within` because they are noisy. Without a run or a target a cell is `not comparable`, and
//! so is one that was measured under another profile than the scenario's: its numbers are for that one.

use super::number::{self, Scale};
use super::{Expectation, Measured, Ratio, Verdict};

/// What a cell has to compare.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// What the runs gave.
    pub measured: Option<&'a Measured>,
    /// The cell divided by the baseline.
    pub ratio: Option<&'a Ratio>,
    /// Expected value.
    pub expected: Option<&'a Expectation>,
    /// Published value.
    pub published: Option<f64>,
    /// The profile of the runs where it is not the scenario's.
    pub other_profile: Option<&'a str>,
    /// Allowed share around a published number.
    pub tolerance: f64,
    /// How values of the metric are shown.
    pub scale: Scale,
}

/// One comparison: whether it holds, and its sentence.
struct Comparison {
    holds: bool,
    sentence: String,
}

/// The verdict and the comparison it rests on, as one phrase.
pub fn judge(evidence: Evidence<'_>) -> (Verdict, String) {
    let Some(measured) = evidence.measured else {
        return (Verdict::NotComparable, "not measured".to_owned());
    };
    if let Some(profile) = evidence.other_profile {
        return (Verdict::NotComparable, format!("measured under the profile {profile}, which is not the scenario's"));
    }
    let expectations = evidence.expectations(measured);
    let comparisons = if expectations.is_empty() { evidence.published(measured) } else { expectations };
    let decisive = comparisons.iter().find(|comparison| !comparison.holds).or(comparisons.first());
    match decisive {
        None => (Verdict::NotComparable, "neither published nor expected".to_owned()),
        Some(comparison) if comparison.holds => (Verdict::Within, comparison.sentence.clone()),
        Some(comparison) => (Verdict::Outside, comparison.sentence.clone()),
    }
}

impl Evidence<'_> {
    fn expectations(&self, measured: &Measured) -> Vec<Comparison> {
        let ratio = self.ratio.and_then(|ratio| {
            let (expected, measured) = (ratio.expected.as_ref()?, ratio.measured?);
            Some(against_expected("ratio", measured, expected, Scale::Ratio))
        });
        let value = self.expected.map(|expected| against_expected("mean", measured.mean, expected, self.scale));
        ratio.into_iter().chain(value).collect()
    }

    fn published(&self, measured: &Measured) -> Vec<Comparison> {
        let ratio = self.ratio.and_then(|ratio| {
            let (published, measured) = (ratio.published?, ratio.measured?);
            Some(self.against_published("ratio", measured, published, Scale::Ratio))
        });
        let value = || self.published.map(|value| self.against_published("mean", measured.mean, value, self.scale));
        ratio.or_else(value).into_iter().collect()
    }

    fn against_published(&self, what: &str, measured: f64, published: f64, scale: Scale) -> Comparison {
        let holds = (measured - published).abs() <= self.tolerance * published.abs();
        let sentence = format!(
            "{what} {}, published {} ± {}",
            scale.with_unit(measured),
            scale.with_unit(published),
            number::percent(self.tolerance)
        );
        Comparison { holds, sentence }
    }
}

fn against_expected(what: &str, measured: f64, expected: &Expectation, scale: Scale) -> Comparison {
    let holds = (measured - expected.value).abs() <= expected.plus_minus;
    let sentence =
        format!("{what} {}, expected {}", scale.with_unit(measured), scale.range(expected.value, expected.plus_minus));
    Comparison { holds, sentence }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(mean: f64) -> Measured {
        Measured::of(vec![mean; 3], 0).unwrap()
    }

    fn expectation(value: f64, plus_minus: f64) -> Expectation {
        Expectation { value, plus_minus, basis: "model".into() }
    }

    fn ratio(measured: f64, expected: Option<Expectation>, published: Option<f64>) -> Ratio {
        Ratio { published, expected, measured: Some(measured), ci95: None, pairs: 3 }
    }

    fn evidence<'a>(measured: Option<&'a Measured>, ratio: Option<&'a Ratio>) -> Evidence<'a> {
        let scale = Scale::of("pkts", [20_000.0]);
        Evidence { measured, ratio, expected: None, published: None, other_profile: None, tolerance: 0.1, scale }
    }

    #[test]
    fn expected_ratio_decides_over_published_ratio() {
        let mean = measured(21_500.0);
        let ratio = ratio(1.26, Some(expectation(1.24, 0.10)), Some(1.43));
        let (verdict, reason) = judge(evidence(Some(&mean), Some(&ratio)));
        assert_eq!((verdict, reason.as_str()), (Verdict::Within, "ratio 1.26, expected 1.24 ± 0.10"));
    }

    #[test]
    fn every_expectation_must_hold_and_the_missed_one_is_named() {
        let mean = measured(12_000.0);
        let ratio = ratio(1.26, Some(expectation(1.24, 0.10)), None);
        let value = expectation(21_500.0, 2_150.0);
        let (verdict, reason) = judge(Evidence { expected: Some(&value), ..evidence(Some(&mean), Some(&ratio)) });
        assert_eq!(verdict, Verdict::Outside);
        assert_eq!(reason, "mean 12 000 pkts, expected 21 500 ± 2 150 pkts");
    }

    #[test]
    fn published_numbers_count_only_without_expectation_and_the_ratio_first() {
        let mean = measured(30_000.0);
        let near = ratio(1.40, None, Some(1.43));
        let with_value = |ratio| Evidence { published: Some(22_818.0), ..evidence(Some(&mean), ratio) };
        assert_eq!(judge(with_value(Some(&near))).0, Verdict::Within);
        let (verdict, reason) = judge(with_value(None));
        assert_eq!((verdict, reason.as_str()), (Verdict::Outside, "mean 30 000 pkts, published 22 818 pkts ± 10 %"));
    }

    #[test]
    fn nothing_measured_or_nothing_to_meet_is_not_comparable() {
        let mean = measured(1.0);
        assert_eq!(judge(evidence(Some(&mean), None)).0, Verdict::NotComparable);
        let published = Evidence { published: Some(1.0), ..evidence(None, None) };
        assert_eq!(judge(published), (Verdict::NotComparable, "not measured".into()));
    }
}
