//! The quantities over time that figures can draw: of flows, and of the queues of links.

use super::flow::Flow;
use super::queue::QueueSample;

#[derive(Debug, Clone, Copy)]
pub struct Series {
    /// Name in scenarios, unit included.
    pub name: &'static str,
    /// Heading, without the unit.
    pub title: &'static str,
    pub unit: &'static str,
    pub of: SeriesOf,
}

/// Where the values of a series come from.
#[derive(Debug, Clone, Copy)]
pub enum SeriesOf {
    /// Seconds since the flow's first event, and the value. Moments without a value are left out.
    Flow(fn(&Flow) -> Vec<(f64, f64)>),
    Queue(fn(&QueueSample) -> f64),
}

const fn flow(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    points: fn(&Flow) -> Vec<(f64, f64)>,
) -> Series {
    Series { name, title, unit, of: SeriesOf::Flow(points) }
}

const fn queue(name: &'static str, title: &'static str, unit: &'static str, value: fn(&QueueSample) -> f64) -> Series {
    Series { name, title, unit, of: SeriesOf::Queue(value) }
}

pub static SERIES: &[Series] = &[
    flow("cwnd_pkts", "cwnd", "pkts", |flow| flow.each(|p| Some(p.cwnd_pkts))),
    flow("ssthresh_pkts", "ssthresh", "pkts", |flow| flow.each(|p| p.ssthresh_pkts)),
    flow("inflight_pkts", "in flight", "pkts", |flow| flow.each(|p| Some(p.inflight_pkts))),
    flow("delivered_pkts", "delivered", "pkts", |flow| flow.each(|p| Some(p.delivered_pkts))),
    flow("lost_pkts", "lost", "pkts", |flow| flow.each(|p| Some(p.lost_pkts))),
    flow("retrans_pkts", "retransmitted", "pkts", |flow| flow.each(|p| Some(p.retrans_pkts))),
    flow("srtt_us", "smoothed RTT", "us", |flow| flow.each(|p| p.srtt_us)),
    flow("rtt_us", "RTT", "us", |flow| flow.each(|p| p.rtt_us)),
    flow("goodput_bps", "goodput", "bit/s", Flow::goodputs),
    queue("queue_pkts", "queue", "pkts", |queue| queue.queue_pkts as f64),
    queue("queue_us", "wait in the queue", "us", |queue| queue.wait_ns as f64 / 1e3),
    queue("overflow_pkts", "dropped by the queue", "pkts", |queue| queue.overflow_pkts as f64),
    queue("marked_pkts", "marked", "pkts", |queue| queue.marked_pkts as f64),
];

impl Series {
    pub fn find(name: &str) -> Option<&'static Series> {
        SERIES.iter().find(|series| series.name == name)
    }

    pub fn is_of_queue(&self) -> bool {
        matches!(self.of, SeriesOf::Queue(_))
    }
}
