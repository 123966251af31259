//! How much goodput and delay vary, and how well the path is used.

use super::held::held;
use super::view::{RunView, time_in_common};
use crate::model::flow::Flow;
use crate::model::run::FlowRecord;
use crate::model::stats;

/// Length of the intervals over which goodput is measured.
const INTERVAL_S: f64 = 1.0;

/// Stability index: the coefficient of variation of each flow's goodput per interval, averaged over the flows.
///
/// 0 if nothing varies; smaller is steadier.
///
/// Units: input bits per second, any common scale; output is a ratio from 0.
/// Shape: one series per flow, with one value per interval of equal length.
/// None: no flow, a flow with fewer than two intervals, or a flow that carried nothing.
/// Source: D. X. Wei, C. Jin, S. H. Low, S. Hegde, "FAST TCP: motivation, architecture, algorithms, performance",
/// IEEE/ACM Transactions on Networking 14(6), 2006, with the sample standard deviation (n - 1).
pub fn stability_index(goodputs_bps: &[Vec<f64>]) -> Option<f64> {
    let of_flow = |series: &Vec<f64>| {
        let mean = stats::mean(series).filter(|mean| *mean > 0.0 && series.len() > 1)?;
        let squares: f64 = series.iter().map(|goodput| (goodput - mean).powi(2)).sum();
        Some((squares / (series.len() - 1) as f64).sqrt() / mean)
    };
    let flows: Option<Vec<f64>> = goodputs_bps.iter().map(of_flow).collect();
    stats::mean(&flows?)
}

/// [`stability_index`] of the variant's flows over the time when all of the run's flows run.
pub(super) fn stability(run: &RunView<'_>) -> Option<f64> {
    let [from, to] = time_in_common(run.sharing())?;
    let intervals = ((to - from) / INTERVAL_S) as usize;
    let begin = |index: usize| from + index as f64 * INTERVAL_S;
    let series = run.own.iter().map(|flow| {
        (0..intervals).map(|index| flow.goodput_bps([begin(index), begin(index) + INTERVAL_S])).collect::<Option<_>>()
    });
    stability_index(&series.collect::<Option<Vec<_>>>()?)
}

/// What all flows delivered over the narrowest link, as whole packets, over the link's capacity in that time.
///
/// Only useful packets count, neither retransmissions nor control packets. A flow that starts late leaves its time unused.
///
/// None: the path has no rate, or the variant has no flow.
/// Source: link utilisation as RFC 5166, 2.1.
pub(super) fn utilisation(run: &RunView<'_>) -> Option<f64> {
    let link = run.bottleneck.as_ref().filter(|link| !run.own.is_empty() && link.bits > 0.0)?;
    let crossing = run.all().filter(|flow| link.flows.contains(&flow.record.name));
    let bytes = |record: &FlowRecord| if record.datagrams { record.mss_bytes } else { link.packet_bytes };
    let carried: f64 = crossing.map(|flow| f64::from(bytes(flow.record)) * flow.record.delivered_pkts as f64).sum();
    Some(8.0 * carried / link.bits)
}

/// A percentile of the smoothed RTT over the time of the variant's flows, microseconds.
///
/// Each value is weighted by its duration ([`held`]), also across flows: a flow of a second beside one of a minute
/// weighs a sixtieth. With equal weights per event, the many events of slow start and recovery, when queues are full,
/// nearly doubled a percentile.
///
/// None: no flow has a value before its last event.
pub(super) fn srtt_percentile(run: &RunView<'_>, share: f64) -> Option<f64> {
    let srtts = |flow: &Flow| held(&flow.points, |point| point.srtt_us.map(f64::from));
    stats::weighted_percentile(&run.own_over_time().flat_map(srtts).collect::<Vec<_>>(), share)
}

/// A percentile of RTT minus the flow's lowest RTT over the time of the variant's flows, microseconds.
///
/// Weighted as in [`srtt_percentile`]; an RTT sample lasts until the next. A flow that starts into a full queue may never
/// see the empty path; its queueing delay is then too low.
///
/// None: as in [`srtt_percentile`], or no lowest RTT.
pub(super) fn qdelay_percentile(run: &RunView<'_>, share: f64) -> Option<f64> {
    let qdelays = |flow: &Flow| {
        let lowest = flow.points.iter().filter_map(|point| point.min_rtt_us).min();
        held(&flow.points, |point| Some(f64::from(point.rtt_us?.saturating_sub(lowest?))))
    };
    stats::weighted_percentile(&run.own_over_time().flat_map(qdelays).collect::<Vec<_>>(), share)
}

