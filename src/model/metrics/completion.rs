//! How long transfers of a size take.

use super::metric::MetricValue;
use super::view::RunView;
use crate::model::stats;

/// Mean flow completion time: from the start of the connection until the receiver has its last byte.
///
/// A transfer that the end of its flow's time cut off counts with the time there was, a lower bound.
///
/// None: the variant's flows have no size.
/// Source: N. Dukkipati, N. McKeown, "Why flow-completion time is the right metric for congestion control", SIGCOMM
/// Computer Communication Review 36(1), 2006.
pub(super) fn mean(run: &RunView<'_>) -> Option<MetricValue> {
    let (times, cut_off) = times(run);
    Some(MetricValue { value: stats::mean(&times)?, cut_off })
}

/// A percentile of the flow completion times, over all transfers of the variant; `share` from 0 to 1.
///
/// None: the variant's flows have no size.
pub(super) fn percentile(run: &RunView<'_>, share: f64) -> Option<MetricValue> {
    let (times, cut_off) = times(run);
    Some(MetricValue { value: stats::percentile(&times, share)?, cut_off })
}

/// The time of every transfer, and whether some were cut off.
fn times(run: &RunView<'_>) -> (Vec<f64>, bool) {
    let all = || run.own.iter().flat_map(|flow| &flow.record.completions);
    (all().map(|one| one.took_s).collect(), all().any(|one| !one.done))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::*;
    use crate::model::run::Completion;

    fn with(times: &[(f64, bool)]) -> Sampled {
        let mut sampled = Sampled::named("short", 100);
        let one = |&(took_s, done): &(f64, bool)| Completion { start_s: 0.0, took_s, done };
        sampled.record.completions = times.iter().map(one).collect();
        sampled
    }

    #[test]
    fn completion_times_are_over_all_transfers_and_a_cut_one_is_told() {
        let flows = [with(&[(1.0, true), (2.0, true)]), with(&[(6.0, true)])];
        let run = view(&flows, &[]);
        assert_eq!(mean(&run), Some(MetricValue { value: 3.0, cut_off: false }));
        assert_eq!(percentile(&run, 0.5), Some(MetricValue { value: 2.0, cut_off: false }));
        let flows = [with(&[(1.0, true), (9.0, false)])];
        assert_eq!(mean(&view(&flows, &[])), Some(MetricValue { value: 5.0, cut_off: true }));
        assert_eq!(mean(&view(&[with(&[])], &[])), None);
    }
}
