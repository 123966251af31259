//! The metrics of a run, each declared once. Their formulas and sources are in [`fairness`], [`completion`],
//! [`steadiness`] and [`slow_start`].
//!
//! "Efficiency" in Ahmad's thesis is left out: the surviving text names it without a definition.

mod all;
pub mod completion;
mod counts;
mod datagrams;
pub mod fairness;
pub mod held;
mod metric;
pub mod part;
mod queue;
#[cfg(any(test, feature = "samples"))]
pub mod samples;
pub mod slow_start;
pub mod steadiness;
pub mod view;

pub use self::all::METRICS;
pub use self::metric::{Metric, MetricValue, NeededFlows};

#[cfg(test)]
mod tests {
    use super::samples::{Sampled, view};
    use super::view::RunView;
    use super::*;

    #[test]
    fn metric_names_are_unique_and_found() {
        for metric in METRICS.iter() {
            assert_eq!(METRICS.iter().filter(|other| other.name == metric.name).count(), 1, "{}", metric.name);
            assert!(std::ptr::eq(Metric::find(metric.name).unwrap(), metric));
            assert!(!metric.what.is_empty() && !metric.source.is_empty(), "{}", metric.name);
        }
        assert!(Metric::find("throughput").is_none());
    }

    #[test]
    fn metric_without_a_value_says_what_it_needs_itself() {
        let counts = ["delivered_pkts", "goodput_bps", "retrans_pkts", "lost_pkts"];
        for metric in METRICS.iter().filter(|metric| !counts.contains(&metric.name)) {
            assert_ne!(metric.needs, Metric::find("delivered_pkts").unwrap().needs, "{}", metric.name);
        }
    }

    #[test]
    fn counts_sum_over_the_flows_and_shares_are_of_the_sum() {
        let mut flows = [Sampled::named("one", 900), Sampled::named("two", 90)];
        for flow in &mut flows {
            flow.record.lost_pkts = flow.record.delivered_pkts / 9;
            flow.record.retrans_pkts = flow.record.lost_pkts;
        }
        let run = view(&flows, &[]);
        let value = |name| Metric::find(name).unwrap().value(&run).map(|value| value.value);
        assert_eq!(value("delivered_pkts"), Some(990.0));
        assert_eq!(value("goodput_bps"), Some(990.0 * 1460.0 * 8.0));
        assert_eq!(value("loss_ratio"), Some(0.1));
        assert_eq!(value("retrans_ratio"), Some(0.1));
    }

    #[test]
    fn share_counts_flows_on_the_bottleneck_and_no_other() {
        let flows = [Sampled::named("own", 300), Sampled::named("beside", 100), Sampled::named("elsewhere", 600)];
        let share = Metric::find("share_ratio").unwrap();
        let mut run = view(&flows[..1], &flows[1..]);
        assert_eq!(share.value(&run).unwrap().value, 0.3, "without a bottleneck all flows count");
        let flows = vec!["own".to_owned(), "beside".to_owned()];
        run.bottleneck = Some(view::Bottleneck { bits: 1e6, flows, ..view::Bottleneck::default() });
        assert_eq!(share.value(&run).unwrap().value, 0.75);
    }

    #[test]
    fn goodput_of_flows_that_follow_each_other_is_no_more_than_theirs() {
        let mut flows = [Sampled::named("one", 100), Sampled::named("two", 100), Sampled::named("three", 100)];
        for (flow, begin_s) in flows.iter_mut().zip([0.0, 4.0, 6.0]) {
            flow.record.begin_s = Some(begin_s);
            (flow.record.received_bytes, flow.record.goodput_bps) = (500_000, 1e6); // 4 s each
        }
        let goodput = |flows: &[Sampled]| Metric::find("goodput_bps").unwrap().value(&view(flows, &[])).unwrap().value;
        assert_eq!(goodput(&flows[..1]), 1e6);
        assert_eq!(goodput(&flows[..2]), 1e6);
        assert_eq!(goodput(&flows), 1.2e6, "12 Mbit in 10 s");
        flows[1].record.begin_s = Some(0.0);
        assert_eq!(goodput(&flows[..2]), 2e6);
        flows[1].record.begin_s = None;
        assert_eq!(goodput(&flows[..2]), 2e6, "a recorded run without times");
    }

    #[test]
    fn no_flow_and_no_sample_give_no_value() {
        for metric in METRICS.iter() {
            assert_eq!(metric.value(&RunView::default()), None, "{}", metric.name);
        }
        let silent = [Sampled::named("silent", 0)];
        assert_eq!(Metric::find("loss_ratio").unwrap().value(&view(&silent, &[])), None);
    }

    #[test]
    fn records_without_events_give_nothing_over_time() {
        let flows = [Sampled::new(0.0, &[(20.0, 100.0)]), Sampled::new(1.0, &[(19.0, 100.0)])];
        let with_events = view(&flows, &[]);
        let mut without = with_events.clone();
        without.own.iter_mut().for_each(|flow| flow.over_time = None);
        for metric in METRICS.iter().filter(|metric| metric.needs_events) {
            assert_eq!(metric.value(&without), None, "{}", metric.name);
        }
        let over_time = ["jain_index", "convergence_s", "stability_index"].map(|name| Metric::find(name).unwrap());
        assert!(over_time.iter().all(|metric| metric.value(&with_events).is_some()));
        assert!(Metric::find("goodput_bps").unwrap().value(&without).is_some());
    }
}
