//! The simulator's runs of a scenario beside the kernel's.

use super::cell::{Cell, Ratio, Rerun};
use super::report::Report;
use crate::model::run::Engine;

/// Puts the simulator's runs of a scenario beside the kernel's runs, in real time or virtual, of the same text
/// under the same profile.
///
/// A report of the simulator alone stays, and so does one whose place is taken: runs of another seed or version are not
/// the same runs, and a cell has room for one re-run.
pub fn take_in_reruns(reports: &mut Vec<Report>) {
    let is_of = |a: &Report, b: &Report| {
        matches!((a.host.engine, b.host.engine), (Engine::Kernel | Engine::Virtual, Engine::Ns2))
            && [&a.scenario, &a.profile, &a.text] == [&b.scenario, &b.profile, &b.text]
    };
    let (reruns, mut kept): (Vec<Report>, Vec<Report>) =
        std::mem::take(reports).into_iter().partition(|report| report.host.engine == Engine::Ns2);
    for rerun in reruns {
        let own: Vec<&Report> = kept.iter().filter(|report| is_of(report, &rerun)).collect();
        if own.is_empty() || own.iter().any(|report| is_taken(report, &rerun)) {
            kept.push(rerun);
            continue;
        }
        for report in kept.iter_mut().filter(|report| is_of(report, &rerun)) {
            take_in(report, &rerun);
        }
    }
    *reports = kept;
}

/// Whether a cell that the simulator measured has another re-run beside it.
fn is_taken(report: &Report, rerun: &Report) -> bool {
    report.cells.iter().any(|cell| cell.rerun.is_some() && again(cell, rerun).is_some())
}

/// What the simulator gave for a cell; none where it has no run of it.
fn again(cell: &Cell, rerun: &Report) -> Option<Rerun> {
    let same = |other: &&Cell| (&other.metric, &other.variant, &other.at) == (&cell.metric, &cell.variant, &cell.at);
    let other = rerun.cells.iter().find(same)?;
    let ratio = other.ratio_to_baseline.as_ref();
    Some(Rerun {
        engine: rerun.host.engine,
        measured: other.measured.clone()?,
        ratio_to_baseline: ratio.and_then(|ratio| ratio.measured),
        ratio_bound: ratio.map(Ratio::bound).unwrap_or_default(),
    })
}

fn take_in(report: &mut Report, rerun: &Report) {
    for cell in &mut report.cells {
        if let Some(again) = again(cell, rerun) {
            cell.rerun = Some(again);
        }
    }
    let versions = rerun.host.tools.iter().map(|(name, version)| format!("{name} {version}"));
    report.reruns.push(format!("{}, seed {}", versions.collect::<Vec<_>>().join(", "), rerun.seed));
}
