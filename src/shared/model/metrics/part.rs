//! A part of a run: the records and events of its flows between two moments, as if the run had been only that long.

use crate::model::flow::{Flow, Point};
use crate::model::run::{FlowRecord, RunRecord};

/// Cuts a run to the time between two moments, seconds from the first event of its flows.
///
/// Counts are those of the events in the part, and interpolated at its ends. Datagrams have no events; their packets
/// count as evenly spread. A flow that never connected has delivered nothing in any part. Left out are flows that do not
/// run in the part, and flows of several connections, whose events nothing joins.
pub fn cut(record: &RunRecord, over_time: &[Flow], span: [f64; 2]) -> (RunRecord, Vec<Flow>) {
    let begin = over_time.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let begin_s = begin_s(record);
    let mut flows = Vec::new();
    let mut cut_flow = |flow: &FlowRecord| {
        if flow.datagrams {
            return cut_datagrams(flow, begin_s, span);
        }
        if flow.never_connected() {
            return Some(flow.clone());
        }
        let events = over_time.iter().find(|events| flow.socket == Some(events.socket))?;
        let (record, events) = cut_connection(flow, (events, begin, begin_s), span)?;
        flows.push(events);
        Some(record)
    };
    let records = record.flows.iter().filter_map(&mut cut_flow).collect();
    (RunRecord { flows: records, ..record.clone() }, flows)
}

/// Seconds of two spans that overlap.
fn common([from, to]: [f64; 2], [begin, end]: [f64; 2]) -> Option<[f64; 2]> {
    let common = [from.max(begin), to.min(end)];
    (common[0] < common[1]).then_some(common)
}

/// When the first traced flow began, seconds after the links started. Parts count from there, records from the links.
pub fn begin_s(record: &RunRecord) -> f64 {
    let traced = record.flows.iter().filter(|flow| flow.socket.is_some());
    let first = traced.filter_map(|flow| flow.begin_s).fold(f64::INFINITY, f64::min);
    if first.is_finite() { first } else { 0.0 }
}

fn cut_datagrams(flow: &FlowRecord, run_begin_s: f64, span: [f64; 2]) -> Option<FlowRecord> {
    let begin = flow.begin_s.unwrap_or(run_begin_s) - run_begin_s;
    let [from, to] = common(span, [begin, begin + flow.active_s])?;
    let part = (to - from) / flow.active_s;
    let of = |count: u64| (count as f64 * part).round() as u64;
    Some(FlowRecord {
        delivered_pkts: of(flow.delivered_pkts),
        received_bytes: of(flow.received_bytes),
        lost_pkts: of(flow.lost_pkts),
        begin_s: Some(from),
        active_s: to - from,
        ..flow.clone()
    })
}

