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
//! noisy runs are never `within` because they are noisy; a miss whose interval reaches the range says that it does.
//!
//! Without a run or a target a cell is `not comparable`, and so is one that was measured under another profile than the
//! scenario's: its numbers are for that one. Nothing else is compared instead of a target ratio: without a run of
//! the baseline the cell is `not comparable` too, unless it misses what is expected of its value. So it is where runs
//! that ended before leave a bound only, unless longer runs could but lead further away from the range.

use super::bound::Bound;
use super::cell::{Cell, Expectation, Measured, Ratio, Verdict};
use super::number::{self, Scale};

/// Why a ratio is not compared: this part of the experiment, or what there is of it, lacks the baseline.
const NO_BASELINE: &str = "its baseline is not measured here";
/// The same where the runs of the baseline give 0.
const BASELINE_OF_ZERO: &str = "its baseline is 0 here";
/// Why a number is not compared.
const BOUND_ONLY: &str = "known as a bound only: runs ended before";

/// What a verdict depends on beside the cell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'a> {
    /// What is expected is a difference to the baseline, which was not measured.
    pub lacks_baseline: bool,
    /// The profile of the runs where it is not the scenario's.
    pub other_profile: Option<&'a str>,
    /// Allowed share around a published number.
    pub tolerance: f64,
}

/// One comparison: what it comes to, and its sentence.
struct Comparison {
    verdict: Verdict,
    sentence: String,
}

impl Comparison {
    /// One that cannot be made, and why.
    fn open(why: &str) -> Comparison {
        Comparison { verdict: Verdict::NotComparable, sentence: why.to_owned() }
    }
}

/// The verdict on a cell and the comparison it rests on, as one phrase.
pub fn judge(cell: &Cell, terms: Terms<'_>) -> (Verdict, String) {
    let Some(measured) = &cell.measured else {
        return (Verdict::NotComparable, "not measured".to_owned());
    };
    if let Some(profile) = terms.other_profile {
        return (Verdict::NotComparable, format!("measured under the profile {profile}, which is not the scenario's"));
    }
    let comparisons = comparisons(cell, measured, terms);
    let first = |verdict| comparisons.iter().find(|comparison| comparison.verdict == verdict);
    // A miss decides whatever the others are, and what cannot be compared leaves open whether all hold.
    match [Verdict::Outside, Verdict::NotComparable, Verdict::Within].into_iter().find_map(first) {
        None => (Verdict::NotComparable, "neither published nor expected".to_owned()),
        Some(decisive) => (decisive.verdict, decisive.sentence.clone()),
    }
}

/// The comparisons with all that is expected, else with the published ratio or value.
fn comparisons(cell: &Cell, measured: &Measured, terms: Terms<'_>) -> Vec<Comparison> {
    let ratio = cell.ratio_to_baseline.as_ref();
    let scale = Scale::of(&cell.unit, std::iter::once(measured.mean).chain(cell.published));
    let mean = Found { what: "mean", value: measured.mean, ci95: measured.ci95, bound: measured.bound(), scale };
    let of_ratio = ratio.and_then(|ratio| Some((ratio, ratio.expected.as_ref()?)));
    let of_ratio = of_ratio.map(|(ratio, expected)| compared(ratio, |found| found.against_expected(expected)));
    let of_value = cell.expected.as_ref().map(|expected| mean.against_expected(expected));
    let lacking = terms.lacks_baseline.then(|| Comparison::open(NO_BASELINE));
    let expectations: Vec<Comparison> = of_ratio.into_iter().chain(of_value).chain(lacking).collect();
    if !expectations.is_empty() {
        return expectations;
    }
    let published = ratio.and_then(|ratio| Some((ratio, ratio.published?)));
    let of_ratio = published.map(|(ratio, one)| compared(ratio, |found| found.against_published(one, terms.tolerance)));
    let of_value = || cell.published.map(|published| mean.against_published(published, terms.tolerance));
    of_ratio.or_else(of_value).into_iter().collect()
}

