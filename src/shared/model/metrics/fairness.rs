//! Fairness: how evenly flows share a path, how soon they do, and how they share with another algorithm.

use super::metric::MetricValue;
use super::view::{FlowView, RunView, goodputs, time_in_common};
use crate::model::stats;

/// A flow has its fair share if it gets at least this fraction of the mean of all flows.
///
/// Source: experiment U4 of the specification, the first ε-fair time with ε = 0.2 of D. Bansal, H. Balakrishnan,
/// S. Floyd, S. Shenker, "Dynamic behavior of slowly-responsive congestion control algorithms", SIGCOMM 2001.
const FAIR: f64 = 0.8;
/// How long the share must hold. Source: U4.
const HOLD_S: f64 = 5.0;
/// Goodput is measured over windows of this length, which begin a step apart.
const WINDOW_S: f64 = 1.0;
const STEP_S: f64 = 0.1;

/// Jain's fairness index of the flows' goodputs: (Σx)² / (n · Σx²).
///
/// 1 if all are equal, 1/n if one flow has everything.
///
/// Units: input bits per second, any common scale; output is a ratio in (0, 1].
/// Shape: one value per flow, order irrelevant.
/// None: no flow, or all goodputs are zero.
/// Source: R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
pub fn jain_index(goodputs_bps: &[f64]) -> Option<f64> {
    let sum: f64 = goodputs_bps.iter().sum();
    let squares: f64 = goodputs_bps.iter().map(|goodput| goodput * goodput).sum();
    (squares > 0.0).then(|| sum * sum / (goodputs_bps.len() as f64 * squares))
}

/// Mean goodput of a variant's flows over the mean goodput of the flows beside them.
///
/// 1 if they share evenly, above 1 if the variant takes more.
///
/// Units: input bits per second, any common scale; output is a ratio from 0.
/// Shape: one value per flow, order irrelevant.
/// None: either side has no flow, or the flows beside carried nothing.
/// Source: experiment U5 of the specification: one flow of the variant and one of Reno, compared by Reno's share as in
/// L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control for fast long-distance networks", INFOCOM 2004.
pub fn friendliness_ratio(own_bps: &[f64], beside_bps: &[f64]) -> Option<f64> {
    let (own, beside) = (stats::mean(own_bps)?, stats::mean(beside_bps)?);
    (beside > 0.0).then(|| own / beside)
}

/// Index of the first of `hold` shares in a row that are at least `least`.
///
/// Shape: one share per step of time, in order.
/// None: no such stretch.
pub fn first_that_holds(shares: &[f64], least: f64, hold: usize) -> Option<usize> {
    (0..(shares.len() + 1).saturating_sub(hold)).find(|&from| shares[from..from + hold].iter().all(|&s| s >= least))
}

/// Jain's index over the time when all of the variant's flows run. `None` for fewer than two flows.
pub(super) fn jain(run: &RunView<'_>) -> Option<f64> {
    let span = time_in_common(&run.own).filter(|_| run.own.len() > 1)?;
    jain_index(&goodputs(&run.own, span)?)
}

/// [`friendliness_ratio`] over the time when all flows run.
pub(super) fn friendliness(run: &RunView<'_>) -> Option<f64> {
    let span = time_in_common(run.sharing())?;
    friendliness_ratio(&goodputs(&run.own, span)?, &goodputs(run.rivals(), span)?)
}

