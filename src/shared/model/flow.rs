//! Folds the events of each socket into time series for plots and metrics.

use std::collections::BTreeMap;

use crate::event::{CaState, Event};

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Seconds since the flow's first event.
    pub time_s: f64,
    pub cwnd_pkts: u32,
    /// `None` before the first reduction.
    pub ssthresh_pkts: Option<u32>,
    pub srtt_us: Option<u32>,
    pub rtt_us: Option<u32>,
    /// Lowest RTT in the kernel's window.
    pub min_rtt_us: Option<u32>,
    pub inflight_pkts: u32,
    /// The counts from here to `retrans_pkts` are cumulative.
    pub delivered_pkts: u32,
    /// Bytes covered by cumulative ACKs.
    pub bytes_acked: u64,
    pub lost_pkts: u32,
    pub retrans_pkts: u32,
    pub ca_state: CaState,
}

/// Window of goodput, as in the fairness metrics.
const GOODPUT_WINDOW_S: f64 = 1.0;
/// Spacing of goodput values.
const GOODPUT_STEP_S: f64 = 0.25;

/// One socket over time.
///
/// Shape: points sorted by time, one per event, not resampled. Gaps mean that nothing was sampled or that events were
/// dropped.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    pub socket: u64,
    /// Kernel name, at its last event.
    pub algorithm: String,
    /// Payload bytes of a packet, at its last event.
    pub mss_bytes: u32,
    /// Time of its first event on the host's monotonic clock, seconds. It places the flows of a run on one time axis.
    pub start_s: f64,
    pub points: Vec<Point>,
}

impl Flow {
    pub fn length_s(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.time_s)
    }

    /// Packets delivered by a time, interpolated between events.
    ///
    /// Units: seconds since the flow's first event. 0 before it, constant after the last event.
    pub fn delivered_at(&self, time_s: f64) -> f64 {
        self.at(time_s, |point| f64::from(point.delivered_pkts))
    }

    /// Packets marked lost by a time; interpolated as in [`Flow::delivered_at`].
    pub fn lost_at(&self, time_s: f64) -> f64 {
        self.at(time_s, |point| f64::from(point.lost_pkts))
    }

    /// Bytes covered by cumulative ACKs at a time; interpolated as in [`Flow::delivered_at`].
    pub fn acked_at(&self, time_s: f64) -> f64 {
        self.at(time_s, |point| point.bytes_acked as f64)
    }

    /// The state at a time between two events: the one before, with interpolated counts.
    ///
    /// Units: seconds since the flow's first event. The first event before it, the last one after the end.
    pub fn point_at(&self, time_s: f64) -> Point {
        let beyond = self.points.partition_point(|point| point.time_s <= time_s);
        let before = self.points[..beyond].last().or(self.points.first()).copied().unwrap_or_default();
        let count = |of: fn(&Point) -> f64| self.at(time_s, of).round() as u32;
        Point {
            time_s,
            delivered_pkts: count(|point| point.delivered_pkts.into()),
            bytes_acked: self.acked_at(time_s).round() as u64,
            lost_pkts: count(|point| point.lost_pkts.into()),
            retrans_pkts: count(|point| point.retrans_pkts.into()),
            ..before
        }
    }

    fn at(&self, time_s: f64, count: fn(&Point) -> f64) -> f64 {
        let beyond = self.points.partition_point(|point| point.time_s <= time_s);
        let Some(before) = beyond.checked_sub(1).map(|index| &self.points[index]) else { return 0.0 };
        let Some(after) = self.points.get(beyond) else { return count(before) };
        let share = (time_s - before.time_s) / (after.time_s - before.time_s);
        count(before) + share * (count(after) - count(before)).max(0.0)
    }

    /// First and last event, on the host's monotonic clock, seconds.
    ///
    /// The last event is the end of the connection, even if nothing arrived for a long time before.
    pub fn lasts_during(&self) -> [f64; 2] {
        [self.start_s, self.start_s + self.length_s()]
    }

    /// First event and last delivery, on the host's monotonic clock, seconds. `None` if nothing was delivered.
    pub fn delivers_during(&self) -> Option<[f64; 2]> {
        let last = self.points.windows(2).rfind(|pair| pair[1].delivered_pkts > pair[0].delivered_pkts)?;
        Some([self.start_s, self.start_s + last[1].time_s])
    }

    /// Moments at which packets were marked lost, seconds since the first event.
    pub fn losses_s(&self) -> Vec<f64> {
        let lost = self.points.windows(2).filter(|pair| pair[1].lost_pkts > pair[0].lost_pkts);
        lost.map(|pair| pair[1].time_s).collect()
    }

    pub(super) fn each(&self, value: impl Fn(&Point) -> Option<u32>) -> Vec<(f64, f64)> {
        self.points.iter().filter_map(|point| Some((point.time_s, f64::from(value(point)?)))).collect()
    }

    /// New payload per second, over windows of a second.
    pub(super) fn goodputs(&self) -> Vec<(f64, f64)> {
        let steps = ((self.length_s() - GOODPUT_WINDOW_S) / GOODPUT_STEP_S).floor().max(-1.0);
        let bits = 8.0 * f64::from(self.mss_bytes);
        let goodput = |from: f64| (self.delivered_at(from + GOODPUT_WINDOW_S) - self.delivered_at(from)) * bits;
        let begins = (0..=steps as i64).map(|step| step as f64 * GOODPUT_STEP_S);
        begins.map(|from| (from + GOODPUT_WINDOW_S / 2.0, goodput(from) / GOODPUT_WINDOW_S)).collect()
    }
}

