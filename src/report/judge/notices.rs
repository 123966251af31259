//! What concerns a cell or the whole report beside its numbers.

use std::collections::HashSet;

use super::cell::{Measured, Ratio};
use super::index::{Index, Key};
use crate::model::metrics::Metric;
use crate::model::notice::Notice;
use crate::model::run::{At, Calibration, Engine, RunRecord, RunStatus};
use crate::model::stats;
use crate::report::read::directory::ResultDir;
use crate::scenario::{DifferenceSpec, Profile, Scenario};

/// A flow that begins later than this after its time lost packets of its handshakes: the first timeout takes as long.
const BEGAN_LATE_S: f64 = 1.0;

/// Share of the processors from which on others are said to have used them during a run.
const BUSY: f64 = 0.1;

/// What helps against late attempts beside which no other run sent: `fewer --jobs` was said to those who had one.
const ALONE: &str = "no other run sent at the time: less other work on the host avoids the repeats";

/// Metrics and series that show windows during recovery too.
const WINDOWS: [&str; 2] = ["cwnd_pkts", "mean_cwnd_pkts"];

/// What concerns one cell.
pub fn of_cell(index: &Index<'_>, key: &Key, measured: Option<&Measured>, ratio: Option<&Ratio>) -> Vec<Notice> {
    let n = measured.map_or(0, |measured| measured.n);
    let runs = index.runs_of(key);
    let mut notices = of_runs(&runs);
    let late = runs.iter().filter(|run| run.status == RunStatus::Done && began_late(index, run)).count();
    notices.extend((late > 0).then(|| Notice::began_late(late, BEGAN_LATE_S)));
    let cut_off = measured.map_or(0, |measured| measured.cut_off);
    notices.extend((cut_off > 0).then(|| Notice::cut_off(cut_off, n)));
    match n {
        0 if index.variants.contains(&key.variant) => notices.push(Notice::not_measured()),
        0 => notices.push(Notice::published_only()),
        n if n < stats::FEWEST_FOR_INTERVAL => notices.push(Notice::few_runs(n)),
        _ => {}
    }
    let unpaired = ratio.filter(|ratio| ratio.measured.is_some()).map_or(0, |ratio| n - ratio.pairs);
    notices.extend((unpaired > 0).then(|| Notice::unpaired_runs(unpaired)));
    notices
}

/// What the scenario says about differences of a cell from the published numbers.
pub fn known_differences(scenario: &Scenario, metric: &Metric, at: &At) -> Vec<Notice> {
    let of_cell = scenario.differences.iter().filter(|difference| {
        let metrics = &difference.metrics;
        let is_of_metric = metrics.is_empty() || metrics.iter().any(|name| name == metric.name);
        !is_general(difference) && is_of_metric && difference.at.contain(at)
    });
    of_cell.map(|one| Notice::known_difference(&one.cause, &one.advice)).collect()
}

/// Whether a flow's first data came long after its time.
fn began_late(index: &Index<'_>, run: &RunRecord) -> bool {
    let cell = index.cell(&run.at);
    let start_of = |name: &str| cell?.flows.iter().find(|flow| flow.name == name).map(|flow| flow.start.as_secs_f64());
    run.flows.iter().any(|flow| {
        let began = flow.begin_s.zip(start_of(&flow.name));
        began.is_some_and(|(begin_s, start_s)| begin_s - start_s > BEGAN_LATE_S)
    })
}

