//! Shows the simulator's runs of a scenario beside the kernel's.

use super::cell::{Ratio, ReportCell, Rerun};
use super::report::Report;
use shared::model::run::Engine;

/// Merges the simulator's reports into those of the kernel, in real or virtual time, with the same scenario text and
/// profile.
///
/// A simulator's report without a kernel's report stays. So does a second simulation of the same cells, for example with
/// another seed, because a cell has room for one re-run.
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

/// Whether a cell of the simulation already has a re-run.
fn is_taken(report: &Report, rerun: &Report) -> bool {
    report.cells.iter().any(|cell| cell.rerun.is_some() && again(cell, rerun).is_some())
}

/// The simulator's run of a cell, if there is one.
fn again(cell: &ReportCell, rerun: &Report) -> Option<Rerun> {
    let same =
        |other: &&ReportCell| (&other.metric, &other.variant, &other.at) == (&cell.metric, &cell.variant, &cell.at);
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
