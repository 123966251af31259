//! The metrics of the link that limits flows, and of datagrams.

use super::super::metric::{Metric, exact};
use super::super::{datagrams, queue};
use super::{OF_ANY_FLOW, metric};
use crate::model::run::LinkCounters;

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

/// Defaults of what only a link's counters of a whole run have.
const WHOLE_RUN: Metric = Metric {
    unit: "ratio",
    most: 1.0,
    source: "the link's counters",
    needs: "a link that limits the variant's flows, and all of the run",
    needs_queues: false,
    ..QUEUE
};

/// Defaults of waits by packet.
const PACKET_WAIT: Metric = Metric {
    unit: "us",
    most: f64::INFINITY,
    source: "RFC 7567, 2.1; a histogram of the link with buckets of 3 %",
    needs: "a link that limits the variant's flows in virtual time or by the user-space emulator, and all of the run",
    ..WHOLE_RUN
};

/// Defaults of waits of the flows' own packets.
const OWN_WAIT: Metric = Metric {
    source: "RFC 7567, 2.1; a histogram of the link for each flow, with buckets of 3 %",
    needs: "a link that limits the variant's flows in virtual time, and all of the run",
    ..PACKET_WAIT
};

/// Defaults of one-way delays.
const ONE_WAY: Metric = Metric {
    unit: "us",
    source: "RFC 7679, 3; ITU-T G.114",
    needs: "a datagram that arrived, in virtual time, or on a real kernel with the 44 bytes that carry its time",
    ..OF_ANY_FLOW
};

pub(super) const LINKS: &[Metric] = &[
    metric(
        QUEUE,
        ["queue_mean_pkts", "queue, mean"],
        "packets in the queue of the link that limits the variant's flows, mean over the run",
        |run| exact(queue::mean(run, |queue| queue.queue_pkts as f64)),
    ),
    metric(
        QUEUE,
        ["queue_p50_pkts", "queue, median"],
        "median over the run of the packets in the queue of the link that limits the variant's flows",
        |run| exact(queue::percentile(run, 0.5, |queue| queue.queue_pkts as f64)),
    ),
    metric(
        QUEUE,
        ["queue_p95_pkts", "queue, 95th percentile"],
        "95th percentile over the run of the packets in the queue of the link that limits the variant's flows",
        |run| exact(queue::percentile(run, 0.95, |queue| queue.queue_pkts as f64)),
    ),
    metric(
        QUEUE,
        ["queue_p99_pkts", "queue, 99th percentile"],
        "99th percentile over the run of the packets in the queue of the link that limits the variant's flows",
        |run| exact(queue::percentile(run, 0.99, |queue| queue.queue_pkts as f64)),
    ),
    metric(
        WAIT,
        ["queue_mean_us", "wait in the queue, mean"],
        "how long a packet waits in the queue of the link that limits the variant's flows, mean over the run",
        |run| exact(queue::mean(run, |queue| queue.wait_ns as f64 / 1e3)),
    ),
    metric(
        WAIT,
        ["queue_p95_us", "wait in the queue, 95th percentile"],
        "95th percentile over the run of the wait in the queue of the link that limits the variant's flows",
        |run| exact(queue::percentile(run, 0.95, |queue| queue.wait_ns as f64 / 1e3)),
    ),
    metric(
        WAIT,
        ["queue_p99_us", "wait in the queue, 99th percentile"],
        "99th percentile over the run of the wait in the queue of the link that limits the variant's flows",
        |run| exact(queue::percentile(run, 0.99, |queue| queue.wait_ns as f64 / 1e3)),
    ),
    metric(
        PACKET_WAIT,
        ["wait_p50_us", "wait of a packet, median"],
        "median over packets of how long they waited in the queue of the link that limits the variant's flows",
        |run| exact(queue::of_whole_run(run, |link| Some(link.wait_us?.p50))),
    ),
    metric(
        PACKET_WAIT,
        ["wait_p95_us", "wait of a packet, 95th percentile"],
        "95th percentile over packets of how long they waited in the queue of the link that limits the variant's flows",
        |run| exact(queue::of_whole_run(run, |link| Some(link.wait_us?.p95))),
    ),
    metric(
        PACKET_WAIT,
        ["wait_p99_us", "wait of a packet, 99th percentile"],
        "99th percentile over packets of how long they waited in the queue of the link that limits the variant's flows",
        |run| exact(queue::of_whole_run(run, |link| Some(link.wait_us?.p99))),
    ),
    metric(
        OWN_WAIT,
        ["link_wait_mean_us", "wait of own packets, mean"],
        "mean over the flow's packets of how long they waited in the queue of the link that limits the variant's flows; of several flows the longest",
        |run| exact(queue::own_wait(run, |waits| waits.mean)),
    ),
    metric(
        OWN_WAIT,
        ["link_wait_p50_us", "wait of own packets, median"],
        "median over the flow's packets of how long they waited in the queue of the link that limits the variant's flows; of several flows the longest",
        |run| exact(queue::own_wait(run, |waits| waits.p50)),
    ),
    metric(
        OWN_WAIT,
        ["link_wait_p95_us", "wait of own packets, 95th percentile"],
        "95th percentile over the flow's packets of how long they waited in the queue of the link that limits the variant's flows; of several flows the longest",
        |run| exact(queue::own_wait(run, |waits| waits.p95)),
    ),
    metric(
        OWN_WAIT,
        ["link_wait_p99_us", "wait of own packets, 99th percentile"],
        "99th percentile over the flow's packets of how long they waited in the queue of the link that limits the variant's flows; of several flows the longest",
        |run| exact(queue::own_wait(run, |waits| waits.p99)),
    ),
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
        name: "policed_pkts",
        title: "dropped by the policer",
        unit: "pkts",
        most: f64::INFINITY,
        what: "packets of all flows that the policer dropped at the link that limits the variant's flows",
        compute: |run| exact(queue::of_whole_run(run, |link| Some(link.policed_pkts as f64))),
        ..WHOLE_RUN
    },
    metric(
        WHOLE_RUN,
        ["drop_ratio", "dropped share"],
        "share of the packets of all flows that the queue or the policer dropped at the link that limits the variant's flows",
        |run| exact(queue::of_whole_run(run, LinkCounters::drop_ratio)),
    ),
    metric(
        WHOLE_RUN,
        ["mark_ratio", "marked share"],
        "share of the packets of all flows that left the queue of the link that limits the variant's flows marked",
        |run| exact(queue::of_whole_run(run, LinkCounters::mark_ratio)),
    ),
    metric(
        ONE_WAY,
        ["delay_p50_us", "one-way delay, median"],
        "median over the datagrams that arrived of the time from sender to receiver; of several flows the longest",
        |run| exact(datagrams::delay(run, |delays| delays.p50)),
    ),
    metric(
        ONE_WAY,
        ["delay_p95_us", "one-way delay, 95th percentile"],
        "95th percentile over the datagrams that arrived of the time from sender to receiver; of several flows the longest",
        |run| exact(datagrams::delay(run, |delays| delays.p95)),
    ),
    metric(
        ONE_WAY,
        ["delay_p99_us", "one-way delay, 99th percentile"],
        "99th percentile over the datagrams that arrived of the time from sender to receiver; of several flows the longest",
        |run| exact(datagrams::delay(run, |delays| delays.p99)),
    ),
    Metric {
        name: "late_ratio",
        title: "late share",
        unit: "ratio",
        most: 1.0,
        what: "share of frames, or of datagrams that are not part of one, that did not arrive whole within `deadline`; of several flows the largest",
        compute: |run| exact(datagrams::late_share(run)),
        ..ONE_WAY
    },
];
