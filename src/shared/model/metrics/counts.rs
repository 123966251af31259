//! Sums of end-of-run counts over the flows.

use super::view::RunView;
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
