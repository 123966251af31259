//! The values of every run as a tidy table: one row per run, flow and metric.

use std::collections::BTreeMap;

use anyhow::Result;

use super::index::Index;
use super::input::{Needs, OverTime, RunInput};
use crate::report::read::directory::{ResultDir, StoredRun};
use crate::scenario::VARIANT;
use shared::event::{FieldType, FieldValue};
use shared::model::metrics::view::RunView;
use shared::model::metrics::{METRICS, Metric, MetricValue};
use shared::model::notice::Notice;
use shared::model::run::RunRecord;

/// Columns before those of the sweep's variables.
const BEFORE: [(&str, FieldType); 2] = [("results", FieldType::Text), ("scenario", FieldType::Text)];
/// Columns after those of the sweep's variables.
const AFTER: [(&str, FieldType); 10] = [
    ("engine", FieldType::Text),
    ("run", FieldType::Text),
    ("repeat", FieldType::U32),
    ("seed", FieldType::U64),
    ("variant", FieldType::Text),
    ("flow", FieldType::Text),
    ("metric", FieldType::Text),
    ("unit", FieldType::Text),
    ("value", FieldType::Real),
    ("cut_off", FieldType::Truth),
];
/// Begins the column of a variable whose name is that of another column.
const OF_SWEEP: &str = "sweep_";

/// All values of the finished runs of result directories.
///
/// Shape: runs in the order of the directories and of their ids. Late and failed runs are left out.
#[derive(Debug, Clone)]
pub struct RunTable {
    /// Every swept variable of the scenarios, each once, in their order. `variant` only if flows of others ran
    /// beside.
    variables: Vec<String>,
    runs: Vec<RunValues>,
    /// About runs whose events are incomplete.
    pub notices: Vec<Notice>,
}

#[derive(Debug, Clone)]
struct RunValues {
    /// The result directory.
    results: String,
    scenario: String,
    record: RunRecord,
    values: Vec<RunValue>,
}

/// One metric of one flow, or of all flows of a variant.
#[derive(Debug, Clone)]
struct RunValue {
    variant: String,
    /// Empty: all flows of the variant, as in the tables of the report.
    flow: String,
    metric: &'static Metric,
    value: MetricValue,
}

/// # Errors
/// The events of a run cannot be read.
pub fn of(directories: &[ResultDir]) -> Result<RunTable> {
    let mut table = RunTable { variables: Vec::new(), runs: Vec::new(), notices: Vec::new() };
    for directory in directories {
        let index = Index::new(directory);
        for variable in &directory.scenario.sweep {
            if !table.variables.contains(&variable.name) {
                table.variables.push(variable.name.clone());
            }
        }
        let needs = Needs::of(&METRICS.iter().collect::<Vec<_>>(), directory.scenario.report.part_s());
        for run in index.done() {
            let input = RunInput::read(run, needs)?;
            let values = values(&index, &input.record, input.over_time());
            table.notices.extend(input.notices);
            let scenario = directory.scenario.name.clone();
            table.runs.push(RunValues { results: results_of(run), scenario, record: input.record, values });
        }
    }
    if table.runs.iter().all(RunValues::is_of_its_variant) {
        table.variables.retain(|variable| variable != VARIANT);
    }
    Ok(table)
}

impl RunValues {
    /// Whether the column of the variant says what the sweep gave this run.
    fn is_of_its_variant(&self) -> bool {
        let swept = self.record.at.get(VARIANT);
        swept.is_none_or(|swept| self.values.iter().all(|value| value.variant == *swept))
    }
}

/// The result directory of a run, also where parts of an experiment were joined.
fn results_of(run: &StoredRun) -> String {
    let path = run.folder.ancestors().nth(2).unwrap_or(&run.folder);
    path.display().to_string()
}

/// Every metric of each variant, then of each flow. Metrics without a value are left out.
fn values(index: &Index<'_>, record: &RunRecord, over_time: OverTime<'_>) -> Vec<RunValue> {
    let views = index.views(record, over_time);
    let mut values = Vec::new();
    let mut add = |variant: &str, flow: &str, metric: &'static Metric, view: &RunView<'_>| {
        let value = metric.value(view).map(|value| {
            let (variant, flow) = (variant.to_owned(), flow.to_owned());
            RunValue { variant, flow, metric, value }
        });
        values.extend(value);
    };
    for (variant, view) in &views {
        METRICS.iter().for_each(|metric| add(variant, "", metric, view));
    }
    let variants = variants_of_flows(&views);
    for (flow, view) in index.flow_views(record, over_time) {
        let variant = variants.get(flow.name.as_str()).copied().unwrap_or(&flow.variant);
        METRICS.iter().filter(|metric| metric.is_per_flow).for_each(|metric| add(variant, &flow.name, metric, &view));
    }
    values
}

/// The variant that each compared flow belongs to, by the flow's name.
fn variants_of_flows<'v>(views: &'v BTreeMap<String, RunView<'_>>) -> BTreeMap<&'v str, &'v str> {
    let of_view = |(variant, view): (&'v String, &'v RunView<'_>)| {
        view.own.iter().map(|flow| (flow.record.name.as_str(), variant.as_str())).collect::<Vec<_>>()
    };
    views.iter().flat_map(of_view).collect()
}

impl RunTable {
    /// Names and types of the columns: one for each variable, each name once.
    pub(crate) fn columns(&self) -> Vec<(String, FieldType)> {
        let fixed = |columns: &[(&str, FieldType)]| {
            columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect::<Vec<_>>()
        };
        let is_taken = |name: &String| BEFORE.iter().chain(&AFTER).any(|(taken, _)| taken == name);
        let of_variable = |name: &String| {
            let name = if is_taken(name) { format!("{OF_SWEEP}{name}") } else { name.clone() };
            (name, FieldType::Text)
        };
        let mut columns = fixed(&BEFORE);
        columns.extend(self.variables.iter().map(of_variable));
        columns.extend(fixed(&AFTER));
        columns
    }

    /// Shape: one value per column; `None` for a variable that the scenario of the run does not sweep.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Vec<Option<FieldValue<'_>>>> {
        self.runs.iter().flat_map(|run| run.values.iter().map(|value| self.row(run, value)))
    }

    fn row<'a>(&self, run: &'a RunValues, one: &'a RunValue) -> Vec<Option<FieldValue<'a>>> {
        let record = &run.record;
        let at = self.variables.iter().map(|name| Some(record.at.get(name)?.as_str().into()));
        let before = [run.results.as_str(), &run.scenario].map(|text| Some(text.into()));
        let after = [
            record.engine.name().into(),
            record.id.as_str().into(),
            FieldValue::U32(record.repeat),
            FieldValue::U64(record.seed),
            one.variant.as_str().into(),
            one.flow.as_str().into(),
            one.metric.name.into(),
            one.metric.unit.into(),
            FieldValue::Real(one.value.value),
            FieldValue::Truth(one.value.cut_off),
        ];
        before.into_iter().chain(at).chain(after.map(Some)).collect()
    }
}