/// What the runs of one cell say about themselves.
fn of_runs(runs: &[&RunRecord]) -> Vec<Notice> {
    let mut notices = Vec::new();
    let done: Vec<&&RunRecord> = runs.iter().filter(|run| run.status == RunStatus::Done).collect();
    let repeats: HashSet<u32> = done.iter().map(|run| run.repeat).collect();
    let missing = |status| {
        let of_status = runs.iter().filter(move |run| run.status == status);
        of_status.filter(|run| !repeats.contains(&run.repeat)).collect::<Vec<_>>()
    };
    let failed = missing(RunStatus::Failed);
    if let Some(first) = failed.first() {
        notices.push(Notice::failed_runs(failed.len(), first.why.as_deref().unwrap_or("no reason was recorded")));
    }
    let late = missing(RunStatus::Late);
    if !late.is_empty() {
        notices.push(Notice::late_runs(late.len()));
    }
    let repeated = done.iter().filter(|run| run.late_attempts > 0).count();
    if repeated > 0 {
        let attempts = done.iter().map(|run| run.late_attempts).fold(0, u32::saturating_add);
        let repeats = Notice::repeated_for_lateness(repeated, attempts);
        notices.push(if were_alone(runs, attempts) { Notice { advice: ALONE.to_owned(), ..repeats } } else { repeats });
    }
    let busy: Vec<f64> = done.iter().filter_map(|run| run.others_share).filter(|share| *share >= BUSY).collect();
    if let Some(most) = busy.iter().copied().max_by(f64::total_cmp) {
        notices.push(Notice::busy_host(busy.len(), done.len(), most));
    }
    let dropped = done.iter().map(|run| run.events_dropped).fold(0, u64::saturating_add);
    if dropped > 0 {
        notices.push(Notice::dropped_events(dropped));
    }
    let failed = done.iter().flat_map(|run| &run.links).flat_map(|link| &link.counters);
    let failed = failed.map(|counters| counters.failed_pkts).fold(0, u64::saturating_add);
    if failed > 0 {
        notices.push(Notice::emulator_failed(failed));
    }
    notices
}

/// Whether so many late attempts are known, and no run sent beside any of them: `--jobs 1`, or no other run left.
fn were_alone(runs: &[&RunRecord], attempts: u32) -> bool {
    let late: Vec<&&RunRecord> = runs.iter().filter(|run| run.status == RunStatus::Late).collect();
    late.len() >= attempts as usize && late.iter().all(|run| run.jobs <= 1)
}

/// Whether a difference concerns the whole report.
fn is_general(difference: &DifferenceSpec) -> bool {
    difference.at.are_all() && difference.metrics.is_empty()
}

/// How this kernel differs from the simulators whose numbers stand beside its own.
fn kernel_differences(directory: &ResultDir) -> Vec<Notice> {
    let scenario = &directory.scenario;
    let is_paper = directory.host.profile == Profile::Paper.name();
    let mut notices = vec![if is_paper { Notice::recovery_differs() } else { Notice::delayed_acknowledgements() }];
    let drawn = scenario.figures.iter().map(|figure| &figure.y);
    if drawn.chain(&scenario.report.metrics).any(|name| WINDOWS.contains(&name.as_str())) {
        notices.push(Notice::window_in_recovery());
    }
    notices
}

/// What concerns every number of the report.
pub fn general(directory: &ResultDir) -> Vec<Notice> {
    let scenario = &directory.scenario;
    let mut notices = Vec::new();
    if !scenario.published.is_empty() {
        notices.push(Notice::published_without_spread());
        if directory.host.engine == Engine::Kernel {
            notices.extend(kernel_differences(directory));
        }
    }
    let general = scenario.differences.iter().filter(|difference| is_general(difference));
    notices.extend(general.map(|one| Notice::known_difference(&one.cause, &one.advice)));
    if directory.host.profile != directory.scenario.profile.name() {
        notices.push(Notice::other_profile(&directory.host.profile, directory.scenario.profile.name()));
    }
    let outside = directory.host.calibration.iter().filter(|calibration| !calibration.within);
    notices.extend(outside.map(|calibration| calibration_outside(directory, calibration)));
    let again = directory.host.calibration.iter().filter(|calibration| calibration.within && calibration.attempts > 1);
    notices.extend(again.map(|one| Notice::calibration_repeated(&one.quantity.to_string(), one.attempts)));
    notices
}

/// What a calibration outside its range means: the cells of such a path are not measured, unless another calibration
/// finds it within. Only runs on a path that none found within are of a path that is not the scenario's.
fn calibration_outside(directory: &ResultDir, outside: &Calibration) -> Notice {
    let others = &directory.host.calibration;
    let is_within = others.iter().any(|other| other.within && other.quantity == outside.quantity);
    let mut done = directory.runs.iter().map(|run| &run.record).filter(|record| record.status == RunStatus::Done);
    let has_runs = !is_within && done.any(|record| outside.quantity.is_at(&record.at));
    Notice::calibration_outside(&outside.quantity.to_string(), has_runs)
}
