//! The queue at the bottleneck of the variant's flows: its distribution over time, drops and marks.
//!
//! Samples have equal intervals, so each has the same weight in a distribution over time.

use super::view::RunView;
use crate::model::queue::QueueSample;
use crate::model::run::LinkCounters;
use crate::model::stats;

/// Mean of a value over the samples.
///
/// None: no bottleneck, or its queue was not recorded.
pub(super) fn mean(run: &RunView<'_>, value: fn(&QueueSample) -> f64) -> Option<f64> {
    stats::mean(&values(run, value)?)
}

/// A percentile of a value over the samples.
///
/// None: as [`mean`].
pub(super) fn percentile(run: &RunView<'_>, share: f64, value: fn(&QueueSample) -> f64) -> Option<f64> {
    stats::percentile(&values(run, value)?, share)
}

fn values(run: &RunView<'_>, value: fn(&QueueSample) -> f64) -> Option<Vec<f64>> {
    Some(run.queue.as_ref()?.samples.iter().map(value).collect())
}

/// A count of the link: from its counters, or in a part of the run from the first sample to the last.
///
/// None: no bottleneck; in a part of the run also if its queue was not recorded.
pub(super) fn count(
    run: &RunView<'_>,
    counter: fn(&LinkCounters) -> u64,
    so_far: fn(&QueueSample) -> u64,
) -> Option<f64> {
    let queue = run.queue.as_ref()?;
    if !queue.is_part {
        return Some(counter(queue.counters) as f64);
    }
    let (first, last) = (queue.samples.first()?, queue.samples.last()?);
    Some(so_far(last).saturating_sub(so_far(first)) as f64)
}

/// A value of the link's counters, which are those of the whole run.
///
/// None: no bottleneck, or only a part of the run counts.
pub(super) fn of_whole_run(run: &RunView<'_>, value: fn(&LinkCounters) -> Option<f64>) -> Option<f64> {
    run.queue.as_ref().filter(|queue| !queue.is_part).and_then(|queue| value(queue.counters))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::metrics::view::QueueView;

    #[test]
    fn whole_run_uses_the_counters_and_a_part_its_samples() {
        let sample = |overflow_pkts| QueueSample { overflow_pkts, ..QueueSample::default() };
        let samples = [sample(7), sample(9), sample(12)];
        let counters = LinkCounters { overflow_pkts: 20, ..LinkCounters::default() };
        let dropped = |is_part, samples| {
            let queue = Some(QueueView { samples, counters: &counters, is_part });
            let run = RunView { queue, ..RunView::default() };
            count(&run, |link| link.overflow_pkts, |sample| sample.overflow_pkts)
        };
        assert_eq!([dropped(false, &samples[..]), dropped(true, &samples)], [Some(20.0), Some(5.0)]);
        assert_eq!([dropped(false, &[]), dropped(true, &[])], [Some(20.0), None]);
    }

    #[test]
    fn shares_are_of_the_packets_that_reached_and_left_the_queue() {
        let counters = LinkCounters {
            received_pkts: 120,
            duplicated_pkts: 5,
            lost_pkts: 10,
            down_pkts: 8,
            acks_lost_pkts: 7,
            policed_pkts: 5,
            overflow_pkts: 15,
            marked_pkts: 20,
            ..LinkCounters::default()
        };
        let of = |is_part, value| {
            let queue = Some(QueueView { samples: &[], counters: &counters, is_part });
            of_whole_run(&RunView { queue, ..RunView::default() }, value)
        };
        assert_eq!([of(false, LinkCounters::drop_ratio), of(false, LinkCounters::mark_ratio)], [Some(0.2), Some(0.25)]);
        assert_eq!(of(true, LinkCounters::drop_ratio), None);
        assert_eq!(LinkCounters::default().drop_ratio(), None);
    }
}
