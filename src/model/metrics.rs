//! The metrics of a run, each defined once: name, unit, how it is computed.

use crate::model::flow::Flow;
use crate::model::run::FlowRecord;
use crate::model::stats;

/// What a metric is computed from.
#[derive(Clone, Copy)]
pub enum Computed {
    /// From the end-of-run record of the variant's flows.
    FromFlows(fn(&[&FlowRecord]) -> Option<f64>),
    /// From the variant's flows over time, which means reading the run's events.
    FromEvents(fn(&[Flow]) -> Option<f64>),
}

/// One metric of one variant in one run.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name as scenarios and files write it, unit included.
    pub name: &'static str,
    /// Heading for people, without the unit.
    pub title: &'static str,
    /// Unit of the value: "pkts", "bit/s", "us", "ratio".
    pub unit: &'static str,
    /// What it says, in one sentence.
    pub what: &'static str,
    /// How it is computed.
    pub computed: Computed,
}

/// Every metric there is.
pub static METRICS: &[Metric] = &[
    Metric {
        name: "delivered_pkts",
        title: "delivered",
        unit: "pkts",
        what: "packets the receiver acknowledged by the end of the run, summed over the variant's flows",
        computed: Computed::FromFlows(|flows| total(flows, |flow| flow.delivered_pkts as f64)),
    },
    Metric {
        name: "goodput_bps",
        title: "goodput",
        unit: "bit/s",
        what: "new payload at the receiver per second, summed over the variant's flows",
        computed: Computed::FromFlows(|flows| total(flows, |flow| flow.goodput_bps)),
    },
    Metric {
        name: "retrans_pkts",
        title: "retransmitted",
        unit: "pkts",
        what: "packets sent again, summed over the variant's flows",
        computed: Computed::FromFlows(|flows| total(flows, |flow| flow.retrans_pkts as f64)),
    },
    Metric {
        name: "lost_pkts",
        title: "lost",
        unit: "pkts",
        what: "packets the sender marked lost, summed over the variant's flows",
        computed: Computed::FromFlows(|flows| total(flows, |flow| flow.lost_pkts as f64)),
    },
    Metric {
        name: "retrans_ratio",
        title: "retransmitted share",
        unit: "ratio",
        what: "packets sent again over packets delivered and sent again",
        computed: Computed::FromFlows(|flows| {
            share(flows, |flow| flow.retrans_pkts as f64, |flow| flow.delivered_pkts as f64)
        }),
    },
    Metric {
        name: "loss_ratio",
        title: "lost share",
        unit: "ratio",
        what: "packets marked lost over packets delivered and marked lost",
        computed: Computed::FromFlows(|flows| {
            share(flows, |flow| flow.lost_pkts as f64, |flow| flow.delivered_pkts as f64)
        }),
    },
    Metric {
        name: "srtt_p50_us",
        title: "smoothed RTT, median of the run",
        unit: "us",
        what: "median over the run's samples of the sender's smoothed RTT",
        computed: Computed::FromEvents(|flows| srtt_percentile(flows, 0.5)),
    },
    Metric {
        name: "srtt_p95_us",
        title: "smoothed RTT, 95th percentile of the run",
        unit: "us",
        what: "95th percentile over the run's samples of the sender's smoothed RTT",
        computed: Computed::FromEvents(|flows| srtt_percentile(flows, 0.95)),
    },
    Metric {
        name: "mean_cwnd_pkts",
        title: "mean cwnd",
        unit: "pkts",
        what: "congestion window weighted by the time it held, mean of the variant's flows",
        computed: Computed::FromEvents(|flows| {
            let windows: Vec<f64> = flows.iter().filter_map(Flow::mean_cwnd_pkts).collect();
            stats::mean(&windows)
        }),
    },
];

impl Metric {
    /// Looks a metric up by its name.
    ///
    /// None: no metric of this name.
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// Whether the run's events must be read for it.
    pub fn needs_events(&self) -> bool {
        matches!(self.computed, Computed::FromEvents(_))
    }