/// Compares the measured ratio with its target; where there is none, says why.
fn compared(ratio: &Ratio, against: impl FnOnce(Found) -> Comparison) -> Comparison {
    let Some(value) = ratio.measured else {
        let why = if ratio.pairs == 0 { NO_BASELINE } else { BASELINE_OF_ZERO };
        return Comparison::open(why);
    };
    against(Found { what: "ratio", value, ci95: ratio.ci95, bound: ratio.bound(), scale: Scale::Ratio })
}

/// A measured number that is compared.
#[derive(Debug, Clone, Copy)]
struct Found {
    what: &'static str,
    value: f64,
    ci95: Option<[f64; 2]>,
    /// What it says of the number that longer runs would give.
    bound: Bound,
    scale: Scale,
}

impl Found {
    fn against_published(self, published: f64, tolerance: f64) -> Comparison {
        let (shown, within) = (self.scale.with_unit(published), number::percent(tolerance));
        self.against([published, tolerance * published.abs()], &format!("published {shown} ± {within}"))
    }

    fn against_expected(self, expected: &Expectation) -> Comparison {
        let range = self.scale.range(expected.value, expected.plus_minus);
        self.against([expected.value, expected.plus_minus], &format!("expected {range}"))
    }

    /// A miss that the interval does not rule out is one all the same, and says so.
    fn against(self, [target, margin]: [f64; 2], shown: &str) -> Comparison {
        let Found { what, value, ci95, bound, scale } = self;
        let holds = (value - target).abs() <= margin;
        if bound != Bound::Exact && (holds || bound.may_meet(value, target)) {
            return Comparison::open(BOUND_ONLY);
        }
        let is_reached = |[low, high]: [f64; 2]| low <= target + margin && target - margin <= high;
        let reached = if !holds && ci95.is_some_and(is_reached) { ", which its 95 % interval reaches" } else { "" };
        let value = bound.signed(&scale.with_unit(value));
        let verdict = if holds { Verdict::Within } else { Verdict::Outside };
        Comparison { verdict, sentence: format!("{what} {value}, {shown}{reached}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str = "known as a bound only: runs ended before";
    const ALONE: &str = "its baseline is not measured here";

    fn expectation(value: f64, plus_minus: f64) -> Expectation {
        Expectation { value, plus_minus, basis: "model".into() }
    }

    fn ratio(measured: f64, expected: Option<Expectation>, published: Option<f64>) -> Ratio {
        Ratio { published, expected, measured: Some(measured), pairs: 3, ..Ratio::default() }
    }

    /// The same without a run of the baseline.
    fn lone(expected: Option<Expectation>, published: Option<f64>) -> Ratio {
        Ratio { measured: None, pairs: 0, ..ratio(1.0, expected, published) }
    }

    /// Three runs with this mean, of which so many were cut off.
    fn cell(mean: f64, cut_off: usize, ratio_to_baseline: Option<Ratio>) -> Cell {
        let measured = Measured::of(vec![mean; 3], cut_off);
        Cell { unit: "pkts".into(), measured, ratio_to_baseline, ..Cell::default() }
    }

    fn judge(cell: &Cell) -> (Verdict, String) {
        super::judge(cell, Terms { tolerance: 0.1, ..Terms::default() })
    }

    #[track_caller]
    fn check(cell: Cell, verdict: Verdict, reason: &str) {
        assert_eq!(judge(&cell), (verdict, reason.to_owned()));
    }

    #[test]
    fn expected_ratio_decides_over_published_ratio() {
        let ratio = ratio(1.26, Some(expectation(1.24, 0.10)), Some(1.43));
        check(cell(21_500.0, 0, Some(ratio)), Verdict::Within, "ratio 1.26, expected 1.24 ± 0.10");
    }

    #[test]
    fn every_expectation_must_hold_and_the_missed_one_is_named() {
        let ratio = ratio(1.26, Some(expectation(1.24, 0.10)), None);
        let expected = Some(expectation(21_500.0, 2_150.0));
        let missed = Cell { expected, ..cell(12_000.0, 0, Some(ratio)) };
        check(missed, Verdict::Outside, "mean 12 000 pkts, expected 21 500 ± 2 150 pkts");
    }

    #[test]
    fn published_numbers_count_only_without_expectation_and_the_ratio_first() {
        let with_value = |ratio| Cell { published: Some(22_818.0), ..cell(30_000.0, 0, ratio) };
        assert_eq!(judge(&with_value(Some(ratio(1.40, None, Some(1.43))))).0, Verdict::Within);
        check(with_value(None), Verdict::Outside, "mean 30 000 pkts, published 22 818 pkts ± 10 %");
    }

    /// The published value was compared instead, and a part of an experiment was `within` or `outside`.
    #[test]
    fn ratio_or_saving_without_a_baseline_is_not_comparable() {
        let part = |ratio| Cell { published: Some(22_818.0), ..cell(22_800.0, 0, ratio) };
        let expected = || part(Some(lone(Some(expectation(1.24, 0.10)), None)));
        check(expected(), Verdict::NotComparable, ALONE);
        let met = Cell { expected: Some(expectation(22_800.0, 100.0)), ..expected() };
        check(met, Verdict::NotComparable, ALONE);
        // A value that is missed decides.
        let missed = Cell { expected: Some(expectation(21_000.0, 100.0)), ..expected() };
        check(missed, Verdict::Outside, "mean 22 800 pkts, expected 21 000 ± 100 pkts");
        let of_saving = Terms { lacks_baseline: true, ..Terms::default() };
        assert_eq!(super::judge(&part(None), of_saving), (Verdict::NotComparable, ALONE.into()));
        let published = lone(None, Some(1.43));
        check(part(Some(published.clone())), Verdict::NotComparable, ALONE);
        let of_nothing = Ratio { pairs: 3, ..published };
        check(part(Some(of_nothing.clone())), Verdict::NotComparable, "its baseline is 0 here");
        let by_value = part(Some(Ratio { published: None, ..of_nothing }));
        assert_eq!(judge(&by_value).0, Verdict::Within, "without a published ratio the value counts");
    }

    #[test]
    fn cut_off_mean_is_outside_only_above_its_range() {
        let outside = "mean ≥ 25 000 pkts, expected 20 000 ± 1 000 pkts";
        // Of 20 500, longer runs may lead out of the range again.
        for (mean, verdict, reason) in [
            (15_000.0, Verdict::NotComparable, OPEN),
            (20_500.0, Verdict::NotComparable, OPEN),
            (25_000.0, Verdict::Outside, outside),
        ] {
            check(Cell { expected: Some(expectation(20_000.0, 1_000.0)), ..cell(mean, 1, None) }, verdict, reason);
        }
    }

    #[test]
    fn cut_off_ratio_is_outside_only_where_longer_runs_lead_further_away() {
        let of = |value: f64, cut_off: usize, baseline_cut_off: usize| {
            let ratio = Ratio { cut_off, baseline_cut_off, ..ratio(value, Some(expectation(1.0, 0.1)), None) };
            cell(1.0, 0, Some(ratio))
        };
        // With both sides cut off nothing is known.
        for (value, cut_off, baseline_cut_off) in [(0.61, 2, 0), (1.42, 0, 1), (1.0, 2, 1), (1.0, 2, 0), (1.0, 0, 2)] {
            check(of(value, cut_off, baseline_cut_off), Verdict::NotComparable, OPEN);
        }
        check(of(1.42, 2, 0), Verdict::Outside, "ratio ≥ 1.42, expected 1.00 ± 0.10");
        check(of(0.61, 0, 1), Verdict::Outside, "ratio ≤ 0.610, expected 1.00 ± 0.10");
        assert_eq!(judge(&of(0.61, 0, 0)).0, Verdict::Outside);
    }

    #[test]
    fn miss_that_the_interval_does_not_rule_out_says_so() {
        let measured = Measured::of(vec![20_000.0, 24_000.0, 28_000.0], 0);
        let noisy = Cell { measured, expected: Some(expectation(21_500.0, 2_000.0)), ..cell(0.0, 0, None) };
        let reason = "mean 24 000 pkts, expected 21 500 ± 2 000 pkts, which its 95 % interval reaches";
        check(noisy, Verdict::Outside, reason);
    }

    #[test]
    fn nothing_measured_or_nothing_to_meet_is_not_comparable() {
        assert_eq!(judge(&cell(1.0, 0, None)).0, Verdict::NotComparable);
        let published = Cell { measured: None, published: Some(1.0), ..cell(1.0, 0, None) };
        check(published, Verdict::NotComparable, "not measured");
    }
}
