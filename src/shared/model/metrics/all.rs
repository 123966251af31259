//! The declaration of every metric.

use super::completion::over_transfers;
use super::counts::{goodput, share, share_of_payload, total};
use super::metric::{Metric, NeededFlows, exact};
use super::{fairness, queue, slow_start, steadiness};
use crate::model::stats::{mean, median, percentile};

/// Defaults of all metrics.
const OF_ANY_FLOW: Metric = Metric {
    name: "",
    title: "",
    unit: "",
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

/// Defaults of smoothed RTTs.
const SRTT: Metric = Metric {
    unit: "us",
    source: "RFC 6298, 2; Hyndman and Fan 1996, type 1, weighted by time",
    needs: "events with a smoothed RTT of the variant's flows",
    needs_events: true,
    ..OF_ANY_FLOW
};

/// Defaults of queueing delays.
const QUEUEING: Metric = Metric {
    source: "RFC 5166, 2.1.2; Hyndman and Fan 1996, type 1, weighted by time",
    needs: "events with RTTs of the variant's flows",
    ..SRTT
};

/// Defaults of the queue at the bottleneck.
const QUEUE: Metric = Metric {
    unit: "pkts",
    source: "RFC 7567, 2.1; Hyndman and Fan 1996, type 7, of samples at equal intervals",
    needs: "a link that limits the variant's flows, whose queue was recorded: in virtual time, or by the user-space emulator",
    needs_queues: true,
    ..OF_ANY_FLOW
};

/// Defaults of waits in that queue.
const WAIT: Metric = Metric { unit: "us", ..QUEUE };

pub static METRICS: &[Metric] = &[
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
        what: "packets marked lost over packets delivered and marked lost",
        source: "RFC 5166, 2.1.3, as the sender sees it",
        compute: |run| exact(share(run, |flow| flow.lost_pkts as f64, |flow| flow.delivered_pkts as f64)),
        needs: "packets that were delivered or lost",
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
    Metric {
        name: "fct_p50_s",
        title: "flow completion time, median",
        what: "median over the variant's transfers of the time until the receiver has the last byte",
        compute: |run| over_transfers(run, median),
        ..COMPLETION
    },
    Metric {
        name: "fct_p95_s",
        title: "flow completion time, 95th percentile",
        what: "95th percentile over the variant's transfers of the time until the receiver has the last byte",
        compute: |run| over_transfers(run, |times| percentile(times, 0.95)),
        ..COMPLETION
    },
    Metric {
        name: "fct_p99_s",
        title: "flow completion time, 99th percentile",
        what: "99th percentile over the variant's transfers of the time until the receiver has the last byte",
        compute: |run| over_transfers(run, |times| percentile(times, 0.99)),
        ..COMPLETION
    },
    Metric {
        name: "srtt_p50_us",
        title: "smoothed RTT, median of the run",
        what: "median over the time of the variant's flows of the sender's smoothed RTT",
        compute: |run| exact(steadiness::srtt_percentile(run, 0.5)),
        ..SRTT
    },
    Metric {
        name: "srtt_p95_us",
        title: "smoothed RTT, 95th percentile of the run",
        what: "95th percentile over the time of the variant's flows of the sender's smoothed RTT",
        compute: |run| exact(steadiness::srtt_percentile(run, 0.95)),
        ..SRTT
    },
    Metric {
        name: "srtt_p99_us",
        title: "smoothed RTT, 99th percentile of the run",
        what: "99th percentile over the time of the variant's flows of the sender's smoothed RTT",
        compute: |run| exact(steadiness::srtt_percentile(run, 0.99)),
        ..SRTT
    },
    Metric {
        name: "qdelay_p50_us",
        title: "queueing delay, median of the run",
        what: "median over the time of the variant's flows of RTT minus the flow's lowest RTT",
        compute: |run| exact(steadiness::qdelay_percentile(run, 0.5)),
        ..QUEUEING
    },
    Metric {
        name: "qdelay_p95_us",
        title: "queueing delay, 95th percentile of the run",
        what: "95th percentile over the time of the variant's flows of RTT minus the flow's lowest RTT",
        compute: |run| exact(steadiness::qdelay_percentile(run, 0.95)),
        ..QUEUEING
    },
    Metric {
        name: "qdelay_p99_us",
        title: "queueing delay, 99th percentile of the run",
        what: "99th percentile over the time of the variant's flows of RTT minus the flow's lowest RTT",
        compute: |run| exact(steadiness::qdelay_percentile(run, 0.99)),
        ..QUEUEING
    },
    Metric {
        name: "mean_cwnd_pkts",
        title: "mean cwnd",
        unit: "pkts",
        what: "congestion window weighted by the time it held, mean of the variant's flows",
        source: "the kernel's `snd_cwnd`, integrated over time",
        needs_events: true,
        compute: |run| exact(steadiness::mean_cwnd(run)),
        needs: "events of the variant's flows",
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
        name: "queue_mean_pkts",
        title: "queue, mean",
        what: "packets in the queue of the link that limits the variant's flows, mean over the run",
        compute: |run| exact(queue::mean(run, |queue| queue.queue_pkts as f64)),
        ..QUEUE
    },
    Metric {
        name: "queue_p50_pkts",
        title: "queue, median",
        what: "median over the run of the packets in the queue of the link that limits the variant's flows",
        compute: |run| exact(queue::percentile(run, 0.5, |queue| queue.queue_pkts as f64)),
        ..QUEUE
    },
    Metric {
        name: "queue_p95_pkts",
        title: "queue, 95th percentile",
        what: "95th percentile over the run of the packets in the queue of the link that limits the variant's flows",
        compute: |run| exact(queue::percentile(run, 0.95, |queue| queue.queue_pkts as f64)),
        ..QUEUE
    },
    Metric {
        name: "queue_p99_pkts",
        title: "queue, 99th percentile",
        what: "99th percentile over the run of the packets in the queue of the link that limits the variant's flows",
        compute: |run| exact(queue::percentile(run, 0.99, |queue| queue.queue_pkts as f64)),
        ..QUEUE
    },
    Metric {
        name: "queue_mean_us",
        title: "wait in the queue, mean",
        what: "how long a packet waits in the queue of the link that limits the variant's flows, mean over the run",
        compute: |run| exact(queue::mean(run, |queue| queue.wait_ns as f64 / 1e3)),
        ..WAIT
    },
    Metric {
        name: "queue_p95_us",
        title: "wait in the queue, 95th percentile",
        what: "95th percentile over the run of the wait in the queue of the link that limits the variant's flows",
        compute: |run| exact(queue::percentile(run, 0.95, |queue| queue.wait_ns as f64 / 1e3)),
        ..WAIT
    },
    Metric {
        name: "queue_p99_us",
        title: "wait in the queue, 99th percentile",
        what: "99th percentile over the run of the wait in the queue of the link that limits the variant's flows",
        compute: |run| exact(queue::percentile(run, 0.99, |queue| queue.wait_ns as f64 / 1e3)),
        ..WAIT
    },
    Metric {
        name: "overflow_pkts",
        title: "dropped by the queue",
        what: "packets of all flows that the full queue or its discipline dropped at the link that limits the variant's flows",
        source: "the link's counter",
        needs: "a link that limits the variant's flows; in a part of the run its queue over time",
        compute: |run| exact(queue::count(run, |link| link.overflow_pkts, |queue| queue.overflow_pkts)),
        ..QUEUE
    },
    Metric {
        name: "marked_pkts",
        title: "marked",
        what: "packets of all flows that were marked at the link that limits the variant's flows",
        source: "the link's counter",
        needs: "a link that limits the variant's flows; in a part of the run its queue over time",
        compute: |run| exact(queue::count(run, |link| link.marked_pkts, |queue| queue.marked_pkts)),
        ..QUEUE
    },
    Metric {
        name: "jain_index",
        title: "Jain's fairness index",
        unit: "ratio",
        what: "evenness of the goodputs of the variant's flows while all run: 1 when equal, 1/n when one has all",
        source: "Jain, Chiu and Hawe, DEC-TR-301, 1984",
        needs_events: true,
        is_per_flow: false,
        compute: |run| exact(fairness::jain(run)),
        needs: "two flows of the variant that run at the same time, and their events",
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
        needs: "two flows of the variant, 5 s in which all flows run, and their events",
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
        needs: "a flow beside the variant's that runs at the same time, and their events",
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
        needs: "two seconds in which all flows run, and their events",
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
        needs: "a first slow start that ends, and its events",
        ..OF_ANY_FLOW
    },
];

impl Metric {
    pub fn find(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}
