//! Lookup tables over a result directory, so that cells are computed without searching.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::cell::each_once;
use super::input::OverTime;
use crate::report::read::directory::{ResultDir, StoredRun};
use crate::scenario::{self, Scenario, Ways};
use shared::model::metrics::view::{Bottleneck, FlowView, QueueView, RunView};
use shared::model::queue::{self, QueueSample};
use shared::model::run::{At, FlowRecord, RunRecord, RunStatus};

/// A cell's position: the sweep without the compared variable, and the variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellKey {
    pub point: At,
    pub variant: String,
}

/// Runs by point, and the scenario's cells by position.
pub struct Index<'a> {
    pub directory: &'a ResultDir,
    /// Shape: in the scenario's order.
    pub points: Vec<At>,
    /// The variants that the scenario measures. Shape: in the scenario's order.
    pub variants: Vec<String>,
    runs: HashMap<At, Vec<&'a StoredRun>>,
    cells: HashMap<&'a At, RoutedCell<'a>>,
    planned: HashSet<CellKey>,
}

struct RoutedCell<'a> {
    cell: &'a scenario::Cell,
    /// Found once.
    ways: OnceCell<Ways>,
}

impl<'a> Index<'a> {
    pub fn new(directory: &'a ResultDir) -> Index<'a> {
        let scenario = &*directory.scenario;
        let mut runs: HashMap<At, Vec<&StoredRun>> = HashMap::new();
        for run in &directory.runs {
            runs.entry(point_of(scenario, &run.record.at)).or_default().push(run);
        }
        let (mut points, mut variants, mut planned) = (Vec::new(), Vec::new(), HashSet::new());
        for cell in &scenario.cells {
            let point = point_of(scenario, &cell.at);
            let labels: Vec<String> = match scenario.series_variable() {
                Some(series) => cell.at.get(series).cloned().into_iter().collect(),
                None => cell.flows.iter().map(|flow| cell.label(flow)).collect(),
            };
            planned.extend(labels.iter().map(|variant| CellKey { point: point.clone(), variant: variant.clone() }));
            variants.extend(labels);
            points.push(point);
        }
        let variants = match scenario.series_variable() {
            Some(series) => scenario.values_of(series).to_vec(),
            None => each_once(variants.into_iter()),
        };
        let mut seen = HashSet::new();
        points.retain(|point| seen.insert(point.clone()));
        let cells = scenario.cells.iter().map(|cell| (&cell.at, RoutedCell { cell, ways: OnceCell::new() })).collect();
        Index { directory, points, variants, runs, cells, planned }
    }

    pub fn scenario(&self) -> &'a Scenario {
        &self.directory.scenario
    }

    /// The runs of a point, of any status.
    pub fn runs_at(&self, point: &At) -> &[&'a StoredRun] {
        self.runs.get(point).map_or(&[], Vec::as_slice)
    }

