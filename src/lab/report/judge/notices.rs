//! Notices about one cell or the whole report.

mod limits;
pub mod same;
mod silent;

use std::collections::HashSet;

use super::cell::{Measurement, Ratio};
use super::index::{CellKey, Index};
use crate::report::read::directory::ResultDir;
use crate::scenario::{ALGORITHM, DifferenceSpec, Profile, Scenario, VARIANT};
use shared::model::metrics::Metric;
use shared::model::notice::Notice;
use shared::model::run::{At, Calibration, Engine, RunRecord, RunStatus};
use shared::model::stats;
use shared::sanitize::count;

/// A flow that begins later than this lost packets of its handshake. The first timeout takes this long.
const BEGAN_LATE_S: f64 = 1.0;
/// Runs get a notice if other load used at least this share of the processors.
const BUSY: f64 = 0.1;
/// Metrics and series that show windows during recovery.
const WINDOWS: [&str; 2] = ["cwnd_pkts", "mean_cwnd_pkts"];

pub fn of_cell(index: &Index<'_>, key: &CellKey, measured: Option<&Measurement>, ratio: Option<&Ratio>) -> Vec<Notice> {
    let n = measured.map_or(0, |measured| measured.n);
    let runs = index.runs_of(key);
    let done: Vec<&RunRecord> = runs.iter().copied().filter(|run| run.status == RunStatus::Done).collect();
    let mut notices = of_attempts(&runs, &done);
    notices.extend(of_runs(&done));
    notices.extend(limits::of_plan(index, &done));
    let late = done.iter().filter(|run| began_late(index, run)).count();
    if late > 0 {
        let late = count(late, "run");
        notices.push(Notice::new(
            format!(
                "in {late} a flow began more than {BEGAN_LATE_S} s late: its connections are made over the path itself"
            ),
            "each flow counts from its own first data, so they shared the path for less time; `sender = \"tccc\"` is \
             on time",
        ));
    }
    let cut_off = measured.map_or(0, |measured| measured.cut_off);
    if cut_off > 0 {
        notices.push(Notice::new(
            format!("{cut_off} of {} ended too early: they count with the time until then", count(n, "run")),
            "the mean is a lower bound; longer runs would raise it",
        ));
    }
    match n {
        0 if index.variants.contains(&key.variant) => {
            notices.push(Notice::new("no finished run of this cell", "`tccc run` on the same directory resumes it"))
        }
        0 => notices.push(Notice::new(
            "published only: the scenario does not measure this variant",
            "there is no algorithm of this name to run, or the scenario leaves it out",
        )),
        n if n < stats::FEWEST_FOR_INTERVAL => notices.push(Notice::new(
            format!("{} only: no interval can be given", count(n, "run")),
            "`tccc run` with the same `--out` and `--runs 5` adds runs",
        )),
        _ => {}
    }
    let unpaired = ratio.filter(|ratio| ratio.measured.is_some()).map_or(0, |ratio| n - ratio.pairs);
    if unpaired > 0 {
        notices.push(Notice::new(
            format!("{} without a run of the baseline on the same seed: left out of the ratio", count(unpaired, "run")),
            "`tccc run` on the same directory completes the pairs",
        ));
    }
    notices
}

/// A run whose sweep says another algorithm than ran. Scenarios that allow this are refused, but results of them exist.
fn mislabelled(run: &RunRecord) -> Option<Notice> {
    let label = run.at.get(ALGORITHM).filter(|_| !run.at.contains_key(VARIANT))?;
    let ran = |variant: &str| variant.split(' ').next().unwrap_or_default().to_owned();
    let other =
        run.flows.iter().filter(|flow| flow.compared).map(|flow| ran(&flow.variant)).find(|ran| ran != label)?;
    let advice =
        "the label is a variable of the sweep that no flow takes: write `algorithm = \"$algorithm\"` and run it again";
    Some(Notice::new(format!("the label is wrong: a flow ran \"{other}\", not \"{label}\""), advice))
}

/// Differences from the published numbers that the scenario explains for this cell.
pub fn known_differences(scenario: &Scenario, metric: &Metric, at: &At) -> Vec<Notice> {
    let of_cell = scenario.differences.iter().filter(|difference| {
        let metrics = &difference.metrics;
        let is_of_metric = metrics.is_empty() || metrics.iter().any(|name| name == metric.name);
        !is_general(difference) && is_of_metric && difference.at.contain(at)
    });
    of_cell.map(known_difference).collect()
}

fn known_difference(difference: &DifferenceSpec) -> Notice {
    Notice::new(&difference.cause, &difference.advice)
}