/// Groups events into flows, one per socket.
///
/// Shape: events in any order; flows by first event.
pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<Flow> {
    let mut sockets: BTreeMap<u64, Vec<&Event>> = BTreeMap::new();
    for event in events {
        sockets.entry(event.socket).or_default().push(event);
    }
    // Sorted by socket already; a stable sort keeps that order for flows that start at the same time.
    let mut flows: Vec<Flow> = sockets.into_iter().map(|(socket, events)| flow_of(socket, events)).collect();
    flows.sort_by(|one, other| one.start_s.total_cmp(&other.start_s));
    flows
}

/// Shape: at least one event.
fn flow_of(socket: u64, mut events: Vec<&Event>) -> Flow {
    events.sort_by_key(|event| event.time_ns);
    let (start_ns, last) = (events[0].time_ns, events[events.len() - 1]);
    Flow {
        socket,
        algorithm: last.algorithm.clone(),
        mss_bytes: last.mss_bytes,
        start_s: start_ns as f64 / 1e9,
        points: events.iter().map(|event| point_of(event, start_ns)).collect(),
    }
}

fn point_of(event: &Event, start_ns: u64) -> Point {
    Point {
        time_s: event.time_ns.saturating_sub(start_ns) as f64 / 1e9,
        cwnd_pkts: event.cwnd_pkts,
        ssthresh_pkts: event.ssthresh_pkts,
        srtt_us: event.srtt_us,
        rtt_us: event.rtt_us,
        min_rtt_us: event.min_rtt_us,
        inflight_pkts: event.inflight_pkts,
        delivered_pkts: event.delivered_pkts,
        bytes_acked: event.bytes_acked,
        lost_pkts: event.lost_pkts,
        retrans_pkts: event.retrans_pkts,
        ca_state: event.ca_state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::live::samples::sample;
    use crate::model::series::{Series, SeriesOf};

    fn event(socket: u64, time_ns: u64, cwnd_pkts: u32) -> Event {
        Event { cwnd_pkts, mss_bytes: 1460, ..sample(socket, time_ns) }
    }

    #[test]
    fn events_in_any_order_become_sorted_flows() {
        let events = [event(9, 2_000_000_000, 30), event(4, 5_000_000_000, 2), event(9, 1_000_000_000, 10)];
        let flows = fold(&events);
        assert_eq!(flows.iter().map(|flow| flow.socket).collect::<Vec<_>>(), [9, 4]);
        assert_eq!(flows[0].points.iter().map(|p| p.time_s).collect::<Vec<_>>(), [0.0, 1.0]);
    }

    #[test]
    fn every_series_has_its_points_and_a_rate_is_per_second() {
        let events: Vec<Event> = (0..=40_u32)
            .map(|tenth| Event { delivered_pkts: 5 * tenth, ..event(1, u64::from(tenth) * 100_000_000, 10) })
            .collect();
        let flow = &fold(&events)[0];
        let points = |name| match Series::find(name).unwrap().of {
            SeriesOf::Flow(points) => points(flow),
            SeriesOf::Queue(_) => panic!("{name} is of a flow"),
        };
        assert_eq!((points("cwnd_pkts").len(), points("ssthresh_pkts").len()), (41, 0));
        let goodputs = points("goodput_bps");
        assert_eq!(goodputs.len(), 13, "windows of a second in four, a quarter apart");
        assert!(goodputs.iter().all(|(_, bps)| (bps - 50.0 * 8.0 * 1460.0).abs() < 1.0), "{goodputs:?}");
        assert_eq!(fold(&events[..3])[0].goodputs(), []);
        assert!(Series::find("cwnd").is_none());
    }

    #[test]
    fn delivered_lies_between_two_events_and_ends_with_the_last() {
        let delivered = |time_ns, delivered_pkts| Event { delivered_pkts, ..event(1, time_ns, 10) };
        let events = [delivered(5_000_000_000, 2), delivered(7_000_000_000, 42), delivered(9_000_000_000, 42)];
        let flow = &fold(&events)[0];
        assert_eq!([-1.0, 0.0, 0.5, 2.0, 9.0].map(|time| flow.delivered_at(time)), [0.0, 2.0, 12.0, 42.0, 42.0]);
        assert_eq!((flow.delivers_during(), flow.lasts_during()), (Some([5.0, 7.0]), [5.0, 9.0]));
        assert_eq!(fold(&events[..1])[0].delivers_during(), None);
    }
}