    /// The runs of a cell, of any status.
    pub fn runs_of(&self, key: &CellKey) -> Vec<&'a RunRecord> {
        let runs = self.runs_at(&key.point).iter().map(|run| &run.record);
        runs.filter(|record| self.may_be_of(record, &key.variant)).collect()
    }

    /// Whether a run may belong to a variant. Failed runs without flows may belong to any.
    pub fn may_be_of(&self, record: &RunRecord, variant: &String) -> bool {
        match self.scenario().series_variable().and_then(|variable| record.at.get(variable)) {
            Some(swept) => swept == variant,
            None if record.flows.is_empty() => self.variants.contains(variant),
            None => record.flows.iter().any(|flow| flow.variant == *variant),
        }
    }

    pub fn done(&self) -> impl Iterator<Item = &'a StoredRun> {
        self.directory.runs.iter().filter(|run| run.record.status == RunStatus::Done)
    }

    pub fn cell(&self, at: &At) -> Option<&'a scenario::Cell> {
        self.cells.get(at).map(|routed| routed.cell)
    }

    /// Whether the scenario runs this variant at this point.
    pub fn is_planned(&self, key: &CellKey) -> bool {
        self.planned.contains(key)
    }

    /// The input of a run's metrics, by variant.
    ///
    /// If a variant is swept, its flows are the compared ones. Else they are all flows with its label.
    pub fn views<'r>(&self, record: &'r RunRecord, over_time: OverTime<'r>) -> BTreeMap<String, RunView<'r>> {
        let swept = self.scenario().series_variable().and_then(|variable| record.at.get(variable));
        let variant_of = |flow: &'r FlowRecord| match swept {
            Some(swept) => flow.compared.then_some(swept),
            None => Some(&flow.variant),
        };
        let view = |variant: &'r String| {
            let is_own = |flow: &'r FlowRecord| variant_of(flow) == Some(variant);
            (variant.clone(), self.view(record, over_time, is_own))
        };
        let mut variants: BTreeSet<&String> = record.flows.iter().filter_map(variant_of).collect();
        // A variant may leave out all compared flows. Calls that are left have their delays.
        variants.extend(swept);
        variants.into_iter().map(view).collect()
    }

    /// Each flow of a run with the view of a variant that has only this flow.
    ///
    /// Shape: in the order of the record.
    pub fn flow_views<'r>(&self, record: &'r RunRecord, over_time: OverTime<'r>) -> Vec<(&'r FlowRecord, RunView<'r>)> {
        let view = |flow: &'r FlowRecord| (flow, self.view(record, over_time, |other| std::ptr::eq(flow, other)));
        record.flows.iter().map(view).collect()
    }

    /// A run as its own flows see it.
    fn view<'r>(
        &self,
        record: &'r RunRecord,
        over_time: OverTime<'r>,
        is_own: impl Fn(&'r FlowRecord) -> bool,
    ) -> RunView<'r> {
        let one = |record: &'r FlowRecord| FlowView::of(record, over_time.flows);
        let (own, beside): (Vec<&FlowRecord>, Vec<&FlowRecord>) = record.flows.iter().partition(|flow| is_own(flow));
        let names: Vec<&str> = own.iter().map(|flow| flow.name.as_str()).collect();
        let begin = Duration::try_from_secs_f64(over_time.begin_s).unwrap_or_default();
        let part = self.scenario().report.part.map(|part| part.map(|end| begin + end));
        let bottleneck = self.cells.get(&record.at).and_then(|RoutedCell { cell, ways }| {
            cell.bottleneck(ways.get_or_init(|| cell.ways()), &names, &record.flows, part)
        });
        let [own, beside] = [own, beside].map(|flows| flows.into_iter().map(one).collect());
        let queue = bottleneck.as_ref().and_then(|link| queue_of(record, over_time.queues, link, part.is_some()));
        RunView { own, beside, bottleneck, queue }
    }

    /// Digest of the object of each algorithm, by the scenario's name.
    ///
    /// `host.json` has kernel names. An algorithm whose own name is in use, or that runs with several settings, is
    /// registered under a derived name such as `bpf_vega_5814_0`. The runs translate these names: each flow has a kernel
    /// name, and the scenario has its algorithm. A kernel name without a run belongs to the algorithm with the same object.
    ///
    /// Shape: one entry per algorithm. If it had several objects, the keys of further ones contain the kernel name.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let recorded = &self.directory.host.algorithms;
        let mut own_names: BTreeMap<&str, &str> = BTreeMap::new();
        for record in self.directory.runs.iter().map(|run| &run.record) {
            let Some(cell) = self.cell(&record.at) else { continue };
            for flow in &record.flows {
                let spec = cell.flows.iter().find(|spec| spec.name == flow.name);
                own_names.extend(spec.map(|spec| (flow.algorithm.as_str(), spec.algorithm.as_str())));
            }
        }
        let same_object = |digest: &String| own_names.iter().find(|(name, _)| recorded.get(**name) == Some(digest));
        let mut digests: BTreeMap<String, String> = BTreeMap::new();
        for (name, digest) in recorded {
            let own = own_names.get(name.as_str()).or_else(|| same_object(digest).map(|(_, own)| own));
            let own = own.map_or(name.as_str(), |own| own);
            let is_another = digests.get(own).is_some_and(|other| other != digest);
            let shown = if is_another { format!("{own} ({name})") } else { own.to_owned() };
            digests.insert(shown, digest.clone());
        }
        digests
    }
}

/// The queue in front of a bottleneck. `None` if the record lacks the link.
fn queue_of<'r>(
    record: &'r RunRecord,
    queues: &'r [QueueSample],
    Bottleneck { hop: [link, side], ends: [from, to], .. }: &Bottleneck,
    is_part: bool,
) -> Option<QueueView<'r>> {
    let counters = &record.links.get(*link)?.counters[*side];
    let samples = queue::of_direction(queues, [from, to]);
    Some(QueueView { samples, counters, is_part })
}

/// A position without the compared variable.
pub fn point_of(scenario: &Scenario, at: &At) -> At {
    let mut point = at.clone();
    if let Some(series) = scenario.series_variable() {
        point.remove(series);
    }
    point
}
