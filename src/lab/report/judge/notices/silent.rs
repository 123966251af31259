//! Notices about bulk flows whose receiver got nothing.

use shared::model::notice::Notice;
use shared::model::run::{FlowRecord, RunRecord};

const ADVICE: &str = "all its packets were lost, and each timeout is twice as long as the one before; `start` flows \
                      further apart, in virtual time also by `start_spread` of [virtual]";

/// A notice if flows never connected, and another if flows connected and delivered nothing.
pub fn of_runs(done: &[&RunRecord]) -> Vec<Notice> {
    let never_connected = notice(done, "never connected", FlowRecord::never_connected);
    let silent = notice(done, "delivered nothing", |flow| flow.is_silent() && !flow.never_connected());
    never_connected.into_iter().chain(silent).collect()
}

fn notice(done: &[&RunRecord], what: &str, is_such: fn(&FlowRecord) -> bool) -> Option<Notice> {
    let first_of = |run: &&RunRecord| run.flows.iter().find(|flow| is_such(flow)).map(|flow| flow.name.clone());
    let names: Vec<String> = done.iter().filter_map(first_of).collect();
    let (first, runs, all) = (names.first()?, names.len(), done.len());
    let cause = format!("in {runs} of {all} runs a bulk flow {what}, such as \"{first}\": its goodput there is 0");
    Some(Notice::new(cause, ADVICE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_without_delivery_is_noted_once_for_all_runs() {
        let run = |socket: &[Option<u64>], delivered_pkts| {
            let mut run: RunRecord =
                serde_json::from_str(include_str!("../../../../../tests/fixtures/results/run.json")).unwrap();
            let flow = |(index, &socket): (usize, &Option<u64>)| FlowRecord {
                name: format!("f{index}"),
                socket,
                delivered_pkts,
                ..FlowRecord::default()
            };
            run.flows = socket.iter().enumerate().map(flow).collect();
            run
        };
        let runs = [run(&[Some(1), None, None], 0), run(&[Some(1)], 9), run(&[Some(1)], 0)];
        let causes: Vec<String> = of_runs(&runs.each_ref()).into_iter().map(|notice| notice.cause).collect();
        let expected = [
            "in 1 of 3 runs a bulk flow never connected, such as \"f1\": its goodput there is 0",
            "in 2 of 3 runs a bulk flow delivered nothing, such as \"f0\": its goodput there is 0",
        ];
        assert_eq!(causes, expected);
    }
}