/// Whether a flow's first data was sent long after its planned start.
fn began_late(index: &Index<'_>, run: &RunRecord) -> bool {
    let cell = index.cell(&run.at);
    let start_of = |name: &str| cell?.flows.iter().find(|flow| flow.name == name).map(|flow| flow.start.as_secs_f64());
    run.flows.iter().any(|flow| {
        let began = flow.begin_s.zip(start_of(&flow.name));
        began.is_some_and(|(begin_s, start_s)| begin_s - start_s > BEGAN_LATE_S)
    })
}

/// Notices about failed and late attempts at the runs of one cell.
fn of_attempts(runs: &[&RunRecord], done: &[&RunRecord]) -> Vec<Notice> {
    let mut notices = Vec::new();
    let repeats: HashSet<u32> = done.iter().map(|run| run.repeat).collect();
    let missing = |status| {
        let of_status = runs.iter().filter(move |run| run.status == status);
        of_status.filter(|run| !repeats.contains(&run.repeat)).collect::<Vec<_>>()
    };
    let are = |n: usize| if n == 1 { "is" } else { "are" };
    let failed = missing(RunStatus::Failed);
    if let Some(first) = failed.first() {
        let (failed, are) = (count(failed.len(), "run"), are(failed.len()));
        let why = first.why.as_deref().unwrap_or("no reason was recorded");
        notices.push(Notice::new(
            format!("{failed} failed and {are} not part of the result: {why}"),
            "`tccc run` on the same directory repeats them",
        ));
    }
    let late = missing(RunStatus::Late).len();
    if late > 0 {
        notices.push(Notice::new(
            format!("{} had a late link or sender and {} not part of the result", count(late, "run"), are(late)),
            "`tccc run` on the same directory with --jobs 1 repeats them",
        ));
    }
    let repeated = done.iter().filter(|run| run.late_attempts > 0).count();
    if repeated > 0 {
        let attempts = done.iter().map(|run| run.late_attempts).fold(0, u32::saturating_add) as usize;
        let (repeated, left_out) = (count(repeated, "run"), count(attempts, "attempt"));
        notices.push(Notice::new(
            format!("{repeated} had to be repeated because an emulated link or a sender was late: {left_out} left out"),
            match were_alone(runs, attempts) {
                true => "no other run was sending at the time: a less busy host avoids the repeats",
                false => "fewer --jobs avoid the repeats",
            },
        ));
    }
    notices
}

/// Notices about the finished runs of one cell.
fn of_runs(done: &[&RunRecord]) -> Vec<Notice> {
    let mut notices: Vec<Notice> = done.iter().find_map(|run| mislabelled(run)).into_iter().collect();
    notices.extend(silent::of_runs(done));
    notices.extend(limits::of_runs(done));
    notices.extend(limits::given_up(done));
    let busy: Vec<f64> = done.iter().filter_map(|run| run.others_share).filter(|share| *share >= BUSY).collect();
    if !busy.is_empty() {
        let (percent, busy, all) = (100.0 * busy.iter().copied().fold(0.0, f64::max), busy.len(), done.len());
        notices.push(Notice::new(
            format!(
                "other load used up to {percent:.0} % of the processors in {busy} of {all} runs: flows may have sent \
                 less than the path carries"
            ),
            "run it on a quiet host, with `--jobs 1`, or in virtual time",
        ));
    }
    let dropped = done.iter().map(|run| run.events_dropped).fold(0, u64::saturating_add);
    if dropped > 0 {
        notices.push(Notice::new(
            format!("{dropped} trace events were dropped: steps in the cwnd plot may be missing"),
            "packet counts come from the same events and may be slightly low; fewer --jobs drop fewer",
        ));
    }
    let counters = done.iter().flat_map(|run| &run.links).flat_map(|link| &link.counters);
    let failed = counters.map(|counters| counters.failed_pkts).fold(0, u64::saturating_add);
    if failed > 0 {
        notices.push(Notice::new(
            format!("the emulator itself failed to carry {failed} packets, which is not a property of the path"),
            "repeat with fewer --jobs",
        ));
    }
    notices
}

/// Whether all late attempts are known, and no other run was sending during any of them.
fn were_alone(runs: &[&RunRecord], attempts: usize) -> bool {
    let late: Vec<&&RunRecord> = runs.iter().filter(|run| run.status == RunStatus::Late).collect();
    late.len() >= attempts && late.iter().all(|run| run.jobs <= 1)
}

/// Whether a difference concerns the whole report.
fn is_general(difference: &DifferenceSpec) -> bool {
    difference.at.are_all() && difference.metrics.is_empty()
}

