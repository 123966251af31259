//! Notices about flows that something else than their algorithm limited: socket buffers or the application.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::judge::index::Index;
use crate::scenario::{BufferShortage, Profile};
use shared::model::notice::Notice;
use shared::model::run::{At, Engine, FlowRecord, LimitedTime, RunRecord};

/// Smallest share of a flow's time that is worth a notice.
const NOTED: f64 = 0.1;

/// A limit other than the algorithm.
struct Limit {
    /// Share of the flow's time, 0 to 1. `None` if it is unknown.
    share: fn(&FlowRecord, &LimitedTime) -> Option<f64>,
    what: &'static str,
    advice: &'static str,
}

const LIMITS: [Limit; 3] = [
    Limit {
        share: |_, limited| part(limited.receive_window_s, limited.busy_s),
        what: "waited for the receive window",
        advice: "the receiver's buffer limited it, not its algorithm; `receive_buffer` of the flow raises the limit",
    },
    Limit {
        share: |_, limited| part(limited.send_buffer_s, limited.busy_s),
        what: "waited for room in the send buffer",
        advice: "the sender's buffer limited it, not its algorithm; `send_buffer` of the flow raises the limit",
    },
    Limit {
        share: |flow, limited| {
            let is_bulk = flow.completions.is_empty() && flow.active_s > 0.0;
            is_bulk.then(|| (1.0 - limited.busy_s / flow.active_s).max(0.0))
        },
        what: "had nothing to send",
        advice: "its application limited it, not its algorithm",
    },
];

fn part(time_s: f64, busy_s: f64) -> Option<f64> {
    (busy_s > 0.0).then(|| time_s / busy_s)
}

/// A notice for each flow and limit, with the largest share in any run.
pub fn of_runs(done: &[&RunRecord]) -> Vec<Notice> {
    let mut shares: BTreeMap<(&str, usize), f64> = BTreeMap::new();
    for flow in done.iter().flat_map(|run| &run.flows) {
        let Some(limited) = &flow.limited else { continue };
        for (index, limit) in LIMITS.iter().enumerate() {
            let share = (limit.share)(flow, limited).unwrap_or(0.0);
            let largest = shares.entry((&flow.name, index)).or_default();
            *largest = largest.max(share);
        }
    }
    let noted = shares.into_iter().filter(|(_, share)| *share >= NOTED);
    let notice = |((flow, index), share): ((&str, usize), f64)| {
        let Limit { what, advice, .. } = LIMITS[index];
        let percent = 100.0 * share;
        Notice::new(format!("flow \"{flow}\" {what} for up to {percent:.0} % of its time"), advice)
    };
    noted.map(notice).collect()
}

/// A notice for each flow that never ended.
pub fn given_up(done: &[&RunRecord]) -> Vec<Notice> {
    let mut runs: BTreeMap<&str, usize> = BTreeMap::new();
    for flow in done.iter().flat_map(|run| &run.flows).filter(|flow| flow.given_up) {
        *runs.entry(&flow.name).or_default() += 1;
    }
    let notice = |(flow, runs): (&str, usize)| {
        let what = format!("flow \"{flow}\" never ended in {runs} of {} runs", done.len());
        let cause = format!("{what}: it was given up at the end of the grace after its time");
        Notice::new(cause, "its algorithm may have stopped sending: look at its window over time")
    };
    runs.into_iter().map(notice).collect()
}

/// A notice if the buffers of a flow hold less than its path. Not for a receive buffer if the run recorded what limited
/// it, which is exact. The kernel's time for the send buffer is only a part, so it does not replace this notice.
pub fn of_plan(index: &Index<'_>, done: &[&RunRecord]) -> Option<Notice> {
    if index.directory.host.engine == Engine::Ns2 {
        return None; // it has no socket buffers
    }
    let profile = match index.directory.host.profile.as_str() {
        "native" => Profile::Native,
        _ => Profile::Paper,
    };
    let is_recorded = |run: &RunRecord| run.flows.iter().any(|flow| flow.limited.is_some());
    let kinds: BTreeSet<(&At, bool)> = done.iter().map(|run| (&run.at, is_recorded(run))).collect();
    let mut shortages = kinds.into_iter().filter_map(|(at, is_recorded)| {
        let shortages = index.cell(at)?.buffer_shortages(profile);
        shortages.into_iter().find(|shortage| shortage.is_of_sender || !is_recorded)
    });
    Some(Notice::new(shortages.next()?.sentence(), BufferShortage::ADVICE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::model::metrics::samples::Sampled;

    /// Such a flow was "done" without a trace.
    #[test]
    fn flow_that_never_ends_is_noted() {
        let run = |given_up| {
            let mut run: RunRecord =
                serde_json::from_str(include_str!("../../../../../tests/fixtures/results/run.json")).unwrap();
            run.flows = vec![FlowRecord { given_up, ..Sampled::named("data", 9).record }];
            run
        };
        let causes = |runs: &[&RunRecord]| given_up(runs).into_iter().map(|notice| notice.cause).collect::<Vec<_>>();
        let never = "flow \"data\" never ended in 1 of 2 runs: it was given up at the end of the grace after its time";
        assert_eq!(causes(&[&run(true), &run(false)]), [never]);
        assert_eq!(causes(&[&run(false)]), [""; 0]);
    }

    #[test]
    fn limit_of_a_tenth_of_the_time_is_noted_and_less_is_not() {
        let flow = |limited| FlowRecord { limited, active_s: 10.0, ..Sampled::named("data", 9).record };
        let causes = |limited| {
            let mut run: RunRecord =
                serde_json::from_str(include_str!("../../../../../tests/fixtures/results/run.json")).unwrap();
            run.flows = vec![flow(limited)];
            of_runs(&[&run]).into_iter().map(|notice| notice.cause).collect::<Vec<_>>()
        };
        let limited = |busy_s, receive_window_s, send_buffer_s| {
            causes(Some(LimitedTime { busy_s, receive_window_s, send_buffer_s }))
        };
        assert_eq!(causes(None), [""; 0]);
        assert_eq!(limited(10.0, 0.9, 0.9), [""; 0]);
        assert_eq!(limited(10.0, 6.1, 0.0), ["flow \"data\" waited for the receive window for up to 61 % of its time"]);
        assert_eq!(limited(5.0, 0.0, 0.0), ["flow \"data\" had nothing to send for up to 50 % of its time"]);
    }
}
