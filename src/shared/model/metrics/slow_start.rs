//! Losses caused by the first slow start.

use super::view::RunView;
use crate::event::CaState;
use crate::model::flow::Point;

/// Losses of slow start are noticed within this many smoothed RTTs after its end.
const NOTICED_WITHIN_RTTS: f64 = 2.0;

/// Packets lost because the first slow start overshot.
///
/// Slow start ends at the first event in recovery or with cwnd at ssthresh. Its excess packets are lost a round trip
/// later. Losses count until the end of the recovery in which slow start ends, or that begins within two smoothed RTTs
/// of its end; without a recovery, until two smoothed RTTs after its end. Random losses in that time count too, so the
/// metric is for paths without them.
///
/// Units: packets. A retransmission that is lost counts again, as in the kernel.
/// Shape: points of one flow sorted by time.
/// None: slow start did not end, or had ended at the first point, as in a part of a run that begins later, or before the
/// first RTT sample.
/// Source: S. Ha, I. Rhee, "Taming the elephants: New TCP slow start", Computer Networks 55(9), 2011: overshoot as packets
/// lost during slow start.
pub fn slow_start_overshoot_pkts(points: &[Point]) -> Option<f64> {
    let recovers = |point: &Point| matches!(point.ca_state, CaState::Recovery | CaState::Loss);
    let ended = |point: &Point| recovers(point) || point.ssthresh_pkts.is_some_and(|limit| point.cwnd_pkts >= limit);
    let end = points.iter().position(ended).filter(|&end| end > 0)?;
    let noticed_by = points[end].time_s + NOTICED_WITHIN_RTTS * f64::from(points[end].srtt_us?) / 1e6;
    let soon = points[end..].iter().take_while(|point| point.time_s <= noticed_by);
    let last = match soon.clone().position(recovers) {
        Some(begin) => points[end + begin..].iter().find(|point| !recovers(point)).or(points.last()),
        None => soon.last(),
    };
    last.map(|point| f64::from(point.lost_pkts))
}

/// Summed over the variant's flows.
pub(super) fn overshoot(run: &RunView<'_>) -> Option<f64> {
    let flows: Vec<f64> =
        run.own.iter().map(|flow| slow_start_overshoot_pkts(&flow.over_time?.points)).collect::<Option<_>>()?;
    (!flows.is_empty()).then(|| flows.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::super::samples::point;
    use super::*;

    fn moment(time_s: f64, ca_state: CaState, [cwnd_pkts, ssthresh_pkts, lost_pkts]: [u32; 3]) -> Point {
        let ssthresh_pkts = (ssthresh_pkts > 0).then_some(ssthresh_pkts);
        Point { cwnd_pkts, ssthresh_pkts, lost_pkts, ca_state, srtt_us: Some(100_000), ..point(time_s, 0) }
    }

    #[test]
    fn overshoot_counts_the_recovery_that_ends_slow_start_to_its_end_and_no_later_loss() {
        let points = [
            moment(0.0, CaState::Open, [10, 0, 0]),
            moment(0.5, CaState::Open, [320, 0, 0]),
            moment(0.6, CaState::Recovery, [300, 160, 3]),
            moment(0.9, CaState::Recovery, [160, 160, 150]),
            moment(1.0, CaState::Open, [160, 160, 158]),
            moment(9.0, CaState::Recovery, [80, 80, 190]),
        ];
        assert_eq!(slow_start_overshoot_pkts(&points), Some(158.0));
        assert_eq!(slow_start_overshoot_pkts(&points[..4]), Some(150.0), "the run ends in the recovery");
        assert_eq!(slow_start_overshoot_pkts(&points[..2]), None, "slow start did not end");
        assert_eq!(slow_start_overshoot_pkts(&points[2..]), None, "it had ended before");
    }

    #[test]
    fn early_exit_counts_what_was_lost_of_packets_under_way_and_no_later_loss() {
        let exit = [moment(0.0, CaState::Open, [10, 0, 0]), moment(0.5, CaState::Open, [200, 200, 0])];
        let late = moment(5.0, CaState::Recovery, [100, 100, 9]);
        assert_eq!(slow_start_overshoot_pkts(&[&exit[..], &[late]].concat()), Some(0.0));
        let soon = [moment(0.6, CaState::Recovery, [100, 100, 4]), moment(0.8, CaState::Open, [100, 100, 7])];
        assert_eq!(slow_start_overshoot_pkts(&[&exit[..], &soon, &[late]].concat()), Some(7.0));
    }
}
