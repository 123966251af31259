//! The declaration of every metric.

mod links;

use std::sync::LazyLock;

use super::completion::{over_quarter, over_transfers};
use super::counts::{goodput, loss_peak, sent_per_delivered, share, share_of_payload, total};
use super::metric::{Metric, MetricValue, NeededFlows, exact};
use super::view::RunView;
use super::{fairness, slow_start, steadiness};
use crate::model::stats::{mean, median, percentile};

/// Defaults of all metrics.
const OF_ANY_FLOW: Metric = Metric {
    name: "",
    title: "",
    unit: "",
    most: f64::INFINITY,
    what: "",
    source: "",
    needs: "a flow of the variant",
    flows: NeededFlows::Any,
    needs_events: false,
    needs_queues: false,
    is_per_flow: true,
    compute: |_| None,
};

/// Defaults of flow completion times.
const COMPLETION: Metric = Metric {
    unit: "s",
    source: "Dukkipati and McKeown, ACM CCR 36(1), 2006; Hyndman and Fan 1996, type 7",
    needs: "flows of the variant with a size",
    flows: NeededFlows::Sized,
    ..OF_ANY_FLOW
};

/// Defaults of flow completion times of a quarter of the transfers.
const COMPLETION_BY_SIZE: Metric = Metric {
    source: "draft-irtf-iccrg-tcpeval-01, by quartile of size; Hyndman and Fan 1996, type 7",
    needs: "four transfers that differ in size, of flows of the variant",
    flows: NeededFlows::OfSizes,
    ..COMPLETION
};

/// Defaults of smoothed RTTs.
const SRTT: Metric = Metric {
    unit: "us",
    source: "RFC 6298, 2; Hyndman and Fan 1996, type 1, weighted by time",
    needs: "a flow of the variant that has one connection, and events with its smoothed RTT",
    needs_events: true,
    ..OF_ANY_FLOW
};

/// Defaults of queueing delays.
const QUEUEING: Metric = Metric {
    source: "RFC 5166, 2.1.2; Hyndman and Fan 1996, type 1, weighted by time",
    needs: "a flow of the variant that has one connection, and events with its RTTs",
    ..SRTT
};

