//! How long each value of a quantity lasted.

use crate::model::flow::Point;

/// Each value with the seconds until the next one; the last value lasts until the flow's last event.
///
/// Events are frequent in slow start and recovery, and rare otherwise. A mean or percentile over time therefore needs
/// these durations as weights.
///
/// Shape: points of one flow sorted by time. A point without a value does not end the value before it. Of several
/// points at one time, all but the last have duration 0.
pub fn held(points: &[Point], value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let valued: Vec<(f64, f64)> = points.iter().filter_map(|point| Some((point.time_s, value(point)?))).collect();
    let ends = valued.iter().skip(1).map(|(time_s, _)| *time_s).chain(points.last().map(|point| point.time_s));
    valued.iter().zip(ends).map(|((from, value), to)| (*value, to - from)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples::point;
    use super::*;

    #[test]
    fn value_holds_until_the_next_and_the_last_until_the_end() {
        let rtts = [(0.0, None), (1.0, Some(40)), (3.0, Some(90)), (3.0, Some(50)), (4.0, None), (9.0, None)];
        let points = rtts.map(|(time_s, rtt_us)| Point { rtt_us, ..point(time_s, 0) });
        let rtts = held(&points, |point| point.rtt_us.map(f64::from));
        assert_eq!(rtts, [(40.0, 2.0), (90.0, 0.0), (50.0, 6.0)]);
        assert_eq!(held(&points[..1], |point| Some(f64::from(point.cwnd_pkts))), [(10.0, 0.0)]);
        assert_eq!(held(&[], |_| Some(1.0)), []);
    }
}
