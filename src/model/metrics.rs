//! The metrics of a run, each defined once: name, unit, how it is computed.
//!
//! The formulas with their sources: [`fairness`], [`completion`], [`steadiness`], [`slow_start`]. "Efficiency", which the thesis of
//! Ahmad sweeps over beside them, is not here: what is left of the thesis names it without defining it.

pub mod completion;
pub mod fairness;
pub mod held;
#[cfg(test)]
pub(crate) mod samples;
pub mod slow_start;
pub mod steadiness;
pub mod view;

use self::view::RunView;
use crate::model::run::FlowRecord;

/// No quantity of a run is larger in its unit: what a broken record gives beyond is no value, so that sums stay finite.
const LARGEST: f64 = 1e18;

/// What a metric is computed from.
#[derive(Clone, Copy)]
pub enum Computed {
    /// From the end-of-run records of the flows.
    FromFlows(fn(&RunView<'_>) -> Option<f64>),
    /// From the end-of-run records of the flows: how long something took, which the end of the run may cut off.
    WaitFromFlows(fn(&RunView<'_>) -> Option<Value>),
    /// From the flows over time, which means reading the run's events.
    FromEvents(fn(&RunView<'_>) -> Option<f64>),
    /// From the flows over time: how long something took, which the end of the run may cut off.
    WaitFromEvents(fn(&RunView<'_>) -> Option<Value>),
}

/// What a metric gave in one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Value {
    /// In the metric's unit.
    pub value: f64,
    /// The run ended before: the value is the time there was, a lower bound.
    pub cut_off: bool,
}

/// One metric of one variant in one run.
#[derive(Clone, Copy)]
pub struct Metric {
    /// Name as scenarios and files write it, unit included.
    pub name: &'static str,
    /// Heading for people, without the unit.
    pub title: &'static str,
    /// Unit of the value: "pkts", "bit/s", "us", "s", "ratio".
    pub unit: &'static str,
    /// What it says, in one sentence.
    pub what: &'static str,
    /// Where its definition comes from.
    pub source: &'static str,
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
        source: "the kernel's `delivered`; the papers' \"packets delivered\" is the highest sequence sent",
        computed: Computed::FromFlows(|run| total(run, |flow| flow.delivered_pkts as f64)),
    },
    Metric {
        name: "goodput_bps",
        title: "goodput",
        unit: "bit/s",
        what: "new payload at the receivers of the variant's flows per second of the time in which any of them runs",
        source: "RFC 2647, 3.17",
        computed: Computed::FromFlows(goodput),
    },
    Metric {
        name: "retrans_pkts",
        title: "retransmitted",
        unit: "pkts",
        what: "packets sent again, summed over the variant's flows",
        source: "the kernel's `total_retrans`",
        computed: Computed::FromFlows(|run| total(run, |flow| flow.retrans_pkts as f64)),
    },
    Metric {
        name: "lost_pkts",
        title: "lost",
        unit: "pkts",
        what: "packets the sender marked lost, summed over the variant's flows",
        source: "the kernel's `lost`",
        computed: Computed::FromFlows(|run| total(run, |flow| flow.lost_pkts as f64)),
    },
    Metric {
        name: "retrans_ratio",
        title: "retransmitted share",
        unit: "ratio",
        what: "packets sent again over packets delivered and sent again",
        source: "the kernel's `total_retrans` and `delivered`",
        computed: Computed::FromFlows(|run| {
            share(run, |flow| flow.retrans_pkts as f64, |flow| flow.delivered_pkts as f64)
        }),
    },
    Metric {
        name: "loss_ratio",
        title: "lost share",
        unit: "ratio",
        what: "packets marked lost over packets delivered and marked lost",
        source: "RFC 5166, 2.1.3, as the sender sees it",
        computed: Computed::FromFlows(|run| {
            share(run, |flow| flow.lost_pkts as f64, |flow| flow.delivered_pkts as f64)
        }),
    },
    Metric {
        name: "fct_mean_s",
        title: "flow completion time, mean",
        unit: "s",
        what: "from the start of a transfer of a size until the receiver has its last byte; one cut off counts with its time",
        source: "Dukkipati and McKeown, ACM CCR 36(1), 2006",
        computed: Computed::WaitFromFlows(completion::mean),
    },
    Metric {
        name: "fct_p50_s",
        title: "flow completion time, median",
        unit: "s",
        what: "median over the variant's transfers of the time until the receiver has the last byte",
        source: "Dukkipati and McKeown, ACM CCR 36(1), 2006; Hyndman and Fan 1996, type 7",
        computed: Computed::WaitFromFlows(|run| completion::percentile(run, 0.5)),
    },
    Metric {
        name: "fct_p95_s",
        title: "flow completion time, 95th percentile",
        unit: "s",
        what: "95th percentile over the variant's transfers of the time until the receiver has the last byte",
        source: "Dukkipati and McKeown, ACM CCR 36(1), 2006; Hyndman and Fan 1996, type 7",
        computed: Computed::WaitFromFlows(|run| completion::percentile(run, 0.95)),
    },
    Metric {
        name: "fct_p99_s",
        title: "flow completion time, 99th percentile",
        unit: "s",
        what: "99th percentile over the variant's transfers of the time until the receiver has the last byte",
        source: "Dukkipati and McKeown, ACM CCR 36(1), 2006; Hyndman and Fan 1996, type 7",
        computed: Computed::WaitFromFlows(|run| completion::percentile(run, 0.99)),
    },
    Metric {
        name: "srtt_p50_us",
        title: "smoothed RTT, median of the run",
        unit: "us",
        what: "median over the time of the variant's flows of the sender's smoothed RTT",
        source: "RFC 6298, 2; Hyndman and Fan 1996, type 1, weighted by time",
        computed: Computed::FromEvents(|run| steadiness::srtt_percentile(run, 0.5)),
    },
    Metric {
        name: "srtt_p95_us",
        title: "smoothed RTT, 95th percentile of the run",
        unit: "us",
        what: "95th percentile over the time of the variant's flows of the sender's smoothed RTT",
        source: "RFC 6298, 2; Hyndman and Fan 1996, type 1, weighted by time",
        computed: Computed::FromEvents(|run| steadiness::srtt_percentile(run, 0.95)),
    },
    Metric {
        name: "srtt_p99_us",
        title: "smoothed RTT, 99th percentile of the run",
        unit: "us",
        what: "99th percentile over the time of the variant's flows of the sender's smoothed RTT",
        source: "RFC 6298, 2; Hyndman and Fan 1996, type 1, weighted by time",
        computed: Computed::FromEvents(|run| steadiness::srtt_percentile(run, 0.99)),
    },
    Metric {
        name: "qdelay_p50_us",
        title: "queueing delay, median of the run",
        unit: "us",
        what: "median over the time of the variant's flows of RTT minus the flow's lowest RTT",
        source: "RFC 5166, 2.1.2; Hyndman and Fan 1996, type 1, weighted by time",
        computed: Computed::FromEvents(|run| steadiness::qdelay_percentile(run, 0.5)),
    },
    Metric {
        name: "qdelay_p95_us",
        title: "queueing delay, 95th percentile of the run",
        unit: "us",
        what: "95th percentile over the time of the variant's flows of RTT minus the flow's lowest RTT",
        source: "RFC 5166, 2.1.2; Hyndman and Fan 1996, type 1, weighted by time",
        computed: Computed::FromEvents(|run| steadiness::qdelay_percentile(run, 0.95)),
    },
    Metric {
        name: "qdelay_p99_us",
        title: "queueing delay, 99th percentile of the run",
        unit: "us",
        what: "99th percentile over the time of the variant's flows of RTT minus the flow's lowest RTT",
        source: "RFC 5166, 2.1.2; Hyndman and Fan 1996, type 1, weighted by time",
        computed: Computed::FromEvents(|run| steadiness::qdelay_percentile(run, 0.99)),
    },
    Metric {
        name: "mean_cwnd_pkts",
        title: "mean cwnd",
        unit: "pkts",
        what: "congestion window weighted by the time it held, mean of the variant's flows",
        source: "the kernel's `snd_cwnd`, integrated over time",
        computed: Computed::FromEvents(steadiness::mean_cwnd),
    },
    Metric {
        name: "utilisation_ratio",
        title: "utilisation",
        unit: "ratio",
        what: "new packets that all flows delivered over the narrowest link, over what it can carry in the run",
        source: "RFC 5166, 2.1.1",
        computed: Computed::FromFlows(steadiness::utilisation),
    },
    Metric {
        name: "jain_index",
        title: "Jain's fairness index",
        unit: "ratio",
        what: "evenness of the goodputs of the variant's flows while all run: 1 when equal, 1/n when one has all",
        source: "Jain, Chiu and Hawe, DEC-TR-301, 1984",
        computed: Computed::FromEvents(fairness::jain),
    },
    Metric {
        name: "convergence_s",
        title: "convergence time",
        unit: "s",
        what: "from the start of the variant's last flow until it has 80 % of its fair share for 5 s; a run that ends before counts with its time",
        source: "Bansal, Balakrishnan, Floyd and Shenker, SIGCOMM 2001, with ε = 0.2",
        computed: Computed::WaitFromEvents(fairness::convergence),
    },
    Metric {
        name: "friendliness_ratio",
        title: "share over that of the flow beside",
        unit: "ratio",
        what: "goodput of a flow of the variant over that of a flow beside it, while all run: 1 when they share evenly",
        source: "Xu, Harfoush and Rhee, INFOCOM 2004",
        computed: Computed::FromEvents(fairness::friendliness),
    },
    Metric {
        name: "stability_index",
        title: "stability index",
        unit: "ratio",
        what: "standard deviation over mean of the goodput per second, mean of the variant's flows: smaller is steadier",
        source: "Wei, Jin, Low and Hegde, IEEE/ACM ToN 14(6), 2006",
        computed: Computed::FromEvents(steadiness::stability),
    },
    Metric {
        name: "slow_start_overshoot_pkts",
        title: "slow-start overshoot",
        unit: "pkts",
        what: "packets lost by the end of the recovery that the first slow start led to, summed over the variant's flows",
        source: "Ha and Rhee, Computer Networks 55(9), 2011",
        computed: Computed::FromEvents(slow_start::overshoot),
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
        !matches!(self.computed, Computed::FromFlows(_) | Computed::WaitFromFlows(_))
    }

    /// Its value for one variant in one run.
    ///
    /// None: the variant has no flow in this run, or its flows have nothing to compute it from, such as one flow for
    /// a fairness, or (when [`Metric::needs_events`]) flows without events.
    pub fn value(&self, run: &RunView<'_>) -> Option<Value> {
        let value = match self.computed {
            Computed::FromFlows(compute) | Computed::FromEvents(compute) => {
                compute(run).map(|value| Value { value, cut_off: false })
            }
            Computed::WaitFromFlows(compute) | Computed::WaitFromEvents(compute) => compute(run),
        };
        value.filter(|value| value.value.abs() <= LARGEST)
    }
}

impl std::fmt::Debug for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Metric({})", self.name)
    }
}

fn total(run: &RunView<'_>, value: fn(&FlowRecord) -> f64) -> Option<f64> {
    (!run.own.is_empty()).then(|| run.own.iter().map(|flow| value(flow.record)).sum())
}

/// Payload of all flows over the time in which any runs: the sum of their rates would count flows that follow each other
/// as if they ran side by side.
fn goodput(run: &RunView<'_>) -> Option<f64> {
    let running = |flow: &FlowRecord| {
        let length_s = if flow.goodput_bps > 0.0 { 8.0 * flow.received_bytes as f64 / flow.goodput_bps } else { 0.0 };
        flow.begin_s.map(|begin_s| [begin_s, begin_s + length_s])
    };
    if let [only] = &run.own[..] {
        return Some(only.record.goodput_bps);
    }
    let times: Option<Vec<[f64; 2]>> = run.own.iter().map(|flow| running(flow.record)).collect();
    let Some(seconds) = times.map(seconds_of_any) else { return total(run, |flow| flow.goodput_bps) };
    let bytes = total(run, |flow| flow.received_bytes as f64)?;
    Some(if seconds > 0.0 { 8.0 * bytes / seconds } else { 0.0 })
}

/// Length of the union of spans.
fn seconds_of_any(mut spans: Vec<[f64; 2]>) -> f64 {
    spans.sort_by(|one, other| one[0].total_cmp(&other[0]));
    let (mut seconds, mut until) = (0.0, f64::NEG_INFINITY);
    for [from, to] in spans {
        seconds += (to - from.max(until)).max(0.0);
        until = until.max(to);
    }
    seconds
}

/// part / (part + rest) over all flows; none when both are zero.
fn share(run: &RunView<'_>, part: fn(&FlowRecord) -> f64, rest: fn(&FlowRecord) -> f64) -> Option<f64> {
    let (part, rest) = (total(run, part)?, total(run, rest)?);
    (part + rest > 0.0).then(|| part / (part + rest))
}

#[cfg(test)]
mod tests {
    use super::samples::{Sampled, view};
    use super::*;

    #[test]
    fn metric_names_are_unique_and_found() {
        for metric in METRICS {
            assert_eq!(METRICS.iter().filter(|other| other.name == metric.name).count(), 1, "{}", metric.name);
            assert!(std::ptr::eq(Metric::find(metric.name).unwrap(), metric));
            assert!(!metric.what.is_empty() && !metric.source.is_empty(), "{}", metric.name);
        }
        assert!(Metric::find("throughput").is_none());
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
        for metric in METRICS {
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
        for metric in METRICS.iter().filter(|metric| metric.needs_events()) {
            assert_eq!(metric.value(&without), None, "{}", metric.name);
        }
        let over_time = ["jain_index", "convergence_s", "stability_index"].map(|name| Metric::find(name).unwrap());
        assert!(over_time.iter().all(|metric| metric.value(&with_events).is_some()));
        assert!(Metric::find("goodput_bps").unwrap().value(&without).is_some());
    }
}