    /// Its value for one variant in one run.
    ///
    /// Shape: the variant's flows only, as records and (when [`Metric::needs_events`]) over time.
    /// None: the variant has no flow in this run, or its flows have nothing to compute it from.
    pub fn value(&self, records: &[&FlowRecord], flows: &[Flow]) -> Option<f64> {
        let value = match self.computed {
            Computed::FromFlows(compute) => compute(records),
            Computed::FromEvents(compute) => compute(flows),
        };
        value.filter(|value| value.is_finite())
    }
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Metric({})", self.name)
    }
}

fn total(flows: &[&FlowRecord], value: fn(&FlowRecord) -> f64) -> Option<f64> {
    (!flows.is_empty()).then(|| flows.iter().map(|flow| value(flow)).sum())
}

/// part / (part + rest) over all flows; none when both are zero.
fn share(flows: &[&FlowRecord], part: fn(&FlowRecord) -> f64, rest: fn(&FlowRecord) -> f64) -> Option<f64> {
    let (part, rest) = (total(flows, part)?, total(flows, rest)?);
    (part + rest > 0.0).then(|| part / (part + rest))
}

fn srtt_percentile(flows: &[Flow], share: f64) -> Option<f64> {
    let samples: Vec<f64> =
        flows.iter().flat_map(|flow| &flow.points).filter_map(|p| p.srtt_us).map(f64::from).collect();
    stats::percentile(&samples, share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::flow::Point;

    fn record(delivered_pkts: u64, lost_pkts: u64) -> FlowRecord {
        FlowRecord {
            name: "f".into(),
            algorithm: "reno".into(),
            variant: "reno".into(),
            compared: true,
            socket: Some(1),
            delivered_pkts,
            received_bytes: delivered_pkts * 1460,
            goodput_bps: delivered_pkts as f64 * 1460.0 * 8.0,
            retrans_pkts: lost_pkts,
            lost_pkts,
            mss_bytes: 1460,
            active_s: 1.0,
        }
    }

    #[test]
    fn metric_names_are_unique_and_found() {
        for metric in METRICS {
            assert_eq!(METRICS.iter().filter(|other| other.name == metric.name).count(), 1, "{}", metric.name);
            assert!(std::ptr::eq(Metric::find(metric.name).unwrap(), metric));
        }
        assert!(Metric::find("throughput").is_none());
    }

    #[test]
    fn counts_sum_over_the_flows_and_shares_are_of_the_sum() {
        let (one, two) = (record(900, 100), record(90, 10));
        let flows = [&one, &two];
        let value = |name| Metric::find(name).unwrap().value(&flows, &[]);
        assert_eq!(value("delivered_pkts"), Some(990.0));
        assert_eq!(value("goodput_bps"), Some(990.0 * 1460.0 * 8.0));
        assert_eq!(value("loss_ratio"), Some(0.1));
        assert_eq!(value("retrans_ratio"), Some(0.1));
    }

    #[test]
    fn no_flow_and_no_sample_give_no_value() {
        for metric in METRICS {
            assert_eq!(metric.value(&[], &[]), None, "{}", metric.name);
        }
        let silent = record(0, 0);
        assert_eq!(Metric::find("loss_ratio").unwrap().value(&[&silent], &[]), None);
    }

    #[test]
    fn srtt_percentile_reads_the_samples() {
        let point = |srtt_us| Point {
            time_s: 0.0,
            cwnd_pkts: 10,
            ssthresh_pkts: None,
            srtt_us,
            inflight_pkts: 0,
            delivered_pkts: 0,
            retrans_pkts: 0,
        };
        let points = vec![point(None), point(Some(10)), point(Some(20)), point(Some(30))];
        let flow = Flow { socket: 1, algorithm: "reno".into(), points };
        assert_eq!(Metric::find("srtt_p50_us").unwrap().value(&[], &[flow]), Some(20.0));
    }
}
