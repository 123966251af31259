//! The queue at the bottleneck of the variant's flows: its distribution over time, drops and marks.
//!
//! Samples have equal intervals, so each has the same weight in a distribution over time.

use super::view::RunView;
use crate::model::queue::QueueSample;
use crate::model::run::{Delays, LinkCounters};
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

/// How long the variant's own packets waited at the bottleneck in the whole run; of several flows the longest.
///
/// None: no bottleneck, only a part of the run counts, or the records have no waits.
pub(super) fn own_wait(run: &RunView<'_>, of: fn(&Delays) -> f64) -> Option<f64> {
    run.queue.as_ref().filter(|queue| !queue.is_part)?;
    let [from, to] = &run.bottleneck.as_ref()?.ends;
    let waits = run.own.iter().flat_map(|flow| &flow.record.waits);
    waits.filter(|wait| [&wait.from, &wait.to] == [from, to]).map(|wait| of(&wait.us)).max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::metrics::samples::{Sampled, view};
    use crate::model::metrics::view::{Bottleneck, QueueView};
    use crate::model::run::LinkWait;

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

    #[test]
    fn own_wait_is_that_of_the_longest_flow_at_the_bottleneck() {
        let waits = |waits: &[(&str, f64)]| {
            let mut sampled = Sampled::named("f", 10);
            let wait = |(to, p95): &(&str, f64)| {
                let us = Delays { p95: *p95, ..Delays::default() };
                LinkWait { from: "a".into(), to: (*to).into(), us }
            };
            sampled.record.waits = waits.iter().map(wait).collect();
            sampled
        };
        let own = [waits(&[("b", 7.0), ("c", 90.0)]), waits(&[("b", 9.0)]), waits(&[])];
        let counters = LinkCounters::default();
        let p95 = |is_part, ends: Option<[&str; 2]>| {
            let bottleneck = ends.map(|ends| Bottleneck { ends: ends.map(str::to_owned), ..Bottleneck::default() });
            let queue = Some(QueueView { samples: &[], counters: &counters, is_part });
            own_wait(&RunView { queue, bottleneck, ..view(&own, &[]) }, |waits| waits.p95)
        };
        assert_eq!(p95(false, Some(["a", "b"])), Some(9.0));
        assert_eq!([p95(true, Some(["a", "b"])), p95(false, Some(["b", "a"])), p95(false, None)], [None; 3]);
    }
}
