//! What a directory holds by point and position, so that nothing is searched for once per cell.

use std::collections::{HashMap, HashSet};

use super::cell::each_once;
use crate::model::run::{At, RunRecord, RunStatus};
use crate::report::read::directory::{ResultDir, StoredRun};
use crate::scenario::{self, Scenario};

/// Where a cell lies: the sweep without the compared variable, and the variant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub point: At,
    pub variant: String,
}

/// The runs of a directory by point, and the cells of its scenario by position.
pub struct Index<'a> {
    pub directory: &'a ResultDir,
    /// Every point of the sweep, in the scenario's order.
    pub points: Vec<At>,
    /// The variants that the scenario measures, in its order.
    pub variants: Vec<String>,
    runs: HashMap<At, Vec<&'a StoredRun>>,
    cells: HashMap<&'a At, &'a scenario::Cell>,
    planned: HashSet<Key>,
}

impl<'a> Index<'a> {
    pub fn new(directory: &'a ResultDir) -> Index<'a> {
        let scenario = &*directory.scenario;
        let mut runs: HashMap<At, Vec<&StoredRun>> = HashMap::new();
        for run in &directory.runs {
            runs.entry(point_of(scenario, &run.record.at)).or_default().push(run);
        }
        let labels = |cell: &scenario::Cell| -> Vec<String> {
            match scenario.series_variable() {
                Some(series) => cell.at.get(series).cloned().into_iter().collect(),
                None => cell.flows.iter().map(|flow| cell.label(flow)).collect(),
            }
        };
        let (mut points, mut seen) = (Vec::new(), HashSet::new());
        let (mut variants, mut planned) = (Vec::new(), HashSet::new());
        for cell in &scenario.cells {
            let point = point_of(scenario, &cell.at);
            if seen.insert(point.clone()) {
                points.push(point.clone());
            }
            for variant in labels(cell) {
                planned.insert(Key { point: point.clone(), variant: variant.clone() });
                variants.push(variant);
            }
        }
        let variants = match scenario.series_variable() {
            Some(series) => scenario.values_of(series).to_vec(),
            None => each_once(variants.into_iter()),
        };
        let cells = scenario.cells.iter().map(|cell| (&cell.at, cell)).collect();
        Index { directory, points, variants, runs, cells, planned }
    }

    pub fn scenario(&self) -> &'a Scenario {
        &self.directory.scenario
    }

    /// The runs of a point, however they ended.
    pub fn runs_at(&self, point: &At) -> &[&'a StoredRun] {
        self.runs.get(point).map_or(&[], Vec::as_slice)
    }

    /// The runs of a cell, however they ended.
    pub fn runs_of(&self, key: &Key) -> Vec<&'a RunRecord> {
        let runs = self.runs_at(&key.point).iter().map(|run| &run.record);
        runs.filter(|record| self.may_be_of(record, &key.variant)).collect()
    }

    /// Whether a run is of a variant; a failed one may have no flows to tell by.
    pub fn may_be_of(&self, record: &RunRecord, variant: &String) -> bool {
        match self.scenario().series_variable().and_then(|variable| record.at.get(variable)) {
            Some(swept) => swept == variant,
            None if record.flows.is_empty() => self.variants.contains(variant),
            None => record.flows.iter().any(|flow| flow.variant == *variant),
        }
    }

    /// The runs of the directory that count.
    pub fn done(&self) -> impl Iterator<Item = &'a StoredRun> {
        self.directory.runs.iter().filter(|run| run.record.status == RunStatus::Done)
    }

    /// The scenario's cell at a position.
    pub fn cell(&self, at: &At) -> Option<&'a scenario::Cell> {
        self.cells.get(at).copied()
    }

    /// Whether the scenario runs this variant at this point.
    pub fn is_planned(&self, key: &Key) -> bool {
        self.planned.contains(key)
    }
}

/// The part of a position that is not the compared variable.
pub fn point_of(scenario: &Scenario, at: &At) -> At {
    let mut point = at.clone();
    if let Some(series) = scenario.series_variable() {
        point.remove(series);
    }
    point
}
