//! Compares measured numbers with their targets.
//!
//! Targets, in this order:
//!
//! 1. The scenario's expectations for the cell (of the ratio to the baseline, of the value). All of them must hold, and the
//!    reason names the first that does not.
//! 2. Without an expectation, the source's numbers within the scenario's tolerance: the published ratio if variant and
//!    baseline both have a published value, else the published value.
//!
//! The measured mean is compared, or the ratio of the means. The interval is shown but does not decide, so that noise alone
//! never makes a cell `within`. A miss whose interval reaches the range says so.
//!
//! A cell is `not comparable` without a run, without a target, or under another profile than the scenario's. A missing
//! baseline makes a target ratio `not comparable` too, unless the cell misses the expectation of its value. So does a bound
//! from runs that ended too early, unless longer runs could only move further away from the range.

use super::bound::Bound;
use super::cell::{Expectation, Measurement, Ratio, ReportCell, Verdict};
use super::number::{self, Scale};

/// This part of the experiment does not measure the baseline, or has not measured it yet.
const NO_BASELINE: &str = "its baseline is not measured here";
const BASELINE_OF_ZERO: &str = "its baseline is 0 here";
const BOUND_ONLY: &str = "known as a bound only: runs ended too early";

/// Context of a verdict outside the cell.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'a> {
    /// A difference from the baseline is expected, but the baseline was not measured.
    pub lacks_baseline: bool,
    /// Profile of the runs, if it is not the scenario's.
    pub other_profile: Option<&'a str>,
    /// Allowed relative distance from a published number.
    pub tolerance: f64,
}

/// A verdict and its reason.
type Judgement = (Verdict, String);

fn open(why: impl Into<String>) -> Judgement {
    (Verdict::NotComparable, why.into())
}

/// The verdict on a cell, and the deciding comparison as one phrase.
pub fn judge(cell: &ReportCell, terms: Terms<'_>) -> Judgement {
    let Some(measured) = &cell.measured else { return open("not measured") };
    if let Some(profile) = terms.other_profile {
        return open(format!("measured under the profile {profile}, which is not the scenario's"));
    }
    let mut comparisons = comparisons(cell, measured, terms);
    // A miss decides. Otherwise one open comparison leaves the whole cell open.
    let rank =
        |verdict| [Verdict::Outside, Verdict::NotComparable, Verdict::Within].iter().position(|one| *one == verdict);
    comparisons.sort_by_key(|(verdict, _)| rank(*verdict));
    comparisons.into_iter().next().unwrap_or_else(|| open("neither published nor expected"))
}

/// Comparisons with every expectation, else with the published ratio or value.
fn comparisons(cell: &ReportCell, measured: &Measurement, terms: Terms<'_>) -> Vec<Judgement> {
    let scale = Scale::of(&cell.unit, std::iter::once(measured.mean).chain(cell.published));
    let mean =
        MeasuredNumber { what: "mean", value: measured.mean, ci95: measured.ci95, bound: measured.bound(), scale };
    let ratio = cell.ratio_to_baseline.as_ref();
    let of_ratio = ratio.and_then(|ratio| Some((ratio, ratio.expected.as_ref()?)));
    let of_ratio = of_ratio.map(|(ratio, expected)| compared(ratio, |found| found.against_expected(expected)));
    let of_value = cell.expected.as_ref().map(|expected| mean.against_expected(expected));
    let lacking = terms.lacks_baseline.then(|| open(NO_BASELINE));
    let expectations: Vec<Judgement> = of_ratio.into_iter().chain(of_value).chain(lacking).collect();
    if !expectations.is_empty() {
        return expectations;
    }
    let published = ratio.and_then(|ratio| Some((ratio, ratio.published?)));
    let of_ratio = published.map(|(ratio, one)| compared(ratio, |found| found.against_published(one, terms.tolerance)));
    let of_value = || cell.published.map(|published| mean.against_published(published, terms.tolerance));
    of_ratio.or_else(of_value).into_iter().collect()
}

