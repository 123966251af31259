//! Sums of end-of-run counts over the flows.

use super::view::RunView;
use crate::model::flow::Flow;
use crate::model::run::FlowRecord;

pub(super) fn total(run: &RunView<'_>, value: fn(&FlowRecord) -> f64) -> Option<f64> {
    (!run.own.is_empty()).then(|| run.own.iter().map(|flow| value(flow.record)).sum())
}

/// Payload of all flows, over the time in which any of them runs. Adding their rates would treat flows that follow each
/// other as if they ran side by side.
pub(super) fn goodput(run: &RunView<'_>) -> Option<f64> {
    let running = |flow: &FlowRecord| {
        let length_s = 8.0 * flow.received_bytes as f64 / flow.goodput_bps;
        flow.begin_s.map(|begin_s| [begin_s, begin_s + length_s])
    };
    if let [only] = &run.own[..] {
        return Some(only.record.goodput_bps);
    }
    let sending = run.own.iter().map(|flow| flow.record).filter(|flow| flow.goodput_bps > 0.0);
    let times: Option<Vec<[f64; 2]>> = sending.map(running).collect();
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

/// part / (part + rest) over all flows. `None` if both are zero.
pub(super) fn share(run: &RunView<'_>, part: fn(&FlowRecord) -> f64, rest: fn(&FlowRecord) -> f64) -> Option<f64> {
    let (part, rest) = (total(run, part)?, total(run, rest)?);
    (part + rest > 0.0).then(|| part / (part + rest))
}

/// Packets that the sender sent for each packet delivered: each retransmission is one more.
///
/// None: nothing was delivered.
pub(super) fn sent_per_delivered(run: &RunView<'_>) -> Option<f64> {
    let delivered = total(run, |flow| flow.delivered_pkts as f64).filter(|delivered| *delivered > 0.0)?;
    Some((delivered + total(run, |flow| flow.retrans_pkts as f64)?) / delivered)
}

/// Fewest packets of a second whose losses count: one lost SYN is not a second of pure loss.
const FEWEST_PKTS: f64 = 10.0;

/// The largest lost share of any whole second, of all the variant's flows together. Seconds count from their first event.
/// Flows that end sooner have one second.
///
/// None: no second with [`FEWEST_PKTS`]; a flow has no events.
pub(super) fn loss_peak(run: &RunView<'_>) -> Option<f64> {
    let flows: Vec<&Flow> = run.own.iter().map(|flow| flow.over_time).collect::<Option<_>>()?;
    let begin = flows.iter().map(|flow| flow.start_s).fold(f64::INFINITY, f64::min);
    let end = flows.iter().map(|flow| flow.lasts_during()[1]).fold(f64::NEG_INFINITY, f64::max);
    let seconds = 0..((end - begin).floor() as usize).max(1);
    let in_second = |second: usize, count: fn(&Flow, f64) -> f64| -> f64 {
        let grown = |flow: &&Flow| {
            let from = begin + second as f64 - flow.start_s;
            count(flow, from + 1.0) - count(flow, from)
        };
        flows.iter().map(grown).sum()
    };
    let shares = seconds.filter_map(|second| {
        let (lost, delivered) = (in_second(second, Flow::lost_at), in_second(second, Flow::delivered_at));
        (lost + delivered >= FEWEST_PKTS).then(|| lost / (lost + delivered))
    });
    shares.max_by(f64::total_cmp)
}

/// Payload of the variant's flows over that of all flows that cross their bottleneck; of all flows of the run if the
/// variant's flows have no bottleneck in common.
///
/// None: no payload arrived.
pub(super) fn share_of_payload(run: &RunView<'_>) -> Option<f64> {
    let crosses = |flow: &FlowRecord| run.bottleneck.as_ref().is_none_or(|link| link.flows.contains(&flow.name));
    let own = total(run, |flow| flow.received_bytes as f64)?;
    let beside = run.beside.iter().map(|flow| flow.record).filter(|flow| crosses(flow));
    let all = own + beside.map(|flow| flow.received_bytes as f64).sum::<f64>();
    (all > 0.0).then(|| own / all)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::*;

    #[test]
    fn each_retransmission_is_a_packet_more() {
        let mut flows = [Sampled::named("one", 100), Sampled::named("two", 0)];
        (flows[0].record.retrans_pkts, flows[1].record.retrans_pkts) = (10, 15);
        assert_eq!(sent_per_delivered(&view(&flows, &[])), Some(1.25));
        assert_eq!(sent_per_delivered(&view(&flows[1..], &[])), None);
    }

    #[test]
    fn worst_second_is_that_of_all_flows_together() {
        let mut flows = [Sampled::new(0.0, &[(10.0, 100.0)]), Sampled::new(2.0, &[(8.0, 100.0)])];
        for point in &mut flows[0].flow.points {
            point.lost_pkts = if point.time_s > 4.5 { 50 } else { 0 };
        }
        let peak = |flows: &[Sampled]| loss_peak(&view(flows, &[])).unwrap();
        assert!((peak(&flows[..1]) - 50.0 / 150.0).abs() < 1e-9);
        assert!((peak(&flows) - 50.0 / 250.0).abs() < 1e-9);
        assert_eq!(loss_peak(&view(&[Sampled::new(0.0, &[(2.0, 5.0)])], &[])), None, "too few packets");
        // A loss in the last 0.1 s once was that of a second with ten packets.
        let mut short = Sampled::new(0.0, &[(4.0, 100.0), (4.1, 104.0)]);
        short.flow.points.last_mut().unwrap().lost_pkts = 1;
        assert_eq!(peak(&[short]), 0.0);
    }
}