/// The congestion window weighted by its duration, packets: mean of the variant's flows, weighted equally.
///
/// None: no flow with two events at different times.
pub(super) fn mean_cwnd(run: &RunView<'_>) -> Option<f64> {
    let windows = |flow: &Flow| stats::weighted_mean(&held(&flow.points, |point| Some(f64::from(point.cwnd_pkts))));
    stats::mean(&run.own_over_time().filter_map(windows).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, point, view};
    use super::super::view::Bottleneck;
    use super::*;
    use crate::model::flow::Point;

    #[test]
    fn stability_index_of_worked_examples() {
        assert_eq!(stability_index(&[vec![7.0; 5]]), Some(0.0));
        // Mean 4, squares 4 + 0 + 4, over 2: deviation 2, over 4: 0.5; with a steady one beside it 0.25.
        assert_eq!(stability_index(&[vec![2.0, 4.0, 6.0]]), Some(0.5));
        assert_eq!(stability_index(&[vec![2.0, 4.0, 6.0], vec![1.0, 1.0, 1.0]]), Some(0.25));
        assert_eq!(stability_index(&[vec![2.0]]), None);
        assert_eq!(stability_index(&[vec![0.0, 0.0]]), None);
        assert_eq!(stability_index(&[]), None);
    }

    #[test]
    fn stability_sees_a_flow_that_alternates_and_not_one_that_is_steady() {
        let steady = [Sampled::new(0.0, &[(10.0, 100.0)])];
        assert!(stability(&view(&steady, &[])).unwrap() < 0.02);
        let alternating = [Sampled::new(0.0, &[(1.0, 50.0), (1.0, 150.0)].repeat(5))];
        let index = stability(&view(&alternating, &[])).unwrap();
        assert!((index - 0.527).abs() < 0.03, "{index}"); // 50 * sqrt(10 / 9) / 100
    }

    #[test]
    fn stability_sees_a_flow_that_falls_silent() {
        let silent = [Sampled::new(0.0, &[(5.0, 100.0), (5.0, 0.0)])];
        let index = stability(&view(&silent, &[])).unwrap();
        assert!((index - 1.054).abs() < 0.02, "{index}"); // 50 * sqrt(10 / 9) / 50
    }

    #[test]
    fn utilisation_counts_every_flow_on_the_link_and_no_other() {
        let flows = [Sampled::named("a", 600), Sampled::named("b", 200), Sampled::named("elsewhere", 9000)];
        let mut run = view(&flows[..1], &flows[1..]);
        assert_eq!(utilisation(&run), None);
        let flows = vec!["a".to_owned(), "b".to_owned()];
        run.bottleneck = Some(Bottleneck { bits: 12e6, packet_bytes: 1500, flows, ..Bottleneck::default() });
        assert_eq!(utilisation(&run), Some(0.8)); // 800 * 12 kbit of 12 Mbit
    }

    /// A flow with one event per second and these RTTs.
    fn with_rtts(rtts_ms: &[u32]) -> Sampled {
        let mut flow = Sampled::new(0.0, &[]);
        let second = |(index, rtt_ms): (usize, &u32)| {
            let rtt_us = Some(1000 * rtt_ms);
            Point { rtt_us, srtt_us: rtt_us, min_rtt_us: rtt_us, ..point(index as f64, 0) }
        };
        flow.flow.points = rtts_ms.iter().enumerate().map(second).collect();
        flow
    }

    #[test]
    fn queueing_delay_is_above_the_lowest_rtt_of_the_flow() {
        let flows = [with_rtts(&[50, 40, 70, 50, 50])];
        let percentiles = [0.25, 0.5, 0.75, 0.76].map(|share| qdelay_percentile(&view(&flows, &[]), share));
        assert_eq!(percentiles, [0.0, 10e3, 10e3, 30e3].map(Some));
        assert_eq!(srtt_percentile(&view(&flows, &[]), 0.5), Some(50e3));
        assert_eq!(qdelay_percentile(&view(&flows, &[]), 1.0), Some(30e3));
    }

    /// Every event used to have the same weight, and these events alone set the percentiles.
    #[test]
    fn many_events_at_one_moment_do_not_move_a_percentile() {
        let alone = [with_rtts(&[40; 11])];
        let mut crowded = [with_rtts(&[40; 11])];
        let burst = Point { rtt_us: Some(400_000), srtt_us: Some(400_000), ..alone[0].flow.points[5] };
        crowded[0].flow.points.splice(5..5, [burst; 200]);
        for share in [0.5, 0.95, 0.99, 1.0] {
            assert_eq!(srtt_percentile(&view(&crowded, &[]), share), srtt_percentile(&view(&alone, &[]), share));
            assert_eq!(qdelay_percentile(&view(&crowded, &[]), share), Some(0.0));
        }
        assert_eq!(mean_cwnd(&view(&crowded, &[])), Some(10.0));
        let together: Vec<(f64, f64)> = held(&crowded[0].flow.points, |point| point.rtt_us.map(f64::from));
        assert_eq!(together.iter().map(|(_, held_s)| held_s).sum::<f64>(), 10.0);
    }

    #[test]
    fn flows_count_with_their_time() {
        let flows = [with_rtts(&[40; 10]), with_rtts(&[90, 90])];
        let run = view(&flows, &[]);
        assert_eq!([0.9, 0.91].map(|share| srtt_percentile(&run, share)), [Some(40e3), Some(90e3)]);
        assert_eq!(qdelay_percentile(&run, 1.0), Some(0.0), "each above its own lowest");
        assert_eq!(srtt_percentile(&view(&[with_rtts(&[40])], &[]), 0.5), None, "nothing held");
    }

    #[test]
    fn mean_cwnd_weighs_by_time() {
        let mut flow = Sampled::new(0.0, &[]);
        flow.flow.points = [(0.0, 10), (3.0, 50), (4.0, 7)]
            .map(|(time_s, cwnd_pkts)| Point { cwnd_pkts, ..point(time_s, 0) })
            .to_vec();
        assert_eq!(mean_cwnd(&view(&[flow], &[])), Some(20.0));
    }
}