/// A metric with the defaults of its kind: its name and title, its meaning, and how it is computed.
const fn metric(
    of_kind: Metric,
    [name, title]: [&'static str; 2],
    what: &'static str,
    compute: fn(&RunView<'_>) -> Option<MetricValue>,
) -> Metric {
    Metric { name, title, what, compute, ..of_kind }
}

/// In the order in which they are listed.
pub static METRICS: LazyLock<Vec<Metric>> = LazyLock::new(|| [FLOWS, links::LINKS].concat());

const FLOWS: &[Metric] = &[
    Metric {
        name: "delivered_pkts",
        title: "delivered",
        unit: "pkts",
        what: "packets the receiver acknowledged by the end of the run, summed over the variant's flows",
        source: "the kernel's `delivered`; the papers' \"packets delivered\" is the highest sequence sent",
        compute: |run| exact(total(run, |flow| flow.delivered_pkts as f64)),
        ..OF_ANY_FLOW
    },
    Metric {
        name: "goodput_bps",
        title: "goodput",
        unit: "bit/s",
        what: "new payload at the receivers of the variant's flows per second of the time in which any of them runs",
        source: "RFC 2647, 3.17",
        compute: |run| exact(goodput(run)),
        ..OF_ANY_FLOW
    },
    Metric {
        name: "share_ratio",
        title: "share",
        unit: "ratio",
        most: 1.0,
        what: "payload of the variant's flows over that of all flows on their bottleneck, datagrams included",
        source: "RFC 2647, 3.17, as a share",
        compute: |run| exact(share_of_payload(run)),
        needs: "payload that arrived at a receiver",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "retrans_pkts",
        title: "retransmitted",
        unit: "pkts",
        what: "retransmitted packets, summed over the variant's flows",
        source: "the kernel's `total_retrans`",
        compute: |run| exact(total(run, |flow| flow.retrans_pkts as f64)),
        ..OF_ANY_FLOW
    },
    Metric {
        name: "lost_pkts",
        title: "lost",
        unit: "pkts",
        what: "packets the sender marked lost, summed over the variant's flows",
        source: "the kernel's `lost`",
        compute: |run| exact(total(run, |flow| flow.lost_pkts as f64)),
        ..OF_ANY_FLOW
    },
    Metric {
        name: "retrans_ratio",
        title: "retransmitted share",
        unit: "ratio",
        most: 1.0,
        what: "retransmitted packets over packets delivered and retransmitted",
        source: "the kernel's `total_retrans` and `delivered`",
        compute: |run| exact(share(run, |flow| flow.retrans_pkts as f64, |flow| flow.delivered_pkts as f64)),
        needs: "packets that were delivered or lost",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "loss_ratio",
        title: "lost share",
        unit: "ratio",
        most: 1.0,
        what: "packets marked lost over packets delivered and marked lost",
        source: "RFC 5166, 2.1.3, as the sender sees it",
        compute: |run| exact(share(run, |flow| flow.lost_pkts as f64, |flow| flow.delivered_pkts as f64)),
        needs: "packets that were delivered or lost",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "sent_per_delivered_ratio",
        title: "sent per delivered packet",
        unit: "ratio",
        what: "packets delivered and retransmitted over packets delivered, summed over the variant's flows: 1 when nothing is sent twice",
        source: "RFC 2914, 3: what congestion collapse wastes; the kernel's `total_retrans` and `delivered`",
        compute: |run| exact(sent_per_delivered(run)),
        needs: "packets that were delivered",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "loss_peak_ratio",
        title: "lost share of the worst second",
        unit: "ratio",
        most: 1.0,
        what: "largest share of packets marked lost in any whole second, or the only one, in which the variant's flows sent at least ten",
        source: "RFC 8084, 3, with intervals of a second",
        needs_events: true,
        compute: |run| exact(loss_peak(run)),
        needs: "flows of the variant, each of one connection, a second with ten of their packets, and their events",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "fct_mean_s",
        title: "flow completion time, mean",
        what: "from the start of a transfer until the receiver has its last byte; a transfer cut off counts with its time",
        source: "Dukkipati and McKeown, ACM CCR 36(1), 2006",
        compute: |run| over_transfers(run, mean),
        ..COMPLETION
    },
    metric(
        COMPLETION,
        ["fct_p50_s", "flow completion time, median"],
        "median over the variant's transfers of the time until the receiver has the last byte",
        |run| over_transfers(run, median),
    ),
    metric(
        COMPLETION,
        ["fct_p95_s", "flow completion time, 95th percentile"],
        "95th percentile over the variant's transfers of the time until the receiver has the last byte",
        |run| over_transfers(run, |times| percentile(times, 0.95)),
    ),
    metric(
        COMPLETION,
        ["fct_p99_s", "flow completion time, 99th percentile"],
        "99th percentile over the variant's transfers of the time until the receiver has the last byte",
        |run| over_transfers(run, |times| percentile(times, 0.99)),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q1_mean_s", "completion time of the smallest quarter by size, mean"],
        "mean of the flow completion times of the smallest quarter of the variant's transfers by size",
        |run| over_quarter(run, 0, mean),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q1_p95_s", "completion time of the smallest quarter by size, 95th percentile"],
        "95th percentile of the flow completion times of the smallest quarter of the variant's transfers by size",
        |run| over_quarter(run, 0, |times| percentile(times, 0.95)),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q2_mean_s", "completion time of the second quarter by size, mean"],
        "mean of the flow completion times of the second quarter of the variant's transfers by size",
        |run| over_quarter(run, 1, mean),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q2_p95_s", "completion time of the second quarter by size, 95th percentile"],
        "95th percentile of the flow completion times of the second quarter of the variant's transfers by size",
        |run| over_quarter(run, 1, |times| percentile(times, 0.95)),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q3_mean_s", "completion time of the third quarter by size, mean"],
        "mean of the flow completion times of the third quarter of the variant's transfers by size",
        |run| over_quarter(run, 2, mean),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q3_p95_s", "completion time of the third quarter by size, 95th percentile"],
        "95th percentile of the flow completion times of the third quarter of the variant's transfers by size",
        |run| over_quarter(run, 2, |times| percentile(times, 0.95)),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q4_mean_s", "completion time of the largest quarter by size, mean"],
        "mean of the flow completion times of the largest quarter of the variant's transfers by size",
        |run| over_quarter(run, 3, mean),
    ),
    metric(
        COMPLETION_BY_SIZE,
        ["fct_q4_p95_s", "completion time of the largest quarter by size, 95th percentile"],
        "95th percentile of the flow completion times of the largest quarter of the variant's transfers by size",
        |run| over_quarter(run, 3, |times| percentile(times, 0.95)),
    ),
    metric(
        SRTT,
        ["srtt_p50_us", "smoothed RTT, median of the run"],
        "median over the time of the variant's flows of the sender's smoothed RTT",
        |run| exact(steadiness::srtt_percentile(run, 0.5)),
    ),
    metric(
        SRTT,
        ["srtt_p95_us", "smoothed RTT, 95th percentile of the run"],
        "95th percentile over the time of the variant's flows of the sender's smoothed RTT",
        |run| exact(steadiness::srtt_percentile(run, 0.95)),
    ),
    metric(
        SRTT,
        ["srtt_p99_us", "smoothed RTT, 99th percentile of the run"],
        "99th percentile over the time of the variant's flows of the sender's smoothed RTT",
        |run| exact(steadiness::srtt_percentile(run, 0.99)),
    ),
    metric(
        QUEUEING,
        ["qdelay_p50_us", "queueing delay, median of the run"],
        "median over the time of the variant's flows of RTT minus the flow's lowest RTT",
        |run| exact(steadiness::qdelay_percentile(run, 0.5)),
    ),
    metric(
        QUEUEING,
        ["qdelay_p95_us", "queueing delay, 95th percentile of the run"],
        "95th percentile over the time of the variant's flows of RTT minus the flow's lowest RTT",
        |run| exact(steadiness::qdelay_percentile(run, 0.95)),
    ),
    metric(
        QUEUEING,
        ["qdelay_p99_us", "queueing delay, 99th percentile of the run"],
        "99th percentile over the time of the variant's flows of RTT minus the flow's lowest RTT",
        |run| exact(steadiness::qdelay_percentile(run, 0.99)),
    ),
    Metric {
        name: "mean_cwnd_pkts",
        title: "mean cwnd",
        unit: "pkts",
        what: "congestion window weighted by the time it held, mean of the variant's flows",
        source: "the kernel's `snd_cwnd`, integrated over time",
        needs_events: true,
        compute: |run| exact(steadiness::mean_cwnd(run)),
        needs: "a flow of the variant that has one connection, and its events",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "utilisation_ratio",
        title: "utilisation",
        unit: "ratio",
        what: "new packets that all flows delivered over the narrowest link, over what it can carry in the run",
        source: "RFC 5166, 2.1.1",
        is_per_flow: false,
        compute: |run| exact(steadiness::utilisation(run)),
        needs: "a rate of the link that limits the variant's flows; where it varies, when they began",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "jain_index",
        title: "Jain's fairness index",
        unit: "ratio",
        most: 1.0,
        what: "evenness of the goodputs of the variant's flows while all run: 1 when equal, 1/n when one has all",
        source: "Jain, Chiu and Hawe, DEC-TR-301, 1984",
        needs_events: true,
        is_per_flow: false,
        compute: |run| exact(fairness::jain(run)),
        needs: "two flows of the variant, each of one connection, that run at the same time, and their events",
        flows: NeededFlows::Two,
        ..OF_ANY_FLOW
    },
    Metric {
        name: "convergence_s",
        title: "convergence time",
        unit: "s",
        what: "from the start of the variant's last flow until it has 80 % of its fair share for 5 s; a run that ends first counts with its time",
        source: "Bansal, Balakrishnan, Floyd and Shenker, SIGCOMM 2001, with ε = 0.2",
        needs_events: true,
        is_per_flow: false,
        compute: fairness::convergence,
        needs: "two flows of the variant, each of one connection, 5 s in which all flows run, and their events",
        flows: NeededFlows::Two,
        ..OF_ANY_FLOW
    },
    Metric {
        name: "friendliness_ratio",
        title: "share over that of the flow beside",
        unit: "ratio",
        what: "goodput of a flow of the variant over that of a flow beside it, while all run: 1 when they share evenly",
        source: "Xu, Harfoush and Rhee, INFOCOM 2004",
        needs_events: true,
        is_per_flow: false,
        compute: |run| exact(fairness::friendliness(run)),
        needs: "a flow beside the variant's that runs at the same time, each of one connection, and their events",
        flows: NeededFlows::Beside,
        ..OF_ANY_FLOW
    },
    Metric {
        name: "stability_index",
        title: "stability index",
        unit: "ratio",
        what: "standard deviation over mean of the goodput per second, mean of the variant's flows: smaller is steadier",
        source: "Wei, Jin, Low and Hegde, IEEE/ACM ToN 14(6), 2006",
        needs_events: true,
        compute: |run| exact(steadiness::stability(run)),
        needs: "flows of one connection each, two seconds in which all run, and their events",
        ..OF_ANY_FLOW
    },
    Metric {
        name: "slow_start_overshoot_pkts",
        title: "slow-start overshoot",
        unit: "pkts",
        what: "packets lost by the end of the recovery that the first slow start led to, summed over the variant's flows",
        source: "Ha and Rhee, Computer Networks 55(9), 2011",
        needs_events: true,
        compute: |run| exact(slow_start::overshoot(run)),
        needs: "flows of the variant, each of one connection, a first slow start that ends, and their events",
        ..OF_ANY_FLOW
    },
];

impl Metric {
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}
