//! Flow completion times.

use super::metric::MetricValue;
use super::view::RunView;

/// A statistic of the flow completion times: from the start of the connection until the receiver has the last byte.
///
/// A transfer that the end of its flow cuts off counts with the time until then, a lower bound.
///
/// None: the variant's flows have no size.
/// Source: N. Dukkipati, N. McKeown, "Why flow-completion time is the right metric for congestion control", SIGCOMM
/// Computer Communication Review 36(1), 2006.
pub(super) fn over_transfers(run: &RunView<'_>, of: impl Fn(&[f64]) -> Option<f64>) -> Option<MetricValue> {
    let all = || run.own.iter().flat_map(|flow| &flow.record.completions);
    let value = of(&all().map(|one| one.took_s).collect::<Vec<_>>())?;
    Some(MetricValue { value, cut_off: all().any(|one| !one.done) })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::*;
    use crate::model::run::Completion;
    use crate::model::stats;

    fn with(times: &[(f64, bool)]) -> Sampled {
        let mut sampled = Sampled::named("short", 100);
        let one = |&(took_s, done): &(f64, bool)| Completion { start_s: 0.0, took_s, done, size_bytes: None };
        sampled.record.completions = times.iter().map(one).collect();
        sampled
    }

    #[test]
    fn completion_times_are_over_all_transfers_and_a_cut_one_is_told() {
        let flows = [with(&[(1.0, true), (2.0, true)]), with(&[(6.0, true)])];
        let run = view(&flows, &[]);
        assert_eq!(over_transfers(&run, stats::mean), Some(MetricValue { value: 3.0, cut_off: false }));
        assert_eq!(over_transfers(&run, stats::median), Some(MetricValue { value: 2.0, cut_off: false }));
        let cut = [with(&[(1.0, true), (9.0, false)])];
        let value = over_transfers(&view(&cut, &[]), stats::mean);
        assert_eq!(value, Some(MetricValue { value: 5.0, cut_off: true }));
        assert_eq!(over_transfers(&view(&[with(&[])], &[]), stats::mean), None);
    }
}