/// Time until the variant's last flow has, and keeps, its fair share of what all flows carry, seconds.
///
/// Resolution: [`STEP_S`], over windows of [`WINDOW_S`]. A run that ends first counts with the time until then, a lower
/// bound: leaving it out would favour variants that seldom converge.
///
/// None: fewer than two flows of the variant, or all flows run together for less than [`HOLD_S`].
pub(super) fn convergence(run: &RunView<'_>) -> Option<MetricValue> {
    let [from, to] = time_in_common(run.sharing()).filter(|[from, to]| to - from >= HOLD_S && run.own.len() > 1)?;
    let start = |flow: &FlowView<'_>| flow.over_time.map_or(from, |flow| flow.start_s);
    let last = run.own.iter().max_by(|a, b| start(a).total_cmp(&start(b)))?;
    let windows = ((to - from - WINDOW_S) / STEP_S) as usize;
    let share = |step: usize| {
        let begin = from + step as f64 * STEP_S;
        let span = [begin, begin + WINDOW_S];
        let all: Option<Vec<f64>> = run.sharing().map(|flow| flow.goodput_bps(span)).collect();
        let mean = all.and_then(|all| stats::mean(&all)).filter(|mean| *mean > 0.0);
        mean.zip(last.goodput_bps(span)).map_or(0.0, |(mean, own)| own / mean)
    };
    let shares: Vec<f64> = (0..=windows).map(share).collect();
    let hold = ((HOLD_S - WINDOW_S) / STEP_S).round() as usize + 1;
    let reached = first_that_holds(&shares, FAIR, hold);
    Some(match reached {
        Some(step) => MetricValue { value: from + step as f64 * STEP_S - start(last), cut_off: false },
        None => MetricValue { value: to - start(last), cut_off: true },
    })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::*;
    use crate::model::run::Completion;
    use proptest::prelude::*;

    #[test]
    fn jain_index_of_worked_examples() {
        assert_eq!(jain_index(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index(&[8.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(jain_index(&[3.0, 1.0]), Some(0.8)); // 16 / (2 * 10)
        assert_eq!(jain_index(&[]), None);
        assert_eq!(jain_index(&[0.0, 0.0]), None);
    }

    #[test]
    fn friendliness_ratio_compares_flow_with_flow() {
        assert_eq!(friendliness_ratio(&[6.0], &[3.0]), Some(2.0));
        assert_eq!(friendliness_ratio(&[6.0, 2.0], &[4.0]), Some(1.0));
        assert_eq!(friendliness_ratio(&[6.0], &[0.0]), None);
        assert_eq!(friendliness_ratio(&[6.0], &[]), None);
    }

    #[test]
    fn first_that_holds_ignores_what_does_not_last() {
        let shares = [0.9, 0.1, 0.8, 0.9, 1.2, 0.1];
        assert_eq!(first_that_holds(&shares, 0.8, 3), Some(2));
        assert_eq!(first_that_holds(&shares, 0.8, 4), None);
        assert_eq!(first_that_holds(&shares, 0.8, 7), None);
    }

    /// A first flow with 100 packets a second until `at`, then two flows with half each.
    fn handing_over(at: f64) -> [Sampled; 2] {
        let first = Sampled::new(0.0, &[(at, 100.0), (30.0 - at, 50.0)]);
        [first, Sampled::new(10.0, &[(at - 10.0, 0.0), (30.0 - at, 50.0)])]
    }

    #[test]
    fn convergence_counts_from_the_second_flow_until_its_share_holds() {
        let flows = handing_over(14.0);
        let value = convergence(&view(&flows, &[])).unwrap();
        // A window of 1 s is fair when 0.8 of it is: the one that begins 3.8 s after the start at 10 s.
        assert!((value.value - 3.8).abs() < 0.11 && !value.cut_off, "{value:?}");
        assert_eq!(convergence(&view(&flows[..1], &flows[1..])), None, "one flow of the variant");
    }

    #[test]
    fn run_that_never_converges_counts_with_its_time_and_says_so() {
        let flows = handing_over(27.0);
        let value = convergence(&view(&flows, &[])).unwrap();
        assert!((value.value - 20.0).abs() < 0.11 && value.cut_off, "{value:?}");
    }

    #[test]
    fn fairness_is_of_the_time_when_all_run() {
        let flows = [Sampled::new(0.0, &[(10.0, 900.0), (10.0, 60.0)]), Sampled::new(10.0, &[(10.0, 20.0)])];
        let index = jain(&view(&flows, &[])).unwrap();
        assert!((index - 0.8).abs() < 0.01, "{index}"); // 3 to 1
        assert_eq!(jain(&view(&flows[..1], &flows[1..])), None);
        let ratio = friendliness(&view(&flows[..1], &flows[1..])).unwrap();
        assert!((ratio - 3.0).abs() < 0.05, "{ratio}");
        assert_eq!(friendliness(&view(&flows, &[])), None);
    }

    /// Only the time before the silence used to count, in which the shares were equal.
    #[test]
    fn flow_that_falls_silent_starves_until_its_end() {
        let flows = [Sampled::new(0.0, &[(100.0, 50.0)]), Sampled::new(0.0, &[(30.0, 50.0), (70.0, 0.0)])];
        let index = jain(&view(&flows, &[])).unwrap();
        assert!((index - 0.775).abs() < 0.001, "{index}"); // 50 and 15 a second: 65² / (2 · (50² + 15²))
        let ratio = friendliness(&view(&flows[..1], &flows[1..])).unwrap();
        assert!((ratio - 10.0 / 3.0).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn flow_that_falls_silent_soon_after_its_start_never_converges() {
        let flows = [Sampled::new(0.0, &[(30.0, 100.0)]), Sampled::new(10.0, &[(2.0, 50.0), (18.0, 0.0)])];
        let value = convergence(&view(&flows, &[])).unwrap();
        assert!((value.value - 20.0).abs() < 0.11 && value.cut_off, "{value:?}");
    }

    #[test]
    fn flow_with_a_size_runs_until_all_of_it_has_arrived() {
        let mut flows = [Sampled::new(0.0, &[(100.0, 50.0)]), Sampled::new(0.0, &[(30.0, 50.0), (70.0, 0.0)])];
        flows[1].record.completions = vec![Completion { start_s: 0.0, took_s: 30.0, done: true, size_bytes: None }];
        let index = jain(&view(&flows, &[])).unwrap();
        assert!((index - 1.0).abs() < 1e-6, "{index}");
    }

    proptest! {
        #[test]
        fn jain_index_lies_between_one_nth_and_one(goodputs in proptest::collection::vec(0.0..1e10f64, 1..20)) {
            prop_assume!(goodputs.iter().any(|goodput| *goodput > 1.0));
            let index = jain_index(&goodputs).unwrap();
            prop_assert!(index <= 1.0 + 1e-9 && index >= 1.0 / goodputs.len() as f64 - 1e-9, "{}", index);
            let scaled: Vec<f64> = goodputs.iter().map(|goodput| goodput * 8.0).collect();
            prop_assert!((jain_index(&scaled).unwrap() - index).abs() < 1e-9);
        }
    }
}