/// Compares the measured ratio, or says why there is none.
fn compared(ratio: &Ratio, against: impl FnOnce(MeasuredNumber) -> Judgement) -> Judgement {
    match ratio.measured {
        Some(value) => against(MeasuredNumber {
            what: "ratio",
            value,
            ci95: ratio.ci95,
            bound: ratio.bound(),
            scale: Scale::Ratio,
        }),
        None => open(if ratio.pairs == 0 { NO_BASELINE } else { BASELINE_OF_ZERO }),
    }
}

#[derive(Debug, Clone, Copy)]
struct MeasuredNumber {
    what: &'static str,
    value: f64,
    ci95: Option<[f64; 2]>,
    bound: Bound,
    scale: Scale,
}

impl MeasuredNumber {
    fn against_published(self, published: f64, tolerance: f64) -> Judgement {
        let (shown, within) = (self.scale.with_unit(published), number::percent(tolerance));
        self.against([published, tolerance * published.abs()], &format!("published {shown} ± {within}"))
    }

    fn against_expected(self, expected: &Expectation) -> Judgement {
        let range = self.scale.in_sentence(self.scale.plus_minus(expected.value, expected.plus_minus));
        self.against([expected.value, expected.plus_minus], &format!("expected {range}"))
    }

    fn against(self, [target, margin]: [f64; 2], shown: &str) -> Judgement {
        let MeasuredNumber { what, value, ci95, bound, scale } = self;
        let holds = (value - target).abs() <= margin;
        if bound != Bound::Exact && (holds || bound.may_meet(value, target)) {
            return open(BOUND_ONLY);
        }
        let is_reached = |[low, high]: [f64; 2]| low <= target + margin && target - margin <= high;
        let reached = if !holds && ci95.is_some_and(is_reached) { ", which its 95 % interval reaches" } else { "" };
        let value = bound.signed(&scale.with_unit(value));
        let verdict = if holds { Verdict::Within } else { Verdict::Outside };
        (verdict, format!("{what} {value}, {shown}{reached}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(value: f64, plus_minus: f64) -> Option<Expectation> {
        Some(Expectation { value, plus_minus, basis: "model".into() })
    }

    fn ratio(measured: f64, expected: Option<Expectation>, published: Option<f64>) -> Option<Ratio> {
        Some(Ratio { published, expected, measured: Some(measured), pairs: 3, ..Ratio::default() })
    }

    /// A ratio without a run of the baseline, or with runs that give 0.
    fn lone(pairs: usize, expected: Option<Expectation>, published: Option<f64>) -> Option<Ratio> {
        Some(Ratio { published, expected, pairs, ..Ratio::default() })
    }

    fn cut([cut_off, baseline_cut_off]: [usize; 2], ratio: Option<Ratio>) -> Option<Ratio> {
        ratio.map(|ratio| Ratio { cut_off, baseline_cut_off, ..ratio })
    }

    fn cell(mean: f64, ratio_to_baseline: Option<Ratio>) -> ReportCell {
        let measured = Measurement::of(vec![mean; 3], 0);
        ReportCell { unit: "pkts".into(), measured, ratio_to_baseline, ..ReportCell::default() }
    }

    fn published(value: f64, cell: ReportCell) -> ReportCell {
        ReportCell { published: Some(value), ..cell }
    }

    fn expected(value: f64, plus_minus: f64, cell: ReportCell) -> ReportCell {
        ReportCell { expected: expectation(value, plus_minus), ..cell }
    }

    fn cut_mean(mean: f64) -> ReportCell {
        expected(20_000.0, 1_000.0, ReportCell { measured: Measurement::of(vec![mean; 3], 1), ..cell(mean, None) })
    }

    #[track_caller]
    fn check(cell: ReportCell, verdict: Verdict, reason: &str) {
        assert_eq!(judge(&cell, Terms { tolerance: 0.1, ..Terms::default() }), (verdict, reason.to_owned()));
    }

    #[test]
    fn expectations_decide_over_published_numbers_and_the_missed_one_is_named() {
        let met = || ratio(1.26, expectation(1.24, 0.10), Some(1.43));
        check(cell(21_500.0, met()), Verdict::Within, "ratio 1.26, expected 1.24 ± 0.10");
        let missed = "mean 12 000 pkts, expected 21 500 ± 2 150 pkts";
        check(expected(21_500.0, 2_150.0, cell(12_000.0, met())), Verdict::Outside, missed);
        let by_ratio = published(22_818.0, cell(30_000.0, ratio(1.40, None, Some(1.43))));
        check(by_ratio, Verdict::Within, "ratio 1.40, published 1.43 ± 10 %");
        let by_value = published(22_818.0, cell(30_000.0, None));
        check(by_value, Verdict::Outside, "mean 30 000 pkts, published 22 818 pkts ± 10 %");
        let measured = Measurement::of(vec![20_000.0, 24_000.0, 28_000.0], 0);
        let noisy = expected(21_500.0, 2_000.0, ReportCell { measured, ..cell(0.0, None) });
        let reached = "mean 24 000 pkts, expected 21 500 ± 2 000 pkts, which its 95 % interval reaches";
        check(noisy, Verdict::Outside, reached);
        check(cell(1.0, None), Verdict::NotComparable, "neither published nor expected");
        check(published(1.0, ReportCell::default()), Verdict::NotComparable, "not measured");
    }

    /// Regression: the published value was compared instead.
    #[test]
    fn ratio_or_saving_without_a_baseline_is_not_comparable() {
        let part = |ratio| published(22_818.0, cell(22_800.0, ratio));
        let lone_expected = || part(lone(0, expectation(1.24, 0.10), None));
        check(lone_expected(), Verdict::NotComparable, NO_BASELINE);
        check(expected(22_800.0, 100.0, lone_expected()), Verdict::NotComparable, NO_BASELINE);
        let missed = "mean 22 800 pkts, expected 21 000 ± 100 pkts";
        check(expected(21_000.0, 100.0, lone_expected()), Verdict::Outside, missed);
        check(part(lone(0, None, Some(1.43))), Verdict::NotComparable, NO_BASELINE);
        check(part(lone(3, None, Some(1.43))), Verdict::NotComparable, BASELINE_OF_ZERO);
        check(part(lone(3, None, None)), Verdict::Within, "mean 22 800 pkts, published 22 818 pkts ± 10 %");
        let of_saving = Terms { lacks_baseline: true, ..Terms::default() };
        assert_eq!(judge(&part(None), of_saving), (Verdict::NotComparable, NO_BASELINE.into()));
    }

    #[test]
    fn cut_off_runs_are_outside_only_where_longer_runs_lead_further_away() {
        check(cut_mean(15_000.0), Verdict::NotComparable, BOUND_ONLY);
        check(cut_mean(20_500.0), Verdict::NotComparable, BOUND_ONLY); // longer runs may leave the range again
        check(cut_mean(25_000.0), Verdict::Outside, "mean ≥ 25 000 pkts, expected 20 000 ± 1 000 pkts");
        let of = |value, cut_off| cell(1.0, cut(cut_off, ratio(value, expectation(1.0, 0.1), None)));
        for (value, cut_off) in [(0.61, [2, 0]), (1.42, [0, 1]), (1.0, [2, 1]), (1.0, [2, 0]), (1.0, [0, 2])] {
            check(of(value, cut_off), Verdict::NotComparable, BOUND_ONLY);
        }
        check(of(1.42, [2, 0]), Verdict::Outside, "ratio ≥ 1.42, expected 1.00 ± 0.10");
        check(of(0.61, [0, 1]), Verdict::Outside, "ratio ≤ 0.610, expected 1.00 ± 0.10");
        check(of(0.61, [0, 0]), Verdict::Outside, "ratio 0.610, expected 1.00 ± 0.10");
    }
}
