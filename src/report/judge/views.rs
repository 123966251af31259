//! From a run's record and events to what the metrics of each variant see of it.

use std::collections::BTreeMap;

use super::index::Index;
use crate::model::flow::Flow;
use crate::model::metrics::view::{FlowView, RunView};
use crate::model::run::{FlowRecord, RunRecord};

/// A run as each variant's metrics see it; `over_time` is empty where no metric reads events.
///
/// The flows of a variant are the compared ones where one is swept, else all with their own label.
pub fn views<'a>(index: &Index<'_>, record: &'a RunRecord, over_time: &'a [Flow]) -> BTreeMap<String, RunView<'a>> {
    let swept = index.scenario().series_variable().and_then(|variable| record.at.get(variable));
    let mut variants: Vec<&String> = match swept {
        Some(swept) if record.flows.iter().any(|flow| flow.compared) => vec![swept],
        Some(_) => Vec::new(),
        None => record.flows.iter().map(|flow| &flow.variant).collect(),
    };
    variants.sort_unstable();
    variants.dedup();
    let is_own = |variant: &String, flow: &FlowRecord| match swept {
        Some(_) => flow.compared,
        None => flow.variant == *variant,
    };
    let one = |record: &'a FlowRecord| FlowView {
        record,
        over_time: record.socket.and_then(|socket| over_time.iter().find(|flow| flow.socket == socket)),
    };
    let cell = index.cell(&record.at);
    let view = |variant: &String| {
        let (own, beside): (Vec<&FlowRecord>, Vec<&FlowRecord>) =
            record.flows.iter().partition(|flow| is_own(variant, flow));
        let names: Vec<&str> = own.iter().map(|flow| flow.name.as_str()).collect();
        RunView {
            bottleneck: cell.and_then(|cell| cell.bottleneck(&names, &record.flows)),
            own: own.into_iter().map(one).collect(),
            beside: beside.into_iter().map(one).collect(),
        }
    };
    variants.into_iter().map(|variant| (variant.clone(), view(variant))).collect()
}