/// Differences between this kernel and the simulators behind the published numbers.
fn kernel_differences(directory: &ResultDir) -> Vec<Notice> {
    let scenario = &directory.scenario;
    let is_paper = directory.host.profile == Profile::Paper.name();
    let mut notices = vec![match is_paper {
        true => Notice::new(
            "this kernel recovers with PRR on SACK, the simulators with classic SACK or NewReno; whether it detects \
             losses by time (RACK) or by three duplicate ACKs is unknown: net.ipv4.tcp_recovery = 0 asks for the latter, \
             and the newest kernels ignore it",
            "compare ratios first; absolute counts at high loss may differ by some percent",
        ),
        false => Notice::new(
            "receivers acknowledge every other segment or after 40 ms, the simulators' acknowledge each",
            "algorithms count acknowledged packets, so growth per round is the same; ratios compare, absolute counts less",
        ),
    }];
    let drawn = scenario.figures.iter().map(|figure| &figure.y);
    if drawn.chain(&scenario.report.metrics).any(|name| WINDOWS.contains(&name.as_str())) {
        notices.push(Notice::new(
            "proportional rate reduction lowers cwnd over a round trip, the simulators lower it at once; during recovery \
             cwnd is what may be sent now, not what the algorithm decided",
            "compare windows outside recovery",
        ));
    }
    notices
}

/// Notices about the whole report.
pub fn general(directory: &ResultDir) -> Vec<Notice> {
    let (scenario, host) = (&directory.scenario, &directory.host);
    let mut notices = Vec::new();
    if !scenario.published.is_empty() {
        notices.push(Notice::new(
            "the published values carry no spread: the simulator papers print one run with the default random seed, \
             which scatters by about 8 % with random loss",
            "differences under 15-20 % between two published values mean nothing",
        ));
        if host.engine == Engine::Kernel {
            notices.extend(kernel_differences(directory));
        }
    }
    notices.extend(scenario.differences.iter().filter(|difference| is_general(difference)).map(known_difference));
    let (measured, wanted) = (&host.profile, scenario.profile.name());
    if measured != wanted {
        notices.push(Notice::new(
            format!("measured under the profile {measured}; the scenario's numbers are for {wanted}: no verdicts"),
            format!("`tccc run` without --profile, or with --profile {wanted}, gives comparable runs"),
        ));
    }
    let outside = host.calibration.iter().filter(|calibration| !calibration.within);
    notices.extend(outside.map(|calibration| calibration_outside(directory, calibration)));
    let again = host.calibration.iter().filter(|calibration| calibration.within && calibration.attempts > 1);
    notices.extend(again.map(|Calibration { quantity, attempts, .. }| {
        Notice::new(
            format!("the empty path's {quantity} was within its range only at attempt {attempts}"),
            "the host was busy, or the draw unlikely: look at the lateness of the runs",
        )
    }));
    notices
}

/// Cells on a path outside its range are not measured, unless another calibration finds the path within. Runs on a path
/// that was never within ran on a different path than the scenario's.
fn calibration_outside(directory: &ResultDir, outside: &Calibration) -> Notice {
    let others = &directory.host.calibration;
    let is_within = others.iter().any(|other| other.within && other.quantity == outside.quantity);
    let mut done = directory.runs.iter().map(|run| &run.record).filter(|record| record.status == RunStatus::Done);
    let has_runs = !is_within && done.any(|record| outside.quantity.is_at(&record.at));
    let advice = match has_runs {
        true => "the path is not the one the scenario describes: read every number with that in mind",
        false => "cells of this path were left out then; `tccc run` on the same directory measures those still missing",
    };
    Notice::new(format!("the empty path's {} was outside the allowed range", outside.quantity), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = include_str!("../../../../tests/fixtures/loss-sweep-schema-1/runs/r000-c002-reno-1%/run.json");

    /// Old results of a sweep that no flow took called Reno CUBIC.
    #[test]
    fn label_that_did_not_run_has_a_notice() {
        let notice = |ran: &str| {
            let run: RunRecord = serde_json::from_str(&RUN.replace("\"variant\": \"reno\"", ran)).unwrap();
            mislabelled(&run).map(|notice| notice.cause)
        };
        assert_eq!(notice("\"variant\": \"reno\""), None);
        assert_eq!(notice("\"variant\": \"reno keep=3\""), None);
        let cause = notice("\"variant\": \"cubic\"").unwrap();
        assert_eq!(cause, "the label is wrong: a flow ran \"cubic\", not \"reno\"");
    }
}