/// `begin` is the first event of the run's flows, on the clock of the events; `run_begin_s` the same on that of the links.
fn cut_connection(
    flow: &FlowRecord,
    (events, begin, run_begin_s): (&Flow, f64, f64),
    span: [f64; 2],
) -> Option<(FlowRecord, Flow)> {
    let shift = events.start_s - begin;
    let [from, to] = common(span, [shift, shift + events.length_s()])?;
    let [first, last] = [from, to].map(|time| events.point_at(time - shift));
    let counted = |point: &Point| Point {
        time_s: point.time_s - first.time_s,
        delivered_pkts: point.delivered_pkts.saturating_sub(first.delivered_pkts),
        bytes_acked: point.bytes_acked.saturating_sub(first.bytes_acked),
        lost_pkts: point.lost_pkts.saturating_sub(first.lost_pkts),
        retrans_pkts: point.retrans_pkts.saturating_sub(first.retrans_pkts),
        ..*point
    };
    let inside = events.points.iter().filter(|point| first.time_s < point.time_s && point.time_s < last.time_s);
    let points: Vec<Point> = [&first].into_iter().chain(inside).chain([&last]).map(counted).collect();
    let cut = Flow { start_s: begin + from, points, ..events.clone() };
    let total = cut.points.last()?;
    let mss_bytes = u64::from(flow.mss_bytes);
    let received_bytes = if flow.tcp_sack { u64::from(total.delivered_pkts) * mss_bytes } else { total.bytes_acked };
    let within =
        |start_s: f64| flow.begin_s.is_some_and(|begin_s| (from..to).contains(&(begin_s - run_begin_s + start_s)));
    let record = FlowRecord {
        delivered_pkts: received_bytes / mss_bytes.max(1),
        received_bytes,
        goodput_bps: 8.0 * received_bytes as f64 / (to - from),
        retrans_pkts: total.retrans_pkts.into(),
        lost_pkts: total.lost_pkts.into(),
        begin_s: Some(from),
        active_s: to - from,
        completions: flow.completions.iter().filter(|one| within(one.start_s)).copied().collect(),
        ..flow.clone()
    };
    Some((record, cut))
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::super::{Metric, MetricValue};
    use super::*;
    use crate::model::metrics::view::RunView;

    fn run(flows: &[Sampled]) -> RunRecord {
        let mut run: RunRecord =
            serde_json::from_str(include_str!("../../../../tests/fixtures/results/run.json")).unwrap();
        run.flows = flows.iter().map(|flow| flow.record.clone()).collect();
        run
    }

    fn value(name: &str, run: &RunView<'_>) -> Option<f64> {
        Metric::find(name).unwrap().value(run).map(|MetricValue { value, .. }| value)
    }

    #[test]
    fn part_counts_only_what_happens_in_it() {
        let mut flow = Sampled::new(100.0, &[(10.0, 50.0), (10.0, 200.0)]);
        for point in &mut flow.flow.points {
            point.lost_pkts = if point.time_s < 15.0 { 7 } else { 9 };
        }
        let (record, flows) = cut(&run(std::slice::from_ref(&flow)), std::slice::from_ref(&flow.flow), [12.0, 18.0]);
        let cut = [Sampled { record: record.flows[0].clone(), flow: flows[0].clone() }];
        let run = view(&cut, &[]);
        assert_eq!((value("delivered_pkts", &run), value("lost_pkts", &run)), (Some(1200.0), Some(2.0)));
        assert!((value("goodput_bps", &run).unwrap() - 200.0 * 8.0 * 1460.0).abs() < 1.0);
        assert!(value("stability_index", &run).unwrap() < 0.01, "the change at 10 s is outside");
        assert_eq!(flows[0].lasts_during(), [112.0, 118.0]);
    }

    #[test]
    fn flow_that_does_not_run_in_the_part_is_left_out() {
        let mut flows = [Sampled::new(100.0, &[(20.0, 50.0)]), Sampled::new(110.0, &[(10.0, 50.0)])];
        flows[1].record.socket = Some(2);
        flows[1].flow.socket = 2;
        let events = flows.each_ref().map(|flow| flow.flow.clone());
        let names = |span| cut(&run(&flows), &events, span).1.iter().map(|flow| flow.socket).collect::<Vec<_>>();
        assert_eq!([names([2.0, 9.0]), names([2.0, 12.0]), names([30.0, 40.0])], [vec![1], vec![1, 2], vec![]]);
    }

    #[test]
    fn datagrams_are_spread_evenly() {
        let mut flow = Sampled::named("noise", 1000);
        (flow.record.datagrams, flow.record.begin_s, flow.record.active_s) = (true, Some(0.0), 10.0);
        let other = Sampled::new(0.0, &[(20.0, 50.0)]);
        let (record, _) = cut(&run(&[flow, other]), &[], [5.0, 20.0]);
        assert_eq!((record.flows[0].delivered_pkts, record.flows[0].active_s), (500, 5.0));
    }

    /// The span was once compared with times since the links started.
    #[test]
    fn part_counts_from_the_first_traced_flow() {
        let mut tcp = Sampled::new(10.0, &[(50.0, 50.0)]);
        tcp.record.begin_s = Some(10.0);
        let events = [tcp.flow.clone()];
        let mut noise = Sampled::named("noise", 1000);
        (noise.record.datagrams, noise.record.begin_s, noise.record.active_s) = (true, Some(40.0), 40.0);
        let (record, _) = cut(&run(&[noise, tcp]), &events, [20.0, 50.0]);
        assert_eq!((record.flows[0].delivered_pkts, record.flows[0].active_s), (500, 20.0), "from 40 to 60 s");
    }
}
