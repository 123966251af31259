//! Flow completion times.

use super::metric::MetricValue;
use super::view::RunView;
use crate::model::run::Completion;

/// A statistic of the flow completion times: from the start of the connection, or from the receiver's request, until the
/// receiver has the last byte.
///
/// A transfer that the end of its flow cuts off counts with the time until then, a lower bound.
///
/// None: the variant's flows have no size.
/// Source: N. Dukkipati, N. McKeown, "Why flow-completion time is the right metric for congestion control", SIGCOMM
/// Computer Communication Review 36(1), 2006.
pub(super) fn over_transfers(run: &RunView<'_>, of: impl Fn(&[f64]) -> Option<f64>) -> Option<MetricValue> {
    statistic(&run.own.iter().flat_map(|flow| &flow.record.completions).collect::<Vec<_>>(), of)
}

/// The same over a quarter of the transfers by size. Quarter 0 has the smallest.
///
/// Transfers of equal size are in the order of flows and starts. All variants of a repeat send the same sizes, so they
/// have the same transfers in a quarter.
///
/// Flows with one fixed size do not count.
///
/// None: also if there are fewer than four transfers, or if all have the same size.
/// Source: D. Hayes, D. Ros, L. Andrew, S. Floyd, "Common TCP evaluation suite", draft-irtf-iccrg-tcpeval-01, 2014:
/// completion times by quartile of size.
pub(super) fn over_quarter(
    run: &RunView<'_>,
    quarter: usize,
    of: impl Fn(&[f64]) -> Option<f64>,
) -> Option<MetricValue> {
    let transfers = run.own.iter().flat_map(|flow| &flow.record.completions);
    let mut all: Vec<&Completion> = transfers.filter(|one| one.size_bytes.is_some()).collect();
    if all.len() < 4 || all.iter().all(|one| one.size_bytes == all[0].size_bytes) {
        return None;
    }
    all.sort_by_key(|one| one.size_bytes);
    statistic(&all[all.len() * quarter / 4..all.len() * (quarter + 1) / 4], of)
}

fn statistic(all: &[&Completion], of: impl Fn(&[f64]) -> Option<f64>) -> Option<MetricValue> {
    let value = of(&all.iter().map(|one| one.took_s).collect::<Vec<_>>())?;
    Some(MetricValue { value, cut_off: all.iter().any(|one| !one.done) })
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::*;
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

    #[test]
    fn quarters_are_by_size_over_all_flows() {
        let mut flows = [with(&[(8.0, true), (1.0, true), (2.0, true)]), with(&[(3.0, false), (4.0, true)])];
        let sizes = [[800, 100, 200].as_slice(), &[300, 400]];
        for (flow, sizes) in flows.iter_mut().zip(sizes) {
            flow.record.completions.iter_mut().zip(sizes).for_each(|(one, size)| one.size_bytes = Some(*size));
        }
        let means = |flows: &[Sampled]| {
            let run = view(flows, &[]);
            [0, 1, 2, 3].map(|quarter| over_quarter(&run, quarter, stats::mean).map(|it| (it.value, it.cut_off)))
        };
        let exact = |value| Some((value, false));
        assert_eq!(means(&flows), [exact(1.0), exact(2.0), Some((3.0, true)), exact(6.0)]);
        flows[0].record.completions[1].size_bytes = None;
        assert_eq!(
            means(&flows),
            [exact(2.0), Some((3.0, true)), exact(4.0), exact(8.0)],
            "a fixed size does not count"
        );
        flows.iter_mut().flat_map(|flow| &mut flow.record.completions).for_each(|one| one.size_bytes = Some(9));
        assert_eq!(means(&flows), [None; 4], "all have one size");
        assert_eq!(means(&[with(&[(1.0, true); 3])]), [None; 4]);
    }
}
