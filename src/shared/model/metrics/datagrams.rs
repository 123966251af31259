//! Delays of datagrams, and frames that are late.
//!
//! Datagrams are those of the variant's own flows if these send any, else those beside them: what a call suffers from a
//! download is a value of the download's algorithm.

use super::view::RunView;
use crate::model::run::{Delays, FlowRecord};

/// Of several flows, that of the flow with the longest delay.
///
/// None: no datagram arrived, or no flow has its delays.
pub(super) fn delay(run: &RunView<'_>, of: fn(&Delays) -> f64) -> Option<f64> {
    largest(run, |flow| flow.delay_us.as_ref().map(of))
}

/// None: no flow counted its frames.
pub(super) fn late_share(run: &RunView<'_>) -> Option<f64> {
    largest(run, |flow| {
        let frames = flow.frames.filter(|frames| frames.sent > 0)?;
        Some(frames.sent.saturating_sub(frames.in_time) as f64 / frames.sent as f64)
    })
}

fn largest(run: &RunView<'_>, value: impl Fn(&FlowRecord) -> Option<f64>) -> Option<f64> {
    let has_own = run.own.iter().any(|flow| flow.record.datagrams);
    let flows = if has_own { &run.own } else { &run.beside };
    let values = flows.iter().filter(|flow| flow.record.datagrams).filter_map(|flow| value(flow.record));
    values.max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::samples::{Sampled, view};
    use super::*;
    use crate::model::run::Frames;

    fn datagrams(p95: f64, in_time: u64) -> Sampled {
        let mut sampled = Sampled::named("call", 10);
        sampled.record.datagrams = true;
        sampled.record.delay_us = Some(Delays { p95, ..Delays::default() });
        sampled.record.frames = Some(Frames { sent: 10, in_time });
        sampled
    }

    #[test]
    fn delays_are_those_beside_unless_the_variant_sends_datagrams_itself() {
        let p95 = |run: &RunView<'_>| delay(run, |delays| delays.p95);
        let (tcp, calls) = ([Sampled::named("bulk", 9)], [datagrams(30.0, 9), datagrams(50.0, 10)]);
        assert_eq!((p95(&view(&tcp, &calls)), late_share(&view(&tcp, &calls))), (Some(50.0), Some(0.1)));
        assert_eq!(p95(&view(&calls[..1], &calls[1..])), Some(30.0));
        assert_eq!((p95(&view(&tcp, &[])), late_share(&view(&tcp, &[]))), (None, None));
    }
}
