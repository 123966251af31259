//! Every flow of every run: those that the scenario compares, those beside them, and datagrams.
//!
//! A flow's value is that of a variant which has only this flow, so each metric means the same as in the other tables.

use std::collections::HashMap;

use serde::Serialize;

use super::index::{Index, point_of};
use super::input::OverTime;
use super::numbers::{RunNumbers, numbers};
use crate::scenario::{self, FlowSpec};
use shared::model::metrics::view::RunView;
use shared::model::metrics::{Metric, MetricValue};
use shared::model::run::{At, FlowRecord, RunRecord};

/// The metrics of the table of flows, in the order of its columns.
pub const FLOW_METRICS: [&str; 6] =
    ["goodput_bps", "share_ratio", "srtt_p50_us", "qdelay_p95_us", "loss_ratio", "fct_mean_s"];

/// One metric of one flow in one run.
#[derive(Debug, Clone, Copy)]
pub struct FlowValue<'r> {
    pub flow: &'r FlowRecord,
    pub metric: &'static Metric,
    pub value: MetricValue,
}

/// The values of these metrics for every flow of a run, datagrams included.
///
/// `over_time` are the run's folded events and its queues. Metrics that need missing ones have no value.
///
/// Shape: by flow in the order of the record, then by metric. A metric that a flow cannot have is left out.
pub fn values_of_run<'r>(
    index: &Index<'_>,
    record: &'r RunRecord,
    over_time: OverTime<'r>,
    metrics: &[&'static Metric],
) -> Vec<FlowValue<'r>> {
    let of_flow = |(flow, view): (&'r FlowRecord, RunView<'r>)| {
        let value = |metric: &&'static Metric| Some(FlowValue { flow, metric, value: metric.value(&view)? });
        metrics.iter().filter_map(value).collect::<Vec<_>>()
    };
    index.flow_views(record, over_time).into_iter().flat_map(of_flow).collect()
}

/// One flow at one point of the sweep, over the finished runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportFlow {
    /// Sweep variable to value, the variant included.
    pub at: At,
    /// Name in the scenario; copies are numbered.
    pub flow: String,
    /// Its algorithm in the scenario; `udp` for datagrams.
    pub algorithm: String,
    /// Whether the scenario compares it, unlike background traffic.
    pub compared: bool,
    /// Shape: in the order of [`FLOW_METRICS`]. Metrics without a value are left out.
    pub metrics: Vec<RunNumbers>,
}

impl ReportFlow {
    pub fn numbers(&self, metric: &str) -> Option<&RunNumbers> {
        numbers(&self.metrics, metric)
    }
}

/// Collects the values of all flows, run by run.
#[derive(Default)]
pub struct FlowTally {
    /// By cell and flow: metric, repeat, seed and value.
    values: HashMap<(At, String), Vec<FlowSample>>,
}

struct FlowSample {
    metric: &'static Metric,
    repeat: (u32, u64),
    value: f64,
}

/// Whether any cell has several flows. With one flow in each cell, the tables of metrics already show every flow.
pub fn are_several(index: &Index<'_>) -> bool {
    index.scenario().cells.iter().any(|cell| cell.flows.len() > 1)
}

impl FlowTally {
    pub fn add(&mut self, index: &Index<'_>, record: &RunRecord, over_time: OverTime<'_>) {
        let metrics: Vec<&'static Metric> = FLOW_METRICS.iter().filter_map(|name| Metric::find(name)).collect();
        for FlowValue { flow, metric, value } in values_of_run(index, record, over_time, &metrics) {
            let key = (record.at.clone(), flow.name.clone());
            let sample = FlowSample { metric, repeat: (record.repeat, record.seed), value: value.value };
            self.values.entry(key).or_default().push(sample);
        }
    }

    /// Shape: by point, then variant, then flow, each in the order of the scenario.
    pub fn flows(mut self, index: &Index<'_>) -> Vec<ReportFlow> {
        let scenario = index.scenario();
        let place = |cell: &&scenario::Cell| index.points.iter().position(|at| *at == point_of(scenario, &cell.at));
        let mut cells: Vec<&scenario::Cell> = scenario.cells.iter().collect();
        cells.sort_by_cached_key(place);
        let flows = cells.into_iter().flat_map(|cell| cell.flows.iter().map(move |flow| (cell, flow)));
        flows.filter_map(|(cell, flow)| self.flow(cell, flow)).collect()
    }

    fn flow(&mut self, cell: &scenario::Cell, flow: &FlowSpec) -> Option<ReportFlow> {
        let mut samples = self.values.remove(&(cell.at.clone(), flow.name.clone()))?;
        samples.sort_by_key(|sample| sample.repeat);
        let numbers = |name: &&str| {
            let metric = Metric::find(name)?;
            let own = samples.iter().filter(|sample| sample.metric.name == metric.name);
            RunNumbers::of(metric.name, metric.unit, own.map(|sample| sample.value).collect())
        };
        Some(ReportFlow {
            at: cell.at.clone(),
            flow: flow.name.clone(),
            algorithm: flow.algorithm.clone(),
            compared: flow.compared && flow.is_tcp(),
            metrics: FLOW_METRICS.iter().filter_map(numbers).collect(),
        })
    }
}
