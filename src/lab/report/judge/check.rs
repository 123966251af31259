//! Judges the checks of a scenario in every run.

#[cfg(test)]
mod tests;
mod timeline;
mod window;

use std::collections::HashMap;

use anyhow::Result;
use serde::Serialize;

use self::timeline::Timeline;
use self::window::{Break, Outcome};
use super::cell::{Verdict, point_name};
use super::index::Index;
use crate::report::read::directory::{StoredLine, StoredRun};
use crate::scenario::Cell;
use crate::scenario::check::{Check, QuantityOf};
use shared::model::metrics::part;
use shared::model::run::{At, FlowRecord, RunRecord};
use shared::sanitize::count;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckVerdict {
    /// In every run.
    Holds,
    DoesNotHold,
    /// There is no run, or what the check reads was not recorded.
    NotJudged,
}

/// One check at one point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportCheck {
    pub name: String,
    /// What it asks, as a sentence.
    pub asks: String,
    /// Reason and source.
    pub why: String,
    /// Sweep variable to value, the variant included.
    pub at: At,
    /// The variable of `at` that names the variant.
    #[serde(skip)]
    pub series: String,
    pub verdict: CheckVerdict,
    /// Runs that were judged.
    pub runs: usize,
    /// Runs in which it does not hold.
    pub broken_runs: usize,
    /// Moments that were judged in all runs.
    pub moments: usize,
    /// The first run in which it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<FirstBreak>,
    /// Reason of the verdict, as one phrase.
    pub reason: String,
    /// How to record what is missing; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstBreak {
    pub run: String,
    pub flow: String,
    /// Seconds since the start of the run. `None`: the check had nothing to judge.
    pub time_s: Option<f64>,
    /// The value at this time, with its unit.
    pub value: Option<String>,
}

impl CheckVerdict {
    pub fn name(self) -> &'static str {
        match self {
            CheckVerdict::Holds => "holds",
            CheckVerdict::DoesNotHold => "does not hold",
            CheckVerdict::NotJudged => "not judged",
        }
    }

    /// The verdict on a cell that looks the same.
    pub fn alike(self) -> Verdict {
        match self {
            CheckVerdict::Holds => Verdict::Within,
            CheckVerdict::DoesNotHold => Verdict::Outside,
            CheckVerdict::NotJudged => Verdict::NotComparable,
        }
    }
}

impl ReportCheck {
    /// Whether what it waits for never came, for example a mark. In a scenario's report such a check does not hold.
    pub fn has_nothing_to_judge(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.time_s.is_none())
    }

    /// Name and point of the sweep.
    pub fn title(&self) -> String {
        let point = point_name(&self.at);
        if point.is_empty() { self.name.clone() } else { format!("{} at {point}", self.name) }
    }
}

/// The outcome of a check for each flow of one run, by name.
type OfFlows = Vec<(String, Outcome)>;
type OfRun<'r> = (&'r RunRecord, OfFlows);

/// Judges every check in every finished run.
///
/// Shape: in the order of the checks, then of the cells.
/// # Errors
/// Events or queues that exist and cannot be read.
pub fn checks(index: &Index<'_>) -> Result<Vec<ReportCheck>> {
    let scenario = index.scenario();
    let mut outcomes: HashMap<(usize, &At), Vec<OfRun<'_>>> = HashMap::new();
    for run in index.done().filter(|_| !scenario.checks.is_empty()) {
        let Some(cell) = index.cell(&run.record.at) else { continue };
        let own: Vec<(usize, &Check)> =
            scenario.checks.iter().enumerate().filter(|(_, check)| check.is_about(cell)).collect();
        for (number, of_flows) in judge(run, cell, &own)? {
            outcomes.entry((number, &cell.at)).or_default().push((&run.record, of_flows));
        }
    }
    let mut reported = Vec::new();
    for (number, check) in scenario.checks.iter().enumerate() {
        for cell in scenario.cells.iter().filter(|cell| check.is_about(cell)) {
            let runs = outcomes.remove(&(number, &cell.at)).unwrap_or_default();
            let series = scenario.series_variable().unwrap_or_default().to_owned();
            reported.push(ReportCheck { series, ..reported_check(check, &cell.at, &runs) });
        }
    }
    Ok(reported)
}

