//! Constructed flows with round numbers, for tests of the formulas.

use super::view::{FlowView, RunView};
use crate::model::flow::{Flow, Point};
use crate::model::run::FlowRecord;

/// Points per second.
const PER_S: f64 = 10.0;

pub struct Sampled {
    pub record: FlowRecord,
    pub flow: Flow,
}

pub fn point(time_s: f64, delivered_pkts: u32) -> Point {
    Point { time_s, cwnd_pkts: 10, delivered_pkts, ..Point::default() }
}

impl Sampled {
    /// A flow with these (seconds, packets per second).
    pub fn new(start_s: f64, rates: &[(f64, f64)]) -> Sampled {
        let mut points = vec![point(0.0, 0)];
        let mut delivered = 0.0;
        for (length_s, rate) in rates {
            for _ in 0..(length_s * PER_S).round() as usize {
                delivered += rate / PER_S;
                points.push(point(points.len() as f64 / PER_S, delivered as u32));
            }
        }
        let mut sampled = Sampled::named("made", delivered as u64);
        sampled.flow = Flow { start_s, points, ..sampled.flow };
        sampled
    }

    /// A flow with a record and no points.
    pub fn named(name: &str, delivered_pkts: u64) -> Sampled {
        let record = FlowRecord {
            name: name.into(),
            algorithm: "reno".into(),
            variant: "reno".into(),
            compared: true,
            socket: Some(1),
            delivered_pkts,
            received_bytes: delivered_pkts * 1460,
            goodput_bps: delivered_pkts as f64 * 1460.0 * 8.0,
            mss_bytes: 1460,
            active_s: 1.0,
            tcp_sack: true,
            ..FlowRecord::default()
        };
        Sampled {
            record,
            flow: Flow { socket: 1, algorithm: "reno".into(), mss_bytes: 1460, start_s: 0.0, points: Vec::new() },
        }
    }
}

pub fn view<'a>(own: &'a [Sampled], beside: &'a [Sampled]) -> RunView<'a> {
    let flows = |flows: &'a [Sampled]| {
        let view = |one: &'a Sampled| FlowView { record: &one.record, over_time: Some(&one.flow) };
        flows.iter().map(view).collect()
    };
    RunView { own: flows(own), beside: flows(beside), ..RunView::default() }
}