/// Judges checks in one run.
fn judge(run: &StoredRun, cell: &Cell, checks: &[(usize, &Check)]) -> Result<Vec<(usize, OfFlows)>> {
    if checks.is_empty() {
        return Ok(Vec::new());
    }
    let quantities = || checks.iter().flat_map(|(_, check)| check.conditions()).flat_map(|one| one.quantities());
    let fields = quantities().filter_map(|one| match &one.of {
        QuantityOf::State { field, .. } => Some(field.as_str()),
        _ => None,
    });
    let lines = run.lines(&fields.collect())?;
    let has_queue = quantities().any(|one| one.of == QuantityOf::Queue);
    let queues = if has_queue { run.queues()? } else { Vec::new() };
    let is_traced = |line: &&StoredLine| run.record.flows.iter().any(|flow| flow.socket == Some(line.event.socket));
    let first_s = lines.iter().filter(is_traced).map(|line| line.event.time_ns).min().unwrap_or(0) as f64 / 1e9;
    let zero_s = first_s - part::begin_s(&run.record);
    let mut timelines = HashMap::new();
    for flow in &run.record.flows {
        timelines.insert(flow.name.as_str(), Timeline::of(flow, &lines, &queues, zero_s, cell));
    }
    let of_check = |(number, check): &(usize, &Check)| {
        let is_checked = |flow: &&FlowRecord| match &check.flow {
            Some(name) => cell.flows.iter().any(|spec| spec.name == flow.name && spec.is_of(name)),
            None => flow.compared && !flow.datagrams,
        };
        let of_flow = |flow: &FlowRecord| {
            let outcome = match &timelines[flow.name.as_str()] {
                Ok(timeline) => window::judge(check, timeline),
                Err(unrecorded) => Outcome::Unrecorded(unrecorded.clone()),
            };
            (flow.name.clone(), outcome)
        };
        (*number, run.record.flows.iter().filter(is_checked).map(of_flow).collect())
    };
    Ok(checks.iter().map(of_check).collect())
}

fn reported_check(check: &Check, at: &At, runs: &[OfRun<'_>]) -> ReportCheck {
    let outcomes = || runs.iter().flat_map(|(run, flows)| flows.iter().map(move |(flow, it)| (*run, flow, it)));
    let is_broken = |(_, flows): &&OfRun<'_>| flows.iter().any(|(_, it)| matches!(it, Outcome::Broken(_)));
    let mut all_broken = outcomes().filter_map(|(run, flow, it)| match it {
        Outcome::Broken(broken) => Some((run, flow, broken)),
        _ => None,
    });
    let first = all_broken.next();
    // A break of what was judged says more than a run in which nothing was.
    let broken = first.into_iter().chain(all_broken).find(|(.., it)| it.time_s.is_some()).or(first);
    let unrecorded = outcomes().find_map(|(run, _, it)| match it {
        Outcome::Unrecorded(unrecorded) => Some((run, unrecorded)),
        _ => None,
    });
    let broken_runs = runs.iter().filter(is_broken).count();
    let moments = outcomes().map(|(.., it)| if let Outcome::Holds(moments) = it { *moments } else { 0 }).sum();
    let (verdict, reason, advice) = match (&broken, &unrecorded) {
        (Some((run, flow, Break { why, .. })), _) => {
            let many = if broken_runs == runs.len() { "all".to_owned() } else { broken_runs.to_string() };
            let of = if runs.len() == 1 { String::new() } else { format!("in {many} of {} runs, first ", runs.len()) };
            (CheckVerdict::DoesNotHold, format!("{of}in {}, flow {flow}: {why}", run.id), String::new())
        }
        (None, Some((run, unrecorded))) => {
            (CheckVerdict::NotJudged, format!("{} in {}", unrecorded.why, run.id), unrecorded.advice.clone())
        }
        (None, None) if runs.is_empty() => {
            let advice = "`tccc run` on the same directory measures it";
            (CheckVerdict::NotJudged, "there is no finished run".to_owned(), advice.to_owned())
        }
        (None, None) if moments == 0 => {
            (CheckVerdict::NotJudged, "no flow is checked".to_owned(), "name one with `flow`".to_owned())
        }
        (None, None) => {
            let runs = count(runs.len(), "run");
            (CheckVerdict::Holds, format!("in {runs}, at {}", count(moments, "moment")), String::new())
        }
    };
    let first = broken.map(|(run, flow, Break { time_s, value, .. })| FirstBreak {
        run: run.id.clone(),
        flow: flow.clone(),
        time_s: *time_s,
        value: value.clone(),
    });
    ReportCheck {
        name: check.name.clone(),
        asks: check.to_string(),
        why: check.why.clone(),
        at: at.clone(),
        series: String::new(),
        verdict,
        runs: runs.len(),
        broken_runs,
        moments,
        first,
        reason,
        advice,
    }
}
